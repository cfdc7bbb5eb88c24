"""`ptd-ext train`: one method on one data set, or two to compare."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ptd_ext.train.commands.failures import told_in_a_sentence
from ptd_ext.train.config import add_flags, flags_given, read_config
from ptd_ext.train.methods import NAMES
from ptd_ext.train.presets import resolve
from ptd_ext.train.session import Place, new_folder, train

DEFAULT = Path(__file__).parent.parent / "default.toml"

DESCRIPTION = """\
Train a classifier on noisy labels and test it on clean ones.

Without any argument: scikit-learn's digits, 40 % of the labels wrong in ways that depend on the
image, PTD beside plain cross entropy, on the CPU, in about a minute."""

EXAMPLES = """\
examples:
  ptd-ext train
  ptd-ext train --data fashion_mnist --rate 0.5 --method PTD-F
  ptd-ext train --data cifar10 --data-root ~/data --preset paper --method PTD-R-V --amp float16
  ptd-ext train --data npz --data-root my.npz --noise none --method PTD-R-V
  ptd-ext train --config run.toml --out runs/mine       everything a flag sets, in a TOML file
  ptd-ext train --config runs/mine/settings.toml --out runs/mine --resume
  torchrun --nproc-per-node=2 -m ptd_ext train --data mnist --data-root ~/data

A setting comes from the flags, else from --config, else from the method, the preset and the data
set (in this order), else from its default. The run's folder keeps all of them in settings.toml, a
record per epoch in metrics.jsonl, a checkpoint, and at the end result.json, the chosen network,
the learned T(x), and in labels.csv how likely each training label is right, and what it should be.
Noisy validation data choose the epoch; clean test data only report."""


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, train, print."""
    parser = parser_of_train()
    arguments = parser.parse_args(argv)
    if arguments.list:
        print("\n".join(NAMES))
        return
    with told_in_a_sentence(parser, arguments.out):
        _train(arguments)


def parser_of_train() -> argparse.ArgumentParser:
    """With a flag for every setting."""
    parser = argparse.ArgumentParser(
        prog="ptd-ext train",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file of settings")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of the run; a new one in runs/"
    )
    parser.add_argument("--resume", action="store_true", help="go on from --out's last checkpoint")
    parser.add_argument("--list", action="store_true", help="name the methods, and end")
    add_flags(parser)
    return parser


def _train(arguments: argparse.Namespace) -> None:
    flags = flags_given(arguments)
    config = {}
    if arguments.config is not None:
        config = read_config(arguments.config)
    elif "data" not in flags and not arguments.resume:
        config = read_config(DEFAULT)
    elif arguments.resume:
        if arguments.out is None:
            raise ValueError("--resume needs --out, the folder of the run to go on with.")
        kept = arguments.out / "settings.toml"
        config = read_config(kept) if kept.exists() else {}
    settings = resolve(config, flags)
    place = Place.of(settings)
    name = f"{settings.data}-{settings.method}-{settings.rate:g}-{settings.seed}"
    out = new_folder(name) if arguments.out is None else arguments.out
    results = []
    runs = [(settings, out)]
    if settings.against:
        other = resolve(
            {**config, "against": ""}, {**flags, "method": settings.against, "against": ""}
        )
        runs.insert(0, (other, out / f"against-{settings.against}"))
    for mine, folder in runs:
        results.append(train(mine, folder, place, resume=arguments.resume))
    if place.ranks.first:
        print(_table(results))
        print(f"in {out}")
    place.ranks.leave()


def _table(results: list[dict]) -> str:
    lines = [
        "",
        f"{'':<14}clean test accuracy, at the epoch chosen on noisy validation | last epoch",
    ]
    lines += [
        f"{r['method']:<14}{r['test_accuracy']:6.2f} %  |  {r['test_accuracy_last']:6.2f} %"
        for r in results
    ]
    return "\n".join(lines)
