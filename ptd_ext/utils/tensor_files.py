"""Tensors with metadata in safetensors files, the metadata as JSON in the header.

Reading safetensors runs no code, and the package has no dependencies. The format has no checksum,
so one of all contents is stored with the metadata. Writes are atomic.
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

_KEY = "ptd_ext"
_MAX_HEADER = 1 << 20  # bytes; the headers of ptd_ext have some kilobytes
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_TYPES = (*_FLOATS, torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
_MAX_ENTRY = 200  # bytes of a tensor's type, shape and offsets in the header


def write(
    path: str | os.PathLike[str],
    kind: str,
    tensors: dict[str, Tensor],
    about: dict[str, Any],
    version: int = 1,
) -> None:
    """Write tensors and their metadata `about`, a dictionary that JSON can represent.

    `version` is that of the format of files of this kind.
    """
    # Imported here and in `read`, so that `import ptd_ext` stays fast.
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    # Clones, because safetensors rejects tensors that share memory.
    tensors = {
        name: t.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, t in tensors.items()
    }
    digest = _digest(tensors, about)
    header = {"kind": kind, "version": version, "sha256": digest, "about": about}
    metadata = {_KEY: json.dumps(header, allow_nan=False)}
    names = sum(len(name) + _MAX_ENTRY for name in tensors)
    if (size := len(json.dumps(metadata)) + names) > _MAX_HEADER:  # `read` would reject it
        raise ValueError(
            f"{path} cannot be written: names and metadata of {size:,} bytes are more than the "
            f"{_MAX_HEADER:,} bytes that its header may hold."
        )
    with atomic_file(path) as temporary:
        try:
            save_file(tensors, temporary, metadata=metadata)
        except SafetensorError as error:
            raise NotWrittenError(f"{path} could not be written: {error}.") from None


def read(
    path: str | os.PathLike[str], kind: str, names: Collection[str], version: int = 1
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read tensors and metadata of a file of this kind, which must have the tensors `names`."""
    from safetensors import SafetensorError, safe_open

    if not os.path.isfile(path):
        raise FileNotFoundError(f"{path} is not a file.")
    check_header(path)
    try:
        with safe_open(path, framework="pt") as file:
            metadata = (file.metadata() or {}).get(_KEY)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} is damaged or not a safetensors file: {reason(error)}.") from None
    if metadata is None:
        raise ValueError(f"{path} was not written by ptd_ext: its header has no {_KEY!r}.")
    try:
        header = json.loads(metadata, parse_constant=_no_constant)
        found, written, digest = header["kind"], header["version"], header["sha256"]
        about = dict(header["about"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{path} is damaged: its header cannot be read.") from None
    if found != kind:
        raise ValueError(f"{path} must hold {kind}; it holds {shortened(found)}.")
    if written != version:
        raise ValueError(
            f"{path} was written by another version of ptd_ext: it holds {kind} in format "
            f"{shortened(written)}, and this version reads format {version}. Create it again."
        )
    for name, tensor in tensors.items():
        if tensor.dtype not in _TYPES:
            raise ValueError(
                f"{path} must hold tensors of types that ptd_ext writes; {shortened(name)} is "
                f"{tensor.dtype}."
            )
    missing = set(names) - set(tensors)
    if missing:
        raise ValueError(f"{path} is damaged: it lacks {', '.join(sorted(missing))}.")
    if digest != _digest(tensors, about):
        raise ValueError(f"{path} is damaged: its contents do not match its checksum.")
    return tensors, about


def _no_constant(name: str) -> None:
    """Reject NaN and infinities, which JSON excludes and `write` never produces."""
    raise ValueError(f"{name} is not a JSON number")


def json_tensor(value: Any) -> Tensor:
    """A value as the bytes of its JSON, for what is too large for the header."""
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def json_of(tensor: Tensor) -> Any:
    """The value that :func:`json_tensor` stored; raises ValueError for other contents."""
    return json.loads(tensor.numpy().tobytes())


def check_header(path: str | os.PathLike[str]) -> None:
    """Raise ValueError for a safetensors file that declares too large a header."""
    with open(path, "rb") as file:
        size = int.from_bytes(file.read(8), "little")
    # safetensors itself reports a header that is longer than the file.
    if _MAX_HEADER < size < os.path.getsize(path):
        raise ValueError(
            f"{path} must have a header of at most {_MAX_HEADER:,} bytes; it has {size:,}."
        )


def _digest(tensors: dict[str, Tensor], about: dict[str, Any]) -> str:
    """Return the SHA-256 of metadata and tensors: names, types, shapes and bytes, by name."""
    metadata = json.dumps(about, sort_keys=True, allow_nan=False)
    total = hashlib.sha256(metadata.encode("utf-8", "surrogatepass"))
    for name in sorted(tensors):
        tensor = tensors[name]
        total.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()
