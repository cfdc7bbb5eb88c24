"""Checks that the settings can work with the data, before anything is trained."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ptd_ext.train.config.settings import Settings
from ptd_ext.train.data.problem import Problem
from ptd_ext.train.methods.base import Stage
from ptd_ext.train.methods.dmi import DeterminantInformation
from ptd_ext.train.methods.learned_transition import Counting
from ptd_ext.train.methods.registry import stages_of
from ptd_ext.train.methods.small_loss import MentorNet, floor_of, kept_share
from ptd_ext.transition.barrier import class_prior_of

__all__ = ["check_one_sample", "feasible_stages", "smallest_batch"]


def feasible_stages(settings: Settings, problem: Problem) -> list[Stage]:
    """Return the stages of the method; raises ValueError if these data cannot train them."""
    settings = _with_known_rate(settings, problem)
    if problem.classes < 2:
        raise ValueError(
            f"{problem.name} must have at least 2 classes to tell apart; it has {problem.classes}."
        )
    found = stages_of(settings)
    for stage in found:
        if isinstance(stage, DeterminantInformation) and stage.batch_size < problem.classes:
            raise ValueError(
                f"dmi_batch_size must be at least the number of classes, {problem.classes}: the "
                f"determinant of fewer samples is always 0; got {stage.batch_size}."
            )
        if isinstance(stage, Counting):
            _check_prior(settings, problem)
        if isinstance(stage, MentorNet):
            _check_rate(settings, problem)
            _check_share(settings, min(stage.batch_size, problem.train_size))
    return found


def _with_known_rate(settings: Settings, problem: Problem) -> Settings:
    """Set the rate to the true one, if the labels were noisy from the start and it is known."""
    if problem.asked_rate is not None or problem.realised_rate is None:
        return settings
    return settings.replace(rate=min(problem.realised_rate, 0.99))


def _check_prior(settings: Settings, problem: Problem) -> None:
    """Raise if the class prior is of another number of classes."""
    prior = class_prior_of(settings.class_prior)
    if isinstance(prior, Tensor) and len(prior) != problem.classes:
        raise ValueError(
            f"class_prior must have {problem.classes} shares, one per class of {problem.name}; got "
            f"{len(prior)}."
        )


def _check_rate(settings: Settings, problem: Problem) -> None:
    """Raise if a share of each batch is to be left out and the rate of the noise is not known."""
    known = problem.asked_rate is not None or problem.realised_rate is not None
    if settings.forget_rate < 0 and not known:
        raise ValueError(
            f"forget_rate must be given: {settings.method} leaves out a share of each batch, and "
            "how many of these labels are wrong is not known."
        )


def _check_share(settings: Settings, batch: int) -> None:
    """Raise if no sample of a batch is kept once the share left out has risen."""
    if floor_of(kept_share(settings, settings.ramp_epochs), batch) == 0:
        raise ValueError(
            f"forget_rate must leave something of a batch of {batch} to train on; it leaves out "
            f"{settings.left_out:g} of it. Give a smaller forget_rate or a larger batch_size."
        )


def check_one_sample(network: nn.Module, one: Tensor, samples: int) -> None:
    """Raise if the network cannot train on a batch of one sample, as with batch normalisation."""
    try:
        with torch.no_grad(), torch.random.fork_rng([]):
            network.train()(one)
    except ValueError as error:
        raise ValueError(
            f"batch_size must not leave a batch of 1 of the {samples} training samples: "
            f"{type(network).__name__} cannot train on it ({error})."
        ) from None


def smallest_batch(found: list[Stage], samples: int) -> int:
    """The number of samples in the smallest batch of an epoch, over all stages."""
    return min(samples % stage.batch_size or stage.batch_size for stage in found)
