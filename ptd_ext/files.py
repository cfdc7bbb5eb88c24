"""Files of tensors with a few words about them: safetensors, the words as JSON in its header.

safetensors is what torch users share weights in: reading it runs no code, and it is one small
package without dependencies. A checksum of everything is kept with the words, because the format
has none. A file is written under a temporary name and renamed: it is there whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor

from ptd_ext.whole_files import NotWrittenError, whole_file

__all__ = ["read", "write"]

_KEY = "ptd_ext"
_VERSION = 1


def write(
    path: str | os.PathLike[str], kind: str, tensors: dict[str, Tensor], about: dict[str, Any]
) -> None:
    """Write `tensors`, and `about`, which JSON must be able to hold."""
    # Imported here, like in `read`: the losses do not wait for it.
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    # Clones, because safetensors refuses tensors that share memory.
    tensors = {
        name: t.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, t in tensors.items()
    }
    digest = _digest(tensors, about)
    header = {"kind": kind, "version": _VERSION, "sha256": digest, "about": about}
    words = {_KEY: json.dumps(header, allow_nan=False)}
    with whole_file(path) as temporary:
        try:
            save_file(tensors, temporary, metadata=words)
        except SafetensorError as error:
            raise NotWrittenError(f"{path} could not be written: {error}.") from None


def read(
    path: str | os.PathLike[str], kind: str, names: Collection[str]
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and words of a file of this kind that has at least the tensors `names`."""
    from safetensors import SafetensorError, safe_open

    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path} is not a file.")
    try:
        with safe_open(path, framework="pt") as file:
            words = (file.metadata() or {}).get(_KEY)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged or no safetensors file: {error}.") from None
    if words is None:
        raise ValueError(f"{path} was not written by ptd_ext: its header has no {_KEY!r}.")
    try:
        header = json.loads(words)
        found, version, digest = header["kind"], header["version"], header["sha256"]
        about = dict(header["about"])
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"{path} is damaged: its header cannot be read.") from None
    if found != kind:
        raise ValueError(f"{path} must hold {kind}; it holds {found}.")
    if version != _VERSION:
        raise ValueError(f"{path} is of version {version}; this ptd_ext reads version {_VERSION}.")
    missing = set(names) - set(tensors)
    if missing:
        raise ValueError(f"{path} is damaged: {', '.join(sorted(missing))} missing.")
    if digest != _digest(tensors, about):
        raise ValueError(f"{path} is damaged: its contents do not have the checksum they had.")
    return tensors, about


def _digest(tensors: dict[str, Tensor], about: dict[str, Any]) -> str:
    """SHA-256 over the words, and the tensors' names, types, shapes and bytes by rising name."""
    total = hashlib.sha256(json.dumps(about, sort_keys=True, allow_nan=False).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return total.hexdigest()
