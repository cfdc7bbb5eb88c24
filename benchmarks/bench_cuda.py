"""The CUDA operators against the least time that a V100 can take for them.

    python benchmarks/bench_cuda.py [--csv benchmarks/results/cuda.csv]

For every operator, pass and size (N, C, R): the bytes that must move, the time in which 900 GB/s
moves them, and the time in which 15.7 TFLOP/s do the arithmetic that no way around it is known
for; the larger of the two is the bound. Without a GPU that is all. With one, the operator is
measured too, next to the definition in plain torch (eager) and torch.compile of it, with the
caches emptied before every call.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from measure import quantiles, write_csv

import ptd_ext
from ptd_ext import functional, reference
from ptd_ext.selftest import OPERATORS, Case, call_times, make_batch

BANDWIDTH, ARITHMETIC = 900e9, 15.7e12  # V100: bytes, and float32 operations, in a second
SIZES = [(65_536, 10, 20), (65_536, 14, 20), (8_192, 100, 20), (256, 1000, 20)]
SLACK = 0.01
TIMED = OPERATORS | {
    "project_transition": lambda library, batch: library.project_transition(batch["parts"])
}


class Work(NamedTuple):
    """What a pass cannot do without: numbers of four bytes moved, and multiply-adds."""

    numbers: int
    multiply_adds: int

    @property
    def bytes_us(self) -> float:
        return 4e6 * self.numbers / BANDWIDTH

    @property
    def arithmetic_us(self) -> float:
        return 2e6 * self.multiply_adds / ARITHMETIC

    @property
    def bound_us(self) -> float:
        return max(self.bytes_us, self.arithmetic_us)


def passes(name: str, n: int, c: int, r: int, slack: bool) -> dict[str, Work]:
    """Forward, and backward to the logits alone (project_transition: to the matrix)."""
    if name == "project_transition":
        return {"forward": Work(2 * n * c * c, n * c * c), "backward": Work(3 * n * c * c, 0)}
    # Logits and weights are read by every pass; with slack it, and the row sums [N, C] that the
    # forward pass leaves for the backward pass.
    common = n * c + n * r + (c * c + n * c if slack else 0)
    column, matrix = n * r * c, n * r * c * c
    if name == "noisy_posterior":
        common += r * c * c
        walks = 2 if slack else 1  # through T(x): one for the row sums, one for the result
        return {
            "forward": Work(common + n * c, walks * matrix),
            "backward": Work(common + 2 * n * c, matrix),
        }
    # Labels of eight bytes, and the columns that they name.
    common += 2 * n + min(n, c) * r * c
    whole = r * c * c - min(n, c) * r * c if slack else 0  # the other columns, for the row sums
    output = n * c if name == "clean_posterior" else 0
    return {
        "forward": Work(common + whole + output, matrix if slack else column),
        "backward": Work(common + output + n * c, column),
    }


def settings() -> list[tuple[str, Case]]:
    names = ("forward_loss, mean", "reweight_loss, attached", "clean_posterior", "noisy_posterior")
    rows = [
        (name, Case(*size, slack)) for size in SIZES for slack in (None, SLACK) for name in names
    ]
    return rows + [("project_transition", Case(*size)) for size in SIZES[:3]]


def measured(name: str, case: Case, device: str, repeats: int) -> dict[str, tuple[float, ...]]:
    """Median, 20th and 80th percentile, in microseconds, of each implementation and pass."""
    batch: dict[str, Any] = {
        key: None if tensor is None else tensor.to(device)
        for key, tensor in make_batch(case).items()
    }
    leaf = "logits"
    if name == "project_transition":
        leaf = "parts"  # a matrix for every sample here
        batch["parts"] = torch.rand(case.n, case.c, case.c, device=device)
    batch[leaf].requires_grad_()
    operator = TIMED[name]
    eager = partial(operator, reference)
    peers = {
        "ptd_ext": partial(operator, functional),
        "eager": eager,
        "compile": torch.compile(eager, dynamic=False),
    }
    # Larger than any cache; and while it is written the calls after it queue up, so that kernels
    # follow each other without a gap.
    flush = torch.empty(2**26 if device == "cuda" else 1, device=device)
    result = {}
    for peer, call in peers.items():
        grad = torch.randn_like(call(batch))

        def both(call: Callable = call, grad: torch.Tensor = grad) -> None:
            torch.autograd.grad(call(batch), [batch[leaf]], grad)

        for what, step in (("forward", partial(call, batch)), ("forward+backward", both)):
            times = call_times(step, device, repeats, before=flush.zero_)
            result[f"{peer} {what}"] = quantiles(times)
    torch.compiler.reset()
    return result


def rows_of(name: str, case: Case, device: str | None, repeats: int) -> list[dict[str, object]]:
    work = passes(name, case.n, case.c, case.r, bool(case.slack))
    times = measured(name, case, device, repeats) if device else {}
    rows = []
    for what in ("forward", "forward+backward"):
        needed = [work[part] for part in what.split("+")]
        row: dict[str, object] = {
            "operator": name,
            "N": case.n,
            "C": case.c,
            "R": case.r,
            "slack": case.slack or 0,
            "pass": what,
            "megabytes": round(4e-6 * sum(part.numbers for part in needed), 2),
            "bytes_us": round(sum(part.bytes_us for part in needed), 1),
            "arithmetic_us": round(sum(part.arithmetic_us for part in needed), 1),
        }
        for peer in ("ptd_ext", "eager", "compile") if times else ():
            median, p20, p80 = times[f"{peer} {what}"]
            row |= {f"{peer}_us": median, f"{peer}_p20": p20, f"{peer}_p80": p80}
        if times:
            bound = sum(part.bound_us for part in needed)
            row["times_the_bound"] = times[f"ptd_ext {what}"][0] / bound
        rows.append(row)
    return rows


def line(row: dict[str, object]) -> str:
    size = f"({row['N']}, {row['C']}, {row['R']})" + (" slack" if row["slack"] else "")
    text = (
        f"{row['operator']:<24}{size:<24}{row['pass']:<18}{row['megabytes']:>8.1f}"
        f"{row['bytes_us']:>9.1f}{row['arithmetic_us']:>12.1f}"
    )
    if "ptd_ext_us" in row:
        text += "".join(f"{row[f'{peer}_us']:>10.1f}" for peer in ("ptd_ext", "eager", "compile"))
        text += f"{row['times_the_bound']:>8.2f}"
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--csv", type=Path, help="also write the table to this file")
    parser.add_argument("--repeats", type=int, default=50, help="timed calls of each step")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else None
    about = {"python": platform.python_version(), "torch": torch.__version__}
    about |= {"ptd_ext": ptd_ext.__version__}
    if device:
        about |= {"device": torch.cuda.get_device_name(), "cuda": torch.version.cuda}
    else:
        print("No GPU was found: the bounds alone, nothing was measured.")
    print(", ".join(f"{key} {value}" for key, value in about.items()), end="\n\n")
    head = (
        f"{'operator':<24}{'(N, C, R)':<24}{'pass':<18}{'MB':>8}{'bytes µs':>9}{'arithm. µs':>12}"
    )
    if device:
        head += f"{'ptd_ext':>10}{'eager':>10}{'compile':>10}{'/bound':>8}"
    print(head)
    rows = []
    for name, case in settings():
        for row in rows_of(name, case, device, arguments.repeats):
            print(line(row), flush=True)
            rows.append(row | about)
    if arguments.csv:
        write_csv(arguments.csv, rows)


if __name__ == "__main__":
    main()
