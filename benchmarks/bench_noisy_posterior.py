"""Compare `ptd_ext.ops.noisy_posterior` on the CPU with torch, forward and with gradients.

Without slack, the peers are the products that define it; with slack, they form the full T(x). The
script times all in alternation, prints the speed-up over the fastest peer, and writes a CSV.

    python benchmarks/bench_noisy_posterior.py [--seconds 2] [--classes 10 100] [--out FILE]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from bench_transition_loss import make_parts
from nmf_peers import sorted_projection

from measure import interleaved, machine, quantiles, write_csv  # isort: skip
import torch
from torch import Tensor

import ptd_ext

SIZES = [(128, 10, 20), (1024, 10, 20), (128, 100, 20), (1024, 100, 20), (256, 1000, 20)]
REVISED = [(slack, kind) for slack in ("small", "large") for kind in ("projected", "dense")]
CASES = [("none", "projected"), *REVISED]
SLACK = {"small": 1e-3, "large": 0.1}
# The tensors whose gradients a step computes; slack is one of them if there is slack.
PASSES = {"forward": (), "logits": ("logits",), "all": ("logits", "weights", "parts")}
OURS = "ptd_ext"
MOST_ENTRIES = 1e8  # entries of T(x) for all samples; with more, a step of the peers takes seconds


def one_product(logits: Tensor, weights: Tensor, parts: Tensor, slack: None) -> Tensor:
    outer = weights[:, :, None] * logits.softmax(-1)[:, None, :]
    return outer.flatten(1) @ parts.flatten(0, 1)


def whole_matrix(logits: Tensor, weights: Tensor, parts: Tensor, slack: Tensor) -> Tensor:
    matrix = (weights @ parts.flatten(1)).view(len(logits), *slack.shape) + slack
    clamped = matrix.clamp(min=0)
    entries = logits.softmax(-1) / clamped.sum(-1)
    return torch.bmm(entries.unsqueeze(1), clamped).squeeze(1)


def contestants(slack: Tensor | None) -> dict[str, Callable[..., Tensor]]:
    if slack is None:
        return {OURS: ptd_ext.ops.noisy_posterior, "one_product": one_product}
    return {
        OURS: ptd_ext.ops.noisy_posterior,
        "whole_matrix": whole_matrix,
        "whole_matrix_compiled": torch.compile(whole_matrix, dynamic=False),
    }


def measure_case(size: tuple[int, int, int], slack_kind: str, parts_kind: str, seconds: float):
    """Rows for the CSV: every pass of every implementation at one size."""
    samples, classes, count = size
    torch.manual_seed(0)
    torch.compiler.reset()
    tensors = {
        "logits": torch.randn(samples, classes),
        "weights": sorted_projection(0.5 * torch.randn(samples, count)),
        "parts": make_parts(count, classes, parts_kind),
    }
    slack = None if slack_kind == "none" else SLACK[slack_kind] * torch.randn(classes, classes)
    outer = torch.randn(samples, classes)

    def step(function: Callable[..., Tensor], names: tuple[str, ...]) -> Callable[[], list[Tensor]]:
        inputs = {n: t.clone().requires_grad_(n in names) for n, t in tensors.items()}
        last = None if slack is None else slack.clone().requires_grad_(bool(names))
        leaves = [t for t in (*inputs.values(), last) if t is not None and t.requires_grad]

        def run() -> list[Tensor]:
            result = function(*inputs.values(), last)
            return [result, *(torch.autograd.grad(result, leaves, outer) if leaves else ())]

        return run

    for kind, names in PASSES.items():
        steps = {n: step(function, names) for n, function in contestants(slack).items()}
        expected = steps[OURS]()
        times = interleaved(steps, seconds)
        best = min(quantiles(t)[0] for name, t in times.items() if name != OURS)
        for name, run in steps.items():
            median, p20, p80 = quantiles(times[name])
            apart = max(
                ((a - b).abs().max() / b.abs().max().clamp(min=1)).item()
                for a, b in zip(run(), expected, strict=True)
            )
            yield {
                "samples": samples,
                "classes": classes,
                "parts": count,
                "parts_kind": parts_kind,
                "slack": slack_kind,
                "gradients": kind,
                "contestant": name,
                "median_us": round(median, 2),
                "p20_us": round(p20, 2),
                "p80_us": round(p80, 2),
                "times_faster_than_best_peer": round(best / median, 3) if name == OURS else "",
                "same_result": "yes" if apart <= 1e-4 else f"{apart:.1e}",
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="seconds per case and pass (default: 2)"
    )
    parser.add_argument("--threads", type=int, default=2)
    default = Path(__file__).parent / "results" / "noisy_posterior_cpu.csv"
    parser.add_argument("--out", type=Path, default=default, help="CSV file to write")
    parser.add_argument(
        "--classes", type=int, nargs="+", help="numbers of classes; other rows stay in the CSV"
    )
    arguments = parser.parse_args()
    chosen = arguments.classes or sorted({size[1] for size in SIZES})
    torch.set_num_threads(arguments.threads)
    about = machine()
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    table = []
    for size in (size for size in SIZES if size[1] in chosen):
        for slack, kind in CASES:
            if kind == "dense" and size[0] * size[1] ** 2 > MOST_ENTRIES:
                continue
            rows = list(measure_case(size, slack, kind, arguments.seconds))
            ours = [row for row in rows if row["contestant"] == OURS]
            faster = "times_faster_than_best_peer"
            ratios = "".join(
                f"  {row['gradients']} {row['median_us']:.0f}us {row[faster]}" for row in ours
            )
            note = "" if all(row["same_result"] == "yes" for row in rows) else "  results differ"
            print(f"{size!s:>17} {kind:<10}{slack:<6}{ratios}{note}", flush=True)
            table += [row | about for row in rows]
    write_csv(arguments.out, table, keep=lambda row: int(row["classes"]) not in chosen)


if __name__ == "__main__":
    main()
