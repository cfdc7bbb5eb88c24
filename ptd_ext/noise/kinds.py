"""The registry of noise kinds: one entry each, which settings, flags, docs and tests list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from ptd_ext.noise.generate import instance_dependent_noise, pairwise_noise, symmetric_noise
from ptd_ext.noise.labels import LabelNoise


@dataclass(frozen=True)
class NoiseKind:
    """The entry of a kind of noise.

    Attributes:
        make: makes the noise, of (labels, rate, random_state=…, n_classes=…), after the features of
            the samples if `needs_features`.
        help: what wrong labels become, for the docs.
        needs_features: whether the noise depends on the features of a sample, so that T(x) differs
            from row to row.
        options: keyword arguments of `make` by the names of the settings that give them.
    """

    make: Callable[..., LabelNoise]
    help: str
    needs_features: bool = False
    options: Mapping[str, str] | None = None

    def apply(
        self,
        features: Callable[[], Tensor],
        labels: Tensor,
        rate: float,
        *,
        n_classes: int,
        random_state: int,
        settings: Any,
    ) -> LabelNoise:
        """Make noise of this rate; `features` returns [N, D] and is called only if needed.

        `settings` has an attribute for each setting among the options.
        """
        options = {name: getattr(settings, each) for each, name in (self.options or {}).items()}
        first = (features(),) if self.needs_features else ()
        options |= {"random_state": random_state, "n_classes": n_classes}
        return self.make(*first, labels, rate, **options)


KINDS: dict[str, NoiseKind] = {
    "instance": NoiseKind(
        instance_dependent_noise,
        "a class that resembles the sample; the noise rate depends on the sample, too",
        needs_features=True,
        options={"noise_input": "inputs"},
    ),
    "symmetric": NoiseKind(symmetric_noise, "any other class with equal probability"),
    "pairwise": NoiseKind(pairwise_noise, "the next class"),
}


def check_kind(name: str) -> None:
    """Raise ValueError unless there is such a kind of noise, or it is "none"."""
    if name not in (*KINDS, "none"):
        raise ValueError(f"noise must be one of {', '.join(KINDS)} or none; got {name!r}.")
