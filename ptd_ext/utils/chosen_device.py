"""The device that a user names, checked before anything is computed on it."""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["chosen_device"]


def chosen_device(given: Any, name: str = "device") -> torch.device:
    """Return the device; raises ValueError with a sentence for one that does not work here.

    Args:
        given: a device or its name; None or "auto" for a GPU if there is one.
        name: of the argument, for the sentence.
    """
    if given is None or given == "auto":
        given = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(given)
    except (RuntimeError, TypeError):
        raise ValueError(f"{name} must be auto, cpu, cuda or cuda:1; got {given!r}.") from None
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(f"{name} is {given}, but torch finds no GPU; take cpu or auto.")
        if (device.index or 0) >= torch.cuda.device_count():
            raise ValueError(f"{name} is {given}, but there are {torch.cuda.device_count()} GPUs.")
    elif device.type != "cpu":
        _try(device, name)
    return device


def _try(device: torch.device, name: str) -> None:
    """Raise unless a number can be stored there and read again, which "meta" cannot do."""
    try:
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError, ImportError, AttributeError):
        raise ValueError(
            f"{name} is {device}, which this torch cannot use on this machine; take cpu or auto."
        ) from None
