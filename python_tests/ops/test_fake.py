"""Shapes, types and layouts that torch.compile expects are those that the operators return."""

import itertools

import pytest
import torch
from cases import make_inputs
from torch._subclasses.fake_tensor import FakeTensorMode

import ptd_ext
from ptd_ext.ops._fake import _check_devices
from ptd_ext.ops._library import CLEAN_POSTERIOR, FUSED_OPS, NOISY_POSTERIOR, TRANSITION_LOSS

OPTIONS = {
    TRANSITION_LOSS: (0, None, 1, -100, 1e-8),
    CLEAN_POSTERIOR: (-100, 1e-8),
    NOISY_POSTERIOR: (),
}


def described(results):
    results = results if isinstance(results, tuple) else (results,)
    return [(tuple(t.shape), t.dtype, t.stride() if t.numel() else None) for t in results]


def check(op, *arguments):
    """The fake results of `op` are like the real ones, which are returned."""
    real = op(*arguments)
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(a) if isinstance(a, torch.Tensor) else a for a in arguments]
        assert described(op(*fakes)) == described(real)
    return real


@pytest.mark.parametrize("op", FUSED_OPS, ids=lambda op: op.name)
@pytest.mark.parametrize("slack", [None, 0.1])
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_fused_operators(op, slack, prepared, dtype):
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    inputs = make_inputs(5, 4, 3, slack=slack, dtype=wide, grad=False)
    given = {
        "logits": inputs.logits.to(dtype),
        "noisy_labels": inputs.labels,
        "weights": inputs.weights,
        "parts": ptd_ext.ops.prepare_parts(inputs.parts) if prepared else inputs.parts,
        "slack": inputs.slack,
    }
    if slack and prepared:
        given["slack"] = inputs.slack.t().contiguous().t()
    tensors = [given.get(name) for name in op.tensors]
    result, *saved = check(op.forward_op, *tensors, *OPTIONS[op])
    for needs in itertools.product((False, True), repeat=4):
        if needs[3] and slack is None:
            continue
        arguments = (torch.ones_like(result), *tensors, *saved, *OPTIONS[op], *needs)
        check(op.backward_op, *arguments)
    if op.with_gradients_op is not None:
        check(op.with_gradients_op, *tensors, *OPTIONS[op], slack is not None)


@pytest.mark.parametrize("name", ["project_transition", "simplex_projection"])
def test_operators_on_rows(name):
    ops = torch.ops.ptd_ext
    x = torch.ones(3, 3, 3).transpose(0, 2)
    result = check(getattr(ops, name).default, x)
    check(getattr(ops, f"{name}_backward").default, x, result)


def test_devices_are_compared():
    tensors = [torch.ones(1, 2), torch.ones(1, 2, device="meta"), None, None]
    message = r"^noisy_posterior: weights must be on the device of logits, cpu; got meta\.$"
    with pytest.raises(RuntimeError, match=message):
        _check_devices(NOISY_POSTERIOR, tensors)
