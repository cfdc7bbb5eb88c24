"""Batches for the tests of the emulated CUDA operators, and calls that run them."""

import math
from dataclasses import dataclass, replace

import torch
from emulator.operators import emulated
from random_numbers import new_generator

from ptd_ext.ops import reference

NAMES = ("logits", "weights", "parts", "slack")
IMPORTANCES = ("forward", "detached", "attached")
REDUCTIONS = ("none", "mean", "sum")


@dataclass
class Batch:
    logits: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor | None
    parts: torch.Tensor
    slack: torch.Tensor | None
    ignore_index: int = -100
    smoothing: float = 1e-8

    @property
    def matrix(self):
        """The arguments that define T(x)."""
        return self.weights, self.parts, self.slack

    @property
    def saved_options(self):
        return self.ignore_index, float(self.smoothing)

    def needs(self, wanted):
        return tuple(name in wanted and getattr(self, name) is not None for name in NAMES)

    def double(self):
        """The same numbers in float64, ready for gradients."""
        exact = {
            name: tensor.detach().double().requires_grad_()
            for name in NAMES
            if (tensor := getattr(self, name)) is not None
        }
        return replace(self, **exact)

    def define(self, function, **options):
        return function(
            self.logits,
            self.labels,
            *self.matrix,
            ignore_index=self.ignore_index,
            smoothing=self.smoothing,
            **options,
        )


def batch_of(n, c, r, slack=None, dtype=torch.float32, seed=0, **options):
    """A random batch; r = 0: one matrix and no weights. `slack` is the size of its entries."""
    generator = new_generator(seed)
    wide = torch.float64 if dtype is torch.float64 else torch.float32

    def drawn(*shape):
        return torch.randn(*shape, dtype=wide, generator=generator)

    return Batch(
        (2 * drawn(n, c)).to(dtype),
        torch.randint(c, (n,), generator=generator),
        drawn(n, r).softmax(-1) if r else None,
        reference.project_transition(drawn(*([r] if r else []), c, c)),
        None if slack is None else slack * drawn(c, c),
        **options,
    )


def batch_of_one_origin(c, slack=None, mass=0.5, dtype=torch.float32):
    """The first sample has the label 1, and class 2 alone can have produced it."""
    batch = batch_of(4, c, 4, slack, dtype, smoothing=0.0)
    batch.labels[:] = torch.tensor([1, 0, 2, 0])
    batch.parts[:, :, 1] = 0
    batch.parts[:, 2, 1] = mass
    if slack:
        batch.slack[:, 1] = -1
        batch.slack[2, 1] = 0.2
    return batch


def few_labels(n, c, r, slack=None, **options):
    """A batch with three labels only, each of which has many samples."""
    batch = batch_of(n, c, r, slack, seed=c + r, **options)
    return replace(batch, labels=batch.labels % 3 + c - 3)


def apart(tensor):
    """The same values as every other number of every third row, with NaN between them."""
    wide = tensor.new_full((3 * tensor.shape[0], 2 * tensor.shape[1] + 1), math.nan)
    wide[::3, 1::2] = tensor
    return wide[::3, 1::2]


def off_a_boundary(tensor):
    """The same values without gaps, one number off a 16-byte boundary."""
    return torch.cat([tensor.new_zeros(1), tensor.flatten()])[1:].view(tensor.shape)


def near(actual, expected, tolerance, least=1e-3):
    """Within `tolerance` of the largest number there is, if that is at least `least`."""
    finite = expected[expected.isfinite()]
    scale = max(least, finite.abs().max().item()) if finite.numel() else 1
    torch.testing.assert_close(
        actual.double(), expected.double(), rtol=0, atol=tolerance * scale, equal_nan=True
    )


def same(first, second):
    """Two results of one of the functions below are equal to the bit."""
    (value, grads), (other, other_grads) = first, second
    assert torch.equal(value, other)
    assert grads.keys() == other_grads.keys()
    assert all(torch.equal(grad, other_grads[name]) for name, grad in grads.items())


def _asked(gradients, needs):
    found = dict(zip(NAMES, gradients, strict=True))
    for name, needed in zip(NAMES, needs, strict=True):
        assert needed or found[name].numel() == 0
    return {name: found[name] for name, needed in zip(NAMES, needs, strict=True) if needed}


def run_loss(
    batch,
    reduction="mean",
    importance="forward",
    max_importance=None,
    class_weight=None,
    grad=None,
    wanted=("logits",),
    saved_layout=torch.clone,
    **settings,
):
    """The loss, and the gradients of sum(grad * loss); `settings` are the emulator's."""
    tensors = (batch.logits, batch.labels, *batch.matrix[:2], batch.slack, class_weight)
    most = math.inf if max_importance is None else float(max_importance)
    options = (IMPORTANCES.index(importance), most, REDUCTIONS.index(reduction))
    options += batch.saved_options
    needs = batch.needs(wanted)
    with emulated(**settings) as ops:
        loss, total, saved = ops.transition_loss(*tensors, *options)
        if not any(needs):
            return loss, {}
        saved = (total, saved_layout(saved))
        grad = torch.ones_like(loss) if grad is None else grad.to(loss.dtype)
        gradients = ops.transition_loss_backward(grad, *tensors, *saved, *options, *needs)
    return loss, _asked(gradients, needs)


def define_loss(
    batch, reduction="mean", importance="forward", max_importance=None, class_weight=None
):
    """The result that run_loss must give, by the definition."""
    options = {"reduction": reduction, "class_weight": class_weight}
    if importance == "forward":
        return batch.define(reference.forward_loss, **options)
    options |= {"importance": importance, "max_importance": max_importance}
    return batch.define(reference.reweight_loss, **options)


def run_row_sums(batch, **settings):
    """[N, C], of max(T(x) + slack, 0): what the losses keep for their gradients."""
    tensors = (batch.logits, batch.labels, *batch.matrix[:2], batch.slack, None)
    with emulated(**settings) as ops:
        _, _, saved = ops.transition_loss(*tensors, 0, math.inf, 0, *batch.saved_options)
    return saved


def run_posterior(batch, grad=None, wanted=("logits",), **settings):
    """The clean posterior, and the gradients of sum(grad * posterior)."""
    tensors = (batch.logits, batch.labels, *batch.matrix)
    needs = batch.needs(wanted) if grad is not None else (False,) * 4
    with emulated(**settings) as ops:
        posterior, saved = ops.clean_posterior(*tensors, *batch.saved_options)
        if not any(needs):
            return posterior, {}
        grad = grad.to(posterior.dtype)
        gradients = ops.clean_posterior_backward(
            grad, *tensors, saved, *batch.saved_options, *needs
        )
    return posterior, _asked(gradients, needs)


def run_noisy(batch, grad, wanted=NAMES, saved_layout=torch.clone, **settings):
    """The noisy posterior, and the gradients of sum(grad * posterior)."""
    needs = batch.needs(wanted)
    with emulated(**settings) as ops:
        posterior, saved = ops.noisy_posterior(batch.logits, *batch.matrix)
        if not any(needs):
            return posterior, {}
        arguments = (grad, batch.logits, *batch.matrix, saved_layout(saved))
        gradients = ops.noisy_posterior_backward(*arguments, *needs)
    return posterior, _asked(gradients, needs)


HALF_TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 1e-2}


def _check_gradients(grads, exact, batch, tolerance, least):
    for name, gradient in grads.items():
        expected = getattr(exact, name).grad
        narrow = HALF_TOLERANCE.get(batch.logits.dtype) if name == "logits" else None
        expected = torch.zeros_like(gradient) if expected is None else expected
        near(gradient, expected, narrow or tolerance, least)


def check_loss(batch, wanted=NAMES, seed=0, check=True, **options):
    """Loss and gradients against float64 truth, with a gradient that differs between samples."""
    exact = batch.double()
    weight = options.get("class_weight")
    truth = define_loss(
        exact, **options | ({} if weight is None else {"class_weight": weight.double()})
    )
    grad = torch.randn(truth.shape, dtype=batch.parts.dtype, generator=new_generator(seed))
    loss, grads = run_loss(batch, grad=grad, wanted=wanted, seed=seed, check=check, **options)
    tolerance = 1e-11 if batch.parts.dtype is torch.float64 else 2e-5
    near(loss, truth.detach(), tolerance)
    (truth * grad.double()).nan_to_num().sum().backward()
    _check_gradients(grads, exact, batch, tolerance, 1e-3)


def check_posterior(batch, wanted=NAMES, seed=0, layout=torch.clone):
    """Clean posterior and gradients against float64 truth; `layout` is that of the gradient."""
    exact = batch.double()
    truth = exact.define(reference.clean_posterior)
    grad = torch.randn(truth.shape, dtype=batch.parts.dtype, generator=new_generator(seed))
    posterior, grads = run_posterior(batch, layout(grad), wanted, seed=seed)
    tolerance = 1e-11 if batch.parts.dtype is torch.float64 else 2e-5
    near(posterior, truth.detach(), tolerance, 1e-2)
    truth.backward(grad.double())
    _check_gradients(grads, exact, batch, tolerance, 1e-2)


def check_noisy(batch, wanted=NAMES, seed=0, layout=torch.clone, **settings):
    """Noisy posterior and gradients against float64 truth; `layout` is that of the gradient."""
    exact = batch.double()
    truth = reference.noisy_posterior(exact.logits, *exact.matrix)
    grad = torch.randn(truth.shape, dtype=batch.parts.dtype, generator=new_generator(seed))
    posterior, grads = run_noisy(batch, layout(grad), wanted, seed=seed, **settings)
    truth.backward(grad.double())
    tolerance = 1e-11 if batch.parts.dtype is torch.float64 else 3e-5
    near(posterior, truth.detach(), tolerance, 1)
    _check_gradients(grads, exact, batch, tolerance, 1)
