"""The samples of a split, as the network takes them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ptd_ext.engine.rows.preprocessing import Preprocessing

_FILES_LOOKED_AT = 300  # per split, since reading a million takes as long as an epoch


class Inputs:
    """Samples of one split, fetched by position: normalised, on the device.

    Images stay uint8 until they are fetched, which takes a quarter of the memory of float32. If the
    whole split fits on the device it is kept there, and a batch is a gather without a host copy.
    """

    def __init__(
        self,
        stored: Any,
        positions: Tensor | None,
        preprocessing: Preprocessing,
        *,
        channels_last: bool = False,
    ) -> None:
        if isinstance(stored, Tensor) and positions is not None:
            stored, positions = stored[positions], None
        self.stored, self.positions, self.preprocessing = stored, positions, preprocessing
        self.channels_last = channels_last

    def __len__(self) -> int:
        return len(self.stored) if self.positions is None else len(self.positions)

    def to(self, device: torch.device) -> Inputs:
        """Return a copy with the samples on a device, unless they are files."""
        stored = self.stored.to(device) if isinstance(self.stored, Tensor) else self.stored
        return Inputs(stored, self.positions, self.preprocessing, channels_last=self.channels_last)

    @property
    def device(self) -> torch.device:
        """The device that ids must be on for a fetch without a host sync."""
        return self.stored.device if isinstance(self.stored, Tensor) else torch.device("cpu")

    @property
    def sample_numbers(self) -> int:
        """How many numbers one sample has."""
        return self.preprocessing.shape.numel()

    @property
    def slow(self) -> bool:
        """True if a fetch reads files, which is worth prefetching."""
        return not isinstance(self.stored, Tensor)

    def add_to(self, found: Any) -> None:
        """Add all samples to a checksum; if they are many files, only some, evenly spaced."""
        for moment in (self.preprocessing.mean, self.preprocessing.scale):
            found.update(b"none" if moment is None else moment.numpy().tobytes())
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

    def where(self) -> list[int]:
        """The positions of the samples among those that are stored."""
        return list(range(len(self))) if self.positions is None else self.positions.tolist()

    def fetch(self, ids: Tensor, device: torch.device) -> Tensor:
        """The samples at `ids`, as the network takes them."""
        ids = ids.to(self.device)
        if isinstance(self.stored, Tensor):
            rows = self.stored.index_select(0, ids)
        else:
            rows = self.stored[ids if self.positions is None else self.positions[ids]]
        if device.type == "cuda" and rows.device.type == "cpu":
            rows = rows.pin_memory()
        rows = rows.to(device, non_blocking=True)
        return self.preprocessing(rows, channels_last=self.channels_last)
