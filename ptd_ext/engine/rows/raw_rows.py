"""Rows of many kinds as arrays of floats, sparse matrices or image tensors, with values checked."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ptd_ext.engine.rows.image_files import ImageFiles
from ptd_ext.utils.arguments import is_complex
from ptd_ext.utils.bounded_files import shortened

# Images are recognised by a last dimension as small as this, unless the second is.
_CHANNELS = (1, 2, 3, 4)


def channels_last(shape: Sequence[int]) -> bool:
    """True if an array of this shape looks like images [N, H, W, channels]."""
    return len(shape) == 4 and shape[1] not in _CHANNELS and shape[3] in _CHANNELS


def is_sparse(X: Any) -> bool:  # noqa: N803
    """True for a sparse matrix of SciPy."""
    return hasattr(X, "tocsr")


def take_rows(X: Any, positions: NDArray[np.int64]) -> Any:  # noqa: N803
    """The rows or labels at some positions, of the same kind as X."""
    if isinstance(X, ImageFiles):
        return X.take(positions)
    if hasattr(X, "iloc"):
        return X.iloc[positions]
    if is_sparse(X):
        return X.tocsr()[positions]
    if isinstance(X, (list, tuple)):
        return [copy.copy(X[position]) for position in positions]
    return X[positions]


def raw_rows(X: Any, images: bool = False) -> Any:  # noqa: N803
    """Rows as an array of floats or a sparse matrix, images as a tensor; values checked.

    Args:
        X: the rows.
        images: true if X is known to hold images, whose channels may then come last or be left out.
    """
    from sklearn.utils.validation import check_array

    if isinstance(X, Tensor):
        X = X.detach().cpu()  # noqa: N806
        if X.dtype == torch.bfloat16:  # NumPy has no such type
            X = X.float()  # noqa: N806
        if X.layout in (torch.sparse_csr, torch.sparse_csc):
            X = X.to_sparse_coo()  # noqa: N806
        if X.is_sparse:
            X = _scipy(X)  # noqa: N806
    dims = getattr(X, "ndim", None)
    if dims == 4 or (images and dims == 3):
        return _checked_images(X, images)
    if isinstance(X, Tensor):
        X = X.numpy()  # noqa: N806
    if is_complex(X):  # scikit-learn's check keeps the real parts of complex objects
        raise ValueError("X must hold real numbers. Complex data not supported.")
    try:
        rows = check_array(
            X,
            accept_sparse="csr",
            dtype=(np.float64, np.float32),
            input_name="X",
            estimator="FittedModel",
        )
    except ValueError as error:
        raise ValueError(_advice(str(error))) from None
    return rows if is_sparse(rows) else np.ascontiguousarray(rows)


def _advice(message: str) -> str:
    """The message of scikit-learn, without the whole value that is not a number."""
    if "could not convert string to float" in message:
        value = shortened(message.partition(":")[2].strip())
        return (
            f"X must hold numbers; could not convert string to float: {value}. Give a data frame, "
            "whose columns may hold strings: pandas.DataFrame(X)."
        )
    if "contains NaN" in message:
        return (
            "Input X contains NaN. Give a data frame, whose missing values are filled: "
            "pandas.DataFrame(X)."
        )
    return message


def _checked_images(X: Any, known: bool) -> Tensor:  # noqa: N803
    if not known and channels_last(X.shape):
        raise ValueError(
            f"X must be images [N, channels, height, width]; {list(X.shape)} look like [N, "
            "height, width, channels]. Turn them: X.transpose(0, 3, 1, 2) of an array, "
            "X.permute(0, 3, 1, 2) of a tensor."
        )
    images = X if isinstance(X, Tensor) else torch.as_tensor(np.ascontiguousarray(X))
    if images.is_complex() or not (images.is_floating_point() or images.dtype == torch.uint8):
        raise ValueError(f"X must hold bytes or floats as images; got {images.dtype}.")
    if images.dtype == torch.uint8:
        return images
    images = images.float()
    if not images.isfinite().all():
        row = int((~images.isfinite()).flatten(1).any(1).nonzero()[0])
        raise ValueError(f"X holds NaN, infinity or a number beyond float32 in image {row}.")
    return images


def _scipy(X: Tensor) -> Any:  # noqa: N803
    from scipy.sparse import coo_array

    X = X.coalesce()  # noqa: N806
    return coo_array((X.values().numpy(), X.indices().numpy()), shape=tuple(X.shape)).tocsr()
