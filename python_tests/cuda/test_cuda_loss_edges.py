"""The transition losses on CUDA, emulated: samples that do not count, and labels that cannot be."""

import math
from dataclasses import replace

import pytest
import torch
from cuda_cases import (
    IMPORTANCES,
    NAMES,
    batch_of,
    batch_of_one_origin,
    check_loss,
    define_loss,
    few_labels,
    near,
    run_loss,
)
from emulator.harness import compiler

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found"),
]

CLASSES = (10, 20, 68, 130)


@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize(("slack", "index"), [(None, 1), (0.1, -100)])
def test_weights_of_an_ignored_sample_do_not_show(c, slack, index):
    batch = batch_of(5, c, 4, slack)
    batch.labels[2] = batch.ignore_index = index
    expected = run_loss(batch, wanted=NAMES)
    batch.weights[2, 1] = math.nan
    loss, grads = run_loss(batch, wanted=NAMES)
    near(loss, expected[0], 1e-6)
    for name, grad in grads.items():
        near(grad, expected[1][name], 1e-6)
        assert grad.isfinite().all()


@pytest.mark.parametrize("c", CLASSES)
def test_part_of_an_ignored_class_does_not_show(c):
    batch = batch_of(5, c, 4)
    batch.labels[:] = torch.tensor([0, 2, 0, 2, 1])
    batch.ignore_index = 1
    expected = run_loss(batch, wanted=NAMES)
    batch.parts[1, 3, 1] = math.nan
    loss, grads = run_loss(batch, wanted=NAMES)
    assert torch.equal(loss, expected[0])
    for name, grad in grads.items():
        assert torch.equal(grad, expected[1][name])


@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize("slack", [None, 0.1])
def test_column_without_mass(c, slack):
    """Without smoothing the loss is infinite, or what the bound on beta leaves of it."""
    batch = batch_of(6, c, 4, slack, smoothing=0.0)
    batch.labels[:3] = 1
    batch.logits[2, 2] = -math.inf
    batch.parts[:, :, 1] = 0
    if slack:
        batch.slack[:, 1] = -1
    loss, grads = run_loss(batch, reduction="none", wanted=NAMES)
    assert loss.isinf().tolist() == [True] * 3 + [False] * 3
    assert all(grad.isfinite().all() for grad in grads.values())
    options = {"importance": "attached", "max_importance": 0.5, "reduction": "none"}
    loss, grads = run_loss(batch, wanted=NAMES, **options)
    near(loss, define_loss(batch, **options), 1e-5)
    assert all(grad.isfinite().all() for grad in grads.values())
    capped = 0.5 * (batch.logits.softmax(-1) - torch.nn.functional.one_hot(batch.labels, c))
    near(grads["logits"][:3], capped[:3], 1e-5)


@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize("slack", [None, 0.1])
@pytest.mark.parametrize("importance", IMPORTANCES)
def test_mass_at_a_masked_class_alone(c, slack, importance):
    """The loss is infinite, as in a column without any mass."""
    batch = batch_of_one_origin(c, slack)
    batch.logits[0, 2] = -math.inf
    options = {"importance": importance, "reduction": "none"}
    loss, _ = run_loss(batch, wanted=(), **options)
    assert loss.isinf().tolist() == [True, False, False, False]
    near(loss, define_loss(batch, **options), 1e-5)


@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize("slack", [None, 0.1])
@pytest.mark.parametrize(
    ("importance", "above", "mass"),
    [
        ("forward", 60, 0.5),
        ("attached", 60, 0.5),
        ("forward", 100, 0.5),
        ("detached", 100, 1e-3),
        ("attached", 300, 0.5),
    ],
)
def test_largest_logit_where_the_column_is_zero(c, slack, importance, above, mass):
    """Only dL/du of a class that is not in the column overflows; of the results that it enters,
    only the gradient of the parts does."""
    batch = batch_of_one_origin(c, slack, mass)
    batch.logits[0, 0] = above
    options = {"importance": importance, "reduction": "none"}
    loss, grads = run_loss(batch, wanted=NAMES, grad=torch.tensor([3.0, 1, 1, 1]), **options)
    exact = replace(batch.double(), smoothing=1e-300)  # so that the definition has a gradient
    truth = define_loss(exact, **options)
    near(loss, truth.detach(), 1e-5)
    (truth * torch.tensor([3.0, 1, 1, 1])).sum().backward()
    for name, grad in grads.items():
        assert grad.isfinite().all()
        if slack or name != "parts" or above < 64:
            expected = getattr(exact, name).grad
            near(grad, torch.zeros_like(grad) if expected is None else expected, 2e-5)


@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize("slack", [None, 0.1])
def test_largest_logit_where_the_column_is_zero_without_a_gradient_or_in_float64(c, slack):
    batch = batch_of_one_origin(c, slack)
    batch.logits[0, 0] = 100
    _, grads = run_loss(batch, reduction="none", grad=torch.tensor([0.0, 1, 1, 1]), wanted=NAMES)
    assert not grads["logits"][0].any()
    assert not grads["weights"][0].any()
    assert all(grad.isfinite().all() for grad in grads.values())
    batch = batch_of_one_origin(c, slack, dtype=torch.float64)
    batch.logits[0, 0] = 800
    _, grads = run_loss(batch, reduction="none", wanted=NAMES)
    assert all(grad.isfinite().all() for grad in grads.values())


@pytest.mark.parametrize("c", [*CLASSES, 1000])
@pytest.mark.parametrize("mass", [1e-18, 1e-30, 1.2e-38, 1e-44])
def test_label_of_hardly_any_probability(c, mass):
    """The loss is exact down to the smallest number there is."""
    batch = batch_of(1, c, 1, smoothing=0.0)
    batch.labels[:], batch.weights[:], batch.logits[:] = 1, 1, 0
    batch.parts[:, :, 1] = 0
    batch.parts[:, 2, 1] = mass
    loss, _ = run_loss(batch, wanted=())
    expected = math.log(c) - math.log(batch.parts[0, 2, 1].item())
    assert abs(loss.item() - expected) < 3e-7 * expected


@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize("importance", IMPORTANCES)
def test_nan_where_the_label_is_not_possible(c, importance):
    """Without smoothing, and with a largest logit whose class cannot give the label either."""
    batch = batch_of(4, c, 2, smoothing=0.0)
    batch.labels[0] = 1
    batch.parts[:, :, 1] = 0
    batch.parts[:, 2, 1] = 0.5
    batch.logits[0, 3] = 9
    batch.logits[0, 1] = math.nan
    loss, _ = run_loss(batch, wanted=(), importance=importance, reduction="none")
    assert loss.isnan().tolist() == [True, False, False, False]


@pytest.mark.parametrize("c", CLASSES)
def test_nothing_of_an_ignored_sample_shows(c):
    batch = batch_of(5, c, 4, 0.1)
    batch.labels[2] = -100
    expected = run_loss(batch, wanted=NAMES)
    batch.logits[2, 1] = math.nan
    loss, grads = run_loss(batch, wanted=NAMES)
    assert torch.equal(loss, expected[0])
    assert all(torch.equal(grads[name], expected[1][name]) for name in NAMES)


@pytest.mark.parametrize("c", CLASSES)
def test_all_ignored(c):
    batch = batch_of(7, c, 4)
    batch.labels[:] = -100
    for reduction, expected in (("mean", math.nan), ("sum", 0.0), ("none", 0.0)):
        loss, grads = run_loss(batch, reduction=reduction, wanted=NAMES)
        torch.testing.assert_close(loss, torch.full_like(loss, expected), equal_nan=True)
        assert all((grad == 0).all() for grad in grads.values())


# Each block of threads serves several labels, and the last block fewer than the others.
@pytest.mark.parametrize(("n", "c", "beyond"), [(1500, 37, 39), (3000, 15, 15)])
@pytest.mark.parametrize("slack", [None, 0.01])
def test_ignored_label_right_after_the_last_class(n, c, beyond, slack):
    batch = batch_of(n, c, 3, slack)
    batch.labels[::9] = batch.ignore_index = beyond
    check_loss(batch, wanted=("logits",), reduction="mean")
    batch.ignore_index = -100
    loss, grads = run_loss(batch, reduction="none", wanted=NAMES if slack else NAMES[:-1])
    assert loss[::9].isnan().all()
    assert not loss[1::9].isnan().any()
    assert not grads["logits"][::9].any()
    assert all(grad.isfinite().all() for grad in grads.values())


@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize(
    ("slack", "bad"), [(None, -1), (0.1, 1 << 40), (None, 2**32 + 1), (0.1, 2**32 - 100)]
)
def test_bad_label(c, slack, bad):
    """NaN for that sample, no gradient from it, and the others as they were.

    Cut to 32 bits, the last three would be classes or the label that is ignored.
    """
    batch = batch_of(20, c, 2, slack)
    good = run_loss(batch, reduction="none", wanted=NAMES)
    wrong = batch.labels.clone()
    wrong[3] = bad
    batch.labels[3] = -100
    ignored = run_loss(batch, reduction="none", wanted=NAMES)
    batch.labels = wrong
    loss, grads = run_loss(batch, reduction="none", wanted=NAMES)
    assert loss[3].isnan()
    rest = torch.arange(20) != 3
    torch.testing.assert_close(loss[rest], good[0][rest], rtol=0, atol=0)
    for name, grad in grads.items():
        near(grad, ignored[1][name], 1e-6)
    assert run_loss(batch)[0].isnan()


@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize("importance", IMPORTANCES)
def test_odd_logits(c, importance):
    """NaN stays in its sample; minus infinity rules a class out; large ones do not overflow."""
    batch = batch_of(8, c, 4)
    batch.labels[1] = 2
    batch.logits[0, 1] = math.nan
    batch.logits[1, 2] = -math.inf
    batch.logits[2, 3] = -math.inf
    batch.logits[4] *= 1e4
    loss, grads = run_loss(batch, reduction="none", importance=importance)
    exact = batch.double()
    truth = define_loss(exact, reduction="none", importance=importance)
    near(loss, truth.detach(), 1e-5)
    truth[4:].sum().backward()
    near(grads["logits"][4:], exact.logits.grad[4:], 1e-5)
    assert grads["logits"][:1].isnan().any()
    assert grads["logits"][1:3].isfinite().all()


@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize("smoothing", [0.0, 1e-8, 0.1])
def test_label_of_probability_zero(c, smoothing):
    """Finite with smoothing; without it, classes that cannot give the label are left out."""
    batch = batch_of(6, c, 4, smoothing=smoothing)
    batch.parts[:, :, 1] = 0
    batch.parts[:, 2, 1] = 1
    batch.parts /= batch.parts.sum(-1, keepdim=True)
    batch.labels[:4] = 1
    batch.logits[:2, 2] = -200  # exp underflows against the largest logit
    check_loss(batch, reduction="none", wanted=("logits",))
    if smoothing:
        batch.parts[:, 2, 1] = 0
        loss, grads = run_loss(batch, reduction="none", wanted=NAMES)
        assert loss.isfinite().all()
        assert all(grad.isfinite().all() for grad in grads.values())


@pytest.mark.parametrize("c", CLASSES)
def test_rows_with_nothing_positive(c):
    """Such a row is uniform and has no gradient."""
    batch = batch_of(9, c, 4, 0.1)
    batch.slack[2] = -2
    check_loss(batch, reduction="none")


@pytest.mark.parametrize("c", CLASSES)
def test_nan_of_a_part_without_smoothing(c):
    """The NaN is at the largest logit, whose class would be outside of the column otherwise."""
    batch = batch_of(4, c, 2, smoothing=0.0)
    batch.labels[0] = 1
    batch.logits[0, 3] = 50
    batch.parts[0, 3, 1] = math.nan
    assert run_loss(batch, reduction="none")[0][0].isnan()


@pytest.mark.parametrize("importance", IMPORTANCES)
def test_far_class_that_cannot_give_the_label(importance):
    """Without smoothing, the loss of the other classes does not depend on how far it is."""
    batch = few_labels(23, 36, 3, smoothing=0.0)
    batch.logits[::2, 0] = 1e8
    batch.parts[:, 0] = torch.eye(36)[0]
    check_loss(batch, wanted=("logits",), importance=importance, reduction="none")


@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize("importance", ["detached", "attached"])
def test_sure_label_that_is_ruled_out(c, importance):
    """Beta is as large as the cross entropy is small: their product keeps its digits."""
    batch = batch_of(6, c, 0)
    batch.logits[torch.arange(6), batch.labels] = torch.tensor([12.0, 14, 16, 18, 20, 22])
    batch.parts.fill_diagonal_(0)
    options = {"importance": importance, "reduction": "none"}
    loss, grads = run_loss(batch, wanted=("logits",), **options)
    exact = batch.double()
    truth = define_loss(exact, **options)
    truth.sum().backward()
    scale = truth.detach()
    near(loss / scale, torch.ones(6).double(), 2e-5)
    near(grads["logits"] / scale[:, None], exact.logits.grad / scale[:, None], 2e-5)


@pytest.mark.parametrize("c", CLASSES)
def test_subnormal_column(c):
    """Without smoothing a column may be as small as numbers get."""
    batch = batch_of(6, c, 0, smoothing=0.0)
    batch.parts[:] = 1e-41
    loss, grads = run_loss(batch, reduction="none", wanted=("logits",))
    near(loss, define_loss(batch.double(), reduction="none").detach(), 1e-5)
    assert grads["logits"].abs().max() < 1e-5
