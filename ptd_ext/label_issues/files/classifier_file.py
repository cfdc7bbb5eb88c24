"""A fitted PTDClassifier in a file: tensors, and settings as JSON. No code is stored."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ptd_ext.label_issues.files.classifier_checks import (
    COLUMNS,
    check_numbers,
    check_sizes,
    classes_of,
    encoder_of,
    sample_shape,
)
from ptd_ext.label_issues.training.members import Member
from ptd_ext.train import networks
from ptd_ext.transition.gate import LinearGate
from ptd_ext.transition.model import PartTransition
from ptd_ext.utils import tensor_files
from ptd_ext.utils.bounded_files import shortened

if TYPE_CHECKING:
    from ptd_ext.label_issues.classifier import PTDClassifier

__all__ = ["load_classifier", "save_classifier"]

_KIND = "a PTD classifier"
_GATE = ("weight", "bias", "centre")
_PLAIN = (bool, int, float, str)


def save_classifier(fitted: PTDClassifier, path: str | os.PathLike[str]) -> None:
    """Write the networks, T(x), the encoding of rows and the classes."""
    encoder = fitted.encoder_
    classes = fitted.classes_.tolist()
    odd = next((label for label in classes if not isinstance(label, _PLAIN)), None)
    if odd is not None:
        raise TypeError(
            f"classes must be numbers or strings to be saved; {odd!r} is {type(odd).__name__}."
        )
    tensors = {"mean": encoder.mean, "scale": encoder.scale}
    if encoder.components is not None:
        tensors["components"] = encoder.components
    for number, member in enumerate(fitted.members_):
        tensors |= {f"{number}.{name}": tensor for name, tensor in _tensors(member).items()}
    if encoder.columns is not None:
        # The words of a file have their place in its header, which is to stay small.
        words = json.dumps([encoder.columns.names, encoder.columns.categories])
        tensors[COLUMNS] = torch.frombuffer(bytearray(words, "utf-8"), dtype=torch.uint8)
    about = {
        "classes": classes,
        "class_type": fitted.classes_.dtype.str if fitted.classes_.dtype != object else "object",
        "networks": [member.name for member in fitted.members_],
        "inputs": list(fitted.input_shape_),
        "kind": encoder.kind,
        "width": encoder.width,
        "parameters": {
            name: value
            for name, value in fitted.get_params().items()
            if value is None or isinstance(value, _PLAIN)
        },
    }
    tensor_files.write(path, _KIND, tensors, about)


def load_classifier(
    kind: type[PTDClassifier], path: str | os.PathLike[str], network: str | None
) -> PTDClassifier:
    """Load a classifier that predicts as the saved one does; its `label_issues_` are not saved."""
    tensors, about = tensor_files.read(path, _KIND, ("mean", "scale", "0.parts"))
    named = about.get("networks")
    # A name of another kind is imported and called: the caller has to say it too.
    known = networks.NAMES if network is None else (*networks.NAMES, network)
    if not isinstance(named, list) or not named or any(name not in known for name in named):
        raise ValueError(
            f"{path} must name networks of ptd_ext; it names {shortened(repr(named))}. If one is "
            "your own, give its name as network."
        )
    try:
        return _restore(kind, tensors, about)
    except (ImportError, MemoryError):  # of a network of the caller's own
        raise
    except Exception as error:
        reason = shortened(" ".join(str(error).split()).rstrip("."), 200)
        if isinstance(error, KeyError):
            reason = f"it holds no {reason}"
        raise ValueError(f"{path} holds no usable PTD classifier: {reason}.") from None


def _restore(
    kind: type[PTDClassifier], tensors: dict[str, Any], about: dict[str, Any]
) -> PTDClassifier:
    parameters = about["parameters"]
    if not isinstance(parameters, dict) or not all(
        value is None or isinstance(value, _PLAIN) for value in parameters.values()
    ):
        raise ValueError("its parameters must be numbers and texts by name")
    found = kind(**parameters)
    found.input_shape_ = sample_shape(about)
    found.encoder_ = encoder_of(about, tensors, found.input_shape_)
    found.members_ = [
        _member(name, found.input_shape_, _named(tensors, f"{number}."))
        for number, name in enumerate(about["networks"])
    ]
    found.network_name_ = " and ".join(about["networks"])
    first = found.members_[0].transition
    for other in found.members_:
        model = other.transition
        if (model.classes, model.parts.dtype) != (first.classes, first.parts.dtype):
            raise ValueError("its networks must have the same classes, and numbers of one type")
    found.classes_ = classes_of(about, first.classes)
    found.n_features_in_ = found.encoder_.given_columns
    if found.encoder_.columns is not None:
        found.feature_names_in_ = np.asarray(found.encoder_.columns.names, dtype=object)
    return found


def _tensors(member: Member) -> dict[str, Tensor]:
    """The tensors of a network and its T(x) by name."""
    model = member.transition
    found = {"parts": model.parts}
    optional = {"basis": model.basis, "slack": model.slack}
    found |= {name: tensor for name, tensor in optional.items() if tensor is not None}
    if model.gate is not None:
        found |= {f"gate.{name}": tensor for name, tensor in model.gate.tensors().items()}
    for prefix in ("network", "feature_network"):
        network = getattr(member, prefix)
        if network is not None:
            state = network.state_dict()
            found |= {f"{prefix}.{name}": tensor for name, tensor in state.items()}
    return found


def _member(name: str, inputs: torch.Size, tensors: dict[str, Tensor]) -> Member:
    """The network and its T(x), from their tensors."""
    for key, tensor in tensors.items():
        if tensor.is_floating_point():
            check_numbers(key, tensor)
    gate = None
    if "gate.weight" in tensors:
        gate = LinearGate(*(tensors[f"gate.{part}"] for part in _GATE))
    transition = PartTransition(
        tensors["parts"], tensors.get("basis"), tensors.get("slack"), gate=gate
    )

    def network(prefix: str) -> nn.Module | None:
        state = _named(tensors, prefix)
        if not state:
            return None
        # Without memory of its own, whatever shape the file names: the tensors are the file's.
        with torch.device("meta"):
            found = networks.build(name, transition.classes, inputs=inputs)
        check_sizes(name, found, inputs, transition)
        found.load_state_dict(state, assign=True)
        return found.to(transition.parts.dtype).eval()

    judging, features = network("network."), network("feature_network.")
    if judging is None:
        raise ValueError(f"it holds no weights of its network {name}.")
    if (features is None) != (transition.n_parts == 1) or (
        features is not None and transition.features is None
    ):
        raise ValueError(f"its {transition.n_parts} parts lack what gives them their weights")
    return Member(name, judging, features, transition)


def _named(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
