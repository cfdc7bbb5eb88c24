"""Labelled rows to train on and to validate with: all that training needs to know."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ptd_ext.engine.rows.inputs import Inputs


@dataclass(frozen=True)
class TrainingData:
    """Rows with given labels, some of them held out. Positions in `train` are the ids of samples.

    Attributes:
        train: the rows to train on.
        validation: the rows that are held out for model selection.
        train_labels: class indices of the given labels, int64 [N].
        validation_labels: likewise, int64 [M].
        class_names: the names of the classes, [C].
        sample_shape: the shape of one row: [D], [L] or [channels, H, W].
        embedding: vectors of the words that token rows hold, [V, D]; None for other rows.
        verified: what reviewers found about each training row, int64 [N], as codes of
            `ptd_ext.transition.verified`; None where nobody has looked.
        noise_rate: the share of wrong labels, where it is known from elsewhere.
    """

    train: Inputs
    validation: Inputs
    train_labels: Tensor
    validation_labels: Tensor
    class_names: tuple[str, ...]
    sample_shape: torch.Size
    embedding: Tensor | None = None
    verified: Tensor | None = None
    noise_rate: float | None = None

    @property
    def n_classes(self) -> int:
        """The number of classes, C."""
        return len(self.class_names)

    @property
    def train_size(self) -> int:
        """The number of training samples, N."""
        return len(self.train_labels)

    @property
    def is_table(self) -> bool:
        """True if a row is a vector of numbers."""
        return len(self.sample_shape) == 1 and self.embedding is None

    def labels(self) -> Tensor:
        """The given labels of the training rows, then of the validation rows, [N + M]."""
        return torch.cat([self.train_labels, self.validation_labels])

    def to(self, device: torch.device, resident: bool) -> TrainingData:
        """Return a copy with the labels, and if `resident` the rows, on a device."""
        return replace(
            self,
            train=self.train.to(device) if resident else self.train,
            validation=self.validation.to(device) if resident else self.validation,
            train_labels=self.train_labels.to(device),
            validation_labels=self.validation_labels.to(device),
            verified=None if self.verified is None else self.verified.to(device),
        )

    def fingerprint(self) -> str:
        """A hash of all labels and rows; of image files, only some are read."""
        found = hashlib.sha256(repr((self.class_names, tuple(self.sample_shape))).encode())
        for labels in (self.train_labels, self.validation_labels):
            found.update(labels.cpu().numpy().tobytes() + b"/")
        if self.verified is not None:
            found.update(self.verified.cpu().numpy().tobytes() + repr(self.noise_rate).encode())
        for inputs in (self.train, self.validation):
            inputs.add_to(found)
        if self.embedding is not None:
            found.update(self.embedding.cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
        return found.hexdigest()[:16]

    def bytes(self) -> int:
        """The size of all rows that are held in memory."""
        stored = (inputs.stored for inputs in (self.train, self.validation))
        return sum(t.numel() * t.element_size() for t in stored if isinstance(t, Tensor))
