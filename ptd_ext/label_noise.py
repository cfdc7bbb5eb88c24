"""A set of noisy labels with what it was drawn from, and its file."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from ptd_ext import files
from ptd_ext.samples import as_ids, as_labels

__all__ = ["LabelNoise", "load_noise", "save_noise"]

_FORMAT = "label noise"


@dataclass(frozen=True)
class LabelNoise:
    """Noisy labels of N samples in C classes.

    Attributes:
        noisy_labels: ȳ, [N].
        labels: y, [N], the clean ones.
        rows: p, float32 [N, C]: ȳ was drawn from row n, which is row y of T(x).
        ids: [N], the samples' ids.
        kind: "instance", "symmetric" or "pairwise".
        settings: rate, seed and what else it was made with.
    """

    noisy_labels: Tensor = field(repr=False)
    labels: Tensor = field(repr=False)
    rows: Tensor = field(repr=False)
    ids: Tensor = field(repr=False)
    kind: str
    settings: dict[str, Any]

    @property
    def classes(self) -> int:
        """C."""
        return self.rows.shape[1]

    @property
    def realised_rate(self) -> float:
        """The share of labels that are wrong."""
        return (self.noisy_labels != self.labels).double().mean().item()

    @property
    def expected_rate(self) -> float:
        """The mean of 1 − p_y: what the realised rate is a draw of."""
        kept = self.rows.gather(1, self.labels[:, None]).double()
        return (1 - kept).mean().item()

    @property
    def confusion(self) -> Tensor:
        """Counts [C, C]: entry (i, k) samples of class i carry the label k."""
        pairs = self.labels * self.classes + self.noisy_labels
        return pairs.bincount(minlength=self.classes**2).view(self.classes, self.classes)


def save_noise(noise: LabelNoise, path: str | PathLike[str]) -> None:
    """Write everything in `noise` to a safetensors file, which is there whole or not at all."""
    tensors = {name: getattr(noise, name) for name in ("noisy_labels", "labels", "rows", "ids")}
    files.write(path, _FORMAT, tensors, {"kind": noise.kind, "settings": noise.settings})


def load_noise(path: str | PathLike[str]) -> LabelNoise:
    """Read what :func:`save_noise` wrote; a wrong or damaged file is refused with a sentence."""
    tensors, about = files.read(path, _FORMAT, ("noisy_labels", "labels", "rows", "ids"))
    noise = LabelNoise(**tensors, kind=about["kind"], settings=about["settings"])
    try:
        if noise.rows.dim() != 2:
            raise ValueError(f"rows must be [N, C]; got {list(noise.rows.shape)}.")
        for labels in (noise.labels, noise.noisy_labels):
            as_labels(labels, noise.classes)
            if labels.shape != noise.rows.shape[:1]:
                raise ValueError(f"labels must be [{len(noise.rows)}]; got {list(labels.shape)}.")
        as_ids(noise.ids, len(noise.rows), torch.device("cpu"))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} holds no usable {_FORMAT}: {error}") from None
    return noise
