"""The device that a user names, checked before anything runs on it."""

from __future__ import annotations

from typing import Any

import torch


def chosen_device(given: Any, name: str = "device") -> torch.device:
    """Return the device; raises ValueError for one that does not work on this machine.

    Args:
        given: a device or its name; None or "auto" for a GPU if there is one.
        name: name of the argument, for error messages.
    """
    if given is None or given == "auto":
        given = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(given)
    except (RuntimeError, TypeError):
        raise ValueError(f"{name} must be auto, cpu, cuda or cuda:1; got {given!r}.") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(f"{name} is {given}, but torch finds no GPU; use cpu or auto.")
        if (device.index or 0) >= (count := torch.cuda.device_count()):
            raise ValueError(
                f"{name} is {given}, but the last GPU is cuda:{count - 1}; use that, or auto."
            )
    elif device.type != "cpu":
        try:  # store a number and read it back, which "meta" cannot
            torch.ones(1, device=device).item()
        except (RuntimeError, AssertionError, NotImplementedError, ImportError, AttributeError):
            raise ValueError(
                f"{name} is {device}, which this torch cannot use on this machine; use cpu or auto."
            ) from None
    return device
