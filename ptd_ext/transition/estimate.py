"""The result that all estimators of T(x) share, and its summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from html import escape
from os import PathLike
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ptd_ext.ops.checks import FLOATING
from ptd_ext.ops.layout import prepare_parts
from ptd_ext.transition.gate import LinearGate
from ptd_ext.utils import tensor_files
from ptd_ext.utils.html import heat_map

if TYPE_CHECKING:
    from typing_extensions import Self

# A diagonal below this multiple of the largest other entry may belong to another class.
_CLEAR = 1.2
_FEW = 100  # samples: fewer do not determine a row of T
_LISTED = 5  # classes named in a caveat
_SMALLEST = 1e-30  # smallest divisor
_LEVEL = 0.02  # L1 distance of rows, below which T(x) counts as one matrix


@dataclass(frozen=True)
class TransitionSummary:
    """The noise that an estimate of T(x) finds.

    Attributes:
        noise_rate: the share of wrong labels, Σ class_prior_i · (1 − mean T_ii).
        diagonal: the diagonal of the mean T(x), [C].
        class_prior: shares of the true classes, [C].
        variation: how far T(x) varies, from 0 to 2: the L1 distance between a row of T(x) and its
            mean over samples, averaged over samples, and over rows by the prior.
        caveats: known weaknesses of this estimate, one string each.
    """

    noise_rate: float
    diagonal: Tensor = field(repr=False)
    class_prior: Tensor = field(repr=False)
    variation: float
    caveats: tuple[str, ...] = field(repr=False)

    def __str__(self) -> str:
        low, high = self.diagonal.min().item(), self.diagonal.max().item()
        varies = "one matrix for all samples"
        if self.variation >= _LEVEL:
            varies = f"rows vary by {self.variation:.2f} between samples"
        rate = f"{self.noise_rate:.1%} of labels wrong"
        text = f"T(x): {rate}, diagonal {low:.2f} to {high:.2f}, {varies}"
        return "\n".join([text, *(f"  caveat: {caveat}" for caveat in self.caveats)])


@dataclass(frozen=True, kw_only=True)
class EstimatedTransition:
    """An estimate of T(x) = Σⱼ hⱼ(x) Pʲ, or of one matrix T for all samples.

    :func:`ptd_ext.transition.class_transition` returns one. The results of
    :func:`ptd_ext.fit_part_transitions`, :func:`ptd_ext.fit_learned_parts` and
    :func:`ptd_ext.transition.neighbour_transition` extend it, and :class:`ptd_ext.TransitionEM`
    has the same attributes.

    Attributes:
        parts: P, [R, C, C], in the layout of :func:`ptd_ext.ops.prepare_parts`; R is 1 for one
            matrix.
        class_prior: shares or counts of the true classes, [C].
        n_samples: number of samples that the estimate comes from.
        weights: h(x) of the samples, [N, R]; None counts all parts alike.
    """

    # `load` checks tensors against these shapes.
    parts: Tensor = field(repr=False, metadata={"shape": "RCC"})
    class_prior: Tensor = field(repr=False, metadata={"shape": "C"})
    n_samples: int
    weights: Tensor | None = field(default=None, repr=False, metadata={"shape": "NR"})

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", prepare_parts(self.parts))

    @classmethod
    def one_matrix(
        cls, transition: Tensor, class_prior: Tensor, n_samples: int
    ) -> EstimatedTransition:
        """The estimate of one matrix T, [C, C], for all samples."""
        return EstimatedTransition(
            parts=transition[None], class_prior=class_prior, n_samples=n_samples
        )

    @property
    def transition(self) -> Tensor:
        """T, [C, C], the mean of T(x) over the samples."""
        if len(self.parts) == 1:
            return self.parts[0]
        if self.weights is None:
            return prepare_parts(self.parts.mean(0))
        mean = self.weights.mean(0).to(self.parts)
        return prepare_parts(torch.tensordot(mean, self.parts, dims=1))

    @property
    def noise_rate(self) -> float:
        """The share of wrong labels, Σ class_prior_i · (1 − T_ii)."""
        prior = self.class_prior.double() / self.class_prior.double().sum()
        wrong = 1 - self.transition.diagonal().double()
        return (prior * wrong.to(prior)).sum().clamp(0, 1).item()

    def summary(self, class_names: Sequence[str] | None = None) -> TransitionSummary:
        """The noise rate, the diagonal, the variation of T(x), and caveats about them."""
        prior = self.class_prior.double() / self.class_prior.double().sum()
        mean = self.transition.double()
        variation = 0.0
        if self.weights is not None and len(self.parts) > 1:
            weights = self.weights[:: max(1, len(self.weights) // 2000)].double()
            centred = weights - weights.mean(0)
            for label, share in enumerate(prior.tolist()):  # T(x) of all of them may be large
                moved = centred @ self.parts[:, label].double()
                variation += share * moved.abs().sum(1).mean().item()
        return TransitionSummary(
            self.noise_rate,
            mean.diagonal().float(),
            prior.float(),
            variation,
            tuple(_caveats(mean, prior * self.n_samples, class_names)),
        )

    def _repr_html_(self) -> str:
        summary = escape(str(self.summary())).replace("\n", "<br>")
        return f"<p>{summary}</p>{heat_map(self.transition.cpu().numpy())}"

    def base(self) -> Tensor:
        """Off-diagonals for `base` of :class:`ptd_ext.TransitionEM`; unclear rows are uniform."""
        return trusted_base(self.transition)

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a safetensors file; the write is atomic."""
        tensors: dict[str, Tensor] = {}
        about: dict[str, Any] = {}
        for name, value in ((each.name, getattr(self, each.name)) for each in fields(self)):
            if isinstance(value, Tensor):
                tensors[name] = value
            elif isinstance(value, LinearGate):
                tensors |= {f"{name}.{key}": each for key, each in value.tensors().items()}
            elif value is not None:
                about[name] = value
        tensor_files.write(path, type(self).__name__, tensors, about)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a file that :meth:`save` of this class wrote.

        Raises ValueError for an invalid or damaged file, and for the file of another class.
        """
        tensors, about = tensor_files.read(path, cls.__name__, ("parts", "class_prior"))
        try:
            return cls(**_checked_fields(cls, tensors, about))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path} is not a valid {cls.__name__}: {error}") from None


def _checked_fields(
    cls: type[EstimatedTransition], tensors: dict[str, Tensor], about: dict[str, Any]
) -> dict[str, Any]:
    """The fields of an estimate from the contents of its file."""
    values: dict[str, Any] = {}
    n_parts, n_classes = tensors["parts"].shape[0], tensors["parts"].shape[-1]
    sizes = {"N": about.get("n_samples"), "R": n_parts, "C": n_classes}
    for each in fields(cls):
        name, kind = each.name, str(each.type)
        if "shape" in each.metadata:
            if name in tensors or not kind.endswith("None"):
                values[name] = _checked_tensor(
                    name, tensors, [*map(sizes.get, each.metadata["shape"])]
                )
        elif kind == "LinearGate":
            keys = [key for key in tensors if key.startswith(f"{name}.")]
            values[name] = LinearGate(**{key[len(name) + 1 :]: tensors[key] for key in keys})
            if len(values[name].weight) != n_parts:
                raise ValueError(
                    f"{name} must have {n_parts} parts; got {len(values[name].weight)}."
                )
        else:
            value = about.get(name)
            if kind == "tuple[int, ...]" and isinstance(value, list):
                valid = all(type(entry) is int for entry in value)
                value = tuple(value)
            else:
                valid = type(value).__name__ == kind
            if not valid:
                raise ValueError(f"{name} must be {kind}; got {value!r}.")
            values[name] = value
    return values


def _checked_tensor(name: str, tensors: dict[str, Tensor], shape: list[Any]) -> Tensor:
    tensor = tensors.get(name)
    if tensor is None:
        raise ValueError(f"{name} is missing.")
    if tensor.dtype not in FLOATING or list(tensor.shape) != shape:
        raise ValueError(
            f"{name} must be floating-point {shape}; got {tensor.dtype} {list(tensor.shape)}."
        )
    if not (tensor.isfinite().all() and (tensor >= 0).all()):
        raise ValueError(f"{name} must be finite and not negative; it is not.")
    return tensor


def trusted_base(transition: Tensor, share: float = 1.0) -> Tensor:
    """Off-diagonal rows of T that are clear, [C, C]; the other rows are uniform.

    If another entry in the row or the column of a class is almost as large as its diagonal, the
    estimate may have exchanged two classes.

    Args:
        transition: T, [C, C].
        share: weight of the clear rows; the rest is uniform.
    """
    wrong = transition.clone().fill_diagonal_(0.0)
    rows = off_diagonal(transition)
    clear = transition.diagonal() > _CLEAR * torch.maximum(wrong.amax(0), wrong.amax(1))
    uniform = off_diagonal(torch.zeros_like(wrong))
    return torch.lerp(uniform, torch.where(clear[:, None], rows, uniform), share)


def off_diagonal(matrix: Tensor, otherwise: Tensor | None = None) -> Tensor:
    """Rows without their diagonal, with sum 1; for zero rows those of `otherwise`, or uniform."""
    wrong = matrix.clone().fill_diagonal_(0.0)
    sums = wrong.sum(1, keepdim=True)
    if otherwise is None:
        otherwise = torch.full_like(wrong, 1 / (len(wrong) - 1)).fill_diagonal_(0.0)
    return torch.where(sums >= _SMALLEST, wrong / sums.clamp(min=_SMALLEST), otherwise)


def _caveats(mean: Tensor, counts: Tensor, class_names: Sequence[str] | None) -> list[str]:
    """Caveats about the rows of the mean T(x), [C, C], from `counts` [C] samples each."""
    names = class_names or [str(label) for label in range(len(mean))]
    wrong = mean.clone().fill_diagonal_(0.0)
    caveats = []
    few = {names[k]: round(n) for k, n in enumerate(counts.tolist()) if 0.5 <= n < _FEW}
    if len(few) == 1:
        ((name, count),) = few.items()
        caveats.append(f"row {name} of T(x) rests on about {count} samples.")
    elif few:
        listed = ", ".join(list(few)[:_LISTED]) + (", …" if len(few) > _LISTED else "")
        caveats.append(
            f"{len(few)} rows of T(x) rest on few samples, about {min(few.values())} to "
            f"{max(few.values())} each: {listed}."
        )
    for label, count in enumerate(counts.tolist()):
        name, own, (other, rival) = names[label], mean[label, label], wrong[label].max(0)
        if count < 0.5:
            caveats.append(f"class {name} has no samples; its row of T(x) is a guess.")
        elif own < _CLEAR * other:
            caveats.append(
                f"T(x) gives class {name} the label {names[int(rival)]} almost as often as {name} "
                f"({other:.2f} and {own:.2f}); the estimate may have confused the two classes."
            )
    return caveats
