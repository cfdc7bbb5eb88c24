"""clean_posterior on CUDA, run by the emulator, against its definition."""

import math
from dataclasses import replace

import pytest
import torch
from cuda_cases import (
    NAMES,
    batch_of,
    batch_of_one_origin,
    check_posterior,
    near,
    off_a_boundary,
    run_posterior,
)
from emulator.harness import compiler
from random_numbers import new_generator

from ptd_ext.ops import reference

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")

CLASSES = (10, 20, 130)


@pytest.mark.parametrize("slack", [None, 1e-3, 0.3])
@pytest.mark.parametrize("size", [(33, 10, 20), (32, 2, 1), (33, 37, 7), (3, 130, 5)])
def test_all_gradients(size, slack):
    check_posterior(batch_of(*size, slack))


@pytest.mark.parametrize("n", [0, 1, 31, 33])
@pytest.mark.parametrize("c", [1, 14, 20])
def test_numbers_of_samples(n, c):
    check_posterior(batch_of(n, c, 3, 0.1, seed=n), seed=n)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("c", CLASSES)
def test_types(dtype, c):
    check_posterior(batch_of(6, c, 3, 0.1, dtype))


def test_a_thousand_classes():
    check_posterior(batch_of(2, 1000, 3), wanted=("logits", "weights"))


@pytest.mark.parametrize("c", CLASSES)
def test_ignored_sample_keeps_its_softmax(c):
    batch = batch_of(11, c, 3, 0.1)
    batch.labels[::3] = -100
    check_posterior(batch)


@pytest.mark.parametrize("c", CLASSES)
def test_bad_label(c):
    """NaN for that sample, and no gradient from it."""
    batch = batch_of(7, c, 3)
    batch.labels[2] = c
    posterior, grads = run_posterior(batch, torch.ones(7, c), wanted=NAMES)
    assert posterior[2].isnan().all()
    assert posterior[[0, 1, 3, 4, 5, 6]].isfinite().all()
    assert (grads["logits"][2] == 0).all()
    assert (grads["weights"][2] == 0).all()
    assert grads["parts"].isfinite().all()


@pytest.mark.parametrize("c", CLASSES)
def test_column_without_smoothing(c):
    """Classes that cannot give the label are out, even where their logit is by far the largest."""
    batch = batch_of(6, c, 3, smoothing=0.0)
    batch.parts[:, :, 1] = 0
    batch.parts[:, 0, 1] = 0.5
    batch.labels[:4] = 1
    batch.logits[:2, 0] = -200
    check_posterior(batch, wanted=("logits",))


@pytest.mark.parametrize("c", [12, *CLASSES])
@pytest.mark.parametrize("slack", [None, 0.1])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_bad_logit_where_the_column_is_zero(c, slack, bad):
    """Its sample becomes NaN, even if the largest logit is of another class outside the column."""
    for largest in (0, 9):
        batch = batch_of_one_origin(c, slack)
        batch.logits[0, 3] = largest
        batch.logits[0, 0] = bad
        posterior, grads = run_posterior(batch, torch.ones(4, c), wanted=("logits",))
        for array in (posterior, grads["logits"]):
            assert array[0].isnan().all()
            assert array[1:].isfinite().all()


@pytest.mark.parametrize("c", [12, *CLASSES])
@pytest.mark.parametrize("slack", [None, 0.1])
@pytest.mark.parametrize("mass", [0.5, 1e-3])
def test_largest_logit_where_the_column_is_zero(c, slack, mass):
    """A product of zero and a number that overflows adds nothing to the gradients."""
    batch = batch_of_one_origin(c, slack, mass)
    batch.logits[0, 3] = 100
    grad = torch.randn(4, c, generator=new_generator(0))
    posterior, grads = run_posterior(batch, grad, wanted=NAMES)
    exact = replace(batch.double(), smoothing=1e-300)  # so that the definition has a gradient
    truth = exact.define(reference.clean_posterior)
    near(posterior, truth.detach(), 2e-5, 1e-2)
    truth.backward(grad.double())
    for name, gradient in grads.items():
        assert gradient.isfinite().all()
        if slack or name != "parts":
            near(gradient, getattr(exact, name).grad, 2e-5, 1e-2)


@pytest.mark.parametrize("c", CLASSES)
def test_offset_of_one_number(c):
    """The gradient alone begins off a 16-byte boundary, or logits and weights do."""
    batch = batch_of(19, c, 4)
    check_posterior(batch, wanted=("logits",), layout=off_a_boundary)
    batch.logits, batch.weights = off_a_boundary(batch.logits), off_a_boundary(batch.weights)
    check_posterior(batch, wanted=("logits",))
