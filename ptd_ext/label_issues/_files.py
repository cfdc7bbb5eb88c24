"""A fitted PTDClassifier in a file: tensors, and settings as JSON. No code is stored."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ptd_ext.label_issues._columns import Columns
from ptd_ext.label_issues._inputs import InputEncoder
from ptd_ext.train import networks
from ptd_ext.transition.gate import LinearGate
from ptd_ext.transition.model import PartTransition
from ptd_ext.utils import tensor_files

if TYPE_CHECKING:
    from ptd_ext.label_issues.classifier import PTDClassifier

__all__ = ["load_classifier", "save_classifier"]

_KIND = "a PTD classifier"
_GATE = ("weight", "bias", "centre")
_PLAIN = (bool, int, float, str)


def save_classifier(fitted: PTDClassifier, path: str | os.PathLike[str]) -> None:
    """Write the networks, T(x), the encoding of rows and the classes."""
    encoder, model = fitted.encoder_, fitted.part_transition_
    classes = fitted.classes_.tolist()
    odd = next((label for label in classes if not isinstance(label, _PLAIN)), None)
    if odd is not None:
        raise TypeError(
            f"classes must be numbers or strings to be saved; {odd!r} is {type(odd).__name__}."
        )
    tensors = {"mean": encoder.mean, "scale": encoder.scale, "parts": model.parts}
    optional = {"components": encoder.components, "basis": model.basis, "slack": model.slack}
    tensors |= {name: tensor for name, tensor in optional.items() if tensor is not None}
    if model.gate is not None:
        tensors |= {f"gate.{name}": tensor for name, tensor in model.gate.tensors().items()}
    for prefix in ("network", "feature_network"):
        network = getattr(fitted, f"{prefix}_")
        if network is not None:
            state = network.state_dict()
            tensors |= {f"{prefix}.{name}": tensor for name, tensor in state.items()}
    columns = encoder.columns
    about = {
        "classes": classes,
        "class_type": fitted.classes_.dtype.str if fitted.classes_.dtype != object else "object",
        "network": fitted.network_name_,
        "inputs": list(fitted.input_shape_),
        "kind": encoder.kind,
        "width": encoder.width,
        "columns": None if columns is None else [list(columns.names), list(columns.categories)],
        "parameters": {
            name: value
            for name, value in fitted.get_params().items()
            if value is None or isinstance(value, _PLAIN)
        },
    }
    tensor_files.write(path, _KIND, tensors, about)


def load_classifier(kind: type[PTDClassifier], path: str | os.PathLike[str]) -> PTDClassifier:
    """Load a classifier that predicts as the saved one does; its `label_issues_` are not saved."""
    tensors, about = tensor_files.read(path, _KIND, ("mean", "scale", "parts"))
    try:
        return _restore(kind, tensors, about)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} holds no usable PTD classifier: {error}") from None


def _restore(
    kind: type[PTDClassifier], tensors: dict[str, Any], about: dict[str, Any]
) -> PTDClassifier:
    found = kind(**about["parameters"])
    columns = about["columns"]
    if columns is not None:
        names, categories = columns
        columns = Columns(
            tuple(names), tuple(None if each is None else tuple(each) for each in categories)
        )
    found.encoder_ = InputEncoder(
        about["kind"], tensors["mean"], tensors["scale"], int(about["width"]), columns,
        tensors.get("components"),
    )  # fmt: skip
    gate = None
    if "gate.weight" in tensors:
        gate = LinearGate(*(tensors[f"gate.{name}"] for name in _GATE))
    found.part_transition_ = PartTransition(
        tensors["parts"], tensors.get("basis"), tensors.get("slack"), gate=gate
    )
    found.input_shape_ = torch.Size(about["inputs"])
    found.network_name_ = about["network"]
    found.network_ = _network(found, tensors, "network.")
    found.feature_network_ = _network(found, tensors, "feature_network.")
    class_type = about["class_type"]
    found.classes_ = np.array(about["classes"], dtype=class_type)
    found.n_features_in_ = found.encoder_.width
    if columns is not None:
        found.feature_names_in_ = np.asarray(columns.names, dtype=object)
    return found


def _network(found: PTDClassifier, tensors: dict[str, Any], prefix: str) -> Any:
    state = {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
    if not state:
        return None
    classes = found.part_transition_.classes
    network = networks.build(found.network_name_, classes, inputs=found.input_shape_)
    network = network.to(found.part_transition_.parts.dtype)
    network.load_state_dict(state)
    return network.eval()
