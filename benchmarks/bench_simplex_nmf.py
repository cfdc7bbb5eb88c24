"""Compare `ptd_ext.SimplexNMF` on the CPU with torch and scikit-learn.

The script times all in alternation, prints the speed-up over each peer, and writes all times to a
CSV. scikit-learn's NMF requires non-negative factors and does not constrain its weights to the
simplex: this is a disadvantage on activations of a network, and a small advantage on mixtures of
non-negative parts.

    python benchmarks/bench_simplex_nmf.py [--rows 60000] [--big-rows 1000000] [--out FILE]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import nmf_peers
import numpy as np
import torch
from measure import in_turns, machine, parser_for, peak_resident, write_csv
from torch import Tensor

from ptd_ext import SimplexNMF
from ptd_ext.ops.simplex import WeightProblem

FEATURES, PARTS, TURNS, STEPS = 512, 20, 20, 10
OURS = "ptd_ext"
PRODUCTS = "its matrix products alone"


def activations(rows: int, features: int = FEATURES, seed: int = 0) -> Tensor:
    """Features of ten clusters after a network of two layers, the typical input."""
    fixed = torch.Generator().manual_seed(0)
    centres = 2 * torch.randn(10, 30, generator=fixed)
    first = torch.randn(30, 256, generator=fixed) / 30**0.5
    second = torch.randn(256, features, generator=fixed) / 256**0.5
    generator = torch.Generator().manual_seed(seed)
    cluster = torch.randint(10, (rows,), generator=generator)
    inputs = centres[cluster] + torch.randn(rows, 30, generator=generator)
    return ((inputs @ first).clamp_(min=0) @ second).clamp_(min=0)


def mixtures(rows: int) -> Tensor:
    """Noisy mixtures of non-negative parts."""
    generator = torch.Generator().manual_seed(0)
    basis = torch.randn(PARTS, FEATURES, generator=generator).clamp_(min=0)
    weights = (2 * torch.randn(rows, PARTS, generator=generator)).softmax(-1)
    noise = 0.1 * torch.randn(rows, FEATURES, generator=generator)
    return (weights @ basis + noise).clamp_(min=0)


def report(what: str, seconds: dict[str, float], errors: dict[str, float]) -> Iterator[dict]:
    for name, time_of in seconds.items():
        ratio = time_of / seconds[OURS]
        error = f"{errors[name]:.8g}" if name in errors else ""
        print(f"{what:<30}{name:<26}{time_of:>9.4f} s{ratio:>9.2f}   {error}", flush=True)
        yield {
            "what": what,
            "contestant": name,
            "seconds": round(time_of, 5),
            "ratio": round(ratio, 2),
            "squared_error": error,
        }


def squared_error(x: Tensor, weights: Tensor, parts: Tensor) -> float:
    pairs = zip(x.split(8192), weights.split(8192), strict=True)
    return sum((a - h @ parts).square().sum(dtype=torch.float64).item() for a, h in pairs)


def weight_step(x: Tensor, repeats: int) -> Iterator[dict]:
    """Time ten weight steps of all rows with given G, b and initial weights."""
    parts = x[:PARTS] + 0.1
    gram, linear = parts @ parts.T, x @ parts.T
    start = torch.full_like(linear, 1 / PARTS)
    results: dict[str, Tensor] = {}

    def ours() -> None:
        problem = WeightProblem.of(gram[None])
        results[OURS] = problem.solve(linear[None], start[None], STEPS, 0.0)[0]

    def peer() -> None:
        results["torch, sorting"] = nmf_peers.torch_weights(gram, linear, start, STEPS)

    seconds = in_turns({OURS: ours, "torch, sorting": peer}, repeats)
    errors = {name: squared_error(x, h, parts) for name, h in results.items()}
    yield from report("weight step", seconds, errors)


def whole_fit(what: str, x: Tensor, repeats: int) -> Iterator[dict]:
    """Time a fit of twenty iterations from the same start."""
    errors: dict[str, float] = {}

    def ours() -> None:
        model = SimplexNMF(PARTS, max_iter=TURNS, tol=0, inner_steps=STEPS, random_state=0).fit(x)
        errors[OURS] = model.reconstruction_err_**2

    def torch_peer() -> None:
        found = nmf_peers.torch_fit(x, x[:PARTS] + 0.1, TURNS, STEPS)
        errors["torch, sorting"] = squared_error(x, *found)

    steps = {OURS: ours, PRODUCTS: lambda: matrix_products(x), "torch, sorting": torch_peer}
    for init in ("nndsvda", "random"):
        steps[f"scikit-learn, {init}"] = lambda init=init: sklearn_fit(x, init, errors)
    yield from report(what, in_turns(steps, repeats), errors)
    for init in ("nndsvda", "random"):
        yield from to_the_error_of(what, x, init, repeats)


def to_the_error_of(what: str, x: Tensor, init: str, repeats: int) -> Iterator[dict]:
    """Time the iterations needed to reach the error of scikit-learn after twenty."""
    errors: dict[str, float] = {}
    name = f"scikit-learn, {init}"
    sklearn_fit(x, init, errors)
    turns = 0
    while errors.get(OURS, np.inf) > errors[name] and turns < TURNS:
        turns += 1
        model = SimplexNMF(PARTS, max_iter=turns, tol=0, inner_steps=STEPS, random_state=0)
        errors[OURS] = model.fit(x).reconstruction_err_ ** 2
    steps = {OURS: lambda: model.fit(x), name: lambda: sklearn_fit(x, init, errors)}
    for row in report(f"{what}, {turns} turns", in_turns(steps, repeats), errors):
        yield {**row, "turns": turns if row["contestant"] == OURS else TURNS}


def matrix_products(x: Tensor) -> None:
    """Compute the products that every fit needs: XV and hᵀX per iteration, and hW at the end."""
    weights, parts = torch.full((len(x), PARTS), 1 / PARTS), x[:PARTS].contiguous()
    batch = (8 << 20) // (4 * x.shape[1])
    for turn in range(TURNS + 1):
        for h, rows in zip(weights.split(batch), x.split(batch), strict=True):
            rows @ parts.T
            h.T @ rows
            h.T @ h
            if turn == TURNS:
                h @ parts


def sklearn_fit(x: Tensor, init: str, errors: dict[str, float]) -> None:
    from sklearn.decomposition import NMF

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # twenty iterations do not converge
        model = NMF(PARTS, solver="cd", init=init, max_iter=TURNS, tol=0, random_state=0)
        model.fit(x.numpy())
    errors[f"scikit-learn, {init}"] = float(model.reconstruction_err_) ** 2


def from_memmap(rows: int) -> Iterator[dict]:
    """Fit a file larger than the memory in use, in a separate process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "x.npy"
        x = np.lib.format.open_memmap(file, "w+", np.float32, (rows, FEATURES))
        for begin in range(0, rows, 50_000):
            count = min(50_000, rows - begin)
            x[begin : begin + count] = activations(count, seed=begin)
        del x
        command = [sys.executable, __file__, "--fit-file", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, resident, error = map(float, done.stdout.splitlines()[-1].split())
    size = rows * FEATURES * 4
    print(
        f"{'memmap':<24}N = {rows:<20}{seconds:>9.4f} s, {resident / 2**30:.2f} GiB resident at "
        f"most, {size / 2**30:.2f} GiB of data",
        flush=True,
    )
    yield {
        "what": "memmap",
        "contestant": OURS,
        "rows": rows,
        "seconds": round(seconds, 3),
        "squared_error": f"{error:.8g}",
        "peak_resident_bytes": int(resident),
        "data_bytes": size,
    }


def fit_file(file: str) -> None:
    """The process that `from_memmap` starts."""
    x = np.load(file, mmap_mode="r")
    begin = time.perf_counter()
    model = SimplexNMF(PARTS, max_iter=TURNS, tol=0, random_state=0).fit(x)
    seconds = time.perf_counter() - begin
    print(seconds, peak_resident(), model.reconstruction_err_**2)


def main() -> None:
    parser = parser_for(__doc__, "simplex_nmf_cpu.csv")
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--big-rows", type=int, default=1_000_000, help="rows of the memory map")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--fit-file", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit_file:
        return fit_file(arguments.fit_file)

    about = machine()
    print(", ".join(f"{name} {value}" for name, value in about.items()))
    print(f"{'':<24}{'':<24}{'time':>11}{'ratio':>9}   squared error")
    x, repeats = activations(arguments.rows), arguments.repeats
    rows = [*weight_step(x, repeats), *whole_fit("whole fit", x, repeats)]
    rows += whole_fit("whole fit, mixtures", mixtures(arguments.rows), repeats)
    rows += from_memmap(arguments.big_rows)
    import sklearn

    about["scikit_learn"] = sklearn.__version__
    sizes = {"rows": arguments.rows, "features": FEATURES, "parts": PARTS}
    write_csv(arguments.out, [sizes | row | about for row in rows])


if __name__ == "__main__":
    main()
