"""The operators on rows: gradients, vmap, forward mode, and those without a gradient."""

import pytest
import torch
from cases import normal

import ptd_ext
from ptd_ext.ops._row_ops import NOT_DIFFERENTIABLE, PROJECT_TRANSITION, SIMPLEX_PROJECTION

OPS = torch.ops.ptd_ext
each_projection = pytest.mark.parametrize(
    "op", [PROJECT_TRANSITION, SIMPLEX_PROJECTION], ids=lambda op: op.name
)


def problem(grad):
    gram = torch.eye(3)[None].requires_grad_(grad)
    return gram, torch.ones(1), torch.zeros(1, 3), normal(1, 5, 3), None, 3, 0.0


def test_weights_have_no_gradient():
    weights = OPS.simplex_weights(*problem(grad=True))
    with pytest.raises(RuntimeError, match="simplex_weights is not differentiable: detach"):
        weights.sum().backward()
    assert not OPS.simplex_weights(*problem(grad=False)).requires_grad
    with pytest.raises(RuntimeError, match=NOT_DIFFERENTIABLE.split(":")[0]):
        ptd_ext.ops.simplex_weights(torch.eye(3).requires_grad_(), normal(5, 3))


def test_least_squares_has_no_gradient():
    gram = torch.eye(2, dtype=torch.float64)[None].requires_grad_()
    result = OPS.simplex_least_squares(gram, normal(1, 2, 3, dtype=torch.float64))
    with pytest.raises(RuntimeError, match="simplex_least_squares is not differentiable"):
        result.sum().backward()


@pytest.mark.parametrize("in_dims", [(0, 0), (1, 0), (0, None), (None, 1)])
def test_vmap_of_the_gradient(in_dims):
    """A mapped dimension is one more leading dimension, wherever it was; None is shared."""
    x = normal(4, 4, 6, dtype=torch.float64)
    projected = OPS.simplex_projection(normal(4, 4, 6, dtype=torch.float64, seed=1))
    dims = dict(zip(("grad", "projected"), in_dims, strict=True))
    given = {"grad": x, "projected": projected}
    given = {name: t if dims[name] is not None else t[0] for name, t in given.items()}

    def element(name, i):
        return given[name] if dims[name] is None else given[name].select(dims[name], i)

    backward = OPS.simplex_projection_backward
    found = torch.func.vmap(backward, in_dims=in_dims)(*given.values())
    expected = [backward(*(element(name, i) for name in given)) for i in range(4)]
    torch.testing.assert_close(found, torch.stack(expected))


@each_projection
def test_forward_mode_is_rejected(op):
    """The bare operator would lose the tangent without an error."""
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(normal(3, 3), normal(3, 3, seed=1))
        with pytest.raises(RuntimeError, match=r"forward-mode|forward AD|jvp"):
            op(dual)


@each_projection
def test_vmap_of_the_operator(op):
    x = normal(4, 4, 4, dtype=torch.float64)
    for dim in range(2):
        found = torch.func.vmap(op.op, in_dims=dim)(x)
        torch.testing.assert_close(found, torch.stack([op.op(t) for t in x.unbind(dim)]))


def test_devices_are_compared():
    message = "^project_transition_backward: grad must be .* of matrix, cpu; got meta\\.$"
    with pytest.raises(RuntimeError, match=message):
        PROJECT_TRANSITION._fake_gradient(torch.ones(1, 2, device="meta"), torch.ones(1, 2))
