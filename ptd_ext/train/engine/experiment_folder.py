"""The folder of an experiment: its lock, and the check that its content belongs to it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ptd_ext.train.config.settings import Settings
from ptd_ext.train.config.toml import read_config
from ptd_ext.train.data.problem import Problem
from ptd_ext.train.engine.checkpoint import digest
from ptd_ext.utils.atomic_files import NotWrittenError, remove_leftovers
from ptd_ext.utils.distributed import Ranks

__all__ = ["check_folder", "claim", "new_folder", "read_finished", "result_name"]

_LOCK = ".lock"
# An experiment writes settings.toml first: without it, these files belong to something else.
_WRITTEN = ("checkpoint.pt", "metrics.jsonl", "network.pt", "result.json")
_claimed: set[Path] = set()  # folders that this process has claimed


def new_folder(name: str, ranks: Ranks, root: Path = Path("runs")) -> Path:
    """Make runs/NAME, with the first free number appended if need be; the same on all ranks."""
    path, number = root / name, 1
    while ranks.first:
        try:
            path.mkdir(parents=True)
            break
        except FileExistsError:
            number += 1
            path = root / f"{name}-{number}"
    return Path(ranks.word(str(path)))


@contextmanager
def claim(out: Path, ranks: Ranks) -> Iterator[None]:
    """Make and lock the folder, and remove temporary files that killed processes have left.

    Nothing may be written to the folder outside of this context. A process may claim a folder
    again within its own claim. After an error a folder that is empty but for the lock is removed.
    """
    ranks.wait()
    folder, lock = out.absolute(), None
    if ranks.first and folder not in _claimed:
        lock = _lock(out)
        _claimed.add(folder)
        remove_leftovers(out)
    ranks.wait()
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            if lock is not None and os.listdir(out) == [_LOCK]:
                (out / _LOCK).unlink()
                out.rmdir()
        raise
    finally:
        if lock is not None:
            _claimed.discard(folder)
            os.close(lock)


def _lock(out: Path) -> int:
    """Return a descriptor that locks the folder until it is closed or the process ends."""
    path = out / _LOCK
    while True:
        try:
            out.mkdir(parents=True, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:  # another process has just removed the folder it had made
            continue
        except OSError as error:
            raise NotWrittenError.of(path, error) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A process that fails removes its lock file, and this descriptor may be of that file.
            if path.exists() and os.path.samestat(os.fstat(lock), path.stat()):
                return lock
        except BlockingIOError:
            os.close(lock)
            raise ValueError(
                f"{out} is in use: another process trains there. Wait for its end, or give another "
                "--out."
            ) from None
        except FileNotFoundError:
            pass
        except OSError as error:
            os.close(lock)
            raise ValueError(f"{path} cannot be locked: {error.strerror}.") from None
        os.close(lock)


def check_folder(settings: Settings, out: Path, resume: bool) -> None:
    """Raise unless the folder is free, or holds a run of these settings to continue."""
    kept = out / "settings.toml"
    if not kept.exists():
        for name in _WRITTEN:
            if (out / name).exists():
                raise FileExistsError(
                    f"{out} holds a {name}, but no settings.toml that says whose it is: it would "
                    "be overwritten. Move it away, or give another --out."
                )
        return
    if not resume:
        raise FileExistsError(
            f"{out} holds a run already: continue it with --resume, or give another --out."
        )
    try:
        before = Settings(**read_config(kept))
    except ValueError as error:
        text = str(error)
        raise ValueError(text if str(kept) in text else f"{kept}: {text}") from None
    if digest(before) != digest(settings):
        now = vars(settings)
        name = next(n for n in now if digest(before.replace(**{n: now[n]})) != digest(before))
        raise ValueError(
            f"{out} holds a run with other settings: {name} was {getattr(before, name)!r} and is "
            f"{now[name]!r}. Continue with those settings, or give another --out."
        )


def read_finished(path: Path, problem: Problem) -> dict[str, Any] | None:
    """The result of a finished run on these data; None if there is none yet."""
    if not path.exists():
        return None
    again = "Delete it, and --resume goes on from the checkpoint."
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged, it is not JSON ({error}). {again}") from None
    if not isinstance(result, dict):
        raise ValueError(
            f"{path} must hold the result of a run; it holds a {type(result).__name__}. {again}"
        )
    for name in ("test_accuracy", "test_accuracy_last"):
        value = result.get(name)
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ValueError(
                f"{path} must hold the result of a run, with a number {name}; got {value!r}. "
                f"{again}"
            )
    fingerprint = problem.fingerprint()
    if result.get("fingerprint") != fingerprint:
        raise ValueError(
            f"{path} is the result of a run on other data: their fingerprint was "
            f"{result.get('fingerprint')}, and that of the data now is {fingerprint}. Give the "
            "data of that run with --data, or another --out."
        )
    return result


def result_name(result: dict[str, Any], split: str) -> str:
    """The name of the test or validation split of a finished run, for tables."""
    kind = result.get(f"{split}_labels", "clean" if split == "test" else "noisy")
    return f"given-label {split}" if kind == "given" else f"{kind} {split}"
