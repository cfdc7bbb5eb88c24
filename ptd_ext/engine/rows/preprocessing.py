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

SCALES = (1e-30, 1e30)  # range of standard deviations that float32 can divide by
_MAX_SPARSE_COLUMNS = 1024  # a wider sparse matrix is reduced to its singular vectors
_SINGULAR_VECTORS = 256
_CONSTANT = 1e-13  # relative spread that rounding of sums leaves to a constant column of float64
_PIECE = 4096  # rows converted at a time, so that no second copy of all rows is made


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
        columns: Columns | None = None,
    ) -> tuple[Preprocessing, Tensor]:
        """Learn the preprocessing of X; returns it, and X as it is stored.

        Args:
            X: the rows; of a table, the rows or what `columns` has encoded.
            seed: the seed of projections.
            columns: the columns of the table, where they are known.
        """
        if (table := has_columns(X)) and columns is None:
            columns = Columns.fit(X, seed=seed)
        raw = columns.encode(X) if table and columns is not None else raw_rows(X)
        if isinstance(raw, Tensor):
            mean, spread = _moments(raw, (0, 2, 3))
            shape, as_bytes = raw.shape[1:], raw.dtype == torch.uint8
            found = cls(
                "image", shape, shape[0], mean, _divisor(spread, mean, raw.dtype), as_bytes=as_bytes
            )
            return found, raw
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
                f"X has {raw.shape[1]} features, but PTDClassifier is expecting "
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
        return torch.from_numpy(array.astype(np.int64))


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
