"""Flags of the command line, made from the entries of the settings."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from ptd_ext.engine.settings.setting import Setting
from ptd_ext.engine.settings.settings import SECTIONS
from ptd_ext.experiments.presets import default_text
from ptd_ext.experiments.settings import ExperimentSettings

# The settings that people use, which the short help shows.
COMMON = (
    *("label", "dataset", "rate", "method", "against"),
    *("network", "epochs", "seed", "device", "verbose"),
)


def add_flags(
    parser: argparse.ArgumentParser,
    *,
    sections: Sequence[str] = tuple(SECTIONS),
    without: Sequence[str] = (),
) -> None:
    """Add a flag for every setting, by section. Settings that are not given stay unset."""
    for section in sections:
        group = parser.add_argument_group(section, SECTIONS[section])
        for name, entry in ExperimentSettings.entries().items():
            if entry.section == section and name not in without:
                _add_flag(group, entry)


def _add_flag(group: Any, entry: Setting) -> None:
    text, default = entry.help, default_text(entry.name)
    if default and "(default:" not in text:
        text += f" (default: {default})"
    options: dict[str, Any] = {
        "dest": entry.name,
        "default": argparse.SUPPRESS,
        "help": text.replace("%", "%%"),
    }
    if entry.type is bool:
        options["action"] = argparse.BooleanOptionalAction
    elif entry.item_type is not None:
        options |= {"type": entry.item_type, "nargs": "*", "metavar": "X"}
    elif entry.choices:
        options["choices"] = entry.choices
    else:
        options |= {"type": entry.type, "metavar": entry.type.__name__.upper()}
    group.add_argument(entry.flag, **options)


def flags_given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings among parsed arguments."""
    given = {n: value for n, value in vars(arguments).items() if n in ExperimentSettings.entries()}
    return {n: tuple(value) if isinstance(value, list) else value for n, value in given.items()}
