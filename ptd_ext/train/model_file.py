"""The file of a trained model, checked before anything of a size that it names is allocated."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ptd_ext.train import networks
from ptd_ext.train.engine.trained_model import KIND
from ptd_ext.utils import tensor_files
from ptd_ext.utils.bounded_files import shortened

__all__ = ["ModelFile", "NetworkFactory", "read_model"]

NetworkFactory = Callable[[int, torch.Size], nn.Module]

_MAX_NUMBERS = 1 << 26  # of a sample: the pixels that an image may have
_MAX_LETTERS = 1 << 22  # of all class names, each padded to the longest, as NumPy keeps them
_FLAGS = ("tokens", "files", "bytes")


@dataclass(frozen=True)
class ModelFile:
    """The content of a file that `write_model` has written.

    Attributes:
        classes: the labels, [C].
        network: the name of the networks.
        shape: of one sample.
        mean: of every column or channel; None where samples are not standardised.
        std: like `mean`.
        tokens: whether samples are numbers of words.
        files: whether samples are image files.
        bytes: whether images are of uint8.
        tensors: all tensors of the file by name.
    """

    classes: NDArray[Any]
    network: str
    shape: torch.Size
    mean: Tensor | None
    std: Tensor | None
    tokens: bool
    files: bool
    bytes: bool
    tensors: dict[str, Tensor]

    @property
    def words(self) -> int | None:
        """How many words the network knows, if that is known."""
        embedding = self.tensors.get("network.embedding.weight") if self.tokens else None
        return None if embedding is None else len(embedding)

    def build(self, prefix: str, factory: NetworkFactory | None) -> tuple[nn.Module, int] | None:
        """A network, in evaluation mode, and the size of its representation; None without tensors.

        Args:
            prefix: of the names of its tensors.
            factory: makes a network of one's own.
        """
        state = {
            name.removeprefix(f"{prefix}."): tensor
            for name, tensor in self.tensors.items()
            if name.startswith(f"{prefix}.")
        }
        if not state:
            return None
        own = ":" in self.network
        # A network of ptd_ext has no memory of its own: its tensors will be the file's.
        device = "cpu" if own else "meta"
        with torch.device(device):
            found = self._fresh(state, factory)
        _compare(prefix, found.state_dict(), state)
        batch = torch.zeros(
            1, *self.shape, dtype=torch.int64 if self.tokens else torch.float32, device=device
        )
        size = networks.check(found, batch, len(self.classes))
        found.load_state_dict(state, assign=not own)
        return found.eval(), size

    def _fresh(self, state: dict[str, Tensor], factory: NetworkFactory | None) -> nn.Module:
        if ":" not in self.network:
            embedding = state.get("embedding.weight")
            return networks.build(
                self.network,
                len(self.classes),
                inputs=self.shape,
                embedding=None if embedding is None else embedding.to("meta"),
            )
        if factory is None:
            raise ValueError(
                f"the run has a network of your own, {shortened(self.network)}: give that function "
                "as network. It is not imported by a name that stands in a file"
            )
        return factory(len(self.classes), self.shape)


def read_model(path: str | os.PathLike[str]) -> tuple[ModelFile, Any]:
    """The model of a file, and the fingerprint of the data it was trained on."""
    tensors, about = tensor_files.read(path, KIND, ())
    try:
        return _checked(tensors, about), about["fingerprint"]
    except KeyError as error:
        raise ValueError(f"{path} holds no usable model: it lacks {error}.") from None
    except ValueError as error:
        raise ValueError(f"{path} holds no usable model: {error}.") from None


def _checked(tensors: dict[str, Tensor], about: dict[str, Any]) -> ModelFile:
    name, shape = about["network"], about["inputs"]
    if not isinstance(name, str) or (":" not in name and name not in networks.NAMES):
        known = ", ".join(networks.NAMES)
        raise ValueError(f"network must be one of {known}; got {shortened(repr(name))}")
    sizes = shape if isinstance(shape, list) else []
    if len(sizes) not in (1, 3) or not all(type(size) is int and size > 0 for size in sizes):
        raise ValueError(
            f"inputs must be the shape of a row, a text or an image; got {shortened(repr(shape))}"
        )
    if math.prod(sizes) > _MAX_NUMBERS:
        raise ValueError(f"inputs must have at most {_MAX_NUMBERS:,} numbers; got {sizes}")
    flags = {flag: about[flag] for flag in _FLAGS}
    for flag, value in flags.items():
        if not isinstance(value, bool):
            raise ValueError(f"{flag} must be true or false; got {shortened(repr(value))}")
    if flags["tokens"] and len(sizes) != 1:
        raise ValueError(f"inputs must be [L] for texts; got {sizes}")
    if flags["files"] and sizes != [3, sizes[-1], sizes[-1]]:
        raise ValueError(f"inputs must be [3, size, size] for image files; got {sizes}")
    mean, std = _scale(tensors, sizes)
    classes = _classes(about["classes"])
    return ModelFile(classes, name, torch.Size(sizes), mean, std, tensors=tensors, **flags)


def _classes(given: Any) -> NDArray[Any]:
    kinds = {type(label) for label in given} if isinstance(given, list) else set()
    if kinds not in ({int}, {str}) or not 2 <= len(given) == len(set(given)):
        raise ValueError("classes must be at least two different whole numbers or texts")
    if kinds == {str} and len(given) * max(map(len, given)) > _MAX_LETTERS:
        raise ValueError(f"classes must have shorter names; one has {max(map(len, given))} letters")
    if kinds == {int} and max(map(abs, given)) >= 1 << 63:
        raise ValueError("classes must be numbers of 64 bits; one is larger")
    return np.array(given)


def _scale(tensors: dict[str, Tensor], shape: list[int]) -> tuple[Tensor | None, Tensor | None]:
    """Mean and deviation, of every column of rows, or of all channels or each of images."""
    mean, std = tensors.get("mean"), tensors.get("std")
    if mean is None and std is None:
        return None, None
    if mean is None or std is None:
        raise ValueError("mean and std must both be there; one is missing")
    lengths = shape if len(shape) == 1 else [1, shape[0]]
    for name, values in (("mean", mean), ("std", std)):
        if not values.is_floating_point() or values.dim() != 1 or len(values) not in lengths:
            raise ValueError(
                f"{name} must be floats [{lengths[-1]}]; it is {values.dtype} {list(values.shape)}"
            )
        if not values.isfinite().all() or (name == "std" and (values <= 0).any()):
            wanted = "finite" if name == "mean" else "finite and positive"
            raise ValueError(f"{name} must be {wanted}; it is not")
    if len(mean) != len(std):
        raise ValueError(f"mean and std must be alike; they are [{len(mean)}] and [{len(std)}]")
    return mean, std


def _compare(prefix: str, expected: dict[str, Tensor], state: dict[str, Tensor]) -> None:
    """Raise unless the tensors of a file are those of the network, by name, type and shape."""
    for name in expected:
        if name not in state:
            raise ValueError(f"it lacks {prefix}.{name}")
    for name, tensor in state.items():
        shown = f"{prefix}.{shortened(name)}"
        if name not in expected:
            raise ValueError(f"{shown} is no tensor of its network")
        wanted = expected[name]
        if (wanted.dtype, wanted.shape) != (tensor.dtype, tensor.shape):
            raise ValueError(
                f"{shown} must be {wanted.dtype} {list(wanted.shape)}; it is {tensor.dtype} "
                f"{list(tensor.shape)}"
            )
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(f"{shown} must be finite; it is not")
