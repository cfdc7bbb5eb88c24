"""The fourteen methods of the paper's tables: for each, its stages."""

from __future__ import annotations

from collections.abc import Callable

from ptd_ext.train.config.settings import Settings
from ptd_ext.train.methods.base import Stage
from ptd_ext.train.methods.disagreement import CoTeachingPlus, Decoupling
from ptd_ext.train.methods.dmi import DeterminantInformation
from ptd_ext.train.methods.joint import JointFinal, JointLabels
from ptd_ext.train.methods.small_loss import CoTeaching, MentorNet
from ptd_ext.train.methods.transition import CrossEntropy, Revision, Through, WarmUp

__all__ = ["METHODS", "NAMES", "stages"]

METHODS: dict[str, Callable[[Settings], list[Stage]]] = {
    "CE": lambda s: [CrossEntropy(s)],
    "Decoupling": lambda s: [Decoupling(s)],
    "MentorNet": lambda s: [MentorNet(s)],
    "Co-teaching": lambda s: [CoTeaching(s)],
    "Co-teaching+": lambda s: [CoTeachingPlus(s)],
    "Joint": lambda s: [JointLabels(s), JointFinal(s)],
    "DMI": lambda s: [
        CrossEntropy(s, "pre-train"),
        DeterminantInformation(s, per_sample=s.dmi_per_sample),
    ],
    "Forward": lambda s: [WarmUp(s), Through(s, "forward")],
    "Reweight": lambda s: [WarmUp(s), Through(s, "reweight")],
    "T-Revision": lambda s: [WarmUp(s), Through(s, "reweight"), Revision(s, "reweight")],
    "PTD-F": lambda s: [WarmUp(s), Through(s, "forward")],
    "PTD-R": lambda s: [WarmUp(s), Through(s, "reweight")],
    "PTD-F-V": lambda s: [WarmUp(s), Through(s, "forward"), Revision(s, "forward")],
    "PTD-R-V": lambda s: [WarmUp(s), Through(s, "reweight"), Revision(s, "reweight")],
}

# Class-dependent, with the anchors of PTD instead of one per class: what the parts themselves add.
METHODS["Forward-band"], METHODS["Reweight-band"] = METHODS["Forward"], METHODS["Reweight"]

NAMES = tuple(METHODS)


def stages(settings: Settings) -> list[Stage]:
    """The stages of the method that the settings name."""
    if settings.method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(NAMES)}; got {settings.method!r}.")
    return METHODS[settings.method](settings)
