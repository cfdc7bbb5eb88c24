"""PartTransition: weights and T(x) of new features, files, and error messages."""

import pytest
import torch
from cases import each_device, simplex_projection
from random_numbers import new_generator

import ptd_ext
from ptd_ext.ops import reference
from ptd_ext.utils import tensor_files

G = new_generator(0)
BASIS = torch.randn(4, 12, generator=G, dtype=torch.float64)
PARTS = torch.rand(4, 3, 3, generator=G, dtype=torch.float64).softmax(-1)
SLACK = 0.2 * torch.randn(3, 3, generator=G, dtype=torch.float64)
WEIGHTS = simplex_projection(torch.randn(50, 4, generator=G, dtype=torch.float64))
LEARNED = ptd_ext.PartTransition(PARTS, BASIS, SLACK)


@each_device
def test_weights_of_new_features(device):
    """Mixtures of the basis have the weights they were mixed with; others the nearest mixture's."""
    learned = LEARNED.to(device)
    found = learned.weights((WEIGHTS @ BASIS).to(device)).cpu()
    torch.testing.assert_close(found, WEIGHTS, rtol=0, atol=1e-4)
    features = 3 * torch.randn(40, 12, generator=new_generator(1)).double()
    weights = learned.weights(features.to(device)).cpu()
    gradient = (weights @ BASIS - features) @ BASIS.T
    moved = reference.simplex_projection(weights - gradient)
    torch.testing.assert_close(moved, weights, rtol=0, atol=1e-3)


def test_matrix():
    features = WEIGHTS @ BASIS
    expected = reference.transition_matrix(WEIGHTS, PARTS, SLACK)
    torch.testing.assert_close(LEARNED.transition(weights=WEIGHTS), expected)
    torch.testing.assert_close(LEARNED.transition(features), expected, rtol=0, atol=1e-3)
    plain = ptd_ext.PartTransition(PARTS)
    torch.testing.assert_close(
        plain.transition(weights=WEIGHTS), reference.transition_matrix(WEIGHTS, PARTS)
    )


def test_matrix_keeps_the_gradient_of_weights():
    weights = WEIGHTS.clone().requires_grad_()
    LEARNED.transition(weights=weights)[:, 0, 0].sum().backward()
    assert weights.grad is not None
    assert weights.grad.any()


def test_takes_a_fitted_factorisation():
    class Fitted:
        components_ = BASIS.numpy()

    assert torch.equal(ptd_ext.PartTransition(PARTS, Fitted()).basis, BASIS)


def test_to():
    single = LEARNED.to(torch.float32)
    assert single.parts.dtype == single.basis.dtype == single.slack.dtype == torch.float32
    assert repr(single) == "PartTransition(n_parts=4, n_classes=3, n_features=12, revised)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((PARTS[0],), r"parts must be \[R, C, C\]; got \[3, 3\]"),
        ((PARTS, BASIS[:2]), r"basis must be \[4, D\]; got \[2, 12\]"),
        ((PARTS, BASIS, SLACK[:2]), r"slack must be \[3, 3\]; got \[2, 3\]"),
        ((PARTS, BASIS / 0), "basis must be finite"),
        ((3 * PARTS,), r"rows of probabilities with sum 1; parts\[0, 0\] has the sum 3\."),
        ((PARTS * PARTS[2, 1].ne(PARTS),), r"parts\[2, 1\] has the sum 0\."),
        ((1.002 * PARTS.float(),), r"sum 1; parts\[0, 0\] has the sum 1\.002"),
        ((1.02 * PARTS.bfloat16(),), "rows of probabilities with sum 1"),
    ],
)
def test_parts_that_do_not_fit(arguments, message):
    with pytest.raises(ValueError, match=message):
        ptd_ext.PartTransition(*arguments)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rows_as_their_type_rounds_them(dtype, tmp_path):
    """Also those of many classes, and through a file."""
    for classes in (3, 100, 1000):
        parts = torch.randn(1, classes, classes, generator=new_generator(0))
        learned = ptd_ext.PartTransition((5 * parts).softmax(-1).to(dtype))
        learned.save(tmp_path / "parts")
        assert torch.equal(ptd_ext.PartTransition.load(tmp_path / "parts").parts, learned.parts)


@pytest.mark.parametrize("factor", [0.0, 3.0])
def test_a_file_of_parts_that_are_not_probabilities(factor, tmp_path):
    tensor_files.write(tmp_path / "t", "a part transition", {"parts": factor * PARTS}, {})
    with pytest.raises(ValueError, match=rf"t holds no usable .* has the sum {factor:g}\.$"):
        ptd_ext.PartTransition.load(tmp_path / "t")


def test_arguments_that_are_not_numbers():
    for arguments in (("x",), (None,), (PARTS, "x"), (PARTS, BASIS, "x")):
        with pytest.raises(TypeError, match="must be a tensor, an array or a list of numbers; got"):
            ptd_ext.PartTransition(*arguments)
    with pytest.raises(TypeError, match="gate must be a LinearGate; got str"):
        ptd_ext.PartTransition(PARTS, gate="x")
    with pytest.raises(TypeError, match=r"features must be floating-point; got torch\.int64"):
        LEARNED.weights(torch.ones(2, 12, dtype=torch.int64))
    found = LEARNED.transition(weights=WEIGHTS.numpy())
    assert torch.equal(found, LEARNED.transition(weights=WEIGHTS))


def test_types_of_eight_bits():
    """torch computes nothing with them, not even their smallest entry."""
    parts = torch.eye(3).expand(2, 3, 3).to(torch.float8_e4m3fn)
    with pytest.raises(TypeError, match="parts must be floating-point, of 16 bits or more"):
        ptd_ext.PartTransition(parts)
    with pytest.raises(TypeError, match="gate weight must be a floating-point tensor"):
        ptd_ext.transition.LinearGate(parts[0], torch.zeros(3), torch.zeros(3))


def test_bad_calls():
    with pytest.raises(ValueError, match=r"features must be \[N, 12\]; got \[5, 3\]"):
        LEARNED.weights(torch.rand(5, 3))
    with pytest.raises(ValueError, match="weights need a basis"):
        ptd_ext.PartTransition(PARTS).weights(torch.rand(5, 12))
    with pytest.raises(ValueError, match="transition must get either features or weights"):
        LEARNED.transition()
    with pytest.raises(ValueError, match=r"weights must be \[N, 4\]; got \[5, 3\]"):
        LEARNED.transition(weights=torch.rand(5, 3))
    with pytest.raises(TypeError, match=r"parts must be floating-point, .*; got torch.int64"):
        ptd_ext.PartTransition(torch.ones(2, 3, 3, dtype=torch.int64))


def test_parts_are_in_column_layout_wherever_they_come_from(tmp_path):
    made = ptd_ext.PartTransition(PARTS)
    made.save(tmp_path / "made.safetensors")
    loaded = ptd_ext.PartTransition.load(tmp_path / "made.safetensors")
    for found in (made, loaded, made.to(torch.float64), made.to("cpu")):
        assert ptd_ext.ops.prepare_parts(found.parts) is found.parts
    assert torch.equal(loaded.parts, PARTS)
