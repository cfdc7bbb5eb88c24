"""Plots of the parts and of their transition matrices (appendix F of the paper).

Parts of deep features are not images. The raw observations X have the same weights h, so that their
parts V solve an ordinary least-squares problem, min ‖X − h V‖², and can be drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ptd_ext.utils.arguments import check_integer
from ptd_ext.utils.extras import optional_packages
from ptd_ext.utils.ids import as_rows

__all__ = [
    "image_grid",
    "part_images",
    "plot_noise_rates",
    "plot_part_images",
    "plot_parts",
    "plot_transition",
]

_BLOCK = 1 << 22  # entries of the observations at once
_MAX_NAMED = 20  # classes whose names and probabilities are written out


def part_images(weights: Any, observations: Any) -> Tensor:
    """The parts V of the raw observations, [R, …]: (hᵀh)⁺ hᵀX, X read in blocks.

    Args:
        weights: h(x), [N, R].
        observations: X, [N, …]: the same samples as images or other arrays; a tensor,
            an array or a memory map.

    Examples:
        >>> weights, images = np.full((6, 3), 1 / 3), np.random.default_rng(0).random((6, 8, 8))
        >>> ptd_ext.plot.part_images(weights, images).shape
        torch.Size([3, 8, 8])
    """
    weights = as_rows(weights, "weights", "R").double().cpu()
    if not isinstance(observations, (Tensor, np.ndarray)):
        observations = np.asarray(observations)
    if observations.ndim < 2 or len(observations) != len(weights):
        raise ValueError(
            f"observations must be [{len(weights)}, …], one per row of weights; "
            f"got {list(observations.shape)}."
        )
    shape = tuple(observations.shape[1:])
    size = math.prod(shape)
    cross = torch.zeros(weights.shape[1], size, dtype=torch.float64)
    for rows in torch.arange(len(weights)).split(max(1, _BLOCK // max(size, 1))):
        block = observations[rows[0] : rows[-1] + 1]
        if isinstance(block, np.ndarray):
            block = torch.from_numpy(block.astype(np.float64))
        cross += weights[rows].T @ block.detach().cpu().double().reshape(len(rows), size)
    solved = torch.linalg.pinv(weights.T @ weights, hermitian=True) @ cross
    return solved.reshape(weights.shape[1], *shape)


def image_grid(
    images: Any,
    columns: int | None = None,
    *,
    gap: int = 1,
    limits: tuple[float, float] | None = None,
) -> np.ndarray:
    """Images side by side in one, [H, W] or [H, W, 3], with values 0 … 1 and white between them.

    Args:
        images: [R, H, W], or colours as [R, 3, H, W] or [R, H, W, 3].
        columns: by default as many as make the grid about square.
        gap: pixels between images.
        limits: the values that become 0 and 1; by default every image's own extremes.

    Examples:
        >>> ptd_ext.plot.image_grid(np.zeros((6, 8, 8)), columns=3).shape
        (17, 26)
    """
    images = torch.as_tensor(images).detach().cpu().double()
    if images.dim() == 4 and images.shape[1] == 3 and images.shape[3] != 3:
        images = images.permute(0, 2, 3, 1)
    shaped = images.dim() == 3 or (images.dim() == 4 and images.shape[3] == 3)
    if not shaped or 0 in images.shape:
        raise ValueError(
            "images must be [R, H, W], [R, 3, H, W] or [R, H, W, 3] with R, H and W at least 1; "
            f"got {list(images.shape)}."
        )
    columns = None if columns is None else check_integer(columns, "columns")
    gap = check_integer(gap, "gap", minimum=0)
    if limits is not None and (
        len(limits) != 2 or not -math.inf < limits[0] < limits[1] < math.inf
    ):
        raise ValueError(f"limits must be two finite numbers, the lower first; got {limits!r}.")
    count, height, width = images.shape[:3]
    columns = math.ceil(math.sqrt(count)) if columns is None else min(columns, count)
    lines = math.ceil(count / columns)
    shape = (lines * (height + gap) - gap, columns * (width + gap) - gap, *images.shape[3:])
    grid = torch.ones(shape, dtype=torch.float64)
    for number, image in enumerate(images):
        top, left = number // columns * (height + gap), number % columns * (width + gap)
        low, high = (image.min().item(), image.max().item()) if limits is None else limits
        scaled = (image - low) / max(high - low, 1e-12)
        grid[top : top + height, left : left + width] = scaled.clamp(0, 1)
    return grid.numpy()


def plot_part_images(
    weights: Any,
    observations: Any,
    *,
    image_shape: tuple[int, ...] | None = None,
    columns: int | None = None,
    axes: Any = None,
) -> tuple[Any, Tensor]:
    """Draw :func:`part_images` as a grid; returns matplotlib's axes and the parts [R, …].

    Args:
        weights: as in :func:`part_images`.
        observations: as in :func:`part_images`.
        image_shape: (H, W), (3, H, W) or (H, W, 3), where the observations are flat.
        columns: as in :func:`image_grid`.
        axes: matplotlib's axes to draw on; a new figure by default.

    Examples:
        >>> weights, images = np.full((6, 3), 1 / 3), np.random.default_rng(0).random((6, 8, 8))
        >>> axes, parts = ptd_ext.plot.plot_part_images(weights, images)
    """
    images = part_images(weights, observations)
    if image_shape is not None:
        if math.prod(image_shape) != images[0].numel():
            raise ValueError(
                f"image_shape must have {images[0].numel()} entries, those of an observation; "
                f"got {tuple(image_shape)}."
            )
        images = images.reshape(-1, *image_shape)
    if images.dim() == 4 and images.shape[1] == 1:
        images = images[:, 0]
    grid = image_grid(images, columns)
    axes = new_axes() if axes is None else axes
    axes.imshow(grid, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_axis_off()
    return axes, images


def plot_parts(parts: Any, *, columns: int | None = None, axes: Any = None) -> Any:
    """Draw the matrices Pʲ side by side in shades of blue, dark for one; returns the axes.

    Args:
        parts: P, [R, C, C], such as the `parts` of an estimate or a :class:`PartTransition`.
        columns: as in :func:`image_grid`.
        axes: matplotlib's axes to draw on; a new figure by default.

    Examples:
        >>> axes = ptd_ext.plot.plot_parts(torch.eye(3).expand(2, 3, 3))
    """
    parts = torch.as_tensor(parts).detach().double()
    grid = image_grid(1 - parts, columns, limits=(0, 1))
    axes = new_axes() if axes is None else axes
    axes.imshow(grid, cmap="Blues_r", vmin=0, vmax=1, interpolation="nearest")
    axes.set_axis_off()
    axes.set_title(f"{len(parts)} part transitions of {parts.shape[-1]} classes")
    return axes


def plot_transition(matrix: Any, names: Sequence[str] | None = None, *, axes: Any = None) -> Any:
    """Draw T as a heat map, dark for one; returns the axes.

    Args:
        matrix: T, [C, C], such as the `transition` of an estimate or of the findings.
        names: the classes, [C]; by default 0 … C − 1. More than 20 are not written out.
        axes: matplotlib's axes to draw on; a new figure by default.

    Examples:
        >>> axes = ptd_ext.plot.plot_transition(np.array([[0.8, 0.2], [0.3, 0.7]]), ["cat", "dog"])
    """
    matrix = torch.as_tensor(matrix).detach().cpu().double()
    if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"matrix must be [C, C]; got {list(matrix.shape)}.")
    names = _class_names(names, len(matrix))
    axes = new_axes() if axes is None else axes
    # The square root keeps small probabilities visible.
    axes.imshow(
        matrix.clamp(0, 1).sqrt().numpy(), cmap="Blues", vmin=0, vmax=1, interpolation="nearest"
    )
    axes.set_xlabel("given label")
    axes.set_ylabel("true class")
    axes.set_title("mean T(x), per cent")
    if len(names) > _MAX_NAMED:
        return axes
    axes.set_xticks(range(len(names)), names, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names)
    for row, values in enumerate(matrix.tolist()):
        for column, value in enumerate(values):
            if value >= 0.005:
                style = {"color": "white" if value > 0.4 else "black", "fontsize": "small"}
                axes.text(column, row, f"{100 * value:.0f}", ha="center", va="center", **style)
    return axes


def plot_noise_rates(
    rates: Sequence[Any], names: Sequence[str] | None = None, *, axes: Any = None
) -> Any:
    """Draw the rate of wrong labels of every class with its 95 % interval; returns the axes.

    Args:
        rates: [C], such as the `by_class` of :class:`ptd_ext.label_issues.NoiseRate`.
        names: the classes, [C]; by default 0 … C − 1.
        axes: matplotlib's axes to draw on; a new figure by default.
    """
    names = _class_names(names, len(rates))
    axes = new_axes() if axes is None else axes
    known = [row for row, rate in enumerate(rates) if rate.known]
    values = 100 * np.array([(rates[k].estimate, rates[k].low, rates[k].high) for k in known])
    values = values.reshape(-1, 3)
    around = np.abs(values[:, 1:] - values[:, :1]).T
    axes.barh(known, values[:, 0], xerr=around, color="tab:blue", alpha=0.7, capsize=2)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("wrong labels, per cent")
    axes.set_ylabel("given label")
    axes.set_title("estimated noise rate")
    return axes


def _class_names(names: Sequence[str] | None, count: int) -> list[str]:
    if names is None:
        return [str(label) for label in range(count)]
    if len(names) != count:
        raise ValueError(f"names must have one name for each of {count} classes; got {len(names)}.")
    # A dollar sign would start a formula.
    return [str(name).replace("$", r"\$") for name in names]


def new_axes() -> Any:
    """The axes of a new figure."""
    return new_figure().add_subplot()


def new_figure(width: float = 6.4) -> Any:
    """A figure that notebooks show; raises an error that names the extra to install.

    Args:
        width: in inches.
    """
    with optional_packages("A plot"):
        from matplotlib import pyplot
    return pyplot.figure(figsize=(width, 4.8), layout="constrained")
