"""Noisy labels with the distributions they were drawn from, and the file that holds them."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from ptd_ext.utils import tensor_files as files
from ptd_ext.utils.ids import as_ids, as_labels, as_rows

_FORMAT = "label noise"
_TENSORS = ("noisy_labels", "labels", "rows", "ids")
# Sums of float32 probabilities may be off 1 by this much; those of 3,000 classes are by 1e-6.
_TOLERANCE = 1e-3


@dataclass(frozen=True)
class LabelNoise:
    """Noisy labels of N samples in C classes.

    Attributes:
        noisy_labels: ȳ, [N].
        labels: y, [N], the clean ones.
        rows: p, float32 [N, C]: ȳ was drawn from row n, which is row y of T(x).
        ids: [N], the samples' ids.
        kind: "instance", "symmetric" or "pairwise".
        settings: the arguments the noise was generated with, such as rate and random_state.
    """

    noisy_labels: Tensor = field(repr=False)
    labels: Tensor = field(repr=False)
    rows: Tensor = field(repr=False)
    ids: Tensor = field(repr=False)
    kind: str
    settings: dict[str, Any]

    @property
    def n_classes(self) -> int:
        """The number of classes, C."""
        return self.rows.shape[1]

    @property
    def realised_rate(self) -> float:
        """The share of labels that are wrong."""
        return (self.noisy_labels != self.labels).double().mean().item()

    @property
    def expected_rate(self) -> float:
        """The mean of 1 − p_y, which is the expectation of the realised rate."""
        kept = self.rows.gather(1, self.labels[:, None]).double()
        return (1 - kept).mean().item()

    @property
    def confusion(self) -> Tensor:
        """Counts [C, C]: entry (i, k) is the number of samples of class i with the label k."""
        pairs = self.labels * self.n_classes + self.noisy_labels
        return pairs.bincount(minlength=self.n_classes**2).view(self.n_classes, self.n_classes)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a safetensors file; the write is atomic."""
        tensors = {name: getattr(self, name) for name in _TENSORS}
        files.write(path, _FORMAT, tensors, {"kind": self.kind, "settings": self.settings})

    @classmethod
    def load(cls, path: str | PathLike[str]) -> LabelNoise:
        """Read what :meth:`save` wrote; raise ValueError for a wrong or damaged file."""
        tensors, about = files.read(path, _FORMAT, _TENSORS)
        try:
            return _checked(tensors, about)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} holds no usable {_FORMAT}: {error}") from None


def _checked(tensors: dict[str, Tensor], about: dict[str, Any]) -> LabelNoise:
    rows = as_rows(tensors["rows"], "rows")
    samples, n_classes = rows.shape
    for name in ("labels", "noisy_labels"):
        tensors[name], _ = as_labels(tensors[name], n_classes)
        if len(tensors[name]) != samples:
            raise ValueError(f"{name} must be [{samples}]; got {list(tensors[name].shape)}.")
    tensors["ids"] = as_ids(tensors["ids"], samples, torch.device("cpu"))
    off = (rows < 0).any(1) | ((rows.sum(1, dtype=torch.float64) - 1).abs() > _TOLERANCE)
    if off.any():
        first = int(off.nonzero()[0])
        raise ValueError(
            f"rows must be probabilities; row {first} has the sum {float(rows[first].sum()):.6g} "
            f"and the smallest entry {float(rows[first].min()):.6g}."
        )
    kind, settings = about.get("kind"), about.get("settings")
    if not isinstance(kind, str) or not isinstance(settings, dict):
        raise ValueError("its header must give the kind of noise and its settings.")
    tensors = {name: tensors[name] for name in _TENSORS}
    return LabelNoise(**tensors, kind=kind, settings=settings)
