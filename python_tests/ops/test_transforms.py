"""The operators inside functorch transforms."""

import pytest
import torch
from cases import each_loss, make_inputs, normal

import ptd_ext
from ptd_ext.ops import reference
from ptd_ext.ops._library import TRANSITION_LOSS
from ptd_ext.ops._transforms import map_one_by_one, transformed


@each_loss
def test_vmap(loss):
    """Batches of batches, with shared and with batched parts."""
    inputs = make_inputs(12, 4, 3, slack=0.05, grad=False)
    stacked = [
        t.reshape(3, 4, *t.shape[1:]) for t in (inputs.logits, inputs.labels, inputs.weights)
    ]

    def function(logits, labels, weights, parts):
        return loss.fused(logits, labels, weights, parts, inputs.slack, **loss.options)

    shared = torch.func.vmap(function, in_dims=(0, 0, 0, None))(*stacked, inputs.parts)
    expected = torch.stack([function(*(t[i] for t in stacked), inputs.parts) for i in range(3)])
    torch.testing.assert_close(shared, expected)
    single = torch.func.vmap(function, in_dims=(0, 0, 0, None))(
        *(t[:1] for t in stacked), inputs.parts
    )
    torch.testing.assert_close(single, expected[:1])
    parts = torch.stack([inputs.parts, inputs.parts.flip(0), inputs.parts])
    batched = torch.func.vmap(function)(*stacked, parts)
    expected = torch.stack([function(*(t[i] for t in stacked), parts[i]) for i in range(3)])
    torch.testing.assert_close(batched, expected)


def test_functorch_gradients():
    """Per-sample gradients, the usual reason to come here."""
    inputs = make_inputs(6, 4, 3, ignored=False, grad=False)

    def one(function):
        return lambda logits, label, weights: function(
            logits[None], label[None], weights[None], inputs.parts
        )

    arguments = (inputs.logits, inputs.labels, inputs.weights)
    ours = torch.func.vmap(torch.func.grad(one(ptd_ext.forward_loss)))(*arguments)
    theirs = torch.func.vmap(torch.func.grad(one(reference.forward_loss)))(*arguments)
    torch.testing.assert_close(ours, theirs)

    ours, theirs = (
        torch.func.jacrev(torch.func.grad(lambda z, f=f: f(z, *arguments[1:], inputs.parts)))(
            inputs.logits
        )
        for f in (ptd_ext.forward_loss, reference.forward_loss)
    )
    torch.testing.assert_close(ours, theirs)


def test_projection_transforms():
    """Forward mode too, where the bare operator would lose the tangent."""
    matrix = normal(2, 4, 4, dtype=torch.float64)
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        ours, theirs = (
            transform(f)(matrix)
            for f in (ptd_ext.ops.project_transition, reference.project_transition)
        )
        torch.testing.assert_close(ours, theirs)


def test_transforms_are_made_once():
    assert transformed(TRANSITION_LOSS) is transformed(TRANSITION_LOSS)
    assert transformed(TRANSITION_LOSS).__name__ == "transition_loss"


def test_map_one_by_one():
    """Mapped dimensions are selected, others passed on; results are stacked in front."""
    x, y = normal(3, 2, 4), normal(4, seed=1)
    result, dim = map_one_by_one(lambda a, b: a * b, 2, (1, None), (x, y))
    assert dim == 0
    assert torch.equal(result, (x * y).movedim(1, 0))
    (total, first), dims = map_one_by_one(lambda a: (a.sum(), a[0]), 4, (2,), (x,))
    assert dims == (0, 0)
    torch.testing.assert_close(total, x.sum((0, 1)))
    assert torch.equal(first, x[0].T)
    with pytest.raises(ValueError, match="vmap over an empty batch is not supported"):
        map_one_by_one(torch.sin, 0, (0,), (x[:0],))
