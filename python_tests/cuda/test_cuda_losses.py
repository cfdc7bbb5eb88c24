"""The transition losses on CUDA, run by the emulator, against their definition."""

from dataclasses import replace

import pytest
import torch
from cases import uniform
from cuda_cases import (
    IMPORTANCES,
    NAMES,
    batch_of,
    check_loss,
    few_labels,
)
from emulator.harness import compiler

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found"),
]

CLASSES = (10, 20, 130)
HALF = (torch.float16, torch.bfloat16)
SIZES = [(33, 10, 20), (17, 14, 10), (33, 20, 33), (9, 33, 1), (9, 100, 20), (3, 130, 5)]
SIZES += [(29, 37, 21)]


@pytest.mark.parametrize("importance", IMPORTANCES)
@pytest.mark.parametrize("size", SIZES)
def test_all_gradients(size, importance):
    seed = IMPORTANCES.index(importance)
    check_loss(batch_of(*size, seed=seed), seed=seed, importance=importance, reduction="none")


@pytest.mark.parametrize(("slack", "importance"), [(1e-3, "forward"), (0.3, "attached")])
@pytest.mark.parametrize("size", SIZES)
def test_all_gradients_with_slack(size, slack, importance):
    check_loss(batch_of(*size, slack), importance=importance, reduction="none")


@pytest.mark.parametrize("n", [0, 1, 31, 33, 257])
@pytest.mark.parametrize(("c", "slack"), [(2, None), (10, None), (10, 0.1), (20, None)])
def test_numbers_of_samples(n, c, slack):
    check_loss(batch_of(n, c, 3, slack, seed=n), seed=n)
    check_loss(batch_of(n, c, 3, slack, seed=n), seed=n, reduction="sum", wanted=("logits",))


@pytest.mark.parametrize("r", [0, 1, 4, 7, 33, 70])
@pytest.mark.parametrize("c", [1, 7, 16, 17])
def test_numbers_of_parts(r, c):
    check_loss(batch_of(18, c, r, 0.1 if r % 2 else None, seed=r))


@pytest.mark.parametrize("r", [9, 11, 17, 19, 21, 22, 23, 39, 41, 43])
def test_numbers_of_parts_of_a_few_classes(r):
    check_loss(batch_of(40, 3, r, seed=r), wanted=("logits", "weights"))


def test_a_thousand_classes():
    check_loss(batch_of(2, 1000, 3), wanted=("logits", "weights"))


def test_parts_too_many_for_shared_memory():
    check_loss(batch_of(3, 10, 600), wanted=("logits",))
    check_loss(batch_of(3, 4, 1600, 0.1), wanted=("logits",))


@pytest.mark.parametrize(
    ("n", "c", "slack", "wanted"),
    [(700, 10, None, NAMES), (700, 10, 0.1, NAMES), (2100, 20, None, ("logits",))],
)
def test_many_samples(n, c, slack, wanted):
    """Several blocks, whose sums are added up; with 20 classes, several for each label."""
    check_loss(batch_of(n, c, 2, slack), wanted=wanted)


@pytest.mark.parametrize("dtype", [torch.float64, *HALF])
@pytest.mark.parametrize(("c", "slack"), [(10, None), (10, 0.1), (20, None), (130, 0.01)])
def test_types(dtype, c, slack):
    check_loss(batch_of(6, c, 6, slack, dtype), importance="attached")


@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize(("importance", "cap"), [("detached", 0.2), ("attached", 5.0)])
def test_max_importance(c, importance, cap):
    check_loss(batch_of(20, c, 2), importance=importance, max_importance=cap, reduction="none")


@pytest.mark.parametrize("c", CLASSES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ignored_samples_and_class_weights(c, reduction):
    batch = batch_of(37, c, 2, 0.1 if reduction == "mean" else None)
    class_weight = uniform(c) + 0.5
    for index in (-100, 1):  # one that is not a class, one that is
        batch.labels[::3] = batch.ignore_index = index
        check_loss(batch, reduction=reduction, class_weight=class_weight)


@pytest.mark.parametrize(("c", "r"), [(36, 0), (52, 5), (64, 1), (96, 32), (128, 1)])
def test_many_samples_of_a_label(c, r):
    batch = few_labels(23, c, r, smoothing=0.0 if c % 8 else 1e-8)
    check_loss(batch, wanted=("logits",), importance=IMPORTANCES[r % 3])


@pytest.mark.parametrize(("c", "slack"), [(20, None), (20, 0.1), (37, None)])
@pytest.mark.parametrize("r", [2, 3, 5, 8])
def test_numbers_of_parts_of_more_classes(r, c, slack):
    check_loss(few_labels(11, c, r, slack), wanted=("logits",))


@pytest.mark.parametrize("slack", [None, 0.1])
@pytest.mark.parametrize(("c", "r"), [(20, 33), (20, 70), (37, 33)])
def test_many_parts(c, r, slack):
    check_loss(few_labels(23, c, r, slack), wanted=("logits",))


@pytest.mark.parametrize("c", [20, 37])
@pytest.mark.parametrize(("n", "slack"), [(65, None), (125, 0.05), (129, None)])
def test_samples_of_one_label(n, slack, c):
    """Their number is around and well above what a block of threads takes at a time."""
    batch = batch_of(n, c, 3, slack)
    batch = replace(batch, labels=torch.full_like(batch.labels, 3))
    for reduction in ("none", "mean"):
        check_loss(batch, wanted=("logits",), reduction=reduction)


@pytest.mark.parametrize("importance", IMPORTANCES)
@pytest.mark.parametrize(("by", "smoothing"), [(3e5, 0.0), (-3e5, 1e-8), (3e6, 1e-8), (-3e6, 0.0)])
def test_logits_far_from_zero(by, smoothing, importance):
    batch = few_labels(9, 36, 3, smoothing=smoothing)
    batch = replace(batch, logits=(batch.logits + by))
    check_loss(batch, wanted=("logits",), importance=importance)
