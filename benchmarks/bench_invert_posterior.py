"""Measure `invert_posterior` on the CPU beside expectation maximisation with matrix products.

Both take the same rows in turns. Expectation maximisation takes up to 500 iterations for all rows,
until none changes by more than 1e-6. `quality_error` is the largest difference of a label's quality
from that at the maximum.

    python benchmarks/bench_invert_posterior.py [--out FILE]
"""

from __future__ import annotations

from functools import partial

import torch
from measure import in_turns, machine, parser_for, write_csv
from torch import Tensor

import ptd_ext
from ptd_ext.label_issues.without_training.inversion import invert_posterior

CASES = [(2, 20_000), (10, 20_000), (100, 2_000), (300, 500), (1000, 100)]  # classes, rows
REPEATS = 3


def problem(classes: int, rows: int) -> tuple[Tensor, Tensor, Tensor]:
    """P(given label | x) as a network estimates it, a transition matrix, and given labels."""
    g = torch.Generator().manual_seed(classes)
    noise = torch.randn(classes, classes, generator=g, dtype=torch.float64).mul(2).softmax(1)
    matrix = 0.7 * torch.eye(classes, dtype=torch.float64) + 0.3 * noise
    logits = 2 * torch.randn(rows, classes, generator=g, dtype=torch.float64)
    logits[torch.arange(rows), torch.arange(rows) % classes] += 6
    noisy = logits.softmax(1) @ matrix
    error = torch.randn(rows, classes, generator=g, dtype=torch.float64)
    probs = (noisy.log() + 0.5 * error).softmax(1)
    return probs, matrix, torch.multinomial(noisy, 1, generator=g)[:, 0]


def maximise_expectation(p: Tensor, matrix: Tensor) -> Tensor:
    """Multiply g by its expected share of the labels, again and again."""
    g = torch.lerp(p, torch.full_like(p, 1 / p.shape[1]), 0.01)
    for _ in range(500):
        new = g * ((p / (g @ matrix)) @ matrix.T)
        new /= new.sum(1, keepdim=True)
        change, g = (new - g).abs().amax(), new
        if change <= 1e-6:
            break
    return g


def quality(clean: Tensor, matrix: Tensor, labels: Tensor) -> Tensor:
    """P(true label = given label | x, given label)."""
    logits = clean.double().clamp(min=1e-30).log()
    return ptd_ext.clean_posterior(logits, labels, None, matrix).gather(1, labels[:, None])


def main(argv: list[str] | None = None) -> None:
    """Time every case."""
    arguments = parser_for(__doc__, "invert_posterior_cpu.csv").parse_args(argv)
    rows: list[dict[str, object]] = []
    for classes, count in CASES:
        probs, matrix, labels = problem(classes, count)
        best = quality(
            invert_posterior(probs, None, matrix, max_iter=5000, tol=1e-9), matrix, labels
        )
        single = probs.float(), None, matrix.float()
        steps = {
            "ptd_ext float32": partial(invert_posterior, *single),
            "ptd_ext float64": partial(invert_posterior, probs, None, matrix),
            "expectation maximisation": partial(maximise_expectation, probs, matrix),
        }
        times = in_turns(steps, REPEATS)
        for name, seconds in times.items():
            error = (quality(steps[name](), matrix, labels) - best).abs().max().item()
            row = {
                "classes": classes,
                "rows": count,
                "contestant": name,
                "us_per_row": round(1e6 * seconds / count, 2),
                "times_as_fast": round(times["expectation maximisation"] / seconds, 1),
                "quality_error": f"{error:.1e}",
                **machine(),
            }
            print(row, flush=True)
            rows.append(row)
    write_csv(arguments.out, rows)


if __name__ == "__main__":
    main()
