"""A fitted PTDClassifier in a file: tensors, and settings as JSON. No code is stored."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ptd_ext.label_issues._columns import Columns
from ptd_ext.label_issues._inputs import InputEncoder
from ptd_ext.label_issues._members import Member
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
    columns = encoder.columns
    about = {
        "classes": classes,
        "class_type": fitted.classes_.dtype.str if fitted.classes_.dtype != object else "object",
        "networks": [member.name for member in fitted.members_],
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


def load_classifier(
    kind: type[PTDClassifier], path: str | os.PathLike[str], network: str | None
) -> PTDClassifier:
    """Load a classifier that predicts as the saved one does; its `label_issues_` are not saved."""
    tensors, about = tensor_files.read(path, _KIND, ("mean", "scale", "0.parts"))
    named = about.get("networks")
    # A name of another kind is imported and called: the caller has to say it too.
    known = (*networks.NAMES, network)
    if not isinstance(named, list) or any(name not in known for name in named):
        raise ValueError(
            f"{path} must name networks of ptd_ext; it names {shortened(repr(named))}. If one is "
            "your own, give its name as network."
        )
    try:
        return _restore(kind, tensors, about)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
        reason = shortened(" ".join(str(error).split()).rstrip("."), 200)
        raise ValueError(f"{path} holds no usable PTD classifier: {reason}.") from None


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
    found.input_shape_ = torch.Size(about["inputs"])
    found.members_ = [
        _member(name, found.input_shape_, _named(tensors, f"{number}."))
        for number, name in enumerate(about["networks"])
    ]
    found.network_name_ = " and ".join(about["networks"])
    # Strings make their own type: one of the file's could ask for any amount of memory.
    given = np.dtype(about["class_type"])
    found.classes_ = np.array(about["classes"], dtype=given if given.kind in "biufO" else None)
    found.n_features_in_ = found.encoder_.width
    if columns is not None:
        found.feature_names_in_ = np.asarray(columns.names, dtype=object)
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
        found.load_state_dict(state, assign=True)
        return found.to(transition.parts.dtype).eval()

    judging = network("network.")
    if judging is None:
        raise ValueError(f"it holds no weights of its network {name}.")
    return Member(name, judging, network("feature_network."), transition)


def _named(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
