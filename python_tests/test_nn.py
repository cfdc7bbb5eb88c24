"""ForwardLoss and ReweightLoss."""

import copy
import io

import pytest
import torch
from cases import make_inputs, uniform

import ptd_ext

MODULES = [
    (ptd_ext.ForwardLoss, ptd_ext.forward_loss, {}),
    (
        ptd_ext.ReweightLoss,
        ptd_ext.reweight_loss,
        {"importance": "attached", "max_importance": 3.0},
    ),
]
each_module = pytest.mark.parametrize(("module", "function", "options"), MODULES)


@each_module
@pytest.mark.parametrize("weights", [True, False])
def test_is_the_function(module, function, options, weights):
    inputs = make_inputs(14, 5, 3 if weights else 1, weights=weights)
    class_weight = uniform(5, dtype=torch.float64)
    common = {"reduction": "sum", "ignore_index": 2, "class_weight": class_weight, "smoothing": 0.1}
    loss = module(inputs.parts, **options, **common)
    labels = inputs.labels.clamp(min=0)
    arguments = (inputs.logits, labels, inputs.weights)
    expected = function(*arguments, inputs.parts, **options, **common)
    assert torch.equal(loss(*arguments), expected)
    assert loss.slack is None  # without revision there is nothing to learn
    assert not list(loss.parameters())


@each_module
def test_revision_learns_slack(module, function, options):
    inputs = make_inputs(200, 5, 3, dtype=torch.float32, grad=False)
    loss = module(inputs.parts, revision=True, **options)
    assert [name for name, _ in loss.named_parameters()] == ["slack"]
    assert not loss.slack.any()
    optimiser = torch.optim.Adam(loss.parameters(), lr=1e-2)
    values = []
    for _ in range(60):
        optimiser.zero_grad()
        value = loss(inputs.logits, inputs.labels, inputs.weights)
        value.backward()
        optimiser.step()
        values.append(value.item())
    assert values[-1] < values[0]
    rows = loss.transition(inputs.weights).sum(-1)
    torch.testing.assert_close(rows, torch.ones_like(rows))


@each_module
def test_owns_its_tensors(module, function, options):
    parts = make_inputs(1, 4, 2).parts.detach()
    loss = module(parts, revision=True, **options)
    kept = loss.parts.clone()
    parts.zero_()
    assert torch.equal(loss.parts, kept)
    assert dict(loss.named_buffers()).keys() == {"parts"}
    # The layout that the kernels read, kept by whatever moves or copies the module.
    for moved in (loss, copy.deepcopy(loss), copy.deepcopy(loss).float()):
        assert moved.parts.permute(2, 0, 1).is_contiguous()
        assert moved.slack.t().is_contiguous()


@each_module
def test_state_dict(module, function, options):
    inputs = make_inputs(10, 4, 2, grad=False)
    loss = module(inputs.parts, revision=True, **options)
    with torch.no_grad():
        loss.slack.normal_()
    file = io.BytesIO()
    torch.save(loss.state_dict(), file)
    file.seek(0)
    other = module(torch.ones_like(inputs.parts) / 4, revision=True, **options)
    arguments = (inputs.logits, inputs.labels, inputs.weights)
    other(*arguments)  # remembers its parts, which are then loaded over
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(*arguments), loss(*arguments))


def test_detached_importance_cannot_be_revised():
    with pytest.raises(ValueError, match='revision needs importance="attached"'):
        ptd_ext.ReweightLoss(torch.eye(3), revision=True)


def test_repr():
    text = repr(ptd_ext.ForwardLoss(uniform(7, 3, 3), revision=True))
    assert "n_classes=3, n_parts=7, revision=True" in text
    assert "parts=1" in repr(ptd_ext.ReweightLoss(torch.eye(3), max_importance=2.0))


def test_bad_options_are_rejected_at_once():
    for options, message in (
        ({"reduction": "avg"}, "reduction must be"),
        ({"smoothing": 2.0}, "smoothing must be"),
    ):
        with pytest.raises(ValueError, match=message):
            ptd_ext.ForwardLoss(torch.eye(3), **options)
    with pytest.raises(ValueError, match="importance must be"):
        ptd_ext.ReweightLoss(torch.eye(3), importance="both")
    with pytest.raises(TypeError, match="parts must be float32"):
        ptd_ext.ForwardLoss(torch.eye(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="parts must be"):
        ptd_ext.ForwardLoss(uniform(2, 3, 4))
