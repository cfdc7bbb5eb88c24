"""Check and time every operator on this machine: `ptd-ext selftest`.

On a machine with a GPU it runs the CUDA kernels, elsewhere the CPU kernels. Results and gradients
are compared with the definitions in :mod:`ptd_ext.ops.reference`, computed in float64 on the CPU.
The output is a report to paste into an issue; the exit code is 1 if anything failed.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ptd_ext.cli import info
from ptd_ext.ops import devices, functional, reference
from ptd_ext.utils.command_parser import CommandParser

SANITIZER = "compute-sanitizer python -m ptd_ext selftest --no-timing"

LEAVES = ("logits", "weights", "parts", "slack")
# Errors are relative to the largest entry. Gradients of half-precision logits are rounded to them.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-4}
HALF_TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 1e-2}


class Case(NamedTuple):
    """The sizes and type of a batch; `slack` is the size of its entries, `edge` an edge case."""

    n: int
    c: int
    r: int
    slack: float | None = None
    dtype: torch.dtype = torch.float32
    edge: str = ""

    def __str__(self) -> str:
        slack = f"slack {self.slack}" if self.slack else ""
        sizes = f"N={self.n} C={self.c} R={self.r}"
        dtype = str(self.dtype).removeprefix("torch.")
        return ", ".join(filter(None, (sizes, dtype, slack, self.edge)))


CASES = [
    *(Case(n, 10, 20) for n in (0, 1, 31, 32, 33, 257)),
    *(Case(33, c, 20, slack) for c in (2, 14, 33, 100) for slack in (None, 0.01)),
    *(Case(33, 10, r, slack) for r in (1, 10, 33, 200) for slack in (None, 0.1)),
    Case(4099, 10, 20, 0.1),
    Case(4, 1000, 4),
    Case(4, 1000, 2, 0.001),
    *(Case(65, 10, 20, 0.1, dtype) for dtype in (torch.float64, torch.float16, torch.bfloat16)),
    Case(65, 100, 5, 0.01, torch.float64),
    Case(33, 10, 5, None, edge="ignored labels"),
    Case(33, 10, 5, 0.1, edge="empty rows"),
    Case(33, 10, 5, None, edge="impossible labels"),
    Case(33, 10, 5, 0.1, edge="large logits"),
]

Operator = Callable[[Any, dict[str, Tensor]], Tensor]  # (library, batch) -> result


def _loss(name: str, **options: Any) -> Operator:
    def call(library: Any, b: dict[str, Tensor]) -> Tensor:
        tensors = (b["logits"], b["labels"], b["weights"], b["parts"], b["slack"])
        return getattr(library, name)(*tensors, **options)

    return call


OPERATORS: dict[str, Operator] = {
    "forward_loss": _loss("forward_loss", reduction="none"),
    "forward_loss, mean": _loss("forward_loss"),
    "reweight_loss": _loss("reweight_loss", reduction="none", max_importance=50.0),
    "reweight_loss, attached": _loss("reweight_loss", importance="attached", max_importance=50.0),
    "clean_posterior": _loss("clean_posterior"),
    "noisy_posterior": lambda library, b: library.noisy_posterior(
        b["logits"], b["weights"], b["parts"], b["slack"]
    ),
    "project_transition": lambda library, b: library.project_transition(
        b["parts"] - 0.5 / b["parts"].shape[-1]
    ),
}

# The operators that are timed, at sizes for a GPU or for a CPU.
TIMED = ("forward_loss", "reweight_loss", "clean_posterior", "noisy_posterior")
TIMED_CASES = {
    "cuda": [Case(65536, 10, 20), Case(65536, 10, 20, 0.01), Case(8192, 100, 20)],
    "cpu": [Case(1024, 10, 20), Case(1024, 10, 20, 0.01), Case(128, 100, 20)],
}


def make_batch(case: Case, seed: int = 0) -> dict[str, Any]:
    """Draw the tensors of a case, on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.float64 if case.dtype is torch.float64 else torch.float32

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, dtype=wide, generator=generator)

    n, c, r = case.n, case.c, case.r
    batch: dict[str, Any] = {
        "logits": 3 * normal(n, c),
        "labels": torch.randint(c, (n,), generator=generator),
        "weights": normal(n, r).softmax(-1),
        "parts": reference.project_transition(normal(r, c, c)),
        "slack": case.slack * normal(c, c) if case.slack else None,
    }
    if case.edge == "ignored labels":
        batch["labels"][::3] = -100
    elif case.edge == "empty rows":
        batch["slack"][::2] = -2
    elif case.edge == "impossible labels":
        batch["parts"][:, :, 0] = 0
    elif case.edge == "large logits":
        batch["logits"] *= 30
    batch["logits"] = batch["logits"].to(case.dtype)
    return batch


def moved(batch: dict[str, Any], *to: Any) -> dict[str, Any]:
    """Move or cast the batch; its differentiable tensors become leaves."""

    def move(name: str, tensor: Tensor | None) -> Tensor | None:
        if tensor is None:
            return None
        if name in LEAVES:
            return tensor.detach().to(*to).requires_grad_()
        return tensor.to(*(target for target in to if not isinstance(target, torch.dtype)))

    return {name: move(name, tensor) for name, tensor in batch.items()}


def results(operator: Operator, library: Any, batch: dict[str, Any]) -> dict[str, Tensor]:
    """Return the result and its gradients, on the CPU."""
    result = operator(library, batch)
    # The same for every type and device; not uniform, so that a missing gradient is noticed.
    grad = torch.linspace(-1, 2, max(result.numel(), 1), dtype=torch.float64)[: result.numel()]
    grad = grad.reshape(result.shape).to(result)
    leaves = {name: batch[name] for name in LEAVES if batch[name] is not None}
    gradients = torch.autograd.grad(
        result, list(leaves.values()), grad, allow_unused=True, materialize_grads=True
    )
    named = {"result": result.detach()}
    named |= {f"gradient of {name}": g for name, g in zip(leaves, gradients, strict=True)}
    return {name: tensor.cpu() for name, tensor in named.items()}


def check(operator: Operator, case: Case, device: str) -> tuple[float, list[str]]:
    """Return the largest error as a share of its tolerance, and a line for each fault."""
    batch = make_batch(case)
    got = results(operator, functional, moved(batch, device))
    again = results(operator, functional, moved(batch, device))
    truth = results(operator, reference, moved(batch, torch.float64))
    worst, wrong = 0.0, []
    for name, expected in truth.items():
        actual = got[name].double()
        nan = expected.isnan()
        if not torch.equal(actual.isnan(), nan):
            wrong.append(f"{name} has NaN in other entries than the definition")
        difference = torch.where(nan, 0, actual - expected).abs()
        scale = max(1.0, expected.nan_to_num().abs().max().item()) if expected.numel() else 1.0
        error = difference.max().item() / scale if difference.numel() else 0.0
        tolerated = TOLERANCE[torch.float64 if case.dtype is torch.float64 else torch.float32]
        if name == "gradient of logits":
            tolerated = HALF_TOLERANCE.get(case.dtype, tolerated)
        worst = max(worst, error / tolerated)
        if not error <= tolerated:
            wrong.append(f"{name} is off by {error:.1e}")
        if not torch.equal(got[name].nan_to_num(), again[name].nan_to_num()):
            wrong.append(f"{name} differs from run to run")
    return worst, wrong


def check_bad_label(device: str) -> list[str]:
    """On a GPU, a label out of range makes the loss of its own sample NaN, and no other."""
    batch = moved(make_batch(Case(33, 10, 5)), device)
    batch["labels"][7] = 10
    loss = OPERATORS["forward_loss"](functional, batch)
    (grad,) = torch.autograd.grad(loss.nansum(), [batch["logits"]])
    others = torch.arange(33, device=device) != 7
    fine = loss[7].isnan() and loss[others].isfinite().all() and (grad[7] == 0).all()
    return [] if fine else ["a label out of range affects other samples"]


def checks(device: str) -> Iterator[tuple[str, bool]]:
    """Yield a line of the report for every operator, and whether it passed."""
    for name, operator in OPERATORS.items():
        worst, wrong = 0.0, []
        for case in CASES:
            if name == "forward_loss, mean" and not case.n:
                continue  # 0 / 0
            try:
                error, faults = check(operator, case, device)
            except RuntimeError as problem:
                error, faults = 0.0, [str(problem).splitlines()[0]]
            worst = max(worst, error)
            wrong += [f"  {case}: {fault}" for fault in faults]
        if device == "cuda" and name == "forward_loss":
            wrong += [f"  {fault}" for fault in check_bad_label(device)]
        verdict = "FAILED" if wrong else "ok"
        line = f"{verdict:<8}{name:<25}{len(CASES):>3} cases, worst error {worst:6.1%} of tolerance"
        yield "\n".join([line, *wrong]), not wrong


def call_times(
    step: Callable[[], object],
    device: str,
    repeats: int = 20,
    before: Callable[[], object] = lambda: None,
) -> list[float]:
    """Microseconds of each of `repeats` calls, without the time of `before`."""
    for _ in range(3):
        step()
    times = []
    for _ in range(repeats):
        before()
        if device == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            step()
            end.record()
            end.synchronize()
            times.append(1e3 * start.elapsed_time(end))
        else:
            begin = time.perf_counter()
            step()
            times.append(1e6 * (time.perf_counter() - begin))
    return times


def timings(device: str) -> Iterator[str]:
    """Yield a table of forward and backward times, against the definition in plain torch."""
    yield f"{'forward + backward, µs':<28}{'ptd_ext':>10}{'plain torch':>14}{'ratio':>8}"
    for case in TIMED_CASES[device]:
        batch: dict[str, Any] = {
            k: None if v is None else v.to(device) for k, v in make_batch(case).items()
        }
        batch["logits"].requires_grad_()
        for name in TIMED:
            ours, plain = (
                statistics.median(call_times(partial(_step, name, library, batch), device))
                for library in (functional, reference)
            )
            yield f"{name:<28}{ours:>10.1f}{plain:>14.1f}{plain / ours:>8.1f}   {case}"


def _step(name: str, library: Any, batch: dict[str, Any]) -> None:
    torch.autograd.grad(OPERATORS[name](library, batch).sum(), [batch["logits"]])


def choose_device() -> tuple[str, str]:
    """Return the device to test, and the reason for the choice."""
    if not torch.cuda.is_available():
        return "cpu", "No GPU was found: testing the CPU kernels."
    problem = devices.unsupported(torch.cuda.current_device())
    if problem is not None:
        return "cpu", f"{problem} Testing the CPU kernels."
    return "cuda", f"Testing the CUDA kernels, on {torch.cuda.get_device_name()}."


def sanitizer_hint(device: str) -> str:
    """How to repeat the checks of the CUDA kernels under compute-sanitizer; empty for the CPU."""
    if device != "cuda":
        return ""
    return f"\nTo check memory accesses too, run:\n  {SANITIZER}\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Print the report."""
    parser = CommandParser(prog="ptd-ext selftest", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), help="device to test (default: the GPU, if any)"
    )
    parser.add_argument("--no-timing", action="store_true", help="skip the timings")
    arguments = parser.parse_args(argv)
    device, reason = choose_device()
    if arguments.device:
        device = arguments.device
        reason = f"Testing the {device.upper()} kernels, as requested."
    print(info.report(info.collect()), reason, sep="\n\n", end="\n\n")
    failures = 0
    for line, passed in checks(device):
        print(line, flush=True)
        failures += not passed
    if not arguments.no_timing:
        print()
        for line in timings(device):
            print(line, flush=True)
    print(end=sanitizer_hint(device))
    if failures:
        print(f"\n{failures} of {len(OPERATORS)} operators failed.")
        sys.exit(1)
    print("\nAll operators passed.")


if __name__ == "__main__":
    main()
