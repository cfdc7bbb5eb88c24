"""The CUDA kernels of the transition losses on samples that do not count or cannot be, emulated."""

import math

import pytest
from cuda_labels import NAMES, batch_of, run_loss
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
