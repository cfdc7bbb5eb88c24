"""The samples of a split, as the network takes them."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

__all__ = ["Inputs", "Scale", "sample_shape"]

_FILES_LOOKED_AT = 300  # per split, since reading a million takes as long as an epoch


class Inputs:
    """Samples of one split, fetched by position: normalised, on the device.

    Images stay uint8 until they are fetched, which takes a quarter of the memory of float32. If the
    whole split fits on the device it is kept there, and a batch is a gather without a host copy.
    """

    def __init__(self, stored: Any, positions: Tensor | None, scale: Scale) -> None:
        if isinstance(stored, Tensor) and positions is not None:
            stored, positions = stored[positions], None
        self.stored, self.positions, self.scale = stored, positions, scale

    def __len__(self) -> int:
        return len(self.stored) if self.positions is None else len(self.positions)

    def to(self, device: torch.device) -> Inputs:
        """Return a copy with the samples on a device, unless they are files."""
        stored = self.stored.to(device) if isinstance(self.stored, Tensor) else self.stored
        return Inputs(stored, self.positions, self.scale)

    @property
    def device(self) -> torch.device:
        """The device that ids must be on for a fetch without a host sync."""
        return self.stored.device if isinstance(self.stored, Tensor) else torch.device("cpu")

    @functools.cached_property
    def sample_numbers(self) -> int:
        """How many numbers one sample has."""
        return sample_shape(self.stored).numel()

    @property
    def slow(self) -> bool:
        """True if a fetch reads files, which is worth prefetching."""
        return not isinstance(self.stored, Tensor)

    def add_to(self, found: Any) -> None:
        """Add all samples to a checksum; if they are many files, only some, evenly spaced."""
        found.update(repr((self.scale.mean, self.scale.std)).encode())
        if isinstance(self.stored, Tensor):
            stored = self.stored.cpu().contiguous()
            found.update(f"{stored.dtype} {list(stored.shape)}".encode())
            found.update(stored.view(-1).view(torch.uint8).numpy().data)
            return
        count = min(len(self), _FILES_LOOKED_AT)
        few = torch.linspace(0, len(self) - 1, count, dtype=torch.float64).long()
        for position in (few if self.positions is None else self.positions[few]).tolist():
            name = self.stored.name(position)
            contents = (self.stored.root / name).read_bytes()
            found.update(f"{name} {len(contents)}/".encode() + contents)

    def raw(self, position: int) -> Tensor:
        """One sample as it is stored, neither normalised nor moved."""
        if isinstance(self.stored, Tensor):
            return self.stored[position].cpu()
        where = position if self.positions is None else int(self.positions[position])
        return self.stored[torch.tensor([where])][0]

    def fetch(self, ids: Tensor, device: torch.device) -> Tensor:
        """The samples at `ids`, as the network takes them."""
        ids = ids.to(self.device)
        if isinstance(self.stored, Tensor):
            rows = self.stored.index_select(0, ids)
        else:
            rows = self.stored[ids if self.positions is None else self.positions[ids]]
        if device.type == "cuda" and rows.device.type == "cpu":
            rows = rows.pin_memory()
        return self.scale(rows.to(device, non_blocking=True))


@dataclass(frozen=True)
class Scale:
    """Normalises uint8 images to mean 0 and deviation 1 per channel; keeps other samples."""

    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    channels_last: bool

    def __call__(self, rows: Tensor) -> Tensor:
        """Samples as floats."""
        if rows.dim() != 4:
            return rows.float() if rows.dtype == torch.uint8 else rows
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        whole = rows.dtype == torch.uint8
        rows = rows.to(torch.float32, memory_format=layout)
        if self.mean is None or self.std is None:
            return rows
        unit = 255.0 if whole else 1.0
        if len(self.mean) == 1:
            return rows.sub_(unit * self.mean[0]).mul_(1 / (unit * self.std[0]))
        mean = _by_channel(self.mean, unit, rows.device)
        return rows.sub_(mean).div_(_by_channel(self.std, unit, rows.device))


@functools.lru_cache(maxsize=32)
def _by_channel(values: tuple[float, ...], unit: float, device: torch.device) -> Tensor:
    """[1, channels, 1, 1], copied to the device once and not at every step."""
    return (unit * torch.tensor(values)).view(1, -1, 1, 1).to(device)


def sample_shape(inputs: Any) -> torch.Size:
    """The shape of one sample, of a tensor or of image files."""
    if isinstance(inputs, Tensor):
        return inputs.shape[1:]
    return inputs[torch.zeros(1, dtype=torch.int64)].shape[1:]
