"""Embeddings by a pretrained network: a function, a file of weights, or a model of a library.

A model is named by its library and by its name or path there. It is read from the user's cache;
nothing is downloaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from ptd_ext.engine.networks import build
from ptd_ext.engine.networks.weights import load_weights, read_weights
from ptd_ext.engine.rows.column import texts_of
from ptd_ext.engine.rows.columns import are_texts
from ptd_ext.engine.rows.image_files import ImageFiles

_BATCH = 64
_IMAGENET_CLASSES = 1000
_SIDE = 224  # pixels a side that networks of ImageNet take
_MODULES = {
    "sentence-transformers": "sentence_transformers",
    "timm": "timm",
    "torchvision": "torchvision",
}
LIBRARIES = tuple(_MODULES)


@dataclass(frozen=True)
class _ImageModel:
    """A network of a library with what its images must be like."""

    network: nn.Module
    side: int  # in pixels
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def __call__(self, images: Tensor) -> Tensor:
        """Features of images from 0 to 1, resized to the side of the network."""
        if images.shape[1] == 1:
            images = images.expand(-1, 3, -1, -1)
        if images.shape[2:] != (self.side, self.side):
            size = (self.side, self.side)
            images = interpolate(images, size=size, mode="bilinear", antialias=True)
        mean, std = (torch.tensor(each).view(1, -1, 1, 1) for each in (self.mean, self.std))
        features: Tensor = self.network((images - mean) / std)
        return features.flatten(1)


def check_encoder(encoder: Any) -> None:
    """Raise ValueError for an encoder that no rows could work with."""
    if encoder is None or callable(encoder):
        return
    if not isinstance(encoder, (str, os.PathLike)):
        raise ValueError(
            "encoder must be a function, a file of weights or LIBRARY:NAME; got "
            f"{type(encoder).__name__}."
        )
    if not os.path.isfile(encoder) and _library(encoder) is None:
        raise ValueError(
            f"encoder must be a function, a file of weights or LIBRARY:NAME with one of the "
            f"libraries {', '.join(LIBRARIES)}; got {os.fspath(encoder)!r}, and there is no such "
            "file."
        )


def image_side(encoder: Any) -> int | None:
    """The side in pixels of the images that an encoder takes; None if it takes any, or texts."""
    if encoder is None or callable(encoder):
        return None
    if (library := _library(encoder)) is None:
        return _SIDE
    return None if library[0] == "sentence-transformers" else _image_model(*library).side


@torch.no_grad()
def encode(X: Any, encoder: Any) -> Tensor:  # noqa: N803
    """Embeddings [N, D] of images [N, channels, height, width] or of texts, a batch at a time."""
    library = None if callable(encoder) else _library(encoder)
    if library is not None and library[0] == "sentence-transformers":
        if not are_texts(X):
            raise ValueError(
                f"encoder={encoder!r} takes texts; X is of type {type(X).__name__}. Of a table, "
                "give the column of texts alone."
            )
        return _of_texts(texts_of(np.asarray(X, dtype=object)), library[1])
    if isinstance(X, ImageFiles):
        images: Any = X
    else:
        # A data frame or a sparse matrix is nothing that torch takes.
        images = X if hasattr(X, "shape") else torch.as_tensor(X)
        if len(images.shape) != 4:
            raise ValueError(
                "encoder takes images [N, channels, height, width]; X is "
                f"{list(images.shape)}. Leave it out for rows."
            )
        images = torch.as_tensor(images)
    if callable(encoder):
        function = encoder
    else:
        function = _resnet(encoder) if library is None else _image_model(*library)
    if isinstance(function, nn.Module):
        function.eval()
    found = []
    for start in range(0, len(images), _BATCH):
        batch = images[start : start + _BATCH]
        rows = function(batch.float() / 255 if batch.dtype == torch.uint8 else batch)
        rows = torch.as_tensor(rows)
        if rows.dim() != 2 or len(rows) != len(batch):
            raise ValueError(
                f"encoder must return embeddings [{len(batch)}, D] of a batch; got "
                f"{list(rows.shape)}."
            )
        if rows.is_complex():
            raise ValueError("encoder must return real numbers; it returns complex ones.")
        found.append(rows.detach().cpu().float())
    return torch.cat(found)


def _library(encoder: str | os.PathLike[str]) -> tuple[str, str] | None:
    """The library and the name of a model there; None for a file."""
    library, colon, name = os.fspath(encoder).partition(":")
    return (library, name) if colon and library in LIBRARIES and name else None


@contextmanager
def _loading(library: str, name: str) -> Iterator[None]:
    """Name the package to install, or the model that the cache does not hold."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != _MODULES[library]:
            raise
        raise ModuleNotFoundError(
            f"encoder={library}:{name} needs {library}: pip install {library}.", name=error.name
        ) from None
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise ValueError(
            f"encoder must name a model of {library} that is in its cache, or a path; {name!r} "
            f"cannot be loaded: {reason}. Nothing is downloaded: load the model once with "
            f"{library} itself, on a machine with a network."
        ) from None


def _of_texts(texts: list[str], name: str) -> Tensor:
    with _loading("sentence-transformers", name):
        package = import_module(_MODULES["sentence-transformers"])
        model = package.SentenceTransformer(name, local_files_only=True)
    return torch.as_tensor(model.encode(texts, show_progress_bar=False)).float().cpu()


def _image_model(library: str, name: str) -> _ImageModel:
    """A network of timm or torchvision; NAME@FILE has its weights from a file."""
    name, _, file = name.partition("@")
    with _loading(library, name):
        return (_of_timm if library == "timm" else _of_torchvision)(name, file)


def _of_timm(name: str, file: str) -> _ImageModel:
    import timm

    if not file:
        from huggingface_hub import try_to_load_from_cache

        config = timm.get_pretrained_cfg(name, allow_unregistered=False)
        cached = try_to_load_from_cache(config.hf_hub_id or "", "model.safetensors")
        if not isinstance(cached, str):
            raise ValueError("its weights are not in the cache of the Hugging Face Hub")
        file = cached
    overlay = {"file": file}
    network = timm.create_model(
        name, pretrained=True, num_classes=0, pretrained_cfg_overlay=overlay
    )
    data = timm.data.resolve_model_data_config(network)
    side, mean, std = data["input_size"][1], tuple(data["mean"]), tuple(data["std"])
    return _ImageModel(network.eval(), side, mean, std)


def _of_torchvision(name: str, file: str) -> _ImageModel:
    from torchvision import models

    weights = models.get_model_weights(name).DEFAULT
    path = Path(file or Path(torch.hub.get_dir(), "checkpoints", Path(weights.url).name))
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    network = models.get_model(name, weights=None)
    network.load_state_dict(read_weights(path))
    _without_head(network)
    transforms = weights.transforms()
    side = transforms.crop_size[0]
    return _ImageModel(network.eval(), side, tuple(transforms.mean), tuple(transforms.std))


def _without_head(network: nn.Module) -> None:
    """Replace the last linear layer by the identity."""
    path, _ = [each for each in network.named_modules() if isinstance(each[1], nn.Linear)][-1]
    parent, _, name = path.rpartition(".")
    setattr(network.get_submodule(parent), name, nn.Identity())


def _resnet(path: str | os.PathLike[str]) -> Callable[[Tensor], Tensor]:
    """The representation of a ResNet-18, 34 or 50, recognised by the names of its weights."""
    names = set(read_weights(path))
    if "layer1.0.conv3.weight" in names:
        name = "resnet50"
    else:
        name = "resnet34" if "layer3.5.conv1.weight" in names else "resnet18"
    network = build(name, _IMAGENET_CLASSES, inputs=(3, _SIDE, _SIDE))
    load_weights(network, path)
    network.eval()
    return lambda batch: network(batch)[0]
