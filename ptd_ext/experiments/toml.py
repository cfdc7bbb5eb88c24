"""Reads and writes TOML files of settings."""

from __future__ import annotations

import json
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ptd_ext.engine.settings.settings import SECTIONS
from ptd_ext.experiments.settings import ExperimentSettings
from ptd_ext.utils.atomic_files import write_text
from ptd_ext.utils.bounded_files import ContentError, read_bytes, reading, shortened

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# A file of all settings has 3 KB. The time that tomllib takes grows with the square of the length
# of a dotted key, and settings have none.
_MAX_FILE, _MAX_DOTS = 1 << 16, 64
_MAX_NUMBER = 2**63 - 1  # torch keeps counts and seeds in 64 bits
_KINDS = {int: "an integer", float: "a number", str: "a string", bool: "true or false"}


def read_config(path: str | Path) -> dict[str, Any]:
    """Read the settings of a TOML file, with or without sections."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"The configuration file {path} does not exist.")
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
        if not isinstance(value, dict):
            values |= _checked(name, value, str(path))
            continue
        if name not in SECTIONS:
            raise ValueError(
                f"{path} has a section [{shortened(name)}]; sections are {', '.join(SECTIONS)}."
            )
        for key, entry in value.items():
            values |= _checked(key, entry, str(path))
    return values


def _checked(name: str, value: Any, source: str) -> dict[str, Any]:
    """Check the type of a value; bounds are checked where settings are made."""
    if name not in ExperimentSettings.entries():
        raise ValueError(f"{source} sets {shortened(name)}, which is not a setting. {_hint(name)}")
    entry = ExperimentSettings.entries()[name]
    values = value if isinstance(value, list) else [value]
    if any(type(number) is int and abs(number) > _MAX_NUMBER for number in values):
        raise ValueError(f"{source}: {name} must be at most {_MAX_NUMBER}; got a larger number.")
    if entry.type is float and type(value) is int:
        return {name: float(value)}
    if name == "class_prior" and isinstance(value, list):
        return {name: ", ".join(map(str, value))}  # as the flag has it
    if (kind := entry.item_type) is not None:
        known = (int, float) if kind is float else (kind,)
        if isinstance(value, list) and all(type(item) in known for item in value):
            return {name: tuple(map(kind, value))}
        items = "strings" if kind is str else "numbers"
        raise ValueError(f"{source}: {name} must be a list of {items}; got {_shown(value)}.")
    if type(value) is not entry.type:
        raise ValueError(f"{source}: {name} must be {_KINDS[entry.type]}; got {_shown(value)}.")
    return {name: value}


def _shown(value: Any) -> str:
    """Format a value for an error message; a table may be nested deeper than repr allows."""
    return type(value).__name__ if isinstance(value, (dict, list)) else shortened(repr(value))


def _hint(name: str) -> str:
    near = get_close_matches(name[:80], ExperimentSettings.entries(), 1)
    return f"Did you mean {near[0]}?" if near else "`ptd-ext train --help` lists all settings."


def write_config(values: dict[str, Any], path: str | Path) -> None:
    """Write settings as a TOML file, by sections; equal values make equal files."""
    entries, lines = ExperimentSettings.entries(), []
    for name in values:
        if name not in entries:
            raise ValueError(f"{name} is not a setting. {_hint(name)}")
    for section, about in SECTIONS.items():
        names = [n for n, entry in entries.items() if n in values and entry.section == section]
        if names:
            lines += [f"[{section}]  # {about}", *(f"{n} = {_toml(values[n])}" for n in names), ""]
    write_text(path, "\n".join(lines))


def _toml(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_toml, value))}]"
    # Strings, numbers and booleans look the same in JSON and TOML, except for NaN and infinity.
    return json.dumps(value)
