"""The CUDA kernels of the transition losses on samples that do not count or cannot be, emulated."""

import math
from dataclasses import replace

import pytest
import torch
from cuda_labels import IMPORTANCES, NAMES, batch_of, batch_of_one_origin, define_loss, run_loss
from emulator.harness import compiler
from test_cuda_transition_loss import near

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")

# Classes: a lane or two for each sample, samples grouped by label with one class to a lane, two
# (without slack) or four, a block for each sample.
MAPPINGS = (10, 12, 20, 36, 68, 130)


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


@pytest.mark.parametrize("c", MAPPINGS)
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


@pytest.mark.parametrize("c", MAPPINGS)
@pytest.mark.parametrize("slack", [None, 0.1])
@pytest.mark.parametrize("importance", IMPORTANCES)
def test_mass_at_a_masked_class_alone(c, slack, importance):
    """That is as good as none."""
    batch = batch_of_one_origin(c, slack)
    batch.logits[0, 2] = -math.inf
    options = {"importance": importance, "reduction": "none"}
    loss, _ = run_loss(batch, **options)
    assert loss.isinf().tolist() == [True, False, False, False]
    near(loss, define_loss(batch, **options), 1e-5)


@pytest.mark.parametrize("c", MAPPINGS)
@pytest.mark.parametrize("slack", [None, 0.1])
@pytest.mark.parametrize("importance", IMPORTANCES)
@pytest.mark.parametrize(("above", "mass"), [(60, 0.5), (100, 0.5), (100, 1e-3), (300, 0.5)])
def test_largest_logit_where_the_column_is_zero(c, slack, importance, above, mass):
    """What overflows is dL/du of a class that is not in the column, and nothing that it leads to
    but the gradient of the parts."""
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


@pytest.mark.parametrize("c", MAPPINGS)
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


@pytest.mark.parametrize("c", [*MAPPINGS, 1000])
@pytest.mark.parametrize("mass", [1e-18, 1e-20, 1e-30, 1.2e-38, 1e-40, 1e-44])
def test_label_of_hardly_any_probability(c, mass):
    """The loss is exact down to the smallest number there is."""
    batch = batch_of(1, c, 1, smoothing=0.0)
    batch.labels[:], batch.weights[:], batch.logits[:] = 1, 1, 0
    batch.parts[:, :, 1] = 0
    batch.parts[:, 2, 1] = mass
    loss, _ = run_loss(batch)
    expected = math.log(c) - math.log(batch.parts[0, 2, 1].item())
    assert abs(loss.item() - expected) < 3e-7 * expected


@pytest.mark.parametrize("c", MAPPINGS)
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
