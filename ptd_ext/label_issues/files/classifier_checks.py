"""Checks that the words and tensors of a classifier's file fit together, before it predicts."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ptd_ext.label_issues.inputs.columns import Columns
from ptd_ext.label_issues.inputs.encoder import InputEncoder
from ptd_ext.label_issues.inputs.labels import array_of
from ptd_ext.train import networks
from ptd_ext.transition.model import PartTransition
from ptd_ext.utils.bounded_files import shortened

__all__ = ["COLUMNS", "check_numbers", "check_sizes", "classes_of", "encoder_of", "sample_shape"]

COLUMNS = "columns"  # the tensor of bytes with the names and categories of columns
# NumPy reads more than this as the name of a type, and some of it by Python's parser.
_TYPE = re.compile(r"[<>|=]([biufU])\d{1,9}")
_PYTHON_TYPES = {"b": (bool,), "i": (int,), "u": (int,), "f": (int, float), "U": (str,)}
_PLAIN = (bool, int, float, str)


def classes_of(about: dict[str, Any], count: int) -> NDArray[Any]:
    """The classes, [C], of the type they were saved with."""
    values, given = about["classes"], about["class_type"]
    if not isinstance(values, list) or not all(type(value) in _PLAIN for value in values):
        raise ValueError("its classes must be a list of numbers or texts")
    if len(values) != count:
        raise ValueError(f"it names {len(values)} classes, and its T(x) has {count}")
    found = _typed(values, given)
    if len(set(found.tolist())) != count:
        raise ValueError("its classes must be different from each other")
    return found


def _typed(values: list[Any], given: Any) -> NDArray[Any]:
    if given == "object":
        found = np.empty(len(values), dtype=object)
        found[:] = values
        return found
    match = _TYPE.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        raise ValueError(f"class_type must name a type of numbers or texts; got {shortened(given)}")
    kind = match[1]
    if not all(type(value) in _PYTHON_TYPES[kind] for value in values):
        raise ValueError(f"its classes must be of the type {given}")
    # Texts make their own type: one of the file's could ask for any amount of memory.
    return array_of(values) if kind == "U" else np.array(values, dtype=np.dtype(given))


def sample_shape(about: dict[str, Any]) -> torch.Size:
    """The shape of a sample as the networks take it."""
    inputs = about["inputs"]
    if (
        not isinstance(inputs, list)
        or len(inputs) not in (1, 3)
        or not all(type(side) is int and 0 < side < 2**31 for side in inputs)
    ):
        raise ValueError(f"inputs must be [D] or [channels, H, W]; got {shortened(inputs)}")
    return torch.Size(inputs)


def encoder_of(
    about: dict[str, Any], tensors: dict[str, Tensor], inputs: torch.Size
) -> InputEncoder:
    """How rows or images become samples of this shape."""
    kind, width = about["kind"], about["width"]
    if kind not in ("table", "image") or (kind == "table") != (len(inputs) == 1):
        raise ValueError(f"kind must be table or image, as inputs are; got {shortened(kind)}")
    if COLUMNS in about:
        raise ValueError("an earlier version of ptd_ext made it, whose columns are not read")
    columns, components = _columns(tensors.get(COLUMNS)), tensors.get("components")
    if kind == "image" and (columns is not None or components is not None):
        raise ValueError("images have neither columns nor components")
    if components is not None and list(components.shape) != [inputs[0], width]:
        raise ValueError(f"components must be {[inputs[0], width]}; got {list(components.shape)}")
    encoded = width
    if columns is not None:
        encoded = sum(1 if each is None else len(each) for each in columns.categories)
    if type(width) is not int or encoded != width or (components is None and width != inputs[0]):
        raise ValueError(
            f"width must be the number of columns or channels, {encoded}, of inputs "
            f"{list(inputs)}; got {shortened(width)}"
        )
    for name in ("mean", "scale", "components"):
        if name in tensors:
            check_numbers(name, tensors[name])
    for name in ("mean", "scale"):
        if tensors[name].shape != inputs[:1]:
            raise ValueError(f"{name} must be [{inputs[0]}]; got {list(tensors[name].shape)}")
    if not (tensors["scale"] > 0).all():
        raise ValueError(f"scale must be positive; its least is {tensors['scale'].min():.3g}")
    return InputEncoder(kind, tensors["mean"], tensors["scale"], width, columns, components)


def _columns(given: Tensor | None) -> Columns | None:
    if given is None:
        return None
    names, categories = json.loads(given.numpy().tobytes())
    lists = isinstance(names, list) and isinstance(categories, list)
    if not lists or len(names) != len(categories) or len(set(names)) != len(names):
        raise ValueError("columns must be different names, and the categories of each")
    for texts in (names, *(each for each in categories if each is not None)):
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise ValueError("names of columns and their categories must be texts")
    return Columns(
        tuple(names), tuple(None if each is None else tuple(each) for each in categories)
    )


def check_sizes(name: str, network: nn.Module, inputs: torch.Size, model: PartTransition) -> None:
    """Raise unless a network without memory of its own takes such samples, and its T(x) fits it."""
    if name in networks.NAMES:  # one of the user's own may do what "meta" cannot
        batch = torch.empty(2, *inputs, device="meta", dtype=next(network.parameters()).dtype)
        size = networks.check(network, batch, model.classes)
        if model.features is not None and model.features != size:
            raise ValueError(
                f"T(x) takes {model.features} features, and {name} has representations of {size}"
            )


def check_numbers(name: str, tensor: Tensor) -> None:
    """Raise unless the numbers are finite, and of a type that networks compute in."""
    if tensor.dtype not in (torch.float32, torch.float64) or not tensor.isfinite().all():
        raise ValueError(f"{name} must hold finite numbers of 32 or 64 bits")
