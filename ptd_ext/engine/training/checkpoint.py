"""Checkpoints: everything that is needed to continue to the same bits."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pickle
from collections.abc import Callable, Collection
from pathlib import Path
from typing import IO, Any, BinaryIO, cast

import torch

from ptd_ext.train.config.settings import Settings, describe
from ptd_ext.utils.atomic_files import atomic_file

__all__ = ["digest", "load", "rng_state", "save", "save_tensors", "set_rng_state"]

_FORMAT = 3
_MARK = b"\nptd_ext sha256 "
_TRAILER = len(_MARK) + 2 * hashlib.sha256().digest_size
_PIECE = 1 << 20
_INSTEAD = "Put back a copy of it, or delete it to begin anew."


def digest(settings: Settings, without: Collection[str] = ()) -> str:
    """A hash of the settings that the result depends on.

    Settings of the section "run" and the folder of the data are left out: a run may continue on
    another machine. :meth:`ptd_ext.train.data.problem.Problem.fingerprint` identifies the data.
    """
    values = {
        name: value
        for name, value in dataclasses.asdict(settings).items()
        if name != "data" and name not in without and describe(name)["section"] != "run"
    }
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:16]


def save(path: Path, belongs_to: str, state: dict[str, Any]) -> None:
    """Write a checkpoint atomically."""
    whole = {"format": _FORMAT, "belongs_to": belongs_to, **state}
    save_tensors(path, whole, checksum=True)


def save_tensors(path: Path, state: dict[str, Any], *, checksum: bool = False) -> None:
    """Write a file for `torch.load` atomically, with a checksum if :func:`load` is to read it.

    The checksum follows the archive, where `torch.load` does not look.
    """
    with atomic_file(path) as temporary, open(temporary, "wb") as file:
        writer = _Writer(file)
        torch.save(state, cast(IO[bytes], writer))
        if checksum:
            writer.write(_MARK + writer.sum.hexdigest().encode())
        if writer.error is not None:
            raise writer.error


class _Writer:
    """A file for `torch.save` that sums up its bytes.

    An exception must not pass through torch's archive writer: its destructor would write again, and
    abort the process when that fails as well. So the error is stored, and later bytes are dropped.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.sum = hashlib.sha256()
        self.error: OSError | None = None
        self._file = file

    @property
    def name(self) -> str:
        """The name of the file."""
        return self._file.name

    def write(self, data: bytes) -> int:
        """Write the bytes, unless a write has failed."""
        self.sum.update(data)
        if self.error is None:
            self._try(lambda: self._file.write(data))
        return len(data)

    def flush(self) -> None:
        """Flush the file, unless a write has failed."""
        if self.error is None:
            self._try(self._file.flush)

    def _try(self, call: Callable[[], object]) -> None:
        try:
            call()
        except OSError as error:
            self.error = error


def load(path: Path, belongs_to: str) -> dict[str, Any]:
    """Read a checkpoint of the same settings and data, without running code from it."""
    _check_sum(path)
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, pickle.UnpicklingError, EOFError, ValueError, KeyError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{path} is damaged or no checkpoint of ptd_ext: {reason}") from None
    if not isinstance(state, dict) or state.get("format") != _FORMAT:
        raise ValueError(f"{path} is not a checkpoint that this ptd_ext reads. {_INSTEAD}")
    if state.get("belongs_to") != belongs_to:
        raise ValueError(
            f"{path} belongs to a run with other settings or data; take another folder."
        )
    return state


def _check_sum(path: Path) -> None:
    """Raise for a file whose bytes are not those that were written."""
    size, found = path.stat().st_size - _TRAILER, hashlib.sha256()
    if size <= 0:
        raise ValueError(
            f"{path} must be a checkpoint of ptd_ext; it has only {size + _TRAILER} bytes. "
            f"{_INSTEAD}"
        )
    with path.open("rb") as file:
        left = size
        while left and (piece := file.read(min(_PIECE, left))):
            found.update(piece)
            left -= len(piece)
        trailer = file.read()
    if not trailer.startswith(_MARK):
        raise ValueError(
            f"{path} is damaged or no checkpoint of ptd_ext: it does not end with a checksum. "
            f"{_INSTEAD}"
        )
    if trailer[len(_MARK) :] != found.hexdigest().encode():
        raise ValueError(
            f"{path} is damaged: its contents do not have the checksum they had. {_INSTEAD}"
        )


def rng_state() -> dict[str, Any]:
    """Return the state of the generators that layers such as dropout draw from."""
    state = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def set_rng_state(state: dict[str, Any]) -> None:
    """Go back to a state of :func:`rng_state`."""
    torch.set_rng_state(state["cpu"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
