"""Inputs of many kinds as the tensors that networks take; new rows are encoded in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset

from ptd_ext.label_issues.inputs.columns import Columns, is_frame
from ptd_ext.train.data.sets.arrays import channels_last

__all__ = ["InputEncoder", "from_dataset", "row_ids", "row_text"]

_MOST_SPARSE_COLUMNS = 1024  # beyond them, a sparse matrix is reduced to its singular vectors
_SINGULAR_VECTORS = 256
_IMAGES = 1024  # copied at once, so that no second copy of all images is made


@dataclass
class InputEncoder:
    """How inputs became tensors.

    Attributes:
        kind: "table" for rows [N, D], "image" for [N, channels, height, width].
        columns: the columns of a data frame; None for other inputs.
        components: singular vectors that a wide sparse matrix is projected on, [k, D].
        mean: the mean of each column of a table or channel of images, which is subtracted.
        scale: the number that each column or channel is then divided by.
        width: the number of columns or channels that X must have.
    """

    kind: str
    mean: Tensor
    scale: Tensor
    width: int
    columns: Columns | None = None
    components: Tensor | None = None

    @property
    def given_columns(self) -> int:
        """The number of columns or channels of X, before categories take a column each."""
        return self.width if self.columns is None else len(self.columns.names)

    @classmethod
    def fit(cls, X: Any, seed: int = 0) -> tuple[InputEncoder, Tensor]:  # noqa: N803
        """Learn the encoding of X; return it and X encoded."""
        columns = Columns.fit(X) if is_frame(X) else None
        raw = columns.encode(X) if columns is not None else _raw(X)
        if isinstance(raw, Tensor):
            mean, spread = _channel_moments(raw)
            found = cls("image", mean, _safe(spread), raw.shape[1])
            return found, found._scaled(raw)
        width, components = raw.shape[1], None
        if _is_sparse(raw):
            raw, components = _reduced(raw, seed)
        rows = torch.tensor(raw)
        mean, spread = rows.mean(0), rows.std(0, correction=0)
        if components is not None:
            # One scale for all, so that directions of small singular values stay small.
            spread = rows.var(0, correction=0).mean().sqrt().expand(rows.shape[1]).clone()
        found = cls("table", mean, _safe(spread), width, columns, components)
        return found, found._scaled(rows)

    def encode(self, X: Any) -> Tensor:  # noqa: N803
        """Other rows, float32: [N, D] or [N, channels, height, width]."""
        if self.columns is not None:
            return self._scaled(torch.from_numpy(self.columns.encode(X)))
        raw = _raw(X)
        if isinstance(raw, Tensor) != (self.kind == "image") or raw.shape[1] != self.width:
            wanted = "images [N, %d, height, width]" if self.kind == "image" else "rows of %d"
            raise ValueError(
                f"X must be {wanted % self.width}, as in fit; got {list(raw.shape)}. "
                f"X has {raw.shape[1]} features, but PTDClassifier is expecting "
                f"{self.width} features as input."
            )
        if isinstance(raw, Tensor):
            return self._scaled(raw)
        if self.components is not None:
            raw = np.asarray(raw @ self.components.numpy().T)
        elif _is_sparse(raw):
            raw = raw.toarray()
        return self._scaled(torch.tensor(raw))

    def _scaled(self, raw: Tensor) -> Tensor:
        if self.kind == "image":
            mean, scale = (each.float().view(1, -1, 1, 1) for each in (self.mean, self.scale))
            found = torch.empty(raw.shape, dtype=torch.float32)
            for images, into in zip(raw.split(_IMAGES), found.split(_IMAGES), strict=True):
                into.copy_(images).sub_(mean).div_(scale)
            return found
        return ((raw - self.mean) / self.scale).float()


def _channel_moments(images: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel, without a float64 copy of all images."""
    count = images[:, 0].numel()
    mean = torch.zeros(images.shape[1], dtype=torch.float64)
    for batch in images.split(_IMAGES):
        mean += batch.double().sum((0, 2, 3)) / count
    variance = torch.zeros_like(mean)
    for batch in images.split(_IMAGES):
        variance += (batch.double() - mean.view(1, -1, 1, 1)).square().sum((0, 2, 3)) / count
    return mean, variance.sqrt()


def _safe(spread: Tensor) -> Tensor:
    """Replace a spread of zero by one, so that constant columns are not divided by zero."""
    if not spread.isfinite().all():
        column = int((~spread.isfinite()).nonzero()[0])
        raise ValueError(f"X holds numbers too large to be standardised in column {column}.")
    return torch.where(spread > 0, spread, torch.ones_like(spread))


def _is_sparse(X: Any) -> bool:  # noqa: N803
    return hasattr(X, "tocsr")


def _raw(X: Any) -> Any:  # noqa: N803
    """Rows as a float64 array or a sparse matrix, images as a tensor; values checked."""
    from sklearn.utils.validation import check_array

    if isinstance(X, Tensor):
        X = X.detach().cpu()  # noqa: N806
        if X.dtype == torch.bfloat16:  # NumPy has no such type
            X = X.float()  # noqa: N806
        if X.layout in (torch.sparse_csr, torch.sparse_csc):
            X = X.to_sparse_coo()  # noqa: N806
        if X.is_sparse:
            X = _scipy(X)  # noqa: N806
    if getattr(X, "ndim", None) == 4:
        if channels_last(X.shape):
            raise ValueError(
                f"X must be images [N, channels, height, width]; {list(X.shape)} look like [N, "
                "height, width, channels]. Turn them: X.transpose(0, 3, 1, 2) of an array, "
                "X.permute(0, 3, 1, 2) of a tensor."
            )
        images = X if isinstance(X, Tensor) else torch.as_tensor(np.ascontiguousarray(X))
        if images.is_complex() or not (images.is_floating_point() or images.dtype == torch.uint8):
            raise ValueError(f"X must hold bytes or floats as images; got {images.dtype}.")
        if images.is_floating_point() and not images.isfinite().all():
            row = int((~images.isfinite()).flatten(1).any(1).nonzero()[0])
            raise ValueError(f"X holds NaN or infinity in the image at row {row}.")
        return images
    if isinstance(X, Tensor):
        X = X.numpy()  # noqa: N806
    rows = check_array(
        X, accept_sparse="csr", dtype=np.float64, input_name="X", estimator="PTDClassifier"
    )
    return rows if _is_sparse(rows) else np.ascontiguousarray(rows)


def _scipy(X: Tensor) -> Any:  # noqa: N803
    from scipy.sparse import coo_array

    X = X.coalesce()  # noqa: N806
    return coo_array((X.values().numpy(), X.indices().numpy()), shape=tuple(X.shape)).tocsr()


def _reduced(X: Any, seed: int) -> tuple[NDArray[np.float64], Tensor | None]:  # noqa: N803
    """A sparse matrix as a dense one, projected on its first singular vectors if it is wide."""
    if X.shape[1] <= _MOST_SPARSE_COLUMNS:
        return X.toarray(), None
    from sklearn.decomposition import TruncatedSVD

    count = min(_SINGULAR_VECTORS, min(X.shape) - 1)
    svd = TruncatedSVD(max(1, count), random_state=seed % 2**32).fit(X)
    return svd.transform(X), torch.from_numpy(svd.components_)


def from_dataset(dataset: Dataset[Any]) -> tuple[Tensor, list[Any] | None]:
    """All samples of a torch Dataset as one tensor, and their labels if it has any."""
    if isinstance(dataset, IterableDataset):
        raise TypeError("X must be a Dataset with a length, whose samples have a number each.")
    samples, labels = [], []
    for index in range(len(dataset)):  # type: ignore[arg-type]
        item = dataset[index]
        if isinstance(item, (tuple, list)):
            item, label = item[0], item[1]
            labels.append(label.item() if isinstance(label, Tensor) else label)
        try:
            samples.append(torch.as_tensor(item))
        except (TypeError, ValueError, RuntimeError):
            raise TypeError(
                f"X must hold tensors or arrays; sample {index} of the Dataset is "
                f"{type(item).__name__}. Give it a transform, such as torchvision's "
                "PILToTensor for pictures."
            ) from None
    if not samples:
        raise ValueError("X must hold at least one sample; got an empty Dataset.")
    shapes = {tuple(sample.shape) for sample in samples}
    if len(shapes) > 1:
        raise ValueError(
            f"X must hold samples of one shape; got {sorted(shapes)[:3]}. Resize images first."
        )
    if labels and len(labels) != len(samples):
        raise ValueError("X must hold a label for every sample or for none.")
    return torch.stack(samples), labels or None


def row_ids(X: Any, count: int) -> NDArray[Any]:  # noqa: N803
    """The ids of the rows: the index of a data frame, otherwise row numbers."""
    index = getattr(X, "index", None) if is_frame(X) else None
    return np.arange(count) if index is None else np.asarray(index)


def row_text(X: Any, names: list[str] | None, row: int, most: int = 12) -> dict[str, str]:  # noqa: N803
    """The first values of a row by column name, for a page."""
    if is_frame(X):
        return {str(name): str(X[name].to_numpy()[row]) for name in list(X.columns)[:most]}
    values = X[row].toarray().ravel() if _is_sparse(X) else np.asarray(X[row]).ravel()
    if _is_sparse(X):  # the largest values say more of such a row than its first zeros
        largest = np.argsort(-np.abs(values), kind="stable")[:most]
        return {str(column): f"{values[column]:.4g}" for column in largest if values[column]}
    names = names or [str(column) for column in range(len(values))]
    return {name: f"{value:.4g}" for name, value in zip(names[:most], values, strict=False)}
