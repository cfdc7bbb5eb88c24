"""Settings from flags and TOML files, and back to a file."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ptd_ext.train.config.settings import SECTIONS, Settings, describe
from ptd_ext.utils.atomic_files import write_text
from ptd_ext.utils.bounded_files import ContentError, read_bytes, reading, shortened

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["add_flags", "flags_given", "read_config", "write_config", "write_settings"]

# A file of all settings has 3 KB. The time that tomllib takes grows with the square of the length
# of a dotted key, and settings have none.
_MAX_FILE, _MAX_DOTS = 1 << 16, 64
# Whole numbers are counts and seeds, which torch keeps in 64 bits.
_MAX_NUMBER = 2**63 - 1
_NAMES = tuple(field.name for field in dataclasses.fields(Settings))


def read_config(path: str | Path) -> dict[str, Any]:
    """Read the settings of a TOML file, with or without sections."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"There is no configuration file {path}.")
    with reading(path, "a TOML file"):
        text = read_bytes(path, _MAX_FILE).decode("utf-8")
        for number, line in enumerate(text.splitlines(), 1):
            if line.count(".") > _MAX_DOTS:
                raise ContentError(
                    f"must have at most {_MAX_DOTS} dots in a line; line {number} has more"
                )
        document = tomllib.loads(text)
    values: dict[str, Any] = {}
    for name, value in document.items():
        table = value if isinstance(value, dict) else {name: value}
        if isinstance(value, dict) and name not in SECTIONS:
            sections = ", ".join(SECTIONS)
            raise ValueError(f"{path} has a section [{shortened(name)}]; there are {sections}.")
        for key, entry in table.items():
            values[key] = _checked(key, entry, str(path))
    return values


def _checked(name: str, value: Any, source: str) -> Any:
    if name not in _NAMES:
        raise ValueError(f"{source} sets {shortened(name)}, which is no setting. {_nearest(name)}")
    kind = describe(name)["type"]
    numbers = value if isinstance(value, (list, tuple)) else [value]
    if any(type(number) is int and abs(number) > _MAX_NUMBER for number in numbers):
        raise ValueError(f"{source}: {name} must be at most {_MAX_NUMBER}; got a larger number.")
    if kind is float and type(value) is int:
        return float(value)
    if name == "class_prior" and isinstance(value, list):
        return ", ".join(map(str, value))  # the shares, as the flag takes them
    if kind in (tuple[int, ...], tuple[float, ...]):
        number = int if kind == tuple[int, ...] else float
        if isinstance(value, (list, tuple)) and all(
            type(entry) in (int, number) for entry in value
        ):
            return tuple(number(entry) for entry in value)
        raise ValueError(f"{source}: {name} must be a list of numbers; got {_quoted(value)}.")
    if type(value) is not kind:
        raise ValueError(f"{source}: {name} must be {_KINDS[kind]}; got {_quoted(value)}.")
    return value


def _quoted(value: Any) -> str:
    """Format a value for an error message; a table may be nested deeper than repr allows."""
    return type(value).__name__ if isinstance(value, (dict, list)) else shortened(repr(value))


_KINDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name[:80], _NAMES, 1)
    return f"Did you mean {near[0]}?" if near else "`ptd-ext train --help` lists them."


def write_config(values: dict[str, Any], path: str | Path) -> None:
    """Write settings as a TOML file, by sections; the same values make the same text."""
    lines = []
    for section, text in SECTIONS.items():
        mine = [name for name in _NAMES if name in values and describe(name)["section"] == section]
        if mine:
            lines += [f"[{section}]  # {text}", *(f"{n} = {_toml(values[n])}" for n in mine), ""]
    unknown = [name for name in values if name not in _NAMES]
    if unknown:
        raise ValueError(f"{unknown[0]} is no setting. {_nearest(unknown[0])}")
    write_text(path, "\n".join(lines))


def write_settings(settings: Settings, path: str | Path) -> None:
    """Write every setting, so that the file alone says what was run."""
    write_config(dataclasses.asdict(settings), path)


def _toml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    # Texts, numbers and booleans look the same in JSON and TOML, except for NaN and infinity.
    return json.dumps(value)


def add_flags(
    parser: argparse.ArgumentParser,
    *,
    sections: Sequence[str] = tuple(SECTIONS),
    without: Sequence[str] = (),
) -> None:
    """Add a flag for every setting, by sections; those not given stay out of the namespace."""
    for section in sections:
        text = SECTIONS[section]
        group = parser.add_argument_group(section, text)
        for name in _NAMES:
            about = describe(name)
            if about["section"] == section and name not in without:
                _add_flag(group, name, about)


def _add_flag(group: Any, name: str, about: dict[str, Any]) -> None:
    flag, kind = "--" + name.replace("_", "-"), about["type"]
    text = about["help"].replace("%", "%%")
    options: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS, "help": text}
    if kind is bool:
        group.add_argument(flag, action=argparse.BooleanOptionalAction, **options)
    elif kind in (tuple[int, ...], tuple[float, ...]):
        number = int if kind == tuple[int, ...] else float
        group.add_argument(flag, type=number, nargs="*", metavar="X", **options)
    elif about["choices"]:
        group.add_argument(flag, choices=about["choices"], **options)
    else:
        group.add_argument(flag, type=kind, metavar=kind.__name__.upper(), **options)


def flags_given(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings among parsed arguments."""
    given = {name: value for name, value in vars(arguments).items() if name in _NAMES}
    return {n: tuple(v) if isinstance(v, list) else v for n, v in given.items()}
