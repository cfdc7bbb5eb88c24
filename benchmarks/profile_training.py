"""Time the parts of a train step: data, network, loss and optimiser.

LeNet-5 trains on 28 × 28 images in batches of 128 with PTD-R and 10 parts. The parts of the train
step are timed one by one. The gradient of the logits is computed separately; in the train step, it
is the first part of the backward pass. The script prints a table and writes a CSV.

    python benchmarks/profile_training.py [--threads 1] [--steps 200] [--out FILE]
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from measure import machine, parser_for, write_csv

from ptd_ext.engine.stage.stage import Batch
from ptd_ext.engine.stage.state import SampleTransitions
from ptd_ext.engine.training.train_step import TrainStep, order
from ptd_ext.engine.training.trainer import Trainer
from ptd_ext.experiments.datasets.problem import load_problem
from ptd_ext.experiments.presets import resolve

CLASSES = 10
SIZES = {"network": "lenet5", "dataset": "npz", "preset": "fast", "method": "PTD-R"}


def images(path: Path, samples: int = 20_000) -> Path:
    """Random images; the time does not depend on their values."""
    generator = np.random.default_rng(0)

    def draw(count: int) -> tuple[np.ndarray, np.ndarray]:
        x = generator.integers(256, size=(count, 28, 28), dtype=np.uint8)
        return x, generator.integers(CLASSES, size=count)

    (x, y), (x_test, y_test) = draw(samples), draw(1000)
    np.savez(path, x=x, y=y, x_test=x_test, y_test=y_test)
    return path


def training_steps(folder: Path) -> TrainStep:
    """The main stage of PTD-R on random images."""
    settings = resolve(SIZES, {"data": str(images(folder / "images.npz")), "noise": "symmetric"})
    return stage_steps(Trainer(settings, load_problem(settings).data, torch.device("cpu")))


def stage_steps(trainer: Trainer) -> TrainStep:
    """The main stage of PTD, with a synthetic T(x)."""
    generator = torch.Generator().manual_seed(0)
    size, parts = trainer.data.train_size, trainer.settings.n_parts
    weights = torch.rand(size, parts, generator=generator).softmax(-1)
    matrices = torch.randn(parts, CLASSES, CLASSES, generator=generator).softmax(-1)
    trainer.outputs.estimate = SampleTransitions(weights, weights[:0], matrices)
    stage = trainer.stages[1]
    stage.begin(trainer)
    return TrainStep(
        stage,
        [trainer._network(1, 0, None)],
        trainer.data,
        trainer.settings,
        trainer.device,
        trainer.ranks,
    )


def one_step(steps: TrainStep, ids: torch.Tensor) -> dict[str, float]:
    """Seconds of every part of a step."""
    seconds, marks = {}, [time.perf_counter()]

    def mark(name: str) -> None:
        marks.append(time.perf_counter())
        seconds[name] = marks[-1] - marks[-2]

    network, (optimiser,) = steps.networks[0], steps.optimisers
    inputs = steps.data.train.fetch(ids, steps.device)
    labels = steps.data.train_labels[ids]
    mark("data")
    logits = network(inputs)[1]
    mark("network, forward")
    leaf = logits.detach().requires_grad_()
    (loss,) = steps.stage.losses(Batch(ids, labels, 0, 0), [leaf])
    loss.backward()
    mark("loss, forward and backward")
    optimiser.zero_grad()
    logits.backward(leaf.grad)
    mark("network, backward")
    optimiser.step()
    mark("optimiser")
    return seconds


def whole_steps(steps: TrainStep, batches: list[torch.Tensor]) -> float:
    """Median seconds of a whole train step, to verify that no part is missing."""
    found = []
    start = time.perf_counter()
    for number, batch in enumerate(steps.batches(torch.cat(batches), 0)):
        steps.step(*batch, 0, number)
        end = time.perf_counter()
        found.append(end - start)
        start = end
    return statistics.median(found)


def main() -> None:
    parser = parser_for(__doc__, "training_step_cpu.csv")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--steps", type=int, default=140, help="maximum number of steps, within one epoch"
    )
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        steps = training_steps(Path(folder))
    steps.begin_epoch(0)
    ids = order(0, 1, 0, steps.data.train_size)
    batches = list(ids.split(steps.stage.batch_size))[: options.steps]
    for ids in batches[:10]:
        one_step(steps, ids)
    pieces = [one_step(steps, ids) for ids in batches]
    whole = whole_steps(steps, batches)
    medians = {name: statistics.median(p[name] for p in pieces) for name in pieces[0]}
    total = sum(medians.values())
    rows = []
    print(f"{'':<28}{'µs':>9}{'share':>8}")
    for name, seconds in [*medians.items(), ("sum", total), ("the driver's step", whole)]:
        print(f"{name:<28}{1e6 * seconds:9.0f}{100 * seconds / total:7.1f} %")
        rows.append({"piece": name, "seconds": f"{seconds:.6g}", "share": f"{seconds / total:.4f}"})
    write_csv(options.out, [{**row, **machine()} for row in rows])


if __name__ == "__main__":
    main()
