"""The learned transition: parts, the basis that gives a sample its weights, and slack."""

from __future__ import annotations

from os import PathLike
from typing import Any

import torch
from torch import Tensor

from ptd_ext.ops import functional
from ptd_ext.ops.checks import FLOATING
from ptd_ext.ops.simplex import simplex_weights
from ptd_ext.transition.gate import LinearGate
from ptd_ext.transition.plot import image_grid, new_axes
from ptd_ext.utils import tensor_files as files
from ptd_ext.utils.ids import as_tensor

__all__ = ["PartTransition"]

_FORMAT = "a part transition"
_STEPS = 500
_TOLERANCE = 1e-6
_SUM_TOLERANCE = 1e-3  # of a row of many classes; in half types twice their rounding, if larger


class PartTransition:
    """T(x) = Σⱼ hⱼ(x) Pʲ, revised by ΔT where there is one.

    Args:
        parts: P, [R, C, C].
        basis: W, [R, D], for which h(x) = argmin ‖x − h W‖² on the simplex; or a fitted object
            that keeps it as `components_`, like :class:`ptd_ext.SimplexNMF`. None where weights
            come from elsewhere.
        slack: ΔT, [C, C].
        gate: gives h(x) instead of a basis, as :func:`ptd_ext.fit_learned_parts` finds it.
        about: what is to be remembered with it, as JSON can hold it: the data, the seed, …

    The tensors are kept as they are, without copies and without gradients, as attributes of the
    same names.
    """

    def __init__(
        self,
        parts: Tensor,
        basis: Any = None,
        slack: Tensor | None = None,
        *,
        gate: LinearGate | None = None,
        about: dict[str, Any] | None = None,
    ) -> None:
        self.parts = as_tensor(parts, "parts")
        basis = getattr(basis, "components_", basis)
        self.basis = None if basis is None else as_tensor(basis, "basis")
        self.slack = None if slack is None else as_tensor(slack, "slack")
        self.gate = gate
        self.about = dict(about or {})
        _check_gate(self.parts, self.basis, gate)
        _check(self.parts, self.basis, self.slack)

    @property
    def classes(self) -> int:
        """C."""
        return self.parts.shape[-1]

    @property
    def n_parts(self) -> int:
        """R."""
        return len(self.parts)

    @property
    def features(self) -> int | None:
        """D; None where weights come from elsewhere."""
        giver = self.basis if self.gate is None else self.gate.weight
        return None if giver is None else giver.shape[1]

    def weights(self, features: Tensor) -> Tensor:
        """h(x), [N, R], for features [N, D] that the parts need not have seen."""
        size = self.features
        if size is None:
            raise ValueError(
                "weights need a basis or a gate: this PartTransition was made without one."
            )
        features = as_tensor(features, "features")
        if not features.is_floating_point():
            raise TypeError(f"features must be floating-point; got {features.dtype}.")
        if features.dim() != 2 or features.shape[1] != size:
            raise ValueError(f"features must be [N, {size}]; got {list(features.shape)}.")
        if self.basis is not None:
            return _weight_step(features, self.basis.to(features))
        assert self.gate is not None
        return self.gate(features)

    def matrix(self, features: Tensor | None = None, *, weights: Tensor | None = None) -> Tensor:
        """T(x), [N, C, C], for features [N, D] or for weights h(x) [N, R]."""
        if features is not None and weights is None:
            weights = self.weights(features)
        elif features is not None or weights is None:
            raise ValueError("matrix takes features or weights, one of them.")
        if not isinstance(weights, Tensor):  # a tensor may have a gradient
            weights = as_tensor(weights, "weights")
        if weights.dim() != 2 or weights.shape[1] != self.n_parts:
            raise ValueError(f"weights must be [N, {self.n_parts}]; got {list(weights.shape)}.")
        return functional.transition_matrix(weights, self.parts, self.slack)

    def to(self, *args: Any, **options: Any) -> PartTransition:
        """The same on another device or of another type, like `Tensor.to`."""
        basis, slack = (
            None if tensor is None else tensor.to(*args, **options)
            for tensor in (self.basis, self.slack)
        )
        gate = None if self.gate is None else self.gate.to(*args, **options)
        parts = self.parts.to(*args, **options)
        return PartTransition(parts, basis, slack, gate=gate, about=self.about)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a safetensors file with `about` as JSON in its header."""
        tensors = {"parts": self.parts}
        if self.basis is not None:
            tensors["basis"] = self.basis
        if self.slack is not None:
            tensors["slack"] = self.slack
        if self.gate is not None:
            tensors |= {f"gate_{name}": t for name, t in self.gate.tensors().items()}
        files.write(path, _FORMAT, tensors, self.about)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> PartTransition:
        """Read what :meth:`save` wrote; raises ValueError for a wrong or damaged file."""
        tensors, about = files.read(path, _FORMAT, ("parts",))
        try:
            basis, slack = tensors.get("basis"), tensors.get("slack")
            return cls(tensors["parts"], basis, slack, gate=_gate(tensors), about=about)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} holds no usable part transition: {error}") from None

    def plot(self, axes: Any = None, columns: int | None = None) -> Any:
        """Draw every Pʲ in shades of blue, dark for one; returns matplotlib's axes."""
        axes = new_axes() if axes is None else axes
        grid = image_grid(1 - self.parts.double(), columns, limits=(0, 1))
        axes.imshow(grid, cmap="Blues_r", vmin=0, vmax=1, interpolation="nearest")
        axes.set_axis_off()
        axes.set_title(f"{self.n_parts} part transitions of {self.classes} classes")
        return axes

    def __repr__(self) -> str:
        features = "none" if self.features is None else str(self.features)
        revised = "" if self.slack is None else ", revised"
        return (
            f"PartTransition(parts={self.n_parts}, classes={self.classes}, "
            f"features={features}{revised})"
        )


def _check(parts: Tensor, basis: Tensor | None, slack: Tensor | None) -> None:
    if parts.dim() != 3 or parts.shape[1] != parts.shape[2]:
        raise ValueError(f"parts must be [R, C, C]; got {list(parts.shape)}.")
    for given in (parts, basis):
        if given is not None and 0 in given.shape:
            raise ValueError(f"parts and basis must not be empty; got {list(given.shape)}.")
    if basis is not None and (basis.dim() != 2 or len(basis) != len(parts)):
        raise ValueError(f"basis must be [{len(parts)}, D]; got {list(basis.shape)}.")
    if slack is not None and slack.shape != parts.shape[1:]:
        raise ValueError(f"slack must be {list(parts.shape[1:])}; got {list(slack.shape)}.")
    for name, tensor in (("parts", parts), ("basis", basis), ("slack", slack)):
        if tensor is not None and tensor.dtype not in FLOATING:
            raise TypeError(
                f"{name} must be floating-point, of 16 bits or more; got {tensor.dtype}."
            )
        if tensor is not None and not tensor.isfinite().all():
            raise ValueError(f"{name} must be finite; it is not.")
    if (parts < 0).any():
        raise ValueError(f"parts must not be negative; the smallest entry is {parts.min():.6g}.")
    sums = parts.sum(-1, dtype=torch.promote_types(parts.dtype, torch.float32))
    off = (sums - 1).abs() > max(_SUM_TOLERANCE, 2 * torch.finfo(parts.dtype).eps)
    if off.any():
        part, row = off.nonzero()[0].tolist()
        raise ValueError(
            "parts must have rows of probabilities with sum 1; "
            f"parts[{part}, {row}] has the sum {sums[part, row]:.6g}."
        )


def _check_gate(parts: Tensor, basis: Tensor | None, gate: LinearGate | None) -> None:
    if gate is None:
        return
    if not isinstance(gate, LinearGate):
        raise TypeError(f"gate must be a LinearGate; got {type(gate).__name__}.")
    if basis is not None:
        raise ValueError("PartTransition takes a basis or a gate, not both.")
    if len(gate.weight) != len(parts):
        raise ValueError(
            f"gate must give weights of {len(parts)} parts; it gives {len(gate.weight)}."
        )


def _gate(tensors: dict[str, Tensor]) -> LinearGate | None:
    """The gate of a file, if it has one."""
    names = ("weight", "bias", "centre")
    missing = [name for name in names if f"gate_{name}" not in tensors]
    if len(missing) == len(names):
        return None
    if missing:
        raise ValueError(f"its gate lacks {' and '.join(missing)}.")
    return LinearGate(*(tensors[f"gate_{name}"] for name in names))


def _weight_step(features: Tensor, basis: Tensor) -> Tensor:
    """Minimise ‖x − h W‖², that is ½ h W Wᵀ hᵀ − x Wᵀ · h and a constant."""
    gram, linear = basis @ basis.T, features @ basis.T
    return simplex_weights(gram, linear, steps=_STEPS, tolerance=_TOLERANCE)
