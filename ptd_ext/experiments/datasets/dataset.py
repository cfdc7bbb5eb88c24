"""A data set as training sees it: inputs, labels, and the features that noise depends on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from ptd_ext.engine.rows.columns import Columns
from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.engine.rows.preprocessing import Moments, Preprocessing
from ptd_ext.engine.rows.raw_rows import is_sparse
from ptd_ext.utils.bounded_files import shortened

# Side of the images from which noise is computed if the images are files. A million rows of
# 3 · 224² numbers do not fit in memory; 3 · 32² is the size of CIFAR-10's rows.
NOISE_IMAGE_SIZE = 32
_CHUNK = 4096
TEST_SHARE = 0.2  # share of the rows to test on, for data without a test part


@dataclass(frozen=True)
class DataSet:
    """Training and test samples as they were read.

    Inputs are images [N, channels, H, W] as a tensor of uint8 or floats, `ImageFiles`, int32 tokens
    [N, L] that index the rows of `embedding`, or a table: an array [N, D], a sparse matrix, a data
    frame or a list of texts.

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
        shown: all rows as the page shows them; None to show the inputs.
        clean_test: whether `test_labels` are known to be clean.
        moments: mean and deviation of each channel of images, where they are not those of the
            training samples.
        columns: what becomes of the columns of a data frame or of texts; None for other inputs.
        warnings: messages on how user data were read.
    """

    name: str
    train_inputs: Any
    train_labels: Tensor
    test_inputs: Any
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
    shown: Any = None
    clean_test: bool = True
    moments: Moments | None = None
    columns: Columns | None = None
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for part, inputs in (("training", self.train_inputs), ("test", self.test_inputs)):
            if not (inputs.shape[0] if is_sparse(inputs) else len(inputs)):
                raise ValueError(f"{self.name}'s {part} part must have samples; it has none.")
        one, other = self.sample_shape, self._shape_of(self.test_inputs)
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
        return self._shape_of(self.train_inputs)

    def _shape_of(self, inputs: Any) -> torch.Size:
        if self.columns is not None:
            return torch.Size([self.columns.width])
        if isinstance(inputs, ImageFiles):
            return inputs.sample_shape
        return torch.Size(inputs.shape[1:])

    @property
    def as_bytes(self) -> bool:
        """True for images of uint8."""
        images = len(self.sample_shape) == 3
        return images and getattr(self.train_inputs, "dtype", torch.uint8) == torch.uint8

    def noise_features(self) -> Tensor:
        """The rows from which instance-dependent noise is computed, float32 [N, D].

        They are raw pixels 0 … 255 of images (image files are decoded at 32 × 32 pixels), rows as
        they are (a frame's encoded, a wide sparse matrix's projected, as for training), and the
        mean vector of a text's words (zero for a text without any).
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
        if self.columns is not None or is_sparse(inputs):
            preprocessing, stored = Preprocessing.fit(inputs, columns=self.columns)
            return preprocessing.undo(stored).float()
        return torch.as_tensor(inputs).flatten(1).float()


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
