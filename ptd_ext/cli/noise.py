"""`ptd-ext noise`: noisy labels of a data set, in a file that can be shared."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from ptd_ext.noise.labels import LabelNoise, save_noise
from ptd_ext.train.commands.errors import report_errors
from ptd_ext.train.config.presets import resolve
from ptd_ext.train.config.settings import Settings
from ptd_ext.train.config.toml import add_flags, flags_given, read_config
from ptd_ext.train.data.problem import load_data, make_noise

DESCRIPTION = """\
Make noisy labels for a data set and keep them in a safetensors file: labels, the rows that they
were drawn from, ids and settings. They are a function of seed, sample and settings only, so the
file serves to share and to check, and for `ptd-ext train --noise-file FILE`."""

EXAMPLES = """\
examples:
  ptd-ext noise --dataset digits --rate 0.4 --out noise.safetensors
  ptd-ext noise --dataset fashion_mnist --rate 0.3 --seed 1 --out fashion-30-1.safetensors
  ptd-ext noise --dataset cifar10 --data ~/data --noise pairwise --out pair.safetensors"""


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, make the noise, print what it is like."""
    parser = argparse.ArgumentParser(
        prog="ptd-ext noise",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file of settings")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="file to write")
    add_flags(parser, sections=("data",), without=("noise_file", "data_limit", "validation"))
    arguments = parser.parse_args(argv)
    with report_errors(parser):
        config = {} if arguments.config is None else read_config(arguments.config)
        settings = resolve(config, flags_given(arguments))
        noise = _make(settings, arguments.out)
        print(_summary(noise, settings, arguments.out))


def _make(settings: Settings, out: Path) -> LabelNoise:
    if out.exists():
        raise FileExistsError(f"{out} is there already; it is not overwritten.")
    if settings.noise == "none":
        raise ValueError("noise must be instance, symmetric or pairwise; got none.")
    dataset = load_data(settings)
    if dataset.noisy:
        raise ValueError(f"The labels of {dataset.name} are noisy already.")
    noise = make_noise(dataset, settings)
    save_noise(noise, out)
    return noise


def _summary(noise: LabelNoise, settings: Settings, out: Path) -> str:
    confusion = noise.confusion.double()
    share = confusion / confusion.sum(1, keepdim=True).clamp(min=1)
    rows = ["  ".join(f"{100 * value:3.0f}" for value in row) for row in share.tolist()]
    return "\n".join(
        [
            f"{settings.noise} noise on {settings.dataset}, seed {settings.seed}: "
            f"{noise.realised_rate:.2%} of {len(noise.labels):,} labels are wrong "
            f"({settings.rate:.0%} asked)",
            *(
                ["per cent of class (row) labelled as class (column):", *rows]
                if len(rows) <= 20
                else []
            ),
            f"written to {out}",
        ]
    )
