"""A data set as training sees it: inputs, labels, and the features that noise depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from ptd_ext.train.data.image_files import ImageFiles
from ptd_ext.utils.bounded_files import shortened

__all__ = ["MAX_CLASSES", "DataSet", "as_labels", "channel_statistics"]

# Every class gets a name and a row of the transition; ImageNet-21k has 21,841.
MAX_CLASSES = 100_000

# Side of the images that noise is computed from where the images are files. A million rows of
# 3 · 224² numbers fit no memory; 3 · 32² is the size of CIFAR-10's rows.
NOISE_IMAGE_SIZE = 32
_CHUNK = 4096


@dataclass(frozen=True)
class DataSet:
    """Training and test samples, in the form in which they are kept in memory.

    Inputs are one of uint8 images [N, channels, H, W], float32 images of that shape, float32 rows
    [N, D], int32 tokens [N, L] that index the rows of `embedding`, or `ImageFiles`.

    Args:
        name: The name that `load` was given.
        train_inputs: As above.
        train_labels: int64 [N]; clean unless `noisy`.
        test_inputs: Like `train_inputs`.
        test_labels: int64; clean if `clean_test`.
        classes: Labels are 0 … classes − 1.
        class_names: One for every class.
        mean: Mean of each channel over the training images, with uint8 values divided by 255 and
            float values as they are; None for other inputs than images.
        std: Standard deviation of each channel, likewise.
        noisy: Whether `train_labels` hold real noise, so that none is to be added.
        clean_labels: Clean labels of the training samples, if `noisy` and they are known.
        embedding: float32 [V, D], the vectors of the words that tokens mean; row 0 is padding.
        validation: Positions in the training samples of a validation part that the data set itself
            sets apart; None if the trainer is to split one off.
        train_rows: int64 [N], the rows of the file or listing that the training samples are; None
            if they are its first N rows, in order.
        test_rows: The rows that the test samples are, if they are the user's own.
        test_given: The labels that the test samples came with, if they are the user's own and so
            are to be judged like those of the training samples.
        row_names: The user's ids of all rows; None for row numbers or the names of image files.
        clean_test: Whether `test_labels` are known to be clean.
    """

    name: str
    train_inputs: Tensor | ImageFiles
    train_labels: Tensor
    test_inputs: Tensor | ImageFiles
    test_labels: Tensor
    classes: int
    class_names: tuple[str, ...]
    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None
    noisy: bool = False
    clean_labels: Tensor | None = None
    embedding: Tensor | None = None
    validation: Tensor | None = None
    train_rows: Tensor | None = None
    test_rows: Tensor | None = None
    test_given: Tensor | None = None
    row_names: NDArray[Any] | None = None
    clean_test: bool = True

    def __post_init__(self) -> None:
        if len(self.class_names) != self.classes:
            raise ValueError(
                f"{self.name} must have one name for each of {self.classes} classes; "
                f"got {len(self.class_names)}."
            )
        parts = [
            ("training", self.train_inputs, self.train_labels),
            ("test", self.test_inputs, self.test_labels),
        ]
        if self.clean_labels is not None:
            parts.append(("training", self.train_inputs, self.clean_labels))
        for part, inputs, labels in parts:
            _check_labels(f"{self.name}'s {part} part", len(inputs), labels, self.classes)
        one, other = self.sample_shape, _sample_shape(self.test_inputs)
        if one != other:
            raise ValueError(
                f"{self.name} must have test samples of the training samples' shape {list(one)}; "
                f"got {list(other)}."
            )

    @property
    def sample_shape(self) -> torch.Size:
        """The shape of one sample."""
        return _sample_shape(self.train_inputs)

    def noise_features(self) -> Tensor:
        """float32 [N, D], the rows that instance-dependent noise is computed from.

        Raw pixels 0 … 255 of images, rows as they are, and the mean vector of a text's words (zero
        for a text without any). Image files are decoded at 32 × 32 pixels for it.
        """
        inputs = self.train_inputs
        if isinstance(inputs, ImageFiles):
            inputs = inputs.resized(NOISE_IMAGE_SIZE)
            rows = torch.empty(len(inputs), inputs.sample_shape.numel())
            for start in range(0, len(inputs), _CHUNK):
                chunk = inputs[start : start + _CHUNK]
                rows[start : start + len(chunk)] = chunk.flatten(1)
            return rows
        if self.embedding is not None:
            # embedding_bag leaves the padding out of the mean.
            return F.embedding_bag(inputs, self.embedding, mode="mean", padding_idx=0)
        return inputs.flatten(1).float()


def as_labels(values: Any, what: str, low: int, high: int) -> Tensor:
    """Labels int64 [N] of a file: whole numbers from `low` to `high`.

    Args:
        values: An array or tensor, or a list of Python's numbers.
        what: Name of these labels for error messages, such as "y of d.npz".
        low: The smallest label.
        high: The largest label.
    """
    if isinstance(values, (list, tuple)):
        odd = next((value for value in values if type(value) is not int), None)
        if odd is not None:
            raise ValueError(f"{what} must be whole numbers; got a {type(odd).__name__}.")
        bad = next((value for value in values if not low <= value <= high), None)
        if bad is not None:
            raise ValueError(f"{what} must be {low} to {high}; got {shortened(bad)}.")
        return torch.tensor(values, dtype=torch.int64)
    values = values.numpy() if isinstance(values, Tensor) and values.dtype in _WHOLE else values
    kind = getattr(values, "dtype", type(values).__name__)
    shape = list(getattr(values, "shape", ()))
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu" or values.ndim != 1:
        raise ValueError(f"{what} must be whole numbers [N]; got {kind} {shape}.")
    if len(values) and not low <= values.min() <= values.max() <= high:
        bad = values.min() if values.min() < low else values.max()
        raise ValueError(f"{what} must be {low} to {high}; got {bad}.")
    return torch.from_numpy(values.astype(np.int64))


_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def channel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of every channel of images [N, channels, H, W].

    uint8 values count as fractions of 255. A channel that never changes gets the deviation 1, by
    which it can be divided.
    """
    means, deviations = [], []
    for channel in images.unbind(1):
        if images.dtype == torch.uint8:
            # Counting the 256 values is exact and needs no copy of the images as floats.
            counts = torch.bincount(channel.reshape(-1), minlength=256).double()
            values = torch.arange(256, dtype=torch.float64) / 255
            mean = float((counts * values).sum() / counts.sum())
            variance = float((counts * (values - mean) ** 2).sum() / counts.sum())
        else:
            mean = float(channel.mean(dtype=torch.float64))
            variance = sum(float(((c.double() - mean) ** 2).sum()) for c in channel.split(_CHUNK))
            variance /= channel.numel()
        means.append(mean)
        deviations.append(variance**0.5 or 1.0)
    return tuple(means), tuple(deviations)


def _sample_shape(inputs: Tensor | ImageFiles) -> torch.Size:
    return inputs.sample_shape if isinstance(inputs, ImageFiles) else inputs.shape[1:]


def _check_labels(where: str, samples: int, labels: Tensor, classes: int) -> None:
    if samples == 0:
        raise ValueError(f"{where} must have samples; it has none.")
    if labels.dtype != torch.int64 or labels.shape != (samples,):
        raise ValueError(
            f"{where} must have int64 labels [{samples}]; got {labels.dtype} {list(labels.shape)}."
        )
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        bad = low if low < 0 else high
        raise ValueError(f"{where} must have labels 0 to {classes - 1}; got {bad}.")
