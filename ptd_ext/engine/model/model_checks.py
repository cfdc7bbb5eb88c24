"""Checks of the metadata and tensors of a model's file, before any memory that it names is used."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptd_ext.engine.rows.column import KINDS, Column
from ptd_ext.engine.rows.columns import Columns
from ptd_ext.engine.rows.dates import SPELLINGS
from ptd_ext.engine.rows.labels import array_of
from ptd_ext.engine.rows.preprocessing import SCALES, Preprocessing
from ptd_ext.engine.rows.words import MAX_WORDS, WordVectors
from ptd_ext.utils.bounded_files import shortened
from ptd_ext.utils.tensor_files import json_of, json_tensor

_COLUMNS = "columns"  # the tensor of bytes with the names and categories of columns
PLAIN = (bool, int, float, str)
_MAX_NUMBERS = 1 << 26  # in one sample: the pixels that an image may have
# NumPy reads more than this as the name of a type, and some of it by Python's parser.
_TYPE = re.compile(r"[<>|=]([biufU])\d{1,9}")
_PYTHON_TYPES = {"b": (bool,), "i": (int,), "u": (int,), "f": (int, float), "U": (str,)}


def check_about(about: dict[str, Any]) -> None:
    """Raise unless method, validation, curves and parameters are of the right types."""
    for name in ("method", "fingerprint"):
        if not isinstance(about[name], str):
            raise ValueError(f"{name} must be a string; got {shortened(repr(about[name]))}")
    found = about["validation"]
    kinds = {"rows": int, "accuracy": float, "beats_chance": bool, "warning": str}
    if not isinstance(found, dict) or {n: type(v) for n, v in found.items()} != kinds:
        raise ValueError(f"validation must hold {', '.join(kinds)}; got {shortened(repr(found))}")
    curves, parameters = about["curves"], about["parameters"]
    if not isinstance(curves, dict) or not all(
        isinstance(values, list) and all(type(value) in (int, float) for value in values)
        for values in curves.values()
    ):
        raise ValueError("curves must be lists of numbers by name")
    if not isinstance(parameters, dict) or not all(
        value is None or type(value) in PLAIN for value in parameters.values()
    ):
        raise ValueError("parameters must be numbers and strings by name")


def classes_of(values: Any, given: Any) -> NDArray[Any]:
    """The classes, [C], of the type they were saved with."""
    if not isinstance(values, list) or not all(type(value) in PLAIN for value in values):
        raise ValueError("classes must be a list of numbers or strings")
    if len(values) < 2 or len(set(values)) != len(values):
        raise ValueError("classes must be at least two, all different")
    if given == "object":
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found
    match = _TYPE.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        raise ValueError(
            f"class_type must name a type of numbers or strings; got {shortened(repr(given))}"
        )
    if not all(type(value) in _PYTHON_TYPES[match[1]] for value in values):
        raise ValueError(f"classes must be of the type {given}")
    # Strings make their own type: one named in the file could ask for any amount of memory.
    return array_of(values) if match[1] == "U" else np.array(values, dtype=np.dtype(given))


def preprocessing_of(about: dict[str, Any], tensors: dict[str, Tensor]) -> Preprocessing:
    """The preprocessing that metadata and tensors describe."""
    kind, width, words = about["kind"], about["width"], about["words"]
    shape = _shape(kind, about["shape"])
    flags = {flag: about[flag] for flag in ("as_bytes", "files")}
    for flag, value in flags.items():
        if not isinstance(value, bool) or (value and kind != "image"):
            raise ValueError(f"{flag} must be true or false, and true for images only")
    if words is not None and (kind != "tokens" or type(words) is not int or words < 1):
        raise ValueError(f"words must be the number of words of tokens; got {shortened(words)}")
    columns, components = _columns(tensors), tensors.get("components")
    if kind != "table" and (columns is not None or components is not None):
        raise ValueError(f"rows of kind {kind} have neither columns nor components")
    expected = shape[0]
    if columns is not None:
        expected = columns.width
    if type(width) is not int or (components is None and not width == expected == shape[0]):
        raise ValueError(f"width must be {expected}, as in shape; got {shortened(width)}")
    if components is not None and list(components.shape) != [shape[0], width]:
        raise ValueError(f"components must be {[shape[0], width]}; got {list(components.shape)}")
    mean, scale = tensors.get("mean"), tensors.get("scale")
    if (mean is None) != (scale is None) or (kind == "table" and mean is None):
        raise ValueError("mean and scale must both be there")
    sizes = [shape[:1]] if kind == "table" else [shape[:1], torch.Size([1])]
    for name, values in (("mean", mean), ("scale", scale)):
        if values is None:
            continue
        if values.shape not in sizes or not values.is_floating_point():
            raise ValueError(
                f"{name} must be floats [{shape[0]}]; got {values.dtype} {list(values.shape)}"
            )
    if scale is not None and not SCALES[0] <= scale.min() <= scale.max() <= SCALES[1]:
        raise ValueError(
            f"scale must be from {SCALES[0]} to {SCALES[1]}; got {scale.min():.3g} to "
            f"{scale.max():.3g}"
        )
    return Preprocessing(kind, shape, width, mean, scale, columns, components, words=words, **flags)


def _shape(kind: Any, shape: Any) -> torch.Size:
    """The shape of a sample of this kind."""
    lengths = {"table": 1, "tokens": 1, "image": 3}
    if kind not in lengths:
        raise ValueError(f"kind must be {', '.join(lengths)}; got {shortened(repr(kind))}")
    if (
        not isinstance(shape, list)
        or len(shape) != lengths[kind]
        or not all(type(size) is int and size > 0 for size in shape)
        or math.prod(shape) > _MAX_NUMBERS
    ):
        raise ValueError(
            f"shape must be [D], [L] or [channels, H, W], of at most {_MAX_NUMBERS:,} numbers; "
            f"got {shortened(repr(shape))}"
        )
    return torch.Size(shape)


def columns_tensors(columns: Columns) -> dict[str, Tensor]:
    """The columns, and the weights and components of their words, for :func:`_columns`."""
    entries: list[dict[str, Any]] = []
    tensors: dict[str, Tensor] = {}
    for position, entry in enumerate(columns.entries):
        words = entry.words
        entries.append({**vars(entry), "words": None if words is None else words.words})
        if words is not None:
            tensors[f"words.{position}.weights"] = words.weights
            if words.components is not None:
                tensors[f"words.{position}.components"] = words.components
    tensors[_COLUMNS] = json_tensor({"texts": columns.texts, "entries": entries})
    return tensors


def _columns(tensors: dict[str, Tensor]) -> Columns | None:
    if _COLUMNS not in tensors:
        return None
    about = json_of(tensors[_COLUMNS])
    entries = about["entries"]
    if type(about["texts"]) is not bool or not isinstance(entries, list):
        raise ValueError("columns must be a list of entries")
    found = tuple(_column(entry, position, tensors) for position, entry in enumerate(entries))
    names = [each.name for each in found]
    if len(set(names)) != len(names):
        raise ValueError("columns must have different names")
    if about["texts"] and [(each.name, each.kind) for each in found] != [("text", "text")]:
        raise ValueError("texts must have one column, text")
    return Columns(found, texts=about["texts"])


def _column(about: Any, position: int, tensors: dict[str, Tensor]) -> Column:
    kinds = {"name": str, "kind": str, "note": str, "median": float, "missing": bool}
    if not isinstance(about, dict) or {name: type(about[name]) for name in kinds} != kinds:
        raise ValueError(f"a column must have {', '.join(kinds)}; got {shortened(repr(about))}")
    kind, categories, spelling = about["kind"], about["categories"], about["spelling"]
    if kind not in KINDS or not math.isfinite(about["median"]):
        raise ValueError("kinds and medians of columns must be known kinds and finite numbers")
    if spelling is not None and spelling not in SPELLINGS:
        raise ValueError(f"spelling must be known; got {shortened(repr(spelling))}")
    _check_strings(categories, "categories")
    words = None
    if (kind == "text") != (about["words"] is not None):
        raise ValueError("texts must have words, and no other column")
    if about["missing"] and kind in ("text", "left out"):
        raise ValueError(f"a column of kind {kind} must not mark missing values")
    if kind == "text":
        names = {part: f"words.{position}.{part}" for part in ("weights", "components")}
        weights, components = tensors[names["weights"]], tensors.get(names["components"])
        words = _words(about["words"], weights, components)
    given = {name: about[name] for name in kinds}
    return Column(**given, categories=tuple(categories), spelling=spelling, words=words)


def _words(words: Any, weights: Tensor, components: Tensor | None) -> WordVectors:
    _check_strings(words, "words")
    if not 1 <= len(words) <= MAX_WORDS:
        raise ValueError(f"words must be from 1 to {MAX_WORDS:,}; got {len(words):,}")
    if weights.dtype != torch.float32 or weights.shape != (len(words),) or not weights.min() > 0:
        raise ValueError(f"weights of words must be positive numbers [{len(words)}]")
    if components is not None and (
        components.dtype != torch.float32
        or components.dim() != 2
        or not components.shape[0]
        or components.shape[1] != len(words)
    ):
        raise ValueError(f"components of words must be floats [K, {len(words)}]")
    return WordVectors(tuple(words), weights, components)


def _check_strings(values: Any, what: str) -> None:
    if not isinstance(values, list) or not all(isinstance(each, str) for each in values):
        raise ValueError(f"{what} of a column must be strings")
    if len(set(values)) != len(values):
        raise ValueError(f"{what} of a column must be different from each other")


def compare(prefix: str, expected: dict[str, Tensor], state: dict[str, Tensor]) -> None:
    """Raise unless the tensors of a file are those of the network, by name, type and shape."""
    for name in expected:
        if name not in state:
            raise ValueError(f"it lacks {prefix}.{name}")
    for name, tensor in state.items():
        shown = f"{prefix}.{shortened(name)}"
        if name not in expected:
            raise ValueError(f"{shown} is not a tensor of its network")
        wanted = expected[name]
        if (wanted.dtype, wanted.shape) != (tensor.dtype, tensor.shape):
            raise ValueError(
                f"{shown} must be {wanted.dtype} {list(wanted.shape)}; got {tensor.dtype} "
                f"{list(tensor.shape)}"
            )


def check_numbers(name: str, tensor: Tensor) -> None:
    """Raise unless the numbers are finite, and of a type that networks compute in."""
    if tensor.dtype not in (torch.float32, torch.float64) or not tensor.isfinite().all():
        raise ValueError(f"{shortened(name)} must hold finite numbers of 32 or 64 bits")
