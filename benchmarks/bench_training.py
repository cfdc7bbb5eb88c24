"""Compare an epoch of `ptd-ext train` with plain training loops in PyTorch.

The trainer uses PTD-F with 10 parts. The plain loops use cross entropy, from a DataLoader over a
TensorDataset and from the same images in one tensor. LeNet-5 trains for an epoch on Fashion-MNIST,
ResNet-18 for some steps, with channels first or channels last, in float32 and under bfloat16
autocast. The loops alternate.

    python benchmarks/bench_training.py [--data FOLDER] [--out FILE]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from measure import in_turns, machine, parser_for, write_csv
from profile_training import stage_steps
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from ptd_ext.engine.training.train_step import order
from ptd_ext.engine.training.trainer import Trainer
from ptd_ext.experiments.datasets.problem import load_problem
from ptd_ext.experiments.presets import resolve

BATCH = 128
Epoch = Callable[[int], object]


def driver(trainer: Trainer) -> Epoch:
    """Run steps of the main stage of the trainer."""
    steps = stage_steps(trainer)

    def epoch(most: int) -> None:
        steps.begin_epoch(0)
        ids = order(0, 1, 0, steps.data.train_size)[: most * BATCH]
        for number, batch in enumerate(steps.batches(ids, 0)):
            steps.step(*batch, 0, number)
        steps.check_finite(0)

    return epoch


def plain_loops(trainer: Trainer, amp: bool, layout: torch.memory_format) -> dict[str, Epoch]:
    """Plain loops with the same network, images and labels, and with torch's SGD."""
    data = trainer.data
    images = data.train.fetch(torch.arange(data.train_size), trainer.device)
    images, labels = images.contiguous(memory_format=layout), data.train_labels
    network = trainer._network(1, 0, None).to(memory_format=layout).train()
    optimiser = torch.optim.SGD(network.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        optimiser.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=amp):
            logits = network(x)[1]
        F.cross_entropy(logits.float(), y).backward()
        optimiser.step()

    loader = DataLoader(TensorDataset(images, labels), BATCH, shuffle=True)

    def from_loader(most: int) -> None:
        for number, batch in enumerate(loader):
            if number == most:
                break
            step(*batch)

    def from_tensor(most: int) -> None:
        for ids in torch.randperm(len(labels))[: most * BATCH].split(BATCH):
            step(images[ids], labels[ids])

    return {"DataLoader": from_loader, "one tensor": from_tensor}


def measure(network: str, data: str, most: int, repeats: int) -> list[dict]:
    rows = []
    kinds = [("float32", False), ("float32", True)]
    if network != "lenet5":
        kinds.append(("bfloat16", True))
    for kind, channels_last in kinds:
        config = {"dataset": "fashion_mnist", "method": "PTD-F", "network": network, "data": data}
        amp = "bfloat16" if kind == "bfloat16" else "none"
        flags = {"amp": amp, "channels_last": channels_last, "batch_size": BATCH}
        settings = resolve(config, flags)
        trainer = Trainer(settings, load_problem(settings).data, torch.device("cpu"))
        layout = torch.channels_last if channels_last else torch.contiguous_format
        loops = plain_loops(trainer, kind == "bfloat16", layout)
        count = min(most, -(-trainer.data.train_size // BATCH))
        epochs = {"ptd_ext": driver(trainer), **loops}
        for epoch in epochs.values():
            epoch(min(count, 3))
        steps = {name: partial(epoch, count) for name, epoch in epochs.items()}
        seconds = in_turns(steps, repeats, warm=True)
        best = min(time_of for name, time_of in seconds.items() if name != "ptd_ext")
        for name, time_of in seconds.items():
            print(f"{network:<10}{kind:<10}{'channels last' if channels_last else 'by channel':<15}"
                  f"{name:<12}{count:5} steps{time_of:9.3f} s{time_of / best:8.3f}",
                  flush=True)  # fmt: skip
            rows.append(
                {
                    "network": network,
                    "dtype": kind,
                    "channels_last": channels_last,
                    "contestant": name,
                    "steps": count,
                    "seconds": round(time_of, 4),
                    "ratio_to_best_loop": round(time_of / best, 4),
                }
            )
    return rows


def main() -> None:
    parser = parser_for(__doc__, "training_cpu.csv")
    parser.add_argument("--data", default="", help="folder of the idx files of Fashion-MNIST")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--resnet-steps", type=int, default=2)
    options = parser.parse_args()
    rows = measure("lenet5", options.data, 10**9, options.repeats)
    if options.resnet_steps:
        rows += measure("resnet18", options.data, options.resnet_steps, 2)
    write_csv(options.out, [{**row, "batch": BATCH, **machine()} for row in rows])


if __name__ == "__main__":
    main()
