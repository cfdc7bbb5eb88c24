"""Bounds of the numbers among the settings."""

from __future__ import annotations

from typing import Any

__all__ = ["MAX_IMAGE_SIZE", "MAX_PARTS", "MAX_SEED", "check_bounds"]

# Pixels a side: networks for images take 224 to some hundreds, and a sample of this size has 3 MB.
MAX_IMAGE_SIZE = 1024
MAX_PARTS = 256  # that SimplexNMF takes
MAX_SEED = 2**63 - 2**10  # of torch's generators, less some numbers that are added to it

_POSITIVE = [
    "anchor_count",
    "batch_size",
    "dmi_batch_size",
    "dmi_epochs",
    "dmi_lr",
    "epochs",
    "gate_components",
    "joint_average",
    "joint_epochs",
    "joint_final_epochs",
    "joint_lr",
    "learned_epochs",
    "learned_lr",
    "lr",
    "nmf_iterations",
    "parts",
    "posterior_epochs",
    "warm_up_epochs",
]
_RANGES = {
    "decay_from": (0, 1),
    "count_base_share": (0, 1),
    "image_size": (0, MAX_IMAGE_SIZE),
    "late_beta1": (0, 1),
    "parts": (1, MAX_PARTS),
    "seed": (0, MAX_SEED),
}
_NOT_NEGATIVE = [
    "barrier",
    "checkpoint_steps",
    "count_window",
    "data_limit",
    "decay",
    "disagreement_free_steps",
    "disagreement_start",
    "image_size",
    "joint_soft_from",
    "max_importance",
    "min_gain",
    "momentum",
    "prior_weight",
    "ramp_epochs",
    "revision_epochs",
    "revision_lr",
    "ridge",
    "slack_lr",
    "text_length",
    "threads",
    "weight_decay",
]


def check_bounds(settings: Any) -> None:
    """Raise ValueError for a number out of its bounds."""
    if not 0 <= settings.rate < 1:
        raise ValueError(f"rate must be at least 0 and less than 1; got {settings.rate}.")
    if not 0 <= settings.validation < 1:
        raise ValueError(
            f"validation must be at least 0 and less than 1; got {settings.validation}."
        )
    for name in _POSITIVE:
        if getattr(settings, name) <= 0:
            raise ValueError(f"{name} must be positive; got {getattr(settings, name)}.")
    for name in _NOT_NEGATIVE:
        if getattr(settings, name) < 0:
            raise ValueError(f"{name} must not be negative; got {getattr(settings, name)}.")
    for name, (low, high) in _RANGES.items():
        if not low <= getattr(settings, name) <= high:
            raise ValueError(f"{name} must be {low} to {high}; got {getattr(settings, name)}.")
    if settings.forget_rate != -1 and not 0 <= settings.forget_rate <= 1:
        raise ValueError(
            f"forget_rate must be 0 to 1, or -1 for the noise rate; got {settings.forget_rate}."
        )
    if settings.late_beta1 >= 1:
        raise ValueError(f"late_beta1 must be less than 1; got {settings.late_beta1}.")
    band = list(settings.anchor_band)
    if len(band) != 2 or not 0 <= band[0] <= band[1] <= 100:
        raise ValueError(f"anchor_band must be two rising percentiles from 0 to 100; got {band}.")
