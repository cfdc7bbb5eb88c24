"""Preprocessing: rows of many kinds as the tensors that networks take, in training and later.

Tables are encoded and standardised once. Images are stored as they come, which for bytes takes a
quarter of the memory, and normalised batch by batch.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptd_ext.engine.rows.columns import Columns, has_columns
from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.engine.rows.raw_rows import is_sparse, raw_rows

# Mean and standard deviation of each channel, for which networks with weights of ImageNet are made.
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
SCALES = (1e-30, 1e30)  # range of standard deviations that float32 can divide by
_MAX_SPARSE_COLUMNS = 1024  # a wider sparse matrix is reduced to its singular vectors
_SINGULAR_VECTORS = 256
_CONSTANT = 1e-13  # relative spread that rounding of sums leaves to a constant column of float64
_FILES_READ = 10_000  # image files read for moments: errors are a hundredth of the deviation
_PIECE = 4096  # rows converted at a time, so that no second copy of all rows is made

Moments = tuple[Sequence[float], Sequence[float]]  # means and deviations


@dataclass(frozen=True)
class Preprocessing:
    """How rows become what a network takes.

    Attributes:
        kind: "table" for rows [N, D], "image" for [N, channels, H, W], "tokens" for [N, L].
        shape: the shape of one sample as networks take it.
        width: the number of columns or channels that X must have.
        mean: the mean of each column or channel, float64; None leaves images as they are.
        scale: the number by which each is divided, float64; None like `mean`.
        columns: the columns of a data frame or of texts; None for other rows.
        components: singular vectors on which a wide sparse matrix is projected, [D, width].
        as_bytes: true for images of uint8.
        files: true if samples may be given as paths of image files.
        words: the number of words that tokens index; None for other rows.
    """

    kind: str
    shape: torch.Size
    width: int
    mean: Tensor | None = None
    scale: Tensor | None = None
    columns: Columns | None = None
    components: Tensor | None = None
    as_bytes: bool = False
    files: bool = False
    words: int | None = None

    @classmethod
    def fit(
        cls,
        X: Any,  # noqa: N803
        seed: int = 0,
        *,
        columns: Columns | None = None,
        words: int | None = None,
        moments: Moments | None = None,
    ) -> tuple[Preprocessing, Any]:
        """Learn the preprocessing of X; returns it, and X as it is stored.

        Args:
            X: an array, a tensor, a data frame, texts, a sparse matrix, images, image files or
                tokens.
            seed: the seed of the projections of texts and wide sparse matrices.
            columns: what becomes of the columns of a data frame or of texts; by default it follows
                from all rows of X.
            words: for tokens, the number of words that they index.
            moments: known moments of images, see :meth:`for_images`; by default those of X.
        """
        if words is not None:
            tokens = cls("tokens", torch.Size(X.shape[1:]), X.shape[1], words=words)
            return tokens, tokens.store(X)
        if isinstance(X, ImageFiles):
            return cls._of_images(X, X.sample_shape, moments), X
        if columns is None and has_columns(X):
            columns = Columns.fit(X, seed=seed)
        raw = raw_rows(X) if columns is None else columns.encode(X)
        if isinstance(raw, Tensor):
            return cls._of_images(raw, raw.shape[1:], moments), raw
        width, components = raw.shape[1], None
        if is_sparse(raw):
            raw, components = _reduced(raw, seed)
        rows = torch.from_numpy(raw)
        mean, spread = _moments(rows, (0,))
        if components is not None:
            spread = _shared(spread, [slice(0, rows.shape[1])])
        elif columns is not None:
            spread = _shared(spread, columns.text_blocks())
        scale = _divisor(spread, mean, rows.dtype)
        found = cls("table", rows.shape[1:], width, mean, scale, columns, components)
        return found, found._standardised(rows)

    @classmethod
    def _of_images(
        cls, images: Tensor | ImageFiles, shape: torch.Size, moments: Moments | None
    ) -> Preprocessing:
        files = isinstance(images, ImageFiles)
        dtype = torch.uint8 if isinstance(images, ImageFiles) else images.dtype
        as_bytes = dtype == torch.uint8
        if moments is not None:
            return cls.for_images(shape, *moments, as_bytes=as_bytes, files=files)
        if isinstance(images, ImageFiles) or as_bytes:
            mean, spread = _byte_moments(images, shape[0])
        else:
            mean, spread = _moments(images, (0, 2, 3))
        scale = _divisor(spread, mean, dtype)
        return cls("image", shape, shape[0], mean, scale, as_bytes=as_bytes, files=files)

    @classmethod
    def for_images(
        cls,
        shape: Sequence[int],
        mean: Sequence[float] | None,
        std: Sequence[float] | None,
        *,
        as_bytes: bool,
        files: bool = False,
    ) -> Preprocessing:
        """The preprocessing of images whose channels have a known mean and deviation.

        Args:
            shape: [channels, H, W].
            mean: the mean of each channel, for bytes as a fraction of 255; None leaves images as
                they are.
            std: like `mean`.
            as_bytes: true for images of uint8.
            files: true for image files.
        """
        unit = 255.0 if as_bytes else 1.0

        def in_units(values: Sequence[float] | None) -> Tensor | None:
            return None if values is None else unit * torch.tensor(values, dtype=torch.float64)

        sizes, moments = torch.Size(shape), (in_units(mean), in_units(std))
        return cls("image", sizes, sizes[0], *moments, as_bytes=as_bytes, files=files)

    @property
    def n_features(self) -> int:
        """The number of columns or channels of X, before categories take a column each."""
        return self.width if self.columns is None else len(self.columns.names)

    def store(self, X: Any) -> Tensor | ImageFiles:  # noqa: N803
        """Other rows, as ``Inputs`` takes them; raises if they are not like those of fit."""
        if self.files and isinstance(X, ImageFiles):
            return X if X.size == self.shape[1] else X.resized(self.shape[1])
        numeric = isinstance(X, Tensor) or (isinstance(X, np.ndarray) and X.dtype.kind in "biuf")
        if self.files and not numeric:
            if isinstance(X, (str, os.PathLike)):
                raise ValueError(f"X must be a list of image files, or their pixels; got {X!r}.")
            return ImageFiles("", map(os.fspath, X), self.shape[1])
        if self.kind == "tokens":
            return self._tokens(X)
        if self.columns is not None:
            return self._standardised(torch.from_numpy(self.columns.encode(X)))
        raw = self._turned(raw_rows(X, images=self.kind == "image"))
        if isinstance(raw, Tensor) != (self.kind == "image") or raw.shape[1] != self.width:
            wanted = f"rows of {self.width}"
            if self.kind == "image":
                wanted = f"images [N, {self.width}, height, width]"
            raise ValueError(
                f"X must be {wanted}, as in fit; got {list(raw.shape)}. "
                f"X has {raw.shape[1]} features, but FittedModel is expecting "
                f"{self.width} features as input."
            )
        if not isinstance(raw, Tensor):
            if self.components is not None:
                raw = np.asarray(raw @ self.components.numpy().T)
            elif is_sparse(raw):
                raw = raw.toarray()
            return self._standardised(torch.from_numpy(raw))
        if raw.shape[1:] != self.shape:
            raise ValueError(
                f"X must hold images of shape {list(self.shape)}, as in training; got "
                f"{list(raw.shape[1:])}."
            )
        if (raw.dtype == torch.uint8) != self.as_bytes:
            wanted = "uint8, from 0 to 255," if self.as_bytes else "floats"
            raise ValueError(f"X must be images of {wanted} as in training; got {raw.dtype}.")
        return raw

    def __call__(self, stored: Tensor, *, channels_last: bool = False) -> Tensor:
        """Stored rows as the network takes them."""
        if self.kind != "image":
            return stored
        layout = torch.channels_last if channels_last else torch.contiguous_format
        rows = stored.to(torch.float32, memory_format=layout, copy=True)
        if self.mean is None or self.scale is None:
            return rows
        if len(self.mean) == 1:
            return rows.sub_(self.mean.item()).mul_(1 / self.scale.item())
        mean, scale = (tuple(each.tolist()) for each in (self.mean, self.scale))
        return rows.sub_(_by_channel(mean, rows.device)).div_(_by_channel(scale, rows.device))

    def undo(self, rows: Tensor) -> Tensor:
        """Standardised rows of a plain table as they came, up to rounding."""
        if self.kind != "table" or self.mean is None or self.scale is None:
            return rows
        return rows.cpu() * self.scale + self.mean

    def _standardised(self, rows: Tensor) -> Tensor:
        """Rows with mean 0 and deviation 1, float32."""
        found = torch.empty(rows.shape, dtype=torch.float32)
        for piece, into in zip(rows.split(_PIECE), found.split(_PIECE), strict=True):
            into.copy_((piece - self.mean) / self.scale)
        if not found.isfinite().all():
            row, column = (int(k) for k in (~found.isfinite()).nonzero()[0])
            raise ValueError(
                f"X must hold numbers within the range of float32 once standardised; row {row}, "
                f"column {column} is {rows[row, column]:.3g}."
            )
        return found

    def _turned(self, raw: Any) -> Any:
        """Images with channels last, or without any, in the layout of training."""
        if self.kind != "image" or not isinstance(raw, Tensor) or raw.shape[1:] == self.shape:
            return raw
        if raw.dim() == 3 and self.shape[0] == 1:
            return raw[:, None]
        turned = raw.movedim(-1, 1)
        return turned.contiguous() if turned.shape[1:] == self.shape else raw

    def _tokens(self, X: Any) -> Tensor:  # noqa: N803
        array = X.detach().cpu().numpy() if isinstance(X, Tensor) else np.asarray(X)
        if array.dtype.kind not in "iu" or array.shape[1:] != self.shape:
            raise ValueError(
                f"X must hold word indices, integers [N, {self.shape[0]}]; got {array.dtype} "
                f"{list(array.shape)}."
            )
        if (
            self.words is not None
            and array.size
            and not 0 <= array.min() <= array.max() < (self.words)
        ):
            raise ValueError(
                f"X must hold word indices from 0 to {self.words - 1}; it has {array.min()} to "
                f"{array.max()}."
            )
        return torch.from_numpy(array.astype(np.int32 if array.dtype == np.int32 else np.int64))


@functools.lru_cache(maxsize=32)
def _by_channel(values: tuple[float, ...], device: torch.device) -> Tensor:
    """[1, channels, 1, 1], copied to the device once and not at every step."""
    return torch.tensor(values).view(1, -1, 1, 1).to(device)


def _moments(rows: Tensor, dims: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation over all dimensions but that of columns or channels, float64."""
    count = math.prod(rows.shape[dim] for dim in dims)
    shape = [1, -1] + [1] * (rows.dim() - 2)
    zero = torch.tensor(0.0, dtype=torch.float64)
    mean = sum((piece.double().sum(dims) for piece in rows.split(_PIECE)), zero) / count
    centre = mean.view(shape)
    squares = ((piece.double() - centre).square().sum(dims) for piece in rows.split(_PIECE))
    return mean, (sum(squares, zero) / count).sqrt()


def _byte_moments(images: Tensor | ImageFiles, channels: int) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel of uint8 images, float64.

    Counting the 256 values is exact, and needs no copy of the images as floats. The moments are
    computed as fractions of 255, in which those of published data sets are given.
    """
    rows = torch.arange(len(images))
    if isinstance(images, ImageFiles) and len(images) > _FILES_READ:
        rows = torch.linspace(0, len(images) - 1, _FILES_READ, dtype=torch.float64).long()
    counts = torch.zeros(channels, 256, dtype=torch.int64)
    for piece in rows.split(_PIECE // 16 if isinstance(images, ImageFiles) else _PIECE):
        for channel, values in zip(counts, images[piece].unbind(1), strict=True):
            channel += torch.bincount(values.reshape(-1), minlength=256)
    values, found = torch.arange(256, dtype=torch.float64) / 255, []
    for each in counts.double():
        mean = float((each * values).sum() / each.sum())
        variance = float((each * (values - mean) ** 2).sum() / each.sum())
        found.append((255 * mean, 255 * variance**0.5))
    mean, spread = torch.tensor(found, dtype=torch.float64).T
    return mean.contiguous(), spread.contiguous()


def _shared(spread: Tensor, blocks: Sequence[slice]) -> Tensor:
    """The spread, with one for all of a block, so that its minor directions stay small."""
    found = spread.clone()
    for block in blocks:
        found[block] = spread[block].square().mean().sqrt()
    return found


def _divisor(spread: Tensor, mean: Tensor, dtype: torch.dtype) -> Tensor:
    """The spread, with one in place of that of columns that are constant up to rounding."""
    digits = _CONSTANT if dtype == torch.float64 else torch.finfo(torch.float32).eps
    constant = spread <= digits * mean.abs()
    found = torch.where(constant, 1.0, spread)
    usable = (found >= SCALES[0]) & (found <= SCALES[1])
    if not usable.all():
        column = int((~usable).nonzero()[0])
        size = "small" if found[column] < SCALES[0] else "large"
        raise ValueError(
            f"X holds numbers too {size} to be standardised in column {column}. Scale the column."
        )
    return found


def _reduced(X: Any, seed: int) -> tuple[NDArray[np.float64], Tensor | None]:  # noqa: N803
    """A sparse matrix as a dense one, projected on its first singular vectors if it is wide."""
    if X.shape[1] <= _MAX_SPARSE_COLUMNS:
        return X.toarray(), None
    from sklearn.decomposition import TruncatedSVD

    count = min(_SINGULAR_VECTORS, min(X.shape) - 1)
    svd = TruncatedSVD(max(1, count), random_state=seed % 2**32).fit(X)
    return svd.transform(X), torch.from_numpy(svd.components_)
