"""`ptd-ext noise`: noisy labels for a data set, in a file to share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ptd_ext.cli.errors import report_errors
from ptd_ext.experiments.datasets.problem import load_data, make_noise
from ptd_ext.experiments.flags import add_flags, flags_given
from ptd_ext.experiments.presets import resolve
from ptd_ext.experiments.settings import ExperimentSettings
from ptd_ext.experiments.toml import read_config
from ptd_ext.noise.kinds import KINDS
from ptd_ext.noise.labels import LabelNoise
from ptd_ext.utils.command_parser import CommandParser

DESCRIPTION = """\
Make noisy labels for a data set and write them to a safetensors file, with the distributions from
which they were drawn, the sample ids and the settings. The labels depend on seed, sample and
settings only. `ptd-ext train --noise-file FILE` trains on them."""

EXAMPLES = """\
examples:
  ptd-ext noise --dataset digits --rate 0.4 --out noise.safetensors
  ptd-ext noise --dataset fashion_mnist --rate 0.3 --seed 1 --out fashion-30-1.safetensors
  ptd-ext noise --dataset cifar10 --data ~/data --noise pairwise --out pair.safetensors"""


def main(argv: Sequence[str] | None = None) -> None:
    """Make the noise, write it and print a summary."""
    parser = CommandParser(
        prog="ptd-ext noise",
        usage="ptd-ext noise --out FILE [options]",
        description=DESCRIPTION,
        epilog=EXAMPLES,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="TOML file of settings")
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="safetensors file to write"
    )
    add_flags(
        parser, sections=("data",), without=("noise_file", "data_limit", "validation_fraction")
    )
    arguments = parser.parse_args(argv)
    with report_errors(parser):
        config = {} if arguments.config is None else read_config(arguments.config)
        settings = resolve(config, flags_given(arguments))
        noise = _make(settings, arguments.out)
        print(_summary(noise, settings, arguments.out))


def _make(settings: ExperimentSettings, out: Path) -> LabelNoise:
    if out.exists():
        raise FileExistsError(f"{out} exists and is not overwritten. Give another --out.")
    if settings.noise == "none":
        raise ValueError(f"--noise must be one of {', '.join(KINDS)}; got none.")
    dataset = load_data(settings)
    if dataset.noisy:
        raise ValueError(
            f"--dataset must have clean labels; those of {dataset.name} are noisy already."
        )
    noise = make_noise(dataset, settings)
    noise.save(out)
    return noise


def _summary(noise: LabelNoise, settings: ExperimentSettings, out: Path) -> str:
    lines = [
        f"{settings.noise} noise on {settings.dataset}, seed {settings.seed}: "
        f"{noise.realised_rate:.2%} of {len(noise.labels):,} labels are wrong "
        f"(requested: {settings.rate:.0%})"
    ]
    confusion = noise.confusion.double()
    share = confusion / confusion.sum(1, keepdim=True).clamp(min=1)
    if len(share) <= 20:
        lines.append("percentage of each class (row) by its noisy label (column):")
        lines += ["  ".join(f"{100 * value:3.0f}" for value in row) for row in share.tolist()]
    return "\n".join([*lines, f"written to {out}"])
