"""Files of tensors with metadata: safetensors, the metadata as JSON in its header.

safetensors is what torch users share weights in: reading it runs no code, and it is one small
package without dependencies. A checksum of everything is kept with the metadata, because the format
has none. A file is written under a temporary name and renamed, so it is never there in part.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from ptd_ext.utils.atomic_files import NotWrittenError, atomic_file
from ptd_ext.utils.bounded_files import reason, shortened

__all__ = ["check_header", "read", "write"]

_KEY = "ptd_ext"
_VERSION = 1
# The names, shapes and words of a file; those of ptd_ext have some kilobytes.
_MAX_HEADER = 1 << 20
_MAX_ENTRY = 200  # bytes of a tensor's type, shape and place in the header


def write(
    path: str | os.PathLike[str], kind: str, tensors: dict[str, Tensor], about: dict[str, Any]
) -> None:
    """Write `tensors`, and `about`, which JSON must be able to hold."""
    # Imported here, like in `read`: the losses do not wait for it.
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    # Clones, because safetensors takes no tensors that share memory.
    tensors = {
        name: t.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, t in tensors.items()
    }
    digest = _digest(tensors, about)
    header = {"kind": kind, "version": _VERSION, "sha256": digest, "about": about}
    words = {_KEY: json.dumps(header, allow_nan=False)}
    _check_words(path, words, tensors)
    with atomic_file(path) as temporary:
        try:
            save_file(tensors, temporary, metadata=words)
        except SafetensorError as error:
            raise NotWrittenError(f"{path} could not be written: {error}.") from None


def _check_words(
    path: str | os.PathLike[str], words: dict[str, str], tensors: dict[str, Tensor]
) -> None:
    """Raise for words that `read` would refuse."""
    names = sum(len(name) + _MAX_ENTRY for name in tensors)
    if (size := len(json.dumps(words)) + names) > _MAX_HEADER:
        raise ValueError(
            f"{path} cannot be written: names and words of {size:,} bytes are more than the "
            f"{_MAX_HEADER:,} that its header may hold."
        )


def read(
    path: str | os.PathLike[str], kind: str, names: Collection[str]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and metadata of a file of this kind, which must have the tensors `names`."""
    from safetensors import SafetensorError, safe_open

    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path} is not a file.")
    check_header(path)
    try:
        with safe_open(path, framework="pt") as file:
            words = (file.metadata() or {}).get(_KEY)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged or no safetensors file: {reason(error)}.") from None
    if words is None:
        raise ValueError(f"{path} was not written by ptd_ext: its header has no {_KEY!r}.")
    try:
        header = json.loads(words, parse_constant=_no_constant)
        found, version, digest = header["kind"], header["version"], header["sha256"]
        about = dict(header["about"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{path} is damaged: its header cannot be read.") from None
    if found != kind:
        raise ValueError(f"{path} must hold {kind}; it holds {shortened(found)}.")
    if version != _VERSION:
        raise ValueError(
            f"{path} is of version {shortened(version)}; this ptd_ext reads version {_VERSION}."
        )
    missing = set(names) - set(tensors)
    if missing:
        raise ValueError(f"{path} is damaged: {', '.join(sorted(missing))} missing.")
    if digest != _digest(tensors, about):
        raise ValueError(f"{path} is damaged: its contents do not have the checksum they had.")
    return tensors, about


def _no_constant(name: str) -> None:
    """NaN and the infinities are none of JSON's numbers, and none that `write` lets through."""
    raise ValueError(f"{name} is no number of JSON")


def check_header(path: str | os.PathLike[str]) -> None:
    """Raise where a safetensors file declares a header that takes more than a few megabytes."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
    # A file that declares more than it has is what safetensors says itself.
    if _MAX_HEADER < size < os.path.getsize(path):
        raise ValueError(
            f"{path} must have a header of at most {_MAX_HEADER:,} bytes; it has {size:,}."
        )


def _digest(tensors: dict[str, Tensor], about: dict[str, Any]) -> str:
    """SHA-256 over the words, and the tensors' names, types, shapes and bytes by rising name."""
    words = json.dumps(about, sort_keys=True, allow_nan=False)
    total = hashlib.sha256(words.encode("utf-8", "surrogatepass"))
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()
