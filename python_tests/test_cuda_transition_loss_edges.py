"""The CUDA kernels of the transition losses on samples that do not count or cannot be, emulated."""

import math

import pytest
import torch
from cuda_labels import IMPORTANCES, NAMES, batch_of, define_loss, run_loss
from emulator.harness import compiler
from test_cuda_transition_loss import MAPPINGS, near

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")


@pytest.mark.parametrize("c", MAPPINGS)
@pytest.mark.parametrize("slack", [None, 0.1])
@pytest.mark.parametrize("index", [-100, 1])
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


@pytest.mark.parametrize("c", MAPPINGS)
@pytest.mark.parametrize("slack", [None, 0.1])
def test_column_without_mass(c, slack):
    """Without smoothing the loss is infinite, or what the bound on beta leaves of it."""
    batch = batch_of(6, c, 4, slack, smoothing=0.0)
    batch.labels[:3] = 1
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


@pytest.mark.parametrize("c", [12, *MAPPINGS])
@pytest.mark.parametrize("importance", IMPORTANCES)
def test_nan_where_the_label_is_not_possible(c, importance):
    """Without smoothing, and with a largest logit whose class cannot give the label either."""
    batch = batch_of(4, c, 2, smoothing=0.0)
    batch.labels[0] = 1
    batch.parts[:, :, 1] = 0
    batch.parts[:, 2, 1] = 0.5
    batch.logits[0, 3] = 9
    batch.logits[0, 1] = math.nan
    loss, _ = run_loss(batch, importance=importance, reduction="none")
    assert loss.isnan().tolist() == [True, False, False, False]
