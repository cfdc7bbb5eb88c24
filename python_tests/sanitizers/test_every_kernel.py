"""Every CPU operator once or twice, on enough rows for several threads; for the sanitizers."""

import pytest
import torch
from cases import assert_same, make_inputs
from random_numbers import new_generator

import ptd_ext
from ptd_ext.ops import reference
from ptd_ext.ops.reference import simplex_least_squares as interior_point

# T(x) in registers, in tiles and by matrix products; with many zeros, whose signs are tabulated.
SIZES = [(4001, 7, 3), (701, 37, 5)]
each_size = pytest.mark.parametrize("size", SIZES, ids=str)
each_type = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)


def inputs_of(size, dtype, slack):
    inputs = make_inputs(*size, slack=slack, dtype=dtype)
    if slack and size[1] > 32:
        with torch.no_grad():  # most signs are the same for the whole batch
            inputs.slack[:] = -1
            inputs.slack[:, ::9] = 0.1
    return inputs


@each_size
@each_type
@pytest.mark.parametrize("slack", [None, 0.05])
@pytest.mark.parametrize("name", ["forward_loss", "reweight_loss", "clean_posterior"])
def test_operators_of_a_column(size, dtype, slack, name):
    options = {"importance": "attached"} if name == "reweight_loss" else {}
    assert_same(
        lambda inputs: getattr(ptd_ext, name)(*inputs.arguments, **options),
        lambda inputs: getattr(reference, name)(*inputs.arguments, **options),
        inputs_of(size, dtype, slack),
    )


@each_size
@each_type
@pytest.mark.parametrize("slack", [None, 0.05])
def test_operators_of_the_matrix(size, dtype, slack):
    inputs = inputs_of(size, dtype, slack)
    assert_same(
        lambda i: ptd_ext.ops.noisy_posterior(i.logits, *i.transition),
        lambda i: reference.noisy_posterior(i.logits, *i.transition),
        inputs,
    )
    assert_same(
        lambda i: ptd_ext.ops.transition_matrix(*i.transition),
        lambda i: reference.transition_matrix(*i.transition),
        inputs,
    )


@each_size
@each_type
def test_slack_alone(size, dtype):
    """Training with slack has kernels of its own."""
    inputs = inputs_of(size, dtype, 0.05)
    inputs.weights.requires_grad_(False)
    inputs.parts.requires_grad_(False)
    assert_same(
        lambda i: ptd_ext.forward_loss(*i.arguments),
        lambda i: reference.forward_loss(*i.arguments),
        inputs,
    )


@each_type
@pytest.mark.parametrize("columns", [3, 17, 40])
def test_simplex_operators(dtype, columns):
    g = new_generator(columns)
    rows = torch.randn(5003, columns, generator=g, dtype=dtype).requires_grad_()
    found, wanted = ptd_ext.ops.simplex_projection(rows), reference.simplex_projection(rows)
    torch.testing.assert_close(found, wanted)
    outer = torch.randn(rows.shape, generator=g, dtype=dtype)
    grads = [torch.autograd.grad(result, rows, outer)[0] for result in (found, wanted)]
    torch.testing.assert_close(*grads)
    basis = torch.rand(columns, 50, generator=g, dtype=dtype)
    data = torch.rand(700, columns, generator=g, dtype=dtype).softmax(-1) @ basis
    weights = ptd_ext.ops.simplex_weights(basis @ basis.mT, data @ basis.mT, max_iter=200)
    torch.testing.assert_close(weights @ basis, data, rtol=0, atol=0.02)


@pytest.mark.parametrize("columns", [3, 17])
def test_least_squares(columns):
    g = new_generator(columns)
    basis = torch.rand(columns, 5, 9, generator=g, dtype=torch.float64)
    gram, right = basis @ basis.mT, torch.rand(columns, 5, columns, generator=g).double()
    found = torch.ops.ptd_ext.simplex_least_squares(gram, right)
    torch.testing.assert_close(found, interior_point(gram, right), rtol=0, atol=1e-7)


@each_type
@pytest.mark.parametrize("parts", [0, 3])
def test_invert_posterior(dtype, parts):
    g = new_generator(parts)
    rows = [
        torch.randn(*size, generator=g).softmax(-1) for size in ((701, 37), (701, 3), (3, 37, 37))
    ]
    probs, weights, matrices = (each.to(dtype) for each in rows)
    arguments = (probs, weights, matrices) if parts else (probs, None, matrices[0])
    found = torch.ops.ptd_ext.invert_posterior(*arguments, 200, 1e-5)
    expected = reference.invert_posterior(*arguments, 200, 1e-5)
    explained = [
        torch.einsum(
            "ni,nik->nk", clean, reference.transition_matrix(*arguments[1:]).expand(701, -1, -1)
        )
        for clean in (found, expected)
    ]
    torch.testing.assert_close(*explained, rtol=0, atol=1e-4)
