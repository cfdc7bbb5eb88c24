"""The CUDA kernels of the transition losses, run by the emulator, against their definition."""

import math

import pytest
import torch
from cuda_labels import IMPORTANCES, NAMES, batch_of, define_loss, run_loss
from emulator.harness import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")

HALF = (torch.float16, torch.bfloat16)
# Classes: samples that are neighbours in a warp, samples grouped by label, a block for each.
MAPPINGS = (10, 36, 68, 130)


def near(actual, expected, tolerance):
    """Within `tolerance` of the largest number there is."""
    finite = expected[expected.isfinite()]
    scale = max(1e-3, finite.abs().max().item()) if finite.numel() else 1
    torch.testing.assert_close(
        actual.double(), expected.double(), rtol=0, atol=tolerance * scale, equal_nan=True
    )


def check(batch, wanted=NAMES, seed=0, **options):
    """Loss and gradients against float64 truth, with a gradient that differs between samples."""
    exact = batch.double()
    weight = options.get("class_weight")
    truth = define_loss(
        exact, **options | ({} if weight is None else {"class_weight": weight.double()})
    )
    grad = torch.randn(truth.shape, dtype=batch.parts.dtype, generator=torch.manual_seed(seed))
    loss, grads = run_loss(batch, grad=grad, wanted=wanted, seed=seed, **options)
    tolerance = 1e-11 if batch.parts.dtype is torch.float64 else 2e-5
    near(loss, truth.detach(), tolerance)
    (truth * grad.double()).nan_to_num().sum().backward()
    for name, gradient in grads.items():
        expected = getattr(exact, name).grad
        half = name == "logits" and batch.logits.dtype in HALF
        near(
            gradient,
            torch.zeros_like(gradient) if expected is None else expected,
            {torch.float16: 1e-3, torch.bfloat16: 1e-2}[batch.logits.dtype] if half else tolerance,
        )


SIZES = [(33, 10, 20), (17, 14, 10), (33, 20, 33), (9, 33, 1), (9, 100, 20), (3, 130, 5)]
SIZES += [(33, 40, 7), (29, 37, 21)]  # an odd number of parts, with two samples to a warp


@pytest.mark.parametrize("importance", IMPORTANCES)
@pytest.mark.parametrize("size", SIZES)
def test_all_gradients(size, importance):
    seed = IMPORTANCES.index(importance)
    check(batch_of(*size, seed=seed), seed=seed, importance=importance, reduction="none")


@pytest.mark.parametrize(("slack", "importance"), [(1e-3, "forward"), (0.3, "attached")])
@pytest.mark.parametrize("size", SIZES)
def test_all_gradients_with_slack(size, slack, importance):
    check(batch_of(*size, slack), importance=importance, reduction="none")


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 257])
@pytest.mark.parametrize(("c", "slack"), [(2, None), (10, None), (10, 0.1), (33, None)])
def test_numbers_of_samples(n, c, slack):
    check(batch_of(n, c, 3, slack, seed=n), seed=n)
    check(batch_of(n, c, 3, slack, seed=n), seed=n, reduction="sum", wanted=("logits",))


@pytest.mark.parametrize("r", [0, 1, 4, 7, 33, 70])
@pytest.mark.parametrize("c", [1, 7, 16, 17])
def test_numbers_of_parts(r, c):
    check(batch_of(18, c, r, 0.1 if r % 2 else None, seed=r))


@pytest.mark.parametrize("r", [9, 11, 17, 19, 21, 22, 23, 39, 41, 43])
def test_parts_that_a_lane_takes_in_several_turns(r):
    """Ten at a time of twenty: the last of a turn may be one of two, or the first of the next."""
    check(batch_of(40, 3, r, seed=r), wanted=("logits", "weights"))


def test_a_thousand_classes():
    check(batch_of(2, 1000, 3), wanted=("logits", "weights"))


def test_parts_too_many_for_shared_memory():
    check(batch_of(3, 10, 600), wanted=("logits",))
    check(batch_of(3, 4, 1600, 0.1), wanted=("logits",))


@pytest.mark.parametrize(
    ("n", "c", "slack", "wanted"),
    [(700, 10, None, NAMES), (700, 10, 0.1, NAMES), (1500, 100, None, ("logits",))],
)
def test_many_samples(n, c, slack, wanted):
    """Several blocks per label and chunks of samples; the last block adds up."""
    check(batch_of(n, c, 2, slack), wanted=wanted)


@pytest.mark.parametrize("dtype", [torch.float64, *HALF])
@pytest.mark.parametrize(
    ("c", "slack"), [(10, None), (10, 0.1), (12, None), (40, None), (130, None), (130, 0.01)]
)
def test_types(dtype, c, slack):
    check(batch_of(6, c, 6, slack, dtype), importance="attached")


@pytest.mark.parametrize("c", MAPPINGS)
@pytest.mark.parametrize("importance", IMPORTANCES[1:])
@pytest.mark.parametrize("cap", [0.2, 5.0])
def test_max_importance(c, importance, cap):
    check(batch_of(20, c, 2), importance=importance, max_importance=cap, reduction="none")


@pytest.mark.parametrize("c", MAPPINGS)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ignored_samples_and_class_weights(c, reduction):
    batch = batch_of(37, c, 2, 0.1 if reduction == "mean" else None)
    class_weight = torch.rand(c) + 0.5
    for index in (-100, 1):  # one that is no class, one that is
        batch.labels[::3] = batch.ignore_index = index
        check(batch, reduction=reduction, class_weight=class_weight)


@pytest.mark.parametrize("c", MAPPINGS)
def test_nothing_of_an_ignored_sample_shows(c):
    batch = batch_of(5, c, 4, 0.1)
    batch.labels[2] = -100
    expected = run_loss(batch, wanted=NAMES)
    batch.logits[2, 1] = math.nan
    loss, grads = run_loss(batch, wanted=NAMES)
    assert torch.equal(loss, expected[0])
    assert all(torch.equal(grads[name], expected[1][name]) for name in NAMES)


@pytest.mark.parametrize("c", MAPPINGS)
def test_all_ignored(c):
    batch = batch_of(7, c, 4)
    batch.labels[:] = -100
    for reduction, expected in (("mean", math.nan), ("sum", 0.0), ("none", 0.0)):
        loss, grads = run_loss(batch, reduction=reduction, wanted=NAMES)
        torch.testing.assert_close(loss, torch.full_like(loss, expected), equal_nan=True)
        assert all((grad == 0).all() for grad in grads.values())


# Blocks of several labels, of which the last has fewer.
@pytest.mark.parametrize(("n", "c", "beyond"), [(4096, 37, 39), (8192, 15, 15)])
@pytest.mark.parametrize("slack", [None, 0.01])
def test_ignored_label_right_after_the_last_class(n, c, beyond, slack):
    batch = batch_of(n, c, 3, slack)
    batch.labels[::9] = batch.ignore_index = beyond
    check(batch, wanted=("logits",), reduction="mean")
    batch.ignore_index = -100
    loss, grads = run_loss(batch, reduction="none", wanted=NAMES if slack else NAMES[:-1])
    assert loss[::9].isnan().all()
    assert not loss[1::9].isnan().any()
    assert not grads["logits"][::9].any()
    assert all(grad.isfinite().all() for grad in grads.values())


@pytest.mark.parametrize("c", MAPPINGS)
@pytest.mark.parametrize(("slack", "bad"), [(None, -1), (0.1, 1 << 40)])
def test_bad_label(c, slack, bad):
    """NaN for that sample, no gradient from it, and the others as they were."""
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


@pytest.mark.parametrize("c", MAPPINGS)
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


@pytest.mark.parametrize("c", MAPPINGS)
@pytest.mark.parametrize("smoothing", [0.0, 1e-8, 0.1])
def test_label_of_probability_zero(c, smoothing):
    """Finite with smoothing; without it, classes that cannot give the label are left out."""
    batch = batch_of(6, c, 4, smoothing=smoothing)
    batch.parts[:, :, 1] = 0
    batch.parts[:, 2, 1] = 1
    batch.parts /= batch.parts.sum(-1, keepdim=True)
    batch.labels[:4] = 1
    batch.logits[:2, 2] = -200  # exp underflows against the largest logit
    check(batch, reduction="none", wanted=("logits",))
    if smoothing:
        batch.parts[:, 2, 1] = 0
        loss, grads = run_loss(batch, reduction="none", wanted=NAMES)
        assert loss.isfinite().all()
        assert all(grad.isfinite().all() for grad in grads.values())


@pytest.mark.parametrize("c", MAPPINGS)
def test_rows_with_nothing_positive(c):
    """Such a row is uniform and has no gradient."""
    batch = batch_of(9, c, 4, 0.1)
    batch.slack[2] = -2
    check(batch, reduction="none")


@pytest.mark.parametrize("c", MAPPINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_strides(c, dtype):
    batch = batch_of(9, c, 3, 0.1, dtype)

    def apart(tensor):  # every other number of every third row
        wide = tensor.new_full((3 * tensor.shape[0], 2 * tensor.shape[1] + 1), math.nan)
        wide[::3, 1::2] = tensor
        return wide[::3, 1::2]

    batch.logits, batch.weights = apart(batch.logits), apart(batch.weights)
    batch.slack = batch.slack.t()
    batch.labels = torch.stack([batch.labels, batch.labels + 1000], 1)[:, 0]
    check(batch)
    batch.labels = batch.labels.int()
    batch.logits = batch.logits.t().contiguous().t()
    check(batch)


@pytest.mark.parametrize("c", [12, *MAPPINGS])
def test_offset_of_one_number(c):
    """Rows without gaps that start off a 16-byte boundary."""
    batch = batch_of(19, c, 4)
    for name in ("logits", "weights"):
        tensor = getattr(batch, name)
        shifted = torch.cat([torch.zeros(1), tensor.flatten()])[1:].view(tensor.shape)
        setattr(batch, name, shifted)
    check(batch, wanted=("logits",))


@pytest.mark.parametrize("c", MAPPINGS)
@pytest.mark.parametrize("slack", [None, 0.1])
def test_threads_that_give_way_anywhere(c, slack):
    """Not only at barriers: a missing one would show."""
    batch = batch_of(40, c, 3, slack)
    expected = run_loss(batch)
    loss, grads = run_loss(batch, seed=3, switch_probability=0.05)
    assert torch.equal(loss, expected[0])
    assert torch.equal(grads["logits"], expected[1]["logits"])


def test_repeatable():
    """The order of blocks and threads, which a seed sets here, changes nothing, to the bit."""
    for n, c in ((700, 10), (150, 40), (70, 130)):
        batch = batch_of(n, c, 2, 0.05)
        first = run_loss(batch, wanted=NAMES, seed=1)
        second = run_loss(batch, wanted=NAMES, seed=2)
        assert torch.equal(first[0], second[0])
        assert all(torch.equal(first[1][name], second[1][name]) for name in NAMES)


@pytest.mark.parametrize("c", MAPPINGS)
def test_nan_of_a_part_without_smoothing(c):
    """It is at the largest logit, which a column without it would leave out."""
    batch = batch_of(4, c, 2, smoothing=0.0)
    batch.labels[0] = 1
    batch.logits[0, 3] = 50
    batch.parts[0, 3, 1] = math.nan
    assert run_loss(batch, reduction="none")[0][0].isnan()
