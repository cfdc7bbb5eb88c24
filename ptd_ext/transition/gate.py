"""A gate: weights h(x) of the parts as the softmax of an affine function of the features."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from ptd_ext.ops.checks import FLOATING


@dataclass(frozen=True, repr=False)
class LinearGate:
    """h(x) = softmax((x − centre) Wᵀ + b), every row on the simplex.

    A gate over principal components is one of these: the components and their scale are a linear
    map, which W contains.

    Attributes:
        weight: W, [R, D].
        bias: b, [R].
        centre: [D], subtracted first, so that a large mean takes no digits from the product.
    """

    weight: Tensor
    bias: Tensor
    centre: Tensor

    def __repr__(self) -> str:
        parts, features = self.weight.shape
        return f"LinearGate(n_parts={parts}, n_features={features})"

    def __post_init__(self) -> None:
        for name, tensor in self.tensors().items():
            if not (isinstance(tensor, Tensor) and tensor.dtype in FLOATING):
                kind = getattr(tensor, "dtype", type(tensor).__name__)
                raise TypeError(f"gate {name} must be a floating-point tensor; got {kind}.")
            if not tensor.isfinite().all():
                raise ValueError(f"gate {name} must be finite; it is not.")
        if self.weight.dim() != 2 or 0 in self.weight.shape:
            raise ValueError(f"gate weight must be [R, D]; got {list(self.weight.shape)}.")
        parts, size = self.weight.shape
        for name, length in (("bias", parts), ("centre", size)):
            shape = getattr(self, name).shape
            if shape != (length,):
                raise ValueError(f"gate {name} must be [{length}]; got {list(shape)}.")

    def tensors(self) -> dict[str, Tensor]:
        """The tensors by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def to(self, *args: Any, **options: Any) -> LinearGate:
        """The same on another device or of another type, like `Tensor.to`."""
        return LinearGate(**{n: t.to(*args, **options) for n, t in self.tensors().items()})

    def __call__(self, features: Tensor) -> Tensor:
        """h(x), [N, R], of features [N, D], in their type, or float32 for half types."""
        dtype = features.dtype if features.dtype is torch.float64 else torch.float32
        weight, bias, centre = (t.to(features.device, dtype) for t in self.tensors().values())
        return torch.addmm(bias, features.to(dtype) - centre, weight.T).softmax(1)
