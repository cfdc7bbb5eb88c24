"""The registry of methods. A new method is one entry of `METHODS`, and nothing else.

`ptd-ext train --list`, the presets, `ptd-ext compare` and `ptd-ext reproduce` (its grid, its
schedule, its tables and plots) all read what they need to know about a method here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ptd_ext.train.config.settings import Settings
from ptd_ext.train.methods.base import Stage
from ptd_ext.train.methods.disagreement import CoTeachingPlus, Decoupling
from ptd_ext.train.methods.dmi import DeterminantInformation
from ptd_ext.train.methods.joint import JointFinal, JointLabels
from ptd_ext.train.methods.learned_transition import (
    Counting,
    ThroughLearned,
    ThroughNeighbours,
)
from ptd_ext.train.methods.small_loss import CoTeaching, MentorNet
from ptd_ext.train.methods.transition import CrossEntropy, Loss, Revision, Through, WarmUp

__all__ = ["ABLATION_METHODS", "METHODS", "Method", "stages_of"]


@dataclass(frozen=True)
class Method:
    """A method: its stages, and what tables and schedules need to know about it.

    Attributes:
        stages: makes its stages from the settings, in the order in which they are trained.
        transition: its transition matrix: "none"; "class", one matrix for all samples, which fixes
            R = 1; or "parts", T(x) of R parts. A method with a matrix starts from the warmed-up
            network, which the runs of an experiment share.
        defaults: settings that it changes; a configuration file or a flag still overrides them.
        cost: the cost of training in units of that of CE. `ptd-ext reproduce` uses it only to order
            its cells and to estimate the time left.
        published: whether the paper's tables include it; the other methods are marked in ours.
        ablation: whether it is part of the ablation over R.
    """

    stages: Callable[[Settings], list[Stage]]
    transition: Literal["none", "class", "parts"] = "none"
    defaults: Mapping[str, Any] = field(default_factory=dict)
    cost: float = 1.0
    published: bool = True
    ablation: bool = False

    @property
    def warms_up(self) -> bool:
        """True if it starts from the warmed-up network."""
        return self.transition != "none"

    @property
    def has_parts(self) -> bool:
        """True if its result depends on R."""
        return self.transition == "parts"

    @property
    def one_matrix(self) -> bool:
        """True if it has R = 1 by definition."""
        return self.transition == "class"


_ADAM = {"optimiser": "adam", "lr": 1e-3, "weight_decay": 0.0, "schedule": "linear"}
_ONE_PART = {"parts": 1}
# One anchor per class, as the class-dependent methods choose it.
_ONE_ANCHOR = {
    **_ONE_PART,
    "anchor_rule": "percentile",
    "anchor_count": 1,
    "anchor_band": (97.0, 97.0),
}


def _forward(s: Settings) -> list[Stage]:
    return [WarmUp(s), Through(s, "forward")]


def _reweight(s: Settings) -> list[Stage]:
    return [WarmUp(s), Through(s, "reweight")]


def _revised_forward(s: Settings) -> list[Stage]:
    return [*_forward(s), Revision(s, "forward")]


def _revised_reweight(s: Settings) -> list[Stage]:
    return [*_reweight(s), Revision(s, "reweight")]


def _learned_parts(s: Settings, loss: Loss = "forward") -> list[Stage]:
    return [WarmUp(s), Counting(s), ThroughLearned(s, loss)]


def _dmi(s: Settings) -> list[Stage]:
    return [
        CrossEntropy(s, "pre-train"),
        DeterminantInformation(s, per_sample=s.dmi_per_sample),
    ]


# Tables list the methods in this order.
METHODS: dict[str, Method] = {
    "CE": Method(lambda s: [CrossEntropy(s)]),
    "Decoupling": Method(lambda s: [Decoupling(s)], defaults=_ADAM, cost=2.0),
    "MentorNet": Method(lambda s: [MentorNet(s)], defaults=_ADAM),
    "Co-teaching": Method(lambda s: [CoTeaching(s)], defaults=_ADAM, cost=2.0),
    "Co-teaching+": Method(lambda s: [CoTeachingPlus(s)], defaults=_ADAM, cost=2.0),
    "Joint": Method(lambda s: [JointLabels(s), JointFinal(s)], cost=3.2),
    "DMI": Method(_dmi, cost=2.0),
    "Forward": Method(_forward, "class", _ONE_ANCHOR, cost=1.1, ablation=True),
    "Reweight": Method(_reweight, "class", _ONE_ANCHOR, cost=1.1),
    "T-Revision": Method(_revised_reweight, "class", _ONE_ANCHOR, cost=1.2, ablation=True),
    # One matrix with the anchors of PTD instead of one per class: they show what parts add.
    "Forward-band": Method(_forward, "class", _ONE_PART, 1.1, published=False, ablation=True),
    "Reweight-band": Method(_reweight, "class", _ONE_PART, 1.1, published=False),
    "PTD-F": Method(_forward, "parts", cost=1.3, ablation=True),
    "PTD-R": Method(_reweight, "parts", cost=1.3, ablation=True),
    "PTD-F-V": Method(_revised_forward, "parts", cost=1.4, ablation=True),
    "PTD-R-V": Method(_revised_reweight, "parts", cost=1.4, ablation=True),
    # Methods that do not read T off anchors: T from neighbours, T by counts, and T(x) with learned
    # parts, which start from the counts. Counts belong to the forward likelihood and are updated
    # until training ends, so that EM has no -R and no -V.
    "NN-F": Method(
        lambda s: [WarmUp(s), ThroughNeighbours(s, "forward")],
        "class",
        _ONE_PART,
        1.1,
        published=False,
    ),
    "EM-F": Method(
        lambda s: [WarmUp(s), Counting(s)], "class", _ONE_PART, cost=1.2, published=False
    ),
    "PTD-L": Method(_learned_parts, "parts", cost=1.9, published=False),
    "PTD-L-R": Method(lambda s: _learned_parts(s, "reweight"), "parts", cost=1.9, published=False),
    "PTD-L-V": Method(
        lambda s: [*_learned_parts(s), Revision(s, "forward")], "parts", cost=2.0, published=False
    ),
}

ABLATION_METHODS = tuple(name for name, method in METHODS.items() if method.ablation)


def stages_of(settings: Settings) -> list[Stage]:
    """The stages of the method that the settings name."""
    if settings.method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {settings.method!r}.")
    return METHODS[settings.method].stages(settings)
