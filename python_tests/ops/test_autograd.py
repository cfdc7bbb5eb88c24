"""Gradients of the operators in eager code and under torch.compile, autocast and threads."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from cases import LOSSES, assert_same, each_device, each_loss, make_inputs, normal, uniform

import ptd_ext
from ptd_ext.ops._autograd import apply
from ptd_ext.ops._library import NOISY_POSTERIOR, TRANSITION_LOSS


@each_device
@pytest.mark.parametrize("loss", [x for x in LOSSES if x.name != "detached"], ids=str)
@pytest.mark.parametrize("slack", [None, 0.05])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_gradcheck(loss, slack, reduction, device):
    """The detached importance is left out, since its gradient is not a derivative."""
    inputs = make_inputs(6, 4, 3, slack=slack, sparse=False, device=device)
    leaves = inputs.leaves()

    def function(*leaves):
        return loss.fused(
            leaves[0], inputs.labels, *leaves[1:], *([None] if slack is None else []),
            reduction=reduction, **loss.options,
        )  # fmt: skip

    assert torch.autograd.gradcheck(function, leaves)


@each_device
@pytest.mark.parametrize("slack", [None, 0.05])
def test_gradgradcheck(slack, device):
    inputs = make_inputs(5, 3, 2, slack=slack, sparse=False, device=device)

    def function(*leaves):
        return ptd_ext.forward_loss(leaves[0], inputs.labels, *leaves[1:])

    assert torch.autograd.gradgradcheck(function, inputs.leaves())


@each_device
@pytest.mark.parametrize("slack", [None, 0.05])
def test_gradcheck_of_posteriors(slack, device):
    inputs = make_inputs(5, 4, 3, slack=slack, sparse=False, device=device)
    leaves = inputs.leaves()

    def noisy(logits, weights, parts, slack=None):
        return ptd_ext.ops.noisy_posterior(logits, weights, parts, slack)

    def clean(logits, weights, parts, slack=None):
        return ptd_ext.clean_posterior(logits, inputs.labels, weights, parts, slack)

    for function in (noisy, clean):
        assert torch.autograd.gradcheck(function, leaves)
        assert torch.autograd.gradgradcheck(function, leaves)
    matrix = uniform(3, 4, 4, dtype=torch.float64, device=device).requires_grad_()
    assert torch.autograd.gradcheck(ptd_ext.ops.project_transition, matrix)
    assert torch.autograd.gradgradcheck(ptd_ext.ops.project_transition, matrix)


def loss_arguments(inputs, importance=0, reduction=1, class_weight=None):
    return (
        inputs.logits, inputs.labels, inputs.weights, ptd_ext.ops.prepare_parts(inputs.parts),
        inputs.slack, class_weight, importance, 2.0, reduction, -100, 1e-8,
    )  # fmt: skip


@each_device
@pytest.mark.parametrize("slack", [None, 0.05])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_opcheck(slack, dtype, device):
    ops = torch.ops.ptd_ext
    for grad in (True, False):
        inputs = make_inputs(11, 5, 3, slack=slack, dtype=dtype, device=device, grad=grad)
        weight = uniform(5, dtype=dtype, device=device)
        for importance in (0, 1, 2):
            reduction = (importance + (dtype is torch.float64)) % 3
            arguments = loss_arguments(inputs, importance, reduction, weight)
            torch.library.opcheck(ops.transition_loss, arguments)
        parts = ptd_ext.ops.prepare_parts(inputs.parts)
        shared = (inputs.logits, inputs.weights, parts, inputs.slack)
        torch.library.opcheck(ops.noisy_posterior, shared)
        torch.library.opcheck(
            ops.clean_posterior, (inputs.logits, inputs.labels, *shared[1:], -100, 1e-8)
        )
        matrix = normal(3, 4, 4, dtype=dtype, device=device).requires_grad_(grad)
        torch.library.opcheck(ops.project_transition, (matrix,))


@each_device
def test_opcheck_of_backward_operators(device):
    ops = torch.ops.ptd_ext
    inputs = make_inputs(9, 4, 3, slack=0.05, device=device, grad=False)
    arguments = loss_arguments(inputs)
    loss, *saved = ops.transition_loss(*arguments)
    for needs in ((True, True, True, True), (True, False, False, False)):
        torch.library.opcheck(
            ops.transition_loss_backward,
            (torch.ones_like(loss), *arguments[:6], *saved, *arguments[6:], *needs),
        )
    matrix = normal(2, 3, 3, device=device)
    torch.library.opcheck(ops.project_transition_backward, (matrix.clone(), matrix))


@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs g++, none found")
@each_device
@each_loss
@pytest.mark.parametrize("slack", [None, 0.02])
def test_compile_with_dynamic_batch(loss, slack, device):
    torch.compiler.reset()

    @torch.compile(fullgraph=True, dynamic=True)
    def compiled(logits, labels, weights, parts, slack):
        return loss.fused(2 * logits, labels, weights, parts, slack, **loss.options)

    for samples in (5, 9, 16):
        inputs = make_inputs(samples, 6, 4, slack=slack, dtype=torch.float32, device=device)
        ours = compiled(*inputs.arguments)
        doubled = (2 * inputs.logits, *inputs.arguments[1:])
        theirs = loss.fused(*doubled, **loss.options)
        torch.testing.assert_close(ours, theirs)
        leaves = inputs.leaves("logits", "slack")
        found = torch.autograd.grad(ours, leaves, allow_unused=True)
        wanted = torch.autograd.grad(theirs, leaves, allow_unused=True)
        for a, b in zip(found, wanted, strict=True):
            if b is not None:
                torch.testing.assert_close(a, b)


@each_device
def test_compile_of_a_module_prepares_once(device):
    """The parts of a module are in the layout already: no copy of them in the graph."""
    from torch._dynamo.testing import EagerAndRecordGraphs

    torch.compiler.reset()
    inputs = make_inputs(8, 5, 3, dtype=torch.float32, device=device)
    module = ptd_ext.ForwardLoss(inputs.parts, revision=True).to(device)
    recorder = EagerAndRecordGraphs()
    compiled = torch.compile(module, fullgraph=True, backend=recorder)
    loss = compiled(inputs.logits, inputs.labels, inputs.weights)
    torch.testing.assert_close(loss, module(inputs.logits, inputs.labels, inputs.weights))
    targets = [str(node.target) for node in recorder.graphs[0].graph.nodes]
    assert any("transition_loss" in target for target in targets)
    assert not any("permute" in t or "contiguous" in t for t in targets)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast(dtype):
    """Half logits of an autocast network go in as they are; the loss is float32."""
    inputs = make_inputs(10, 6, 3, slack=0.02, dtype=torch.float32)
    layer = torch.nn.Linear(6, 6)
    with torch.no_grad():
        layer.weight.copy_(normal(6, 6))
        layer.bias.copy_(normal(6, seed=1))
    with torch.autocast("cpu", dtype=dtype):
        logits = layer(inputs.logits.detach())
        assert logits.dtype == dtype
        loss = ptd_ext.forward_loss(logits, inputs.labels, *inputs.transition)
        matrix = ptd_ext.ops.transition_matrix(*inputs.transition)
    assert loss.dtype == matrix.dtype == torch.float32
    wide = logits.detach().float().requires_grad_()
    expected = ptd_ext.forward_loss(wide, inputs.labels, *inputs.transition)
    assert torch.equal(loss, expected)
    assert torch.equal(matrix, ptd_ext.ops.transition_matrix(*inputs.transition))
    (slack_grad,) = torch.autograd.grad(expected, inputs.slack)
    loss.backward()
    assert layer.weight.grad.dtype == torch.float32
    assert torch.equal(inputs.slack.grad, slack_grad)


def test_second_derivative_under_autocast():
    inputs = make_inputs(6, 5, 3, dtype=torch.float32)

    def second():
        loss = ptd_ext.forward_loss(*inputs.arguments)
        (first,) = torch.autograd.grad(loss, inputs.logits, create_graph=True)
        return torch.autograd.grad(first.pow(2).sum(), inputs.logits)[0]

    with torch.autocast("cpu", dtype=torch.bfloat16):
        under = second()
    assert torch.equal(under, second())


@each_loss
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_deterministic_and_right_with_threads(loss, threads):
    torch.set_num_threads(threads)
    for size, slack in (((999, 10, 8), 0.02), ((333, 60, 4), 1e-3), ((8000, 9, 4), None)):
        inputs = make_inputs(*size, slack=slack, dtype=torch.float32)

        def run(inputs=inputs):
            value = loss.fused(*inputs.arguments, **loss.options)
            found = torch.autograd.grad(value, inputs.leaves(), allow_unused=True)
            return [value, *(f for f in found if f is not None)]

        once = run()
        for _ in range(3):
            assert all(torch.equal(a, b) for a, b in zip(once, run(), strict=True))
        assert_same(
            lambda i: loss.fused(*i.arguments, **loss.options),
            lambda i: loss.defined(*i.arguments, **loss.options),
            inputs,
        )


def test_thread_safety():
    """Many Python threads on the same tensors, parts not yet prepared."""
    inputs = make_inputs(64, 40, 5, slack=0.01, grad=False)
    expected = ptd_ext.forward_loss(*inputs.arguments)
    parts = inputs.parts.clone()

    def run(_):
        logits = inputs.logits.clone().requires_grad_()
        loss = ptd_ext.forward_loss(logits, inputs.labels, inputs.weights, parts, inputs.slack)
        loss.backward()
        return torch.equal(loss, expected) and logits.grad.isfinite().all().item()

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(run, range(200)))


def test_backward_twice_and_saved_tensors():
    inputs = make_inputs(7, 4, 3, slack=0.05)
    loss = ptd_ext.forward_loss(*inputs.arguments)
    first = torch.autograd.grad(loss, inputs.logits, retain_graph=True)
    second = torch.autograd.grad(loss, inputs.logits)
    assert torch.equal(first[0], second[0])
    loss = ptd_ext.forward_loss(*inputs.arguments)
    with torch.no_grad():
        inputs.slack.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


class Recorded:
    """The loss with the names of the operators that it calls."""

    def __init__(self, monkeypatch):
        self.called = []
        for attribute in ("forward_op", "with_gradients_op", "backward_op"):
            op = getattr(TRANSITION_LOSS, attribute)
            monkeypatch.setattr(TRANSITION_LOSS, attribute, self.recording(attribute, op))

    def recording(self, name, op):
        def call(*arguments):
            self.called.append(name)
            return op(*arguments)

        return call


@pytest.mark.parametrize(
    ("leaves", "grad_enabled", "called"),
    [
        (("logits",), True, ["with_gradients_op"]),
        (("logits", "slack"), True, ["with_gradients_op"]),
        (("logits", "weights"), True, ["forward_op", "backward_op"]),
        (("parts",), True, ["forward_op", "backward_op"]),
        (("logits",), False, ["forward_op"]),
        ((), True, ["forward_op"]),
    ],
)
def test_forward_of_training_computes_the_gradients(leaves, grad_enabled, called, monkeypatch):
    inputs = make_inputs(6, 4, 3, slack=0.1, grad=False)
    for leaf in inputs.leaves(*leaves) if leaves else []:
        leaf.requires_grad_()
    recorded = Recorded(monkeypatch)
    with torch.set_grad_enabled(grad_enabled):
        loss = ptd_ext.forward_loss(*inputs.arguments)
    assert recorded.called == called[:1]
    if loss.requires_grad:
        loss.backward()
    assert recorded.called == called


def test_every_way_to_call_an_operator_gives_the_same_result():
    inputs = make_inputs(6, 4, 3, grad=False)

    def posterior(logits):
        return apply(NOISY_POSTERIOR, (logits, inputs.weights, inputs.parts, None), ())

    mapped = torch.func.vmap(posterior)(inputs.logits[None])[0]
    assert torch.equal(posterior(inputs.logits), mapped)
