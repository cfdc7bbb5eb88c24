"""The learned transition: parts, the basis that gives a sample its weights, and slack."""

from __future__ import annotations

from html import escape
from os import PathLike
from typing import Any

import torch
from torch import Tensor

from ptd_ext.ops import functional
from ptd_ext.ops.checks import FLOATING
from ptd_ext.ops.layout import prepare_parts
from ptd_ext.ops.simplex import simplex_weights
from ptd_ext.transition.gate import LinearGate
from ptd_ext.utils import tensor_files as files
from ptd_ext.utils.html import heat_map
from ptd_ext.utils.ids import as_tensor

_FORMAT = "a part transition"
_MAX_ITER, _TOL = 500, 1e-6
_SUM_TOLERANCE = 1e-3  # for rows of many classes; half types: twice their rounding, if larger


class PartTransition:
    """T(x) = Σⱼ hⱼ(x) Pʲ, revised by ΔT where there is one.

    Args:
        parts: P, [R, C, C].
        basis: W, [R, D], for which h(x) = argmin ‖x − h W‖² on the simplex; or a fitted object
            that keeps it as `components_`, like :class:`ptd_ext.SimplexNMF`. None where weights
            come from elsewhere.
        slack: ΔT, [C, C].
        gate: gives h(x) instead of a basis, as :func:`ptd_ext.fit_learned_parts` finds it.
        about: metadata to save with it, as JSON: the data, the seed, …

    The tensors are attributes of the same names, without gradients. `parts` is in the layout of
    :func:`ptd_ext.ops.prepare_parts`, so that no loss has to copy it; the others are not copied.

    Examples:
        >>> basis, features = torch.rand(3, 5), torch.rand(4, 5)
        >>> model = ptd_ext.PartTransition(torch.eye(2).expand(3, 2, 2), basis)
        >>> model.weights(features).shape, model.transition(features).shape
        (torch.Size([4, 3]), torch.Size([4, 2, 2]))
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
        parts = as_tensor(parts, "parts")
        basis = getattr(basis, "components_", basis)
        self.basis = None if basis is None else as_tensor(basis, "basis")
        self.slack = None if slack is None else as_tensor(slack, "slack")
        self.gate = gate
        self.about = dict(about or {})
        if gate is not None:
            _check_gate(parts, self.basis, gate)
        _check(parts, self.basis, self.slack)
        self.parts = prepare_parts(parts)

    @property
    def n_classes(self) -> int:
        """C."""
        return self.parts.shape[-1]

    @property
    def n_parts(self) -> int:
        """R."""
        return len(self.parts)

    @property
    def n_features(self) -> int | None:
        """D; None where weights come from elsewhere."""
        giver = self.basis if self.gate is None else self.gate.weight
        return None if giver is None else giver.shape[1]

    def weights(self, features: Tensor) -> Tensor:
        """h(x), [N, R], for features [N, D] that the parts need not have seen."""
        size = self.n_features
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
            # ‖x − h W‖² is twice ½ h W Wᵀ hᵀ − x Wᵀ · h, and a constant.
            basis = self.basis.to(features)
            gram, linear = basis @ basis.T, features @ basis.T
            return simplex_weights(gram, linear, max_iter=_MAX_ITER, tol=_TOL)
        assert self.gate is not None
        return self.gate(features)

    def transition(
        self, features: Tensor | None = None, *, weights: Tensor | None = None
    ) -> Tensor:
        """T(x), [N, C, C], for features [N, D] or for weights h(x) [N, R]."""
        if features is not None and weights is None:
            weights = self.weights(features)
        elif features is not None or weights is None:
            raise ValueError("transition must get either features or weights.")
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
        tensors = {"parts": self.parts, "basis": self.basis, "slack": self.slack}
        if self.gate is not None:
            tensors |= {f"gate_{name}": t for name, t in self.gate.tensors().items()}
        kept = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        files.write(path, _FORMAT, kept, self.about)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> PartTransition:
        """Read a file that :meth:`save` wrote; raise ValueError for a wrong or damaged file."""
        tensors, about = files.read(path, _FORMAT, ("parts",))
        gate = {n.removeprefix("gate_"): t for n, t in tensors.items() if n.startswith("gate_")}
        try:
            basis, slack = tensors.get("basis"), tensors.get("slack")
            found = LinearGate(**gate) if gate else None
            return cls(tensors["parts"], basis, slack, gate=found, about=about)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} holds no usable part transition: {error}") from None

    def _repr_html_(self) -> str:
        equal = self.parts.new_full((1, self.n_parts), 1 / self.n_parts)
        mean = self.transition(weights=equal)[0]
        return f"<p>{escape(repr(self))}</p>{heat_map(mean.cpu().numpy())}"

    def __repr__(self) -> str:
        features = "none" if self.n_features is None else str(self.n_features)
        revised = "" if self.slack is None else ", revised"
        return (
            f"PartTransition(n_parts={self.n_parts}, n_classes={self.n_classes}, "
            f"n_features={features}{revised})"
        )


def _check(parts: Tensor, basis: Tensor | None, slack: Tensor | None) -> None:
    if parts.dim() != 3 or parts.shape[1] != parts.shape[2]:
        raise ValueError(f"parts must be [R, C, C]; got {list(parts.shape)}.")
    if basis is not None and (basis.dim() != 2 or len(basis) != len(parts)):
        raise ValueError(f"basis must be [{len(parts)}, D]; got {list(basis.shape)}.")
    if slack is not None and slack.shape != parts.shape[1:]:
        raise ValueError(f"slack must be {list(parts.shape[1:])}; got {list(slack.shape)}.")
    for name, tensor in (("parts", parts), ("basis", basis), ("slack", slack)):
        if tensor is None:
            continue
        if 0 in tensor.shape:
            raise ValueError(f"{name} must not be empty; got {list(tensor.shape)}.")
        if tensor.dtype not in FLOATING:
            raise TypeError(
                f"{name} must be floating-point, of 16 bits or more; got {tensor.dtype}."
            )
        if not tensor.isfinite().all():
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


def _check_gate(parts: Tensor, basis: Tensor | None, gate: LinearGate) -> None:
    if not isinstance(gate, LinearGate):
        raise TypeError(f"gate must be a LinearGate; got {type(gate).__name__}.")
    if basis is not None:
        raise ValueError("PartTransition takes a basis or a gate, not both.")
    if len(gate.weight) != len(parts):
        raise ValueError(
            f"gate must give weights of {len(parts)} parts; it gives {len(gate.weight)}."
        )
