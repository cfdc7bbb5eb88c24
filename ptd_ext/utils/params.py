"""The conventions of scikit-learn's estimators, without a dependency on it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import torch


class NotFittedError(ValueError, AttributeError):
    """An estimator was used before it was fitted; the bases match scikit-learn's class."""


class Params:
    """Parameters are constructor arguments, stored as attributes of the same name."""

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all parameters by name; `deep` is accepted for scikit-learn's sake."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Params:
        """Set parameters; returns self."""
        unknown = sorted(set(params) - set(self._names()))
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no parameter {unknown[0]!r}; it has "
                f"{', '.join(self._names())}."
            )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """Return the tags that scikit-learn's pipelines read."""
        from sklearn.utils import Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=["float64", "float32"]),
        )

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        changed = (
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if defaults[name].default is inspect.Parameter.empty or value != defaults[name].default
        )
        return f"{type(self).__name__}({', '.join(changed)})"


def seed_of(random_state: Any) -> int:
    """Return a seed from None, an integer, or a generator of NumPy or torch, which advances."""
    if random_state is None:
        return int(torch.randint(2**31, ()))
    if isinstance(random_state, torch.Generator):
        return int(torch.randint(2**31, (), generator=random_state))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return int(random_state)
