"""A setting: one entry that flags, configuration files, checks and the docs are made from."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, get_args

_BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("at least", operator.ge),
    "above": ("greater than", operator.gt),
    "maximum": ("at most", operator.le),
    "below": ("less than", operator.lt),
}


@dataclass(frozen=True)
class Setting:
    """The entry of a setting."""

    section: str  # in configuration files, flags and docs
    default: Any
    about: str  # the help text
    choices: tuple[str, ...] = ()  # the values that it may have; empty for any
    names: Callable[[], Iterable[str]] | None = None  # the keys of a registry, for the help
    minimum: float | None = None
    above: float | None = None  # a bound that the value must exceed
    maximum: float | None = None
    below: float | None = None  # a bound that the value must stay under
    otherwise: float | None = None  # a value outside the bounds that is accepted, too
    rule: Callable[[Any], object] | None = None  # raises ValueError where bounds are not enough
    name: str = ""  # name and type of the field
    type: Any = None

    @property
    def help(self) -> str:
        """The help text, with the names of the registry."""
        return self.about if self.names is None else f"{self.about}: {', '.join(self.names())}"

    @property
    def flag(self) -> str:
        """The flag of the command line."""
        return "--" + self.name.replace("_", "-")

    @property
    def item_type(self) -> type[int] | type[float] | type[str] | None:
        """The type of the items of a list; None for other settings."""
        return next(iter(get_args(self.type)), None)

    @property
    def bounds(self) -> str:
        """The bounds as error messages and docs name them; "" if there are none."""
        if self.minimum is not None and self.maximum is not None:
            text = f"between {self.minimum} and {self.maximum}"
        else:
            found = ((words, getattr(self, name)) for name, (words, _) in _BOUNDS.items())
            text = " and ".join(f"{words} {bound}" for words, bound in found if bound is not None)
        return text if self.otherwise is None else f"{text}, or {self.otherwise}"

    def check(self, value: Any) -> None:
        """Raise ValueError for a value that the setting cannot have."""
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{self.name} must be a finite number; got {value}.")
        if self.choices and value not in self.choices:
            choices = ", ".join(self.choices)
            raise ValueError(f"{self.name} must be one of {choices}; got {value!r}.")
        limits = ((getattr(self, name), holds) for name, (_, holds) in _BOUNDS.items())
        inside = all(bound is None or holds(value, bound) for bound, holds in limits)
        if not inside and (self.otherwise is None or value != self.otherwise):
            raise ValueError(f"{self.name} must be {self.bounds}; got {value}.")
        if self.rule is not None:
            self.rule(value)


def setting(*arguments: Any, **options: Any) -> Any:
    """A field of a dataclass of settings; the arguments are those of :class:`Setting`."""
    entry = Setting(*arguments, **options)
    return field(default=entry.default, metadata={"entry": entry})
