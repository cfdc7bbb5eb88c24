"""Compare estimators of T(x) by kind of noise: clean test accuracy and ranking of wrong labels.

The networks are a small perceptron on frozen features, and LeNet-5; the data have known clean
labels. A row is appended to the CSV when a run ends; a further call runs what is missing. Settings
are chosen on the seeds of --role choosing. The table uses those of --role judging, on which no
setting was chosen.

    python benchmarks/bench_transition.py --data ~/data --csv transition.csv
    python benchmarks/bench_transition.py --csv transition.csv --table
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import measure
import torch
import transition_data
import transition_noise
from torch import Tensor
from transition_peers import ORACLE, Oracle
from transition_table import append, read, table

from ptd_ext import clean_posterior
from ptd_ext.engine.methods.registry import METHODS
from ptd_ext.engine.rows.inputs import Inputs
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.engine.rows.split import split_data
from ptd_ext.engine.rows.training_data import TrainingData
from ptd_ext.engine.training.trainer import Trainer
from ptd_ext.experiments.datasets.problem import CleanReference, Problem
from ptd_ext.experiments.datasets.source_rows import SourceRows
from ptd_ext.experiments.presets import resolve
from ptd_ext.transition.estimate import EstimatedTransition

# More seeds are for cells in which five do not resolve half a point.
SEEDS = {
    "choosing": (0, 1, 2, *range(20, 30)),
    "judging": tuple(range(100, 105)),
    "more": tuple(range(105, 120)),
}
COMPARED = (
    "CE", "ELR", "Co-teaching", "Joint", "Forward-band", "PTD-F", "NN-F", "EM-F", "PTD-L", ORACLE
)  # fmt: skip
VALIDATION = 0.1


@dataclass(frozen=True)
class Cell:
    """A cell of the table: data, noise, rate and network."""

    data: str
    noise: str
    rate: float
    network: str = "features"

    def __str__(self) -> str:
        return f"{self.data} {self.noise} {100 * self.rate:g} {self.network}"


CELLS = [
    Cell("fashion_mnist", "instance", 0.5),
    Cell("fashion_mnist", "tanh_network", 0.4),
    Cell("fashion_mnist", "clusters", 0.4),
    Cell("fashion_mnist", "pairwise", 0.4),
    Cell("fashion_mnist", "long_tail", 0.4),
    Cell("hausa", "real", 0.0),
    Cell("news", "instance", 0.4),
    Cell("fashion_mnist", "instance", 0.3),
    Cell("fashion_mnist", "instance", 0.4),
    Cell("fashion_mnist", "symmetric", 0.4),
    Cell("fashion_mnist", "random_classes", 0.4),
    Cell("mnist", "instance", 0.5),
    Cell("svhn", "instance", 0.4),
    Cell("cifar10", "instance", 0.4),
    Cell("fashion_mnist", "instance", 0.5, "lenet5"),
    Cell("fashion_mnist", "instance", 0.3, "lenet5"),
    Cell("fashion_mnist", "instance", 0.4, "lenet5"),
    Cell("fashion_mnist", "symmetric", 0.4, "lenet5"),
    Cell("fashion_mnist", "pairwise", 0.4, "lenet5"),
    Cell("mnist", "instance", 0.5, "lenet5"),
    Cell("svhn", "instance", 0.4, "lenet5"),
    Cell("cifar10", "instance", 0.4, "lenet5"),
]

# A perceptron on features trains in seconds; LeNet-5 has the schedule of the fast preset.
FEATURES = {
    "epochs": 15,
    "milestones": (10, 13),
    "warm_up_epochs": 8,
    "joint_epochs": 10,
    "joint_soft_from": 5,
    "joint_final_epochs": 8,
    "ramp_epochs": 3,
}
LENET = {
    "epochs": 10,
    "milestones": (6, 9),
    "warm_up_epochs": 8,
    "joint_epochs": 8,
    "joint_soft_from": 4,
    "joint_final_epochs": 6,
    "ramp_epochs": 3,
}
SCHEDULE_SAMPLES = 18_000  # with fewer samples, more epochs give as many steps


def main(argv: list[str] | None = None) -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--csv", type=Path, required=True, help="CSV file to append to")
    parser.add_argument("--data", type=Path, help="folder with a sub-folder per data set")
    parser.add_argument("--role", choices=SEEDS, default="judging")
    parser.add_argument("--methods", nargs="+", default=list(COMPARED))
    parser.add_argument(
        "--cells", nargs="+", help="words of the names of cells to run (default: all)"
    )
    parser.add_argument(
        "--seeds", nargs="+", type=int, help="seeds to run (default: all of the role)"
    )
    parser.add_argument(
        "--set", nargs="*", default=[], metavar="NAME=VALUE", help="settings to change"
    )
    parser.add_argument("--name", default="", help="suffix of the methods with --set: METHOD:NAME")
    parser.add_argument("--table", action="store_true", help="print the means of the CSV")
    arguments = parser.parse_args(argv)
    if arguments.table:
        print(table(read(arguments.csv), arguments.role))
        return
    torch.set_num_threads(1)
    changes = {n: json.loads(v) for n, v in (text.split("=", 1) for text in arguments.set)}
    seeds = [s for s in SEEDS[arguments.role] if not arguments.seeds or s in arguments.seeds]
    loaded: dict[tuple[str, bool], transition_data.Samples] = {}
    for cell in CELLS:
        if arguments.cells and not any(word in str(cell) for word in arguments.cells):
            continue
        for seed in seeds:
            _seed(cell, seed, arguments, changes, loaded)


def _seed(
    cell: Cell, seed: int, arguments: argparse.Namespace, changes: dict[str, Any], loaded: dict
) -> None:
    """Run all methods of a cell and a seed on the same data, from one warmed-up network."""
    suffix = f":{arguments.name}" if arguments.name else ""
    rows = [row for row in read(arguments.csv) if row["role"] == arguments.role]
    done = {(row["cell"], int(row["seed"]), row["method"]) for row in rows}
    methods = [m for m in arguments.methods if (str(cell), seed, m + suffix) not in done]
    methods = [m for m in methods if not (cell.noise == "real" and m == ORACLE)]
    if not methods:
        return
    key = (cell.data, cell.network == "lenet5")
    if key not in loaded:
        loaded[key] = transition_data.load(cell.data, arguments.data, whole=key[1])
    problem, true_rows = make_problem(cell, loaded[key], seed)
    if ORACLE in methods:
        noisy, n_classes = problem.data.train_labels, problem.data.n_classes
        Oracle.columns = transition_noise.true_columns(true_rows, noisy, n_classes)
    with tempfile.TemporaryDirectory() as cache:
        for method in methods:
            start = time.process_time()
            size = problem.data.train_size
            settings = settings_of(cell, method, seed, cache, changes, size)
            trainer = Trainer(
                settings.for_training(problem.known_rate),
                problem.data,
                CPU,
                observer=CleanReference(problem),
            )
            trainer.train()
            row = {
                "cell": str(cell),
                "method": method + suffix,
                "seed": seed,
                "role": arguments.role,
                "accuracy": trainer.best.scores.observed["test_accuracy"],
                "accuracy_last": trainer.last.observed["test_accuracy"],
                "average_precision": list_precision(trainer, method, problem.train_clean),
                "realised_rate": 100 * problem.realised_rate,
                "estimated_rate": _estimated_rate(trainer),
                "validation_likelihood": trainer.best.scores.validation_likelihood,
                "cpu_seconds": time.process_time() - start,
                **measure.machine(),
            }
            append(arguments.csv, row)
            print(*list(row.values())[:7], flush=True)


CPU = torch.device("cpu")


def make_problem(
    cell: Cell, samples: transition_data.Samples, seed: int
) -> tuple[Problem, transition_noise.Rows]:
    """Make the noisy data that the trainer gets."""
    kind = cell.noise
    if kind == "long_tail":
        samples, kind = transition_data.long_tail(samples, 10, seed), "instance"
    clean, rows = samples.labels, None
    if kind == "real":
        noisy = samples.noisy
    else:
        source = samples.raw
        if cell.data == "news":
            # Raw features of text have a norm of 10, pixels one of thousands.
            source = source * 100
        rows = transition_noise.KINDS[kind](source, cell.rate, samples.classes, seed)
        noisy = transition_noise.draw(rows(clean), seed)
    order = torch.randperm(len(clean), generator=torch.Generator().manual_seed(seed))
    held = round(VALIDATION * len(clean))
    held_out, train = order[:held].sort().values, order[held:].sort().values
    whole, asked = rows, None if kind == "real" else cell.rate
    data, test = _training_data(samples, noisy, (train, held_out), cell.network == "lenet5")
    problem = Problem(
        name=str(cell),
        data=data,
        test=test,
        test_labels=samples.test_labels,
        train_clean=clean[train],
        noise_rows=None,
        realised_rate=(noisy != clean).double().mean().item(),
        asked_rate=asked,
        noisy=True,
        clean_test=True,
        source=SourceRows(
            (data.train, data.validation),
            (data.train_labels, data.validation_labels),
            (train, held_out),
        ),
    )

    def of_training(labels: Tensor) -> Tensor:
        everywhere = torch.zeros_like(clean)
        everywhere[train] = labels
        return whole(everywhere)[train]

    return problem, of_training


def _training_data(
    samples: transition_data.Samples, noisy: Tensor, positions: tuple[Tensor, Tensor], images: bool
) -> tuple[TrainingData, Inputs]:
    """Training and validation rows with their labels, and the test rows."""
    rows, test = samples.features, samples.test_features
    if images:
        rows, test = samples.raw, samples.test_raw
        preprocessing = Preprocessing.for_images(
            rows.shape[1:], samples.mean, samples.std, as_bytes=rows.dtype == torch.uint8
        )
    else:
        preprocessing = Preprocessing("table", rows.shape[1:], rows.shape[1])
    names = tuple(map(str, range(samples.classes)))
    data = split_data(rows, noisy, names, preprocessing, positions, channels_last=True)
    return data, Inputs(test, None, preprocessing, channels_last=True)


def settings_of(
    cell: Cell, method: str, seed: int, cache: str, changes: dict[str, Any], samples: int
) -> Any:
    """The fast preset; features have another schedule, which is longer for few samples."""
    given: dict[str, Any] = {"method": method, "seed": seed, "n_parts": 10, "progress": False}
    given |= {"dataset": "npz", "network": "mlp", "noise": "instance", "warm_up_cache": cache}
    longer = max(1, round(SCHEDULE_SAMPLES / samples))
    schedule = FEATURES if cell.network == "features" else LENET
    for name, value in schedule.items():
        several = isinstance(value, tuple)
        given[name] = tuple(longer * v for v in value) if several else longer * value
    if cell.network != "features":
        given["network"] = "lenet5"
    if cell.rate:
        given["rate"] = cell.rate
    given |= changes
    if METHODS[method].one_matrix:
        del given["n_parts"]
    return resolve(given, {})


@torch.no_grad()
def list_precision(trainer: Trainer, method: str, clean: Tensor) -> float:
    """The average precision in per cent of wrong labels, ranked by P(label is right)."""
    labels, t = trainer.data.train_labels, trainer.outputs.estimate
    logits = trainer.predict(trainer.network_of(trainer.best.network), "train").logits
    if method == ORACLE:
        posterior = (logits + Oracle.columns.clamp(min=1e-8).log()).softmax(1)
    elif t is not None:
        posterior = clean_posterior(logits, labels, t.weights, t.parts, t.slack)
    else:
        posterior = logits.softmax(1)
    right = posterior.gather(1, labels[:, None])[:, 0]
    wrong = (labels != clean)[right.argsort(stable=True)].double()
    precision = wrong.cumsum(0) / torch.arange(1, len(wrong) + 1)
    return 100 * ((precision * wrong).sum() / wrong.sum()).item()


def _estimated_rate(trainer: Trainer) -> float | str:
    t = trainer.outputs.estimate
    if t is None:
        return ""
    prior = trainer.data.train_labels.bincount() if t.class_prior is None else t.class_prior
    estimate = EstimatedTransition(parts=t.parts, class_prior=prior, n_samples=1, weights=t.weights)
    return 100 * estimate.noise_rate


if __name__ == "__main__":
    main()
