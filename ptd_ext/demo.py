"""Trains a small classifier on noisy digits, with and without the loss: `ptd-ext demo`.

Handwritten digits get wrong labels in a way that depends on the image: an image is a mixture of
parts, every part confuses digits in its own way, and the mixture's transition matrix T(x) decides
the label. The same network is then trained with cross entropy, with the forward loss through the
average matrix, and with the forward loss through T(x) itself.

T(x) is known here, as the noise was made from it: this shows what the loss does with it, not how to
estimate it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import ptd_ext

CLASSES = 10


def main(argv: Sequence[str] | None = None) -> None:
    """Run the demonstration and print a table."""
    parser = argparse.ArgumentParser(
        prog="ptd-ext demo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--noise", type=float, default=0.45, help="rate of wrong labels (%(default)s)"
    )
    parser.add_argument("--parts", type=int, default=5, help="number of parts (%(default)s)")
    parser.add_argument("--epochs", type=int, default=40, help="of training (%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="runs to average over (%(default)s)")
    options = parser.parse_args(argv)
    if not 0 <= options.noise < 1:
        parser.error(f"--noise must be at least 0 and less than 1, not {options.noise}")
    for name in ("parts", "epochs", "seeds"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1, not {getattr(options, name)}")
    try:
        images, labels = load_digits()
    except ModuleNotFoundError:
        parser.exit(1, 'the demonstration needs scikit-learn: pip install "ptd_ext[train]"\n')
    run(images, labels, options)


def run(images: Tensor, labels: Tensor, options: argparse.Namespace) -> dict[str, list[float]]:
    """Every method on every seed; returns accuracies in per cent by method."""
    print(f"{len(images)} digits, {options.noise:.0%} of the training labels to be wrong")
    results: dict[str, list[float]] = {}
    for seed in range(options.seeds):
        torch.manual_seed(seed)
        order = torch.randperm(len(images))
        train, test = order[len(order) // 5 :], order[: len(order) // 5]
        weights = part_weights(images, options.parts)[train]
        parts = part_transitions(options.parts, options.noise)
        noisy = draw_labels(weights, parts, labels[train])
        wrong = (noisy != labels[train]).float().mean()
        print(f"\nseed {seed}: {wrong:.1%} of {len(train)} training labels are wrong")

        average = ptd_ext.transition_matrix(weights, parts).mean(0)
        methods: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
            "cross entropy": lambda z, n, y=noisy: F.cross_entropy(z, y[n]),
            "forward_loss, one matrix": lambda z, n, y=noisy, t=average: ptd_ext.forward_loss(
                z, y[n], None, t
            ),
            "forward_loss, T(x)": lambda z, n, y=noisy, h=weights, p=parts: ptd_ext.forward_loss(
                z, y[n], h[n], p
            ),
        }
        for name, loss in methods.items():
            start = time.perf_counter()
            network = train_network(images[train], loss, options.epochs, seed)
            with torch.no_grad():
                hits = network(images[test]).argmax(1) == labels[test]
            accuracy = 100 * hits.float().mean().item()
            results.setdefault(name, []).append(accuracy)
            seconds = time.perf_counter() - start
            print(f"  {name:<26}{accuracy:6.1f} % of clean test labels right   {seconds:5.1f} s")
    print("\nMean over the seeds, clean test accuracy")
    for name, values in results.items():
        print(f"  {name:<26}{sum(values) / len(values):6.1f} %")
    return results


def load_digits() -> tuple[Tensor, Tensor]:
    """scikit-learn's 8 × 8 digits as rows with values in 0 … 1, and their classes."""
    from sklearn import datasets

    digits = datasets.load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    return images, torch.tensor(digits.target, dtype=torch.int64)


def part_weights(images: Tensor, parts: int) -> Tensor:
    """h(x) on the simplex: how near an image is to each of a few images picked at random."""
    centres = images[torch.randperm(len(images))[:parts]]
    distance = torch.cdist(images, centres)
    return (-4 * (distance - distance.mean(1, keepdim=True))).softmax(1)


def part_transitions(parts: int, noise: float) -> Tensor:
    """For every part and digit, one digit that it is often taken for."""
    matrices = (1 - noise) * torch.eye(CLASSES).repeat(parts, 1, 1)
    for matrix in matrices:
        taken_for = (torch.arange(CLASSES) + torch.randint(1, CLASSES, (CLASSES,))) % CLASSES
        matrix[torch.arange(CLASSES), taken_for] += noise
    return matrices


def draw_labels(weights: Tensor, parts: Tensor, labels: Tensor) -> Tensor:
    """A label from row y of T(x) for every sample."""
    matrices = ptd_ext.transition_matrix(weights, parts)
    return matrices[torch.arange(len(labels)), labels].multinomial(1).squeeze(1)


def train_network(
    images: Tensor, loss: Callable[[Tensor, Tensor], Tensor], epochs: int, seed: int
) -> nn.Module:
    """An ordinary training loop; `loss` takes logits and the numbers of their samples."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, CLASSES))
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-3, weight_decay=1e-4)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(128):
            optimiser.zero_grad()
            loss(network(images[batch]), batch).backward()
            optimiser.step()
    return network.eval()


if __name__ == "__main__":
    main()
