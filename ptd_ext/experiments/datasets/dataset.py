"""A data set as training sees it: inputs, labels, and the features that noise depends on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from ptd_ext.engine.rows.columns import Columns
from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.utils.bounded_files import shortened

# Side of the images from which noise is computed if the images are files. A million rows of
# 3 · 224² numbers do not fit in memory; 3 · 32² is the size of CIFAR-10's rows.
NOISE_IMAGE_SIZE = 32
_CHUNK = 4096
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class DataSet:
    """Training and test samples as they are kept in memory.

    Inputs are one of uint8 images [N, channels, H, W], float32 images of that shape, float rows
    [N, D], int32 tokens [N, L] that index the rows of `embedding`, or `ImageFiles`.

    Args:
        name: the name that `load` was given.
        train_inputs: inputs of the training samples.
        train_labels: class indices, int64 [N]; clean unless `noisy`.
        test_inputs: inputs of the test samples.
        test_labels: class indices, int64; clean if `clean_test`.
        class_names: the names of the classes, [C].
        noisy: whether `train_labels` hold real noise, so that none is added.
        clean_labels: clean labels of the training samples, if `noisy` and they are known.
        embedding: vectors of the words that tokens index, float32 [V, D]; row 0 is padding.
        validation: positions in the training samples of the data set's validation part; None if it
            has none.
        train_rows: row numbers of the training samples in the file or listing, int64 [N]; None for
            its first N rows in order.
        test_rows: row numbers of the test samples, for user data.
        test_given: given labels of the test samples, for user data: they are judged like those of
            the training samples.
        row_names: the user's ids of all rows; None for row numbers and the names of image files.
        clean_test: whether `test_labels` are known to be clean.
        columns: how the columns of a table became numbers; None for other data.
        warnings: messages on how user data were read.
    """

    name: str
    train_inputs: Tensor | ImageFiles
    train_labels: Tensor
    test_inputs: Tensor | ImageFiles
    test_labels: Tensor
    class_names: tuple[str, ...]
    noisy: bool = False
    clean_labels: Tensor | None = None
    embedding: Tensor | None = None
    validation: Tensor | None = None
    train_rows: Tensor | None = None
    test_rows: Tensor | None = None
    test_given: Tensor | None = None
    row_names: NDArray[Any] | None = None
    clean_test: bool = True
    columns: Columns | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part, inputs in (("training", self.train_inputs), ("test", self.test_inputs)):
            if not len(inputs):
                raise ValueError(f"{self.name}'s {part} part must have samples; it has none.")
        one, other = self.sample_shape, _sample_shape(self.test_inputs)
        if one != other:
            raise ValueError(
                f"{self.name} must have test samples of the training samples' shape {list(one)}; "
                f"got {list(other)}."
            )

    @property
    def n_classes(self) -> int:
        """The number of classes, C."""
        return len(self.class_names)

    @property
    def sample_shape(self) -> torch.Size:
        """The shape of one sample."""
        return _sample_shape(self.train_inputs)

    @cached_property
    def channel_statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of each channel of the training images.

        uint8 values count as fractions of 255. Image files have those of ImageNet, for which
        pretrained networks are made.
        """
        if isinstance(self.train_inputs, ImageFiles):
            return IMAGENET_MEAN, IMAGENET_STD
        return channel_statistics(self.train_inputs)

    def noise_features(self) -> Tensor:
        """The rows from which instance-dependent noise is computed, float32 [N, D].

        They are raw pixels 0 … 255 of images (image files are decoded at 32 × 32 pixels), rows as
        they are, and the mean vector of a text's words (zero for a text without any).
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
    """Labels of a file, integers from `low` to `high`, as int64 [N].

    Args:
        values: an array, a tensor or a list of Python numbers.
        what: name of the labels for error messages, such as "y of d.npz".
        low: the smallest label.
        high: the largest label.
    """
    if isinstance(values, Tensor) and values.dtype != torch.bfloat16:  # NumPy has no such type
        values = values.numpy()
    elif isinstance(values, list) and all(type(value) is int for value in values):
        values = np.array(values, dtype=object)  # integers of any size
    kind, shape = getattr(values, "dtype", type(values).__name__), getattr(values, "shape", ())
    if not isinstance(values, np.ndarray) or values.dtype.kind not in "iuO" or values.ndim != 1:
        raise ValueError(f"{what} must be integers [N]; got {kind} {list(shape)}.")
    if len(values) and not low <= values.min() <= values.max() <= high:
        bad = values.min() if values.min() < low else values.max()
        raise ValueError(f"{what} must be {low} to {high}; got {shortened(int(bad))}.")
    return torch.from_numpy(values.astype(np.int64))


def channel_statistics(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of every channel of images [N, channels, H, W].

    uint8 values count as fractions of 255. The deviation of a constant channel is 1, so that the
    channel can be divided by it.
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
