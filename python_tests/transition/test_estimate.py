"""The attributes that all estimates of T(x) share, and their summary: rate, variation, caveats."""

from dataclasses import fields

import pytest
import torch
from random_numbers import new_generator

import ptd_ext
from ptd_ext.ops.layout import prepare_parts
from ptd_ext.transition.estimate import EstimatedTransition, trusted_base
from ptd_ext.utils import tensor_files

PARTS = torch.tensor([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.4, 0.6]]])
WEIGHTS = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0], [0.5, 0.5]])


def test_transition_is_the_mean_over_samples():
    found = EstimatedTransition(
        parts=PARTS, class_prior=torch.tensor([3.0, 1.0]), n_samples=4, weights=WEIGHTS
    )
    torch.testing.assert_close(found.transition, torch.tensor([[0.7, 0.3], [0.3, 0.7]]))
    mean = ptd_ext.ops.transition_matrix(WEIGHTS, PARTS).mean(0)
    torch.testing.assert_close(found.transition, mean)
    assert found.noise_rate == pytest.approx(0.3)
    summary = found.summary()
    assert summary.noise_rate == pytest.approx(found.noise_rate)
    assert summary.variation > 0


def test_one_matrix():
    found = EstimatedTransition.one_matrix(PARTS[0], torch.tensor([0.5, 0.5]), 900)
    assert torch.equal(found.transition, PARTS[0])
    assert found.noise_rate == pytest.approx(0.15)
    assert found.summary().variation == 0
    assert found.summary().caveats == ()


def test_parts_are_in_column_layout():
    """A loss takes them as they are: `prepare_parts` returns its argument."""
    for weights in (None, WEIGHTS, torch.ones(4, 2).softmax(1)):
        found = EstimatedTransition(
            parts=PARTS, class_prior=torch.ones(2), n_samples=4, weights=weights
        )
        assert torch.equal(found.parts, PARTS)
        assert prepare_parts(found.parts) is found.parts
        transition = found.transition
        assert prepare_parts(transition) is transition


def test_rows_of_the_base_that_are_not_clear_are_uniform():
    matrix = torch.tensor([[0.5, 0.45, 0.05], [0.1, 0.7, 0.2], [0.05, 0.25, 0.7]])
    expected = torch.tensor([[0.0, 0.5, 0.5], [1 / 3, 0.0, 2 / 3], [1 / 6, 5 / 6, 0.0]])
    torch.testing.assert_close(trusted_base(matrix), expected)
    # Row 1 is large in the column of class 2, whose own diagonal is hardly larger.
    matrix = torch.tensor([[0.9, 0.05, 0.05], [0.0, 0.6, 0.4], [0.3, 0.25, 0.45]])
    assert trusted_base(matrix)[2].tolist() == [0.5, 0.5, 0.0]
    # Rows without noise have no shape.
    assert trusted_base(torch.eye(3))[0].tolist() == [0.0, 0.5, 0.5]


def test_base_goes_with_running_counts():
    matrix = torch.tensor([[0.5, 0.45, 0.05], [0.1, 0.7, 0.2], [0.05, 0.25, 0.7]])
    base = EstimatedTransition.one_matrix(matrix, torch.ones(3) / 3, 9).base()
    em = ptd_ext.TransitionEM([0, 1, 2], 0.3, base=base, base_share=1.0)
    torch.testing.assert_close(em.transition[1], torch.tensor([0.1, 0.7, 0.2]))


def summary_of(parts, class_prior, n_samples, weights=None, class_names=None):
    return EstimatedTransition(
        parts=parts, class_prior=class_prior, n_samples=n_samples, weights=weights
    ).summary(class_names)


def next_class(classes, rate):
    eye = torch.eye(classes)
    return (1 - rate) * eye + rate * eye.roll(1, 1)


def test_summary_of_parts_whose_weights_are_not_known():
    """Every part counts alike, and the variation is not known."""
    parts = torch.stack([next_class(3, 0.2), next_class(3, 0.4)])
    found = summary_of(parts, torch.ones(3), 3000)
    assert found.noise_rate == pytest.approx(0.3)
    assert found.variation == 0
    # Without a class prior that sums to one, the rate is that of the same shares.
    assert summary_of(parts, 7 * torch.ones(3), 3000).noise_rate == pytest.approx(0.3)


def test_a_rate_is_at_most_one():
    """Shares of a class prior may sum to a little more, by rounding."""
    for classes in range(2, 60):
        wrong = (1 - torch.eye(classes)) / (classes - 1)
        prior = torch.rand(classes, generator=new_generator(classes))
        assert EstimatedTransition.one_matrix(wrong, prior, 1000).summary().noise_rate <= 1


def test_variation_is_the_distance_of_rows_from_their_mean():
    parts = torch.stack([next_class(3, 0.2), next_class(3, 0.4)])
    found = summary_of(parts, torch.ones(3), 3000, torch.eye(2))
    assert found.variation == pytest.approx(0.2)
    assert "rows vary by 0.20" in str(found)
    assert "one matrix" in str(summary_of(parts, torch.ones(3), 3000, torch.full((4, 2), 0.5)))


def test_variation_weighs_the_rows_by_their_class():
    g = new_generator(3)
    weights, prior = torch.rand(50, 3, generator=g), torch.rand(4, generator=g)
    parts = torch.rand(3, 4, 4, generator=g)
    parts /= parts.sum(2, keepdim=True)
    weights /= weights.sum(1, keepdim=True)
    found = EstimatedTransition(parts=parts, class_prior=prior, n_samples=50, weights=weights)
    rows = torch.einsum("nr,rik->nik", weights, parts)
    expected = ((rows - rows.mean(0)).abs().sum(2) @ (prior / prior.sum())).mean()
    assert found.summary().variation == pytest.approx(expected.item())


def test_caveats_name_rows_that_few_samples_determine():
    matrix = next_class(4, 0.1)[None]
    found = summary_of(matrix, torch.tensor([900.0, 80.0, 20.0, 0.0]), 1000)
    assert found.caveats == (
        "2 rows of T(x) rest on few samples, about 20 to 80 each: 1, 2.",
        "class 3 has no samples; its row of T(x) is a guess.",
    )
    (one,) = summary_of(matrix, torch.tensor([900.0, 80.0, 300.0, 300.0]), 1580).caveats
    assert one == "row 1 of T(x) rests on about 80 samples."
    (many,) = summary_of(next_class(9, 0.1)[None], torch.ones(9), 90).caveats
    assert many.endswith("about 10 to 10 each: 0, 1, 2, 3, 4, ….")


def test_caveats_name_classes_that_may_be_confused():
    matrix = torch.tensor([[0.5, 0.45, 0.05], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    found = summary_of(matrix[None], torch.ones(3), 3000, class_names=["ant", "bee", "cow"])
    (caveat,) = found.caveats
    assert "class ant the label bee almost as often as ant (0.45 and 0.50)" in caveat
    assert "  caveat: " in str(found)


def family():
    """A result of every estimator of T(x), by the name of its class."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(60, 4, generator=generator)
    labels = torch.randint(3, (60,), generator=generator)
    probs = torch.randn(60, 3, generator=generator).softmax(1)
    weights = torch.randn(60, 2, generator=generator).softmax(1)
    anchors = ptd_ext.find_anchors(probs, count=6)
    learned = ptd_ext.fit_learned_parts(features, probs, labels, n_parts=2, max_epochs=1)
    found = [
        ptd_ext.transition.class_transition(probs, anchors),
        ptd_ext.fit_part_transitions(weights, probs, anchors),
        ptd_ext.transition.neighbour_transition(features, labels),
        learned,
    ]
    em = ptd_ext.TransitionEM(labels, 0.3)
    em(torch.randn(60, 3, generator=generator), labels)
    return [*found, em.estimate()]


def assert_equal(value, other):
    assert type(value) is type(other)
    if isinstance(value, torch.Tensor):
        assert value.dtype is other.dtype
        assert torch.equal(value, other)
    elif hasattr(value, "tensors"):  # a gate
        for each, again in zip(value.tensors().values(), other.tensors().values(), strict=True):
            assert torch.equal(each, again)
    else:
        assert value == other


@pytest.mark.parametrize("position", range(5))
def test_every_estimate_is_saved_and_loaded(tmp_path, position):
    found = family()[position]
    found.save(tmp_path / "t.safetensors")
    again = type(found).load(tmp_path / "t.safetensors")
    assert {f.name for f in fields(found)} == {f.name for f in fields(again)}
    for each in fields(found):
        assert_equal(getattr(found, each.name), getattr(again, each.name))
    assert str(found.summary()) == str(again.summary())
    assert prepare_parts(again.parts) is again.parts


def test_the_file_of_another_class_is_rejected(tmp_path):
    one, fit, neighbours, *_ = family()
    fit.save(tmp_path / "fit")
    with pytest.raises(ValueError, match=r"fit must .* NeighbourTransition; it .* PartFit"):
        type(neighbours).load(tmp_path / "fit")
    with pytest.raises(ValueError, match=r"EstimatedTransition; it .* PartFit"):
        type(one).load(tmp_path / "fit")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"weights": torch.ones(3, 2)},
            r"weights must be floating-point \[4, 2\]; got .* \[3, 2\]",
        ),
        ({"class_prior": torch.tensor([1, 1])}, r"class_prior must be floating-point \[2\]; got"),
        ({"parts": torch.full((2, 2, 2), torch.nan)}, "parts must be finite and not negative"),
        ({"parts": torch.ones(2, 2, 3)}, r"parts must be floating-point \[2, 3, 3\]"),
        ({"n_samples": 4.5}, "n_samples must be int; got 4.5"),
        ({"n_samples": None}, "n_samples must be int; got None"),
    ],
)
def test_an_invalid_file_is_rejected(tmp_path, changed, message):
    tensors = {"parts": PARTS, "class_prior": torch.ones(2), "weights": WEIGHTS}
    about = {"n_samples": 4} | {k: v for k, v in changed.items() if k == "n_samples"}
    tensors |= {k: v for k, v in changed.items() if k != "n_samples"}
    tensor_files.write(tmp_path / "t", "EstimatedTransition", tensors, about)
    with pytest.raises(ValueError, match=f"t is not a valid EstimatedTransition: {message}"):
        EstimatedTransition.load(tmp_path / "t")


def test_a_gate_of_other_parts_is_rejected(tmp_path):
    learned = family()[3]
    learned.save(tmp_path / "t")
    tensors, about = tensor_files.read(tmp_path / "t", "LearnedParts", ())
    for gone, message in (("gate.weight", "weight"), ("gate.bias", "bias")):
        kept = {name: tensor for name, tensor in tensors.items() if name != gone}
        tensor_files.write(tmp_path / "gone", "LearnedParts", kept, about)
        with pytest.raises(ValueError, match=f"gone is not a valid LearnedParts: .*{message}"):
            type(learned).load(tmp_path / "gone")
    more = tensors | {"gate.weight": torch.ones(3, 4), "gate.bias": torch.ones(3)}
    tensor_files.write(tmp_path / "more", "LearnedParts", more, about)
    with pytest.raises(ValueError, match=r"gate must have .* parts; got 3"):
        type(learned).load(tmp_path / "more")
