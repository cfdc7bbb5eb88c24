"""Compare forward and backward pass of `ptd_ext.forward_loss` on the CPU with torch.

The script times all in alternation, prints the speed-up over the fastest peer, and writes all times
to a CSV. There are two rows for ptd_ext: with prepared parts, as modules and estimators return
them, and with plain parts, whose columns every call copies. `F.cross_entropy`, which corrects
nothing, is the lower bound.

    python benchmarks/bench_transition_loss.py [--seconds 2] [--classes 10 100] [--out FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import peers
from nmf_peers import sorted_projection

from measure import interleaved, machine, peak_memory, quantiles, write_csv  # isort: skip
import torch
from torch import Tensor
from torch.nn import functional as F

import ptd_ext

SIZES = [
    (128, 10, 10),
    (128, 10, 20),
    (1024, 10, 20),
    (128, 14, 20),
    (128, 100, 20),
    (1024, 100, 20),
    (256, 1000, 20),
]
DENSE_SIZES = [(128, 10, 20), (128, 100, 20), (1024, 100, 20)]
LOOP_SIZES = [
    (128, 10, 10),
    (128, 10, 20),
    (128, 14, 20),
]  # at other sizes it takes seconds per step
MOST_ENTRIES = 1e8  # entries of T(x) for all samples; above, eager_full takes seconds
SLACK = {"none": 0.0, "small": 1e-3, "large": 0.1}
OURS, FLOOR, LOOP = "ptd_ext", "cross_entropy", "sample_loop"  # OURS: with prepared parts
COMPILED = "ptd_ext_compiled"  # called inside torch.compile
PLAIN = "ptd_ext_plain_parts"


def make_parts(count: int, classes: int, kind: str) -> Tensor:
    """Part transitions with 60 % of the mass on the diagonal.

    "projected" rows are least-squares estimates from noisy posteriors, projected onto the simplex
    as Eq. 4 does, most of them exactly zero off the diagonal; "dense" rows have no zeros.
    """
    if kind == "dense":
        rows = torch.randn(count, classes, classes).softmax(-1)
        return 0.6 * torch.eye(classes) + 0.4 * rows
    estimate = 0.6 * torch.eye(classes) + 0.15 * torch.randn(count, classes, classes)
    return sorted_projection(estimate)


def contestants(
    logits: Tensor, labels: Tensor, weights: Tensor, parts: Tensor, slack: Tensor | None, loop: bool
) -> dict[str, Callable[[], Tensor]]:
    """Every implementation of the loss, as a function without arguments."""
    arguments = (logits, labels, weights, parts, slack)
    prepared = ptd_ext.ops.prepare_parts(parts)
    losses = {
        OURS: lambda z, y, h, _, slack: ptd_ext.forward_loss(z, y, h, prepared, slack),
        COMPILED: torch.compile(
            lambda z, y, h, _, slack: ptd_ext.forward_loss(z, y, h, prepared, slack), dynamic=False
        ),
        PLAIN: ptd_ext.forward_loss,
        "eager_full": peers.eager_full,
        "eager_column": peers.eager_column,
        "compile_full": torch.compile(peers.eager_full, dynamic=False),
        "compile_column": torch.compile(peers.eager_column, dynamic=False),
    }
    if slack is not None and len(logits) * slack.numel() > MOST_ENTRIES:
        del losses["eager_full"]
    if loop:
        losses[LOOP] = peers.sample_loop
    named = {name: (lambda loss=loss: loss(*arguments)) for name, loss in losses.items()}
    named[FLOOR] = lambda: F.cross_entropy(logits, labels)
    return named


def measure_case(size: tuple[int, int, int], slack_kind: str, parts_kind: str, seconds: float):
    """All contestants at one size: rows for the CSV."""
    samples, classes, count = size
    torch.manual_seed(0)
    torch.compiler.reset()
    logits = torch.randn(samples, classes).requires_grad_()
    labels = torch.randint(classes, (samples,))
    weights = sorted_projection(0.5 * torch.randn(samples, count))
    parts = make_parts(count, classes, parts_kind)
    slack = None
    if slack_kind != "none":
        slack = (SLACK[slack_kind] * torch.randn(classes, classes)).requires_grad_()
    leaves = [logits] if slack is None else [logits, slack]
    losses = contestants(logits, labels, weights, parts, slack, size in LOOP_SIZES)

    def step(loss: Callable[[], Tensor]) -> Tensor:
        for leaf in leaves:
            leaf.grad = None
        result = loss()
        result.backward()
        return result.detach()

    def answer(run: Callable[[], Tensor]) -> Tensor:
        """The loss and its timed gradients as one row of numbers."""
        return torch.cat([run().view(1), *(leaf.grad.flatten() for leaf in leaves)])

    steps = {name: (lambda loss=loss: step(loss)) for name, loss in losses.items()}
    answers = {name: answer(run) for name, run in steps.items() if name != FLOOR}
    times = interleaved(steps, seconds)
    inputs = sum(t.numel() * t.element_size() for t in (logits, weights, parts))
    for name, run in steps.items():
        median, p20, p80 = quantiles(times[name])
        apart = 0.0 if name == FLOOR else (answers[name] - answers[OURS]).abs().max().item()
        yield {
            "samples": samples,
            "classes": classes,
            "parts": count,
            "parts_kind": parts_kind,
            "nonzero_share": round((parts != 0).float().mean().item(), 4),
            "slack": slack_kind,
            "contestant": name,
            "median_us": round(median, 2),
            "p20_us": round(p20, 2),
            "p80_us": round(p80, 2),
            "peak_bytes": peak_memory(run),
            "input_bytes": inputs,
            "same_loss": "floor" if name == FLOOR else ("yes" if apart <= 1e-4 else f"{apart:.1e}"),
        }


def summarise(rows: list[dict]) -> dict:
    """Ratios of one case, from its rows."""
    median = {row["contestant"]: row["median_us"] for row in rows}
    ours = median[OURS]
    rivals = {
        name: time for name, time in median.items() if name not in (OURS, COMPILED, PLAIN, FLOOR)
    }
    best = min(rivals, key=rivals.get)
    memory = next(row for row in rows if row["contestant"] == OURS)
    return {
        "median": median,
        "best": best,
        "ratio": rivals[best] / ours,
        "loop": median[LOOP] / ours if LOOP in median else None,
        "floor": ours / median[FLOOR],
        "compiled": rivals[best] / median[COMPILED],
        "plain": rivals[best] / median[PLAIN],
        "memory": memory["peak_bytes"] / memory["input_bytes"],
        "same": all(row["same_loss"] in ("yes", "floor") for row in rows),
    }


HEADER = (
    f"{'N':>5}{'C':>6}{'R':>4}  {'parts':<10}{'slack':<7}{'prepared':>10}{'plain':>10}"
    f"{'best peer':>11}  {'':<15}{'ratio':>6}{'plain':>7}{'compiled':>10}{'loop':>7}{'÷ CE':>6}"
    f"{'memory':>8}"
)


def line(key: tuple, s: dict) -> str:
    (samples, classes, parts), slack, kind = key
    loop = f"{s['loop']:.0f}" if s["loop"] else ""
    note = "" if s["same"] else "  losses differ"
    return (
        f"{samples:>5}{classes:>6}{parts:>4}  {kind:<10}{slack:<7}{s['median'][OURS]:>8.0f}us"
        f"{s['median'][PLAIN]:>8.0f}us{s['median'][s['best']]:>9.0f}us  {s['best']:<15}"
        f"{s['ratio']:>6.1f}{s['plain']:>7.1f}{s['compiled']:>10.1f}{loop:>7}{s['floor']:>6.2f}"
        f"{s['memory']:>8.2f}{note}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="seconds of timing per case (default: 2)"
    )
    parser.add_argument(
        "--classes",
        type=int,
        nargs="+",
        help="numbers of classes to time; other rows stay in the CSV (default: all)",
    )
    default = Path(__file__).parent / "results" / "transition_loss_cpu.csv"
    parser.add_argument("--out", type=Path, default=default, help="CSV file to write")
    arguments = parser.parse_args()

    cases = [(size, slack, "projected") for size in SIZES for slack in SLACK]
    cases += [(size, slack, "dense") for size in DENSE_SIZES for slack in SLACK]
    chosen = arguments.classes or sorted({size[1] for size in SIZES})
    cases = [case for case in cases if case[0][1] in chosen]
    about = machine()
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    print(HEADER)
    table = []
    for size, slack, kind in cases:
        rows = list(measure_case(size, slack, kind, arguments.seconds))
        print(line((size, slack, kind), summarise(rows)), flush=True)
        table += [row | about for row in rows]
    write_csv(arguments.out, table, keep=lambda row: int(row["classes"]) not in chosen)


if __name__ == "__main__":
    main()
