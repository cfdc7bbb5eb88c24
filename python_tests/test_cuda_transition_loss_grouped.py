"""The losses of up to 128 classes, whose samples a block of threads lists by label."""

from dataclasses import replace

import pytest
import torch
from cuda_labels import IMPORTANCES, NAMES, batch_of, run_loss, run_posterior
from emulator.harness import compiler
from emulator.launches import recording
from test_cuda_transition_loss import check

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")


def few_labels(n, c, r, slack=None, **options):
    """Of three labels, so that each has more samples than a warp takes at a time."""
    batch = batch_of(n, c, r, slack, seed=c + r, **options)
    return replace(batch, labels=batch.labels % 3 + c - 3)


@pytest.mark.parametrize("smoothing", [0.0, 1e-8])
@pytest.mark.parametrize("r", [0, 1, 5, 32])
@pytest.mark.parametrize("c", [36, 52, 64, 68, 96, 124, 128])
def test_lanes_without_classes(c, r, smoothing):
    """Two or four classes to a lane; at 64 and 128 all lanes have some."""
    batch = few_labels(23, c, r, smoothing=smoothing)
    with recording() as launches:
        check(batch, wanted=("logits",), importance=IMPORTANCES[r % 3])
    assert launches[0].kernel == f"transition_loss_quartet<float, {2 if c <= 64 else 4}>"


@pytest.mark.parametrize("slack", [None, 0.1])
@pytest.mark.parametrize("c", [20, 37, 68])
@pytest.mark.parametrize("r", range(1, 12))
def test_parts_that_are_asked_for_ahead(r, c, slack):
    """Two at a time, and two more: all that may be left of that at the end, and none beyond."""
    check(few_labels(11, c, r, slack), wanted=("logits",))


@pytest.mark.parametrize("c", [20, 37, 100])
@pytest.mark.parametrize(
    ("n", "slack"),
    [(63, None), (65, None), (125, 0.05), (125, None), (129, None), (600, None), (600, 0.05)],
)
def test_more_samples_than_all_warps_take_at_once(n, slack, c):
    """By one sample, with 31 or 32 warps that take two or four; and by many."""
    batch = batch_of(n, c, 3, slack)
    batch = replace(batch, labels=torch.full_like(batch.labels, 3))
    for reduction in ("none", "mean"):
        check(batch, wanted=("logits",), reduction=reduction)


@pytest.mark.parametrize(
    ("stride", "kernel"),
    [(131_068, "transition_loss_quartet<float, 2>"),
     (131_072, "transition_loss_grouped<float, 4, false, false>")],
)  # fmt: skip
def test_rows_far_apart(stride, kernel):
    """Which kernel takes them: a chunk's 4,096 are within 2^31 bytes, or may not be."""
    batch = few_labels(5, 36, 3)
    logits = torch.empty(5, stride)[:, :36].copy_(batch.logits)
    with recording() as launches:
        check(replace(batch, logits=logits), wanted=("logits",))
    assert launches[0].kernel == kernel


@pytest.mark.parametrize("importance", IMPORTANCES)
@pytest.mark.parametrize("smoothing", [0.0, 1e-8])
@pytest.mark.parametrize("by", [3e5, -3e5, 3e6, -3e6])
def test_logits_far_from_zero(by, smoothing, importance):
    """On either side of 2^20, beyond which logits are taken relative to the largest."""
    batch = few_labels(9, 68, 3, smoothing=smoothing)
    batch = replace(batch, logits=(batch.logits + by))
    check(batch, wanted=("logits",), importance=importance)


@pytest.mark.parametrize("r", [33, 70])
@pytest.mark.parametrize("c", [20, 36, 37])
def test_more_parts_than_are_staged_at_once(c, r):
    check(few_labels(23, c, r), wanted=("logits",))
    check(few_labels(23, c, r, 0.1), wanted=("logits",))


@pytest.mark.parametrize("importance", IMPORTANCES)
def test_far_class_that_cannot_give_the_label(importance):
    """Without smoothing: what is left of the others does not depend on how far it is."""
    batch = few_labels(23, 68, 3, smoothing=0.0)
    batch.logits[::2, 0] = 1e8
    batch.parts[:, 0] = torch.eye(68)[0]
    check(batch, wanted=("logits",), importance=importance, reduction="none")


@pytest.mark.parametrize("slack", [None, 0.05])
@pytest.mark.parametrize("c", [20, 37, 100])
def test_order_of_the_list(c, slack):
    """Threads draw places as they come; nothing depends on it, to the bit."""
    batch = few_labels(150, c, 3, slack)
    batch.logits[3, 5] += 3e6  # its neighbours in the list are not always the same
    grad = torch.randn(150, c, generator=torch.manual_seed(c))
    first, *others = (
        run_loss(batch, wanted=NAMES, reduction="none", seed=seed)
        + run_posterior(batch, grad, wanted=NAMES, seed=seed)
        for seed in range(3)
    )
    for loss, loss_grads, posterior, posterior_grads in others:
        assert torch.equal(loss, first[0])
        assert torch.equal(posterior, first[2])
        for grads, expected in ((loss_grads, first[1]), (posterior_grads, first[3])):
            assert all(torch.equal(grads[name], expected[name]) for name in grads)


def test_order_of_the_sum():
    batch = few_labels(150, 100, 3)
    class_weight = torch.rand(100, generator=torch.manual_seed(1))
    means = [
        run_loss(batch, seed=seed, switch_probability=0.05, class_weight=class_weight)[0]
        for seed in range(3)
    ]
    assert means[0] == means[1] == means[2]
