"""Runs the emulated CUDA kernels of the losses and the clean posterior on torch tensors."""

import functools
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from emulator.harness import Emulator, compile_kernels

from ptd_ext import reference

HERE = Path(__file__).parent
CUDA = HERE.parent / "csrc" / "cuda"
NAMES = ("logits", "weights", "parts", "slack")


NAMED = ("transition_loss", "clean_posterior", "row_sums", "spread")


@functools.cache
def kernels():
    launchers = [CUDA / f"{name}.cu" for name in NAMED]
    return compile_kernels([*launchers, HERE / "cuda_label_bindings.cu"])


@dataclass
class Batch:
    logits: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor | None
    parts: torch.Tensor
    slack: torch.Tensor | None
    ignore_index: int = -100
    smoothing: float = 1e-8

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
            self.weights,
            self.parts,
            self.slack,
            ignore_index=self.ignore_index,
            smoothing=self.smoothing,
            **options,
        )


def batch_of(n, c, r, slack=None, dtype=torch.float32, seed=0, **options):
    """A random batch; r = 0: one matrix and no weights. `slack` is the size of its entries."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.float64 if dtype is torch.float64 else torch.float32

    def normal(*shape):
        return torch.randn(*shape, dtype=wide, generator=generator)

    return Batch(
        (2 * normal(n, c)).to(dtype),
        torch.randint(c, (n,), generator=generator),
        normal(n, r).softmax(-1) if r else None,
        reference.project_transition(normal(*([r] if r else []), c, c)),
        None if slack is None else slack * normal(c, c),
        **options,
    )


def batch_of_one_origin(c, slack=None, mass=0.5, dtype=torch.float32):
    """Of the first sample, whose label is 1: class 2 alone can have produced it."""
    batch = batch_of(4, c, 4, slack, dtype, smoothing=0.0)
    batch.labels[:] = torch.tensor([1, 0, 2, 0])
    batch.parts[:, :, 1] = 0
    batch.parts[:, 2, 1] = mass
    if slack:
        batch.slack[:, 1] = -1
        batch.slack[2, 1] = 0.2
    return batch


class Run:
    """A batch in emulated memory."""

    def __init__(self, gpu, batch, lead=0):
        """`lead`: numbers in front of the parts and the row sums."""
        self.gpu, self.batch = gpu, batch
        self.name = str(batch.logits.dtype).removeprefix("torch.")
        self.wide = batch.parts.dtype
        self.size = batch.logits.shape
        parts = batch.parts if batch.parts.dim() == 3 else batch.parts[None]
        columns = torch.cat([parts.new_zeros(lead), parts.permute(2, 0, 1).reshape(-1)])
        offset = lead * parts.element_size()
        self.row_sums = self.row_sum_pointer = None
        if batch.slack is not None:
            self.row_sums = self.output(lead + self.size.numel(), name="row_sums")
            self.row_sum_pointer = self.row_sums.pointer + offset
        self.call(
            "set_batch",
            *self.view(batch.logits, "logits"),
            *self.view(batch.labels, "labels"),
            batch.labels.dtype == torch.int64,
            *self.view(batch.weights, "weights"),
            gpu.input(columns, name="parts").pointer + offset,
            *self.view(batch.slack, "slack"),
            self.row_sum_pointer,
            *self.size,
            parts.shape[0],
            batch.ignore_index,
            float(batch.smoothing),
        )

    def call(self, function, *arguments):
        return self.gpu.call(f"{function}_{self.name}", *arguments)

    def launch(self, function, *arguments):
        assert self.call(function, *arguments) == 0

    def output(self, shape, dtype=None, name=""):
        return self.gpu.output(shape, dtype or self.wide, name=name)

    def scratch(self, function):
        """Of row sums: what does not grow with the samples, and what does."""
        sizes = self.output((2,), torch.int64)
        self.call(function, sizes)
        table, turned = sizes.get().tolist()
        return self.output(table, name="table"), self.output(turned, name="turned")

    def view(self, tensor, name):
        """Its memory as it lies there, as far off a 16-byte boundary, and its strides."""
        if tensor is None:
            return None, 0, 0
        size, offset = tensor.element_size(), tensor.storage_offset()
        lead = min(offset, tensor.data_ptr() % 16 // size)
        extent = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
        extent = lead + (extent if tensor.numel() else 0)
        memory = tensor.detach().as_strided((extent,), (1,), offset - lead)
        return self.gpu.input(memory, name=name).pointer + lead * size, *tensor.stride()

    def gradients(self, wanted, backward):
        """The gradients that are wanted; backward(logits, entry, row) starts them."""
        (n, c), batch = self.size, self.batch
        r = 1 if batch.weights is None else batch.weights.shape[1]
        shapes = {"logits": (n, c), "weights": (n, r), "parts": (c, r, c), "slack": (c, c)}
        grads = {
            name: self.output(
                shapes[name], batch.logits.dtype if name == "logits" else None, f"d{name}"
            )
            for name in NAMES
            if name in wanted and getattr(batch, name) is not None
        }
        spread = [grads.get(name) for name in NAMES[1:]]
        entry = row = None
        if any(array is not None for array in spread):
            entry = self.output((n, c), name="entry")
            row = self.output((n, c), name="row") if batch.slack is not None else None
        backward(grads.get("logits"), entry, row)
        if entry is not None:
            scratch = self.output(self.call("spread_scratch", *spread), name="scratch")
            self.launch("spread", entry, row, *spread, scratch)
        result = {name: array.get() for name, array in grads.items()}
        if "parts" in result:
            result["parts"] = result["parts"].permute(1, 2, 0).reshape(batch.parts.shape)
        return result


IMPORTANCES = ("forward", "detached", "attached")


def run_loss(
    batch,
    reduction="mean",
    importance="forward",
    max_importance=None,
    class_weight=None,
    grad=None,
    wanted=("logits",),
    seed=0,
    switch_probability=0.0,
):
    """The loss, and the gradients of sum(grad * loss)."""
    n = batch.logits.shape[0]
    with Emulator(kernels(), seed=seed, switch_probability=switch_probability) as gpu:
        run = Run(gpu, batch)
        shape = (n,) if reduction == "none" else ()
        loss, total = run.output(shape, name="loss"), run.output((), name="total")
        rule = (
            None if class_weight is None else gpu.input(class_weight, name="class_weight"),
            IMPORTANCES.index(importance),
            float("inf") if max_importance is None else float(max_importance),
        )
        workspace = run.output(run.call("loss_workspace") // 8, torch.float64, "workspace")
        outputs = (loss, None) if reduction == "none" else (None, loss)
        scratch = run.scratch("loss_scratch")
        run.launch("loss", *rule, *outputs, total, reduction == "mean", workspace, *scratch)
        grad = torch.ones(shape, dtype=run.wide) if grad is None else grad.to(run.wide)
        given = gpu.input(grad, name="grad")
        divisor = total if reduction == "mean" else None

        def backward(logits, entry, row):
            stride = int(reduction == "none")
            run.launch("loss_backward", *rule, given, stride, divisor, logits, entry, row)

        grads = run.gradients(wanted, backward)
        return loss.get(), grads


def define_loss(
    batch, reduction="mean", importance="forward", max_importance=None, class_weight=None
):
    """What run_loss must give, by the definition."""
    options = {"reduction": reduction, "class_weight": class_weight}
    if importance == "forward":
        return batch.define(reference.forward_loss, **options)
    options |= {"importance": importance, "max_importance": max_importance}
    return batch.define(reference.reweight_loss, **options)


def run_row_sums(batch, lead=0, seed=0, switch_probability=0.0):
    """[N, C], of max(T(x) + slack, 0)."""
    with Emulator(kernels(), seed=seed, switch_probability=switch_probability) as gpu:
        run = Run(gpu, batch, lead)
        run.launch("row_sums", *run.scratch("row_sums_scratch"))
        return run.row_sums.get()[lead:].view(run.size)


def run_posterior(batch, grad, wanted=("logits",), seed=0):
    """The clean posterior, and the gradients of sum(grad * posterior)."""
    with Emulator(kernels(), seed=seed) as gpu:
        run = Run(gpu, batch)
        posterior = run.output(run.size, name="posterior")
        run.launch("posterior", posterior, *run.scratch("posterior_scratch"))
        given, *_ = run.view(grad.to(run.wide), "grad")
        grads = run.gradients(
            wanted, lambda *outputs: run.launch("posterior_backward", given, *outputs)
        )
        return posterior.get(), grads
