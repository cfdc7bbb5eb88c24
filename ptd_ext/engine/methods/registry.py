"""The registry of methods. A new method is one entry of `METHODS`, and nothing else.

Listings, help, the docs, presets, `ptd-ext compare` and `ptd-ext reproduce` (its grid, schedule,
tables and plots) read all that they need to know about a method here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from ptd_ext.engine.methods.disagreement import CoTeachingPlus, Decoupling
from ptd_ext.engine.methods.dmi import DeterminantInformation
from ptd_ext.engine.methods.joint import JointFinal, JointLabels
from ptd_ext.engine.methods.learned_transition import (
    EMCounts,
    TrainWithEstimator,
    TrainWithLearnedParts,
)
from ptd_ext.engine.methods.small_loss import CoTeaching, MentorNet
from ptd_ext.engine.methods.transition import (
    CrossEntropy,
    Loss,
    Revision,
    TrainWithTransition,
    WarmUp,
)
from ptd_ext.engine.rows.training_data import TrainingData
from ptd_ext.engine.settings.settings import Settings
from ptd_ext.engine.stage.stage import Stage


@dataclass(frozen=True)
class Method:
    """The entry of a method; its name is the key."""

    stages: Callable[[Settings], list[Stage]]  # in the order of training
    help: str = ""  # one line for listings and the docs
    # The transition matrix: one for all samples, which fixes R = 1, or T(x) with R parts. A method
    # with a matrix starts from the warmed-up network, which the runs of an experiment share.
    kind: Literal["none", "one matrix", "parts"] = "none"
    # Settings that it changes; a configuration file or a flag overrides them.
    defaults: Mapping[str, Any] = field(default_factory=dict)
    cost: float = 1.0  # training cost in units of CE; `ptd-ext reproduce` schedules by it
    published: bool = True  # the paper's tables include it; ours mark the other methods
    ablation: bool = False  # it is part of the ablation over R

    @property
    def has_parts(self) -> bool:
        """True if its result depends on R."""
        return self.kind == "parts"

    @property
    def one_matrix(self) -> bool:
        """True if it has R = 1 by definition."""
        return self.kind == "one matrix"


_ADAM = {"optimiser": "adam", "lr": 1e-3, "weight_decay": 0.0, "schedule": "linear"}
# One anchor per class, as the published class-dependent methods choose it.
_ONE_ANCHOR = {"anchor_rule": "percentile", "anchor_count": 1, "anchor_band": (97.0, 97.0)}


def _forward(s: Settings) -> list[Stage]:
    return [WarmUp(s), TrainWithTransition(s, "forward")]


def _reweight(s: Settings) -> list[Stage]:
    return [WarmUp(s), TrainWithTransition(s, "reweight")]


def _revised_forward(s: Settings) -> list[Stage]:
    return [*_forward(s), Revision(s, "forward")]


def _revised_reweight(s: Settings) -> list[Stage]:
    return [*_reweight(s), Revision(s, "reweight")]


def _counts(s: Settings) -> list[Stage]:
    return [WarmUp(s), EMCounts(s)]


def _learned_parts(s: Settings, loss: Loss = "forward") -> list[Stage]:
    return [*_counts(s), TrainWithLearnedParts(s, loss)]


# Settings that methods of a family share.
_small_loss = partial(Method, defaults=_ADAM)
_two_networks = partial(Method, defaults=_ADAM, cost=2.0)
_one_anchor = partial(Method, kind="one matrix", defaults=_ONE_ANCHOR, cost=1.1)
_parts = partial(Method, kind="parts", cost=1.3, ablation=True)
_our_matrix = partial(Method, kind="one matrix", cost=1.1, published=False)
_our_parts = partial(Method, kind="parts", cost=1.9, published=False)

# Tables list the methods in this order.
METHODS: dict[str, Method] = {
    "CE": Method(lambda s: [CrossEntropy(s)], "cross entropy on the noisy labels"),
    "Decoupling": _two_networks(
        lambda s: [Decoupling(s)], "two networks, trained on samples on which they disagree"
    ),
    "MentorNet": _small_loss(
        lambda s: [MentorNet(s)], "self-paced: trained on the samples with the smallest loss"
    ),
    "Co-teaching": _two_networks(
        lambda s: [CoTeaching(s)],
        "two networks, each trained on the samples with the smallest loss of the other",
    ),
    "Co-teaching+": _two_networks(
        lambda s: [CoTeachingPlus(s)],
        "Co-teaching on the samples on which the networks disagree",
    ),
    "Joint": Method(
        lambda s: [JointLabels(s), JointFinal(s)],
        "joint optimisation of network and labels, then a fresh network on these labels",
        cost=3.2,
    ),
    "DMI": Method(
        lambda s: [CrossEntropy(s, "pre-train"), DeterminantInformation(s)],
        "determinant-based mutual information, after cross entropy",
        cost=2.0,
    ),
    "Forward": _one_anchor(
        _forward, "forward correction by one matrix T, from one anchor per class", ablation=True
    ),
    "Reweight": _one_anchor(
        _reweight, "importance reweighting by one matrix T, from one anchor per class"
    ),
    "T-Revision": _one_anchor(
        _revised_reweight, "Reweight, then T + ΔT is learned", cost=1.2, ablation=True
    ),
    "Forward-band": _our_matrix(
        _forward,
        "Forward with the anchors of PTD: the difference to PTD-F is due to parts",
        ablation=True,
    ),
    "Reweight-band": _our_matrix(
        _reweight, "Reweight with the anchors of PTD: the difference to PTD-R is due to parts"
    ),
    "PTD-F": _parts(
        _forward, "forward correction by T(x) = Σⱼ hⱼ(x) Pʲ, with parts from NMF and anchors"
    ),
    "PTD-R": _parts(_reweight, "importance reweighting by the same T(x)"),
    "PTD-F-V": _parts(_revised_forward, "PTD-F, then T(x) + ΔT is learned", cost=1.4),
    "PTD-R-V": _parts(_revised_reweight, "PTD-R, then T(x) + ΔT is learned", cost=1.4),
    "NN-F": _our_matrix(
        lambda s: [WarmUp(s), TrainWithEstimator(s, "forward", "neighbours")],
        "forward correction by one matrix from the labels of nearest neighbours",
    ),
    # Counts belong to the forward likelihood and are updated until training ends, so that EM has
    # no -R and no -V.
    "EM-F": _our_matrix(
        _counts,
        "forward correction by one matrix from expected counts, updated in training",
        cost=1.2,
    ),
    "PTD-L": _our_parts(
        _learned_parts,
        "EM-F, then T(x) with parts that maximise the likelihood of the noisy labels",
    ),
    "PTD-L-R": _our_parts(
        lambda s: _learned_parts(s, "reweight"), "PTD-L with the reweighted loss"
    ),
    "PTD-L-V": _our_parts(
        lambda s: [*_learned_parts(s), Revision(s, "forward")],
        "PTD-L, then T(x) + ΔT is learned",
        cost=2.0,
    ),
}


def listing() -> str:
    """One line per method, with its name and help."""
    width = max(map(len, METHODS))
    return "\n".join(f"{name:<{width}}  {method.help}" for name, method in METHODS.items())


def stages_of(settings: Settings, data: TrainingData) -> list[Stage]:
    """The stages of the settings' method; raises ValueError if the data cannot train them."""
    if settings.method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}; got {settings.method!r}.")
    if data.n_classes < 2:
        raise ValueError(f"The labels must have at least 2 classes; got {data.n_classes}.")
    stages = METHODS[settings.method].stages(settings)
    for stage in stages:
        stage.check(data)
    return stages
