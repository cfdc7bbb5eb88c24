"""The file of a fitted model: tensors, and metadata as JSON. No code is stored or run.

Files may come from strangers. Everything is checked before memory of a size that a file names is
allocated: networks are built on the meta device, and take the tensors of the file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ptd_ext.engine import networks
from ptd_ext.engine.model.members import Member
from ptd_ext.engine.model.model_checks import (
    PLAIN,
    check_about,
    check_numbers,
    classes_of,
    columns_tensors,
    compare,
    preprocessing_of,
)
from ptd_ext.engine.rows.preprocessing import Preprocessing
from ptd_ext.transition.gate import LinearGate
from ptd_ext.transition.model import PartTransition
from ptd_ext.utils import tensor_files
from ptd_ext.utils.bounded_files import reason, shortened

OwnNetwork = Callable[[int, torch.Size], nn.Module] | str | None
_Content = tuple[tuple[Member, ...], Preprocessing, NDArray[Any], dict[str, Any]]

_KIND, _FORMAT, _CLASSES = "a fitted model", 2, "classes"
_GATE = ("weight", "bias", "centre")


def write(
    path: str | os.PathLike[str],
    members: Sequence[Member],
    rows: Preprocessing,
    labels: NDArray[Any],
    about: dict[str, Any],
) -> None:
    """Write networks, preprocessing and class labels [C], with further metadata."""
    classes = labels.tolist()
    odd = next((label for label in classes if not isinstance(label, PLAIN)), None)
    if odd is not None:
        raise TypeError(
            f"classes must be numbers or strings to be saved; {odd!r} is {type(odd).__name__}."
        )
    moments = {"mean": rows.mean, "scale": rows.scale, "components": rows.components}
    tensors = {name: tensor for name, tensor in moments.items() if tensor is not None}
    # The metadata of a file is in its header, which is to stay small.
    tensors[_CLASSES] = tensor_files.json_tensor(classes)
    if rows.columns is not None:
        tensors |= columns_tensors(rows.columns)
    for number, member in enumerate(members):
        tensors |= {f"{number}.{name}": tensor for name, tensor in _tensors(member).items()}
    about = {
        **about,
        "class_type": labels.dtype.str if labels.dtype != object else "object",
        "networks": [member.name for member in members],
        "kind": rows.kind,
        "shape": list(rows.shape),
        "width": rows.width,
        "as_bytes": rows.as_bytes,
        "files": rows.files,
        "words": rows.words,
    }
    tensor_files.write(path, _KIND, tensors, about, _FORMAT)


def read(path: str | os.PathLike[str], network: OwnNetwork) -> _Content:
    """Read the file; raises ValueError if it is damaged or not what :func:`write` wrote."""
    tensors, about = tensor_files.read(path, _KIND, (_CLASSES,), _FORMAT)
    try:
        return _restore(tensors, about, network)
    except KeyError as error:
        raise ValueError(f"{path} is not a usable model: it lacks {error}.") from None
    except (TypeError, ValueError, RuntimeError, OverflowError, AttributeError) as error:
        raise ValueError(f"{path} is not a usable model: {reason(error)}.") from None


def _restore(tensors: dict[str, Tensor], about: dict[str, Any], network: OwnNetwork) -> _Content:
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            check_numbers(name, tensor)
    classes = classes_of(tensor_files.json_of(tensors[_CLASSES]), about["class_type"])
    rows = preprocessing_of(about, tensors)
    names = about["networks"]
    if not isinstance(names, list) or not names:
        raise ValueError(f"networks must be a list of names; got {shortened(repr(names))}")
    members = tuple(
        _member(name, rows, len(classes), _named(tensors, f"{number}."), network)
        for number, name in enumerate(names)
    )
    if len({member.part_transition is None for member in members}) > 1:
        raise ValueError("either all networks or none must have a T(x)")
    check_about(about)
    return members, rows, classes, about


def _tensors(member: Member) -> dict[str, Tensor]:
    """The tensors of a network and its T(x) by name."""
    found: dict[str, Tensor] = {}
    model = member.part_transition
    if model is not None:
        every = {"parts": model.parts, "basis": model.basis, "slack": model.slack}
        found |= {name: tensor for name, tensor in every.items() if tensor is not None}
        if model.gate is not None:
            found |= {f"gate.{name}": tensor for name, tensor in model.gate.tensors().items()}
    for prefix in ("network", "feature_network"):
        network = getattr(member, prefix)
        if network is not None:
            state = network.state_dict()
            found |= {f"{prefix}.{name}": tensor for name, tensor in state.items()}
    return found


def _member(
    name: Any, rows: Preprocessing, n_classes: int, tensors: dict[str, Tensor], own: OwnNetwork
) -> Member:
    """A network and its T(x), from their tensors."""
    model = None
    if "parts" in tensors:
        gate = None
        if "gate.weight" in tensors:
            gate = LinearGate(*(tensors[f"gate.{part}"] for part in _GATE))
        model = PartTransition(
            tensors["parts"], tensors.get("basis"), tensors.get("slack"), gate=gate
        )
        if model.n_classes != n_classes:
            raise ValueError(f"T(x) must be of {n_classes} classes; got {model.n_classes}")
    factory = _factory(name, own)
    # A network of the user's own may do what the meta device cannot.
    device = "cpu" if ":" in name else "meta"
    network = _network(factory, "network", rows, n_classes, tensors, device)
    if network is None:
        raise ValueError(f"it lacks the weights of its network {name}")
    features = _network(factory, "feature_network", rows, n_classes, tensors, device)
    mixed = model is not None and model.n_parts > 1
    if mixed != (features is not None):
        raise ValueError("T(x) of several parts needs a network that gives their weights")
    if features is not None and model is not None and model.n_features != features[1]:
        raise ValueError(
            f"T(x) must take representations of {features[1]} numbers; it takes "
            f"{model.n_features or 'none'}"
        )
    return Member(name, network[0], features and features[0], model)


def _factory(name: Any, own: OwnNetwork) -> Callable[..., nn.Module]:
    """The function that makes the network; the caller must name one outside ptd_ext, too."""
    if isinstance(name, str) and ":" in name:
        if callable(own):
            return lambda n_classes, inputs, embedding: own(n_classes, inputs)
        if own != name:
            raise ValueError(
                f"its network is your own, {shortened(name)}: give that name, or the function, as "
                "network. A name in a file is never imported by itself"
            )
    elif name not in networks.NETWORKS:
        known = ", ".join(networks.NETWORKS)
        raise ValueError(f"networks must be of {known}; got {shortened(repr(name))}")
    return lambda n_classes, inputs, embedding: networks.build(
        name, n_classes, inputs=inputs, embedding=embedding
    )


def _network(
    factory: Callable[..., nn.Module],
    prefix: str,
    rows: Preprocessing,
    n_classes: int,
    tensors: dict[str, Tensor],
    device: str,
) -> tuple[nn.Module, int] | None:
    """A network in evaluation mode, and the size of its representations; None without tensors."""
    state = _named(tensors, f"{prefix}.")
    if not state:
        return None
    embedding = state.get("embedding.weight") if rows.kind == "tokens" else None
    dtypes = {tensor.dtype for tensor in state.values() if tensor.is_floating_point()}
    if len(dtypes) != 1:
        raise ValueError(f"{prefix} must hold floats of one type")
    (dtype,) = dtypes
    with torch.device(device):
        found = factory(n_classes, rows.shape, None if embedding is None else embedding.to(device))
    found = found.to(dtype)
    compare(prefix, found.state_dict(), state)
    kind = torch.int64 if rows.kind == "tokens" else dtype
    batch = torch.zeros(1, *rows.shape, dtype=kind, device=device)
    size = networks.check(found, batch, n_classes)
    found.load_state_dict(state, assign=True)
    return found.eval(), size


def _named(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {n.removeprefix(prefix): t for n, t in tensors.items() if n.startswith(prefix)}
