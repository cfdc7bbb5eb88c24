"""The settings that training needs. A setting is a field of :class:`Settings`, and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_type_hints

from ptd_ext.engine.networks.registry import NETWORKS
from ptd_ext.engine.settings.setting import Setting, setting
from ptd_ext.nmf.estimator import MAX_PARTS
from ptd_ext.transition.anchors import BAND, COUNT
from ptd_ext.transition.barrier import BARRIER, PRIOR_WEIGHT, class_prior_of
from ptd_ext.transition.em import BASE_SHARE
from ptd_ext.transition.estimators import AFTER_WARM_UP
from ptd_ext.transition.fit import RIDGE
from ptd_ext.transition.learned_parts import MIN_GAIN, N_COMPONENTS, N_PARTS

if TYPE_CHECKING:
    from typing_extensions import Self

MAX_SEED = 2**63 - 2**10  # the maximum of torch's generators, less what is added to a seed

SECTIONS = {
    "data": "the data set and its noise",
    "method": "the method and its network",
    "optimiser": "schedule of the main stage of training",
    "transition": "estimation and revision of T(x)",
    "baselines": "methods without T(x)",
    "run": "where and how training runs; results do not depend on these, except for rounding",
}
_data, _method, _optimiser, _transition, _baselines, _run = (
    partial(setting, section) for section in SECTIONS
)


def _check_band(band: Sequence[float]) -> None:
    if len(band) != 2 or not 0 <= band[0] <= band[1] <= 100:
        raise ValueError(
            f"anchor_band must be two percentiles from 0 to 100 in rising order; got {list(band)}."
        )


@dataclass(frozen=True)
class Settings:
    """The settings of training, with the names that flags and configuration files use.

    TOML has no null: 0 or "unknown" stands where a function has None.
    """

    rate: float = _data(-1.0, "assumed noise rate; -1: unknown", minimum=0, below=1, otherwise=-1)
    seed: int = _data(
        0, "seed of noise, split, initial weights and order", minimum=0, maximum=MAX_SEED
    )

    method: str = _method("PTD-L", "name of the method, see `ptd-ext train --list`")
    network: str = _method(
        "auto", "name of the network, package.module:function, or auto", names=lambda: NETWORKS
    )
    network_weights: str = _method("", "file of initial weights of the network")
    select: str = _method(
        "accuracy",
        "criterion on noisy validation data that selects the epoch",
        ("accuracy", "likelihood", "last"),
    )

    epochs: int = _optimiser(100, "epochs of the main stage", minimum=1)
    batch_size: int = _optimiser(128, "samples per step, over all processes", minimum=1)
    optimiser: str = _optimiser("sgd", "optimiser of the main stage", ("sgd", "adam"))
    lr: float = _optimiser(0.01, "learning rate", above=0)
    momentum: float = _optimiser(0.9, "momentum of SGD", minimum=0)
    weight_decay: float = _optimiser(1e-4, "weight decay, as torch.optim defines it", minimum=0)
    schedule: str = _optimiser(
        "steps",
        "steps: multiply lr by decay at milestones; linear: fall to 0 from decay_from on; constant",
        ("steps", "linear", "constant"),
    )
    milestones: tuple[int, ...] = _optimiser((40, 80), "epochs at which lr is multiplied by decay")
    decay: float = _optimiser(0.1, "factor at a milestone", minimum=0)
    decay_from: float = _optimiser(
        0.4, "share of epochs after which linear decay starts", minimum=0, maximum=1
    )
    late_beta1: float = _optimiser(
        0.1, "Adam's β₁ after the start of linear decay", minimum=0, below=1
    )

    n_parts: int = _transition(
        N_PARTS, "number of parts R; 1 for methods with one matrix", minimum=1, maximum=MAX_PARTS
    )
    warm_up_epochs: int = _transition(
        10, "epochs of cross entropy, to learn P(given label | x)", minimum=1
    )
    pred_probs_epochs: int = _transition(
        3, "number of last warm-up epochs whose posteriors are averaged", minimum=1
    )
    anchor_rule: str = _transition(
        "band",
        "rule that selects anchors, as in ptd_ext.find_anchors",
        ("band", "percentile", "argmax"),
    )
    anchor_band: tuple[float, ...] = _transition(BAND, "percentiles of the band", rule=_check_band)
    anchor_count: int = _transition(COUNT, "maximum number of anchors per class", minimum=1)
    ridge: float = _transition(
        RIDGE,
        "shrinkage in Eq. 4 towards the class-dependent row, per anchor: without it, parts fit "
        "anchors of other classes",
        minimum=0,
    )
    # Half of SimplexNMF's default: the published results were computed with 100.
    nmf_max_iter: int = _transition(
        100, "maximum number of iterations of the factorisation", minimum=1
    )
    start: str = _transition(
        "auto",
        "network of the main stage; auto: fresh if the noise rate is unknown or ≥ fresh_from",
        ("auto", "fresh", "warm"),
    )
    fresh_from: float = _transition(
        0.4, "noise rate from which start = auto trains a fresh network"
    )
    max_importance: float = _transition(0.0, "cap on β of reweighting; 0: no cap", minimum=0)
    revision_epochs: int = _transition(10, "epochs of learning ΔT", minimum=0)
    revision_lr: float = _transition(
        5e-7, "network learning rate during revision (Adam)", minimum=0
    )
    slack_lr: float = _transition(1e-4, "learning rate of ΔT (Adam)", minimum=0)
    slack_loss: str = _transition(
        "forward",
        "loss that ΔT of a reweighting method learns by: forward likelihood, or its own",
        ("forward", "own"),
    )

    class_prior: str = _transition(
        "unknown",
        "EM: shares of the clean classes; unknown, uniform, or numbers: 0.5,0.3,0.2",
        rule=class_prior_of,
    )
    barrier: float = _transition(
        BARRIER, "EM: weight of the penalty on vanishing classes if the prior is unknown", minimum=0
    )
    prior_weight: float = _transition(
        PRIOR_WEIGHT, "EM: weight of the divergence from a known prior", minimum=0
    )
    count_base: str = _transition(
        "anchors",
        "EM: initial off-diagonal of T, also a prior of it; with anchors, at least half of it is "
        "uniform",
        (*AFTER_WARM_UP, "uniform"),
    )
    count_rate: str = _transition(
        "between",
        "EM: noise rate that is held: the error on noisy validation labels, or between it and the "
        "rate of the anchors",
        ("between", "validation"),
    )
    count_base_share: float = _transition(
        BASE_SHARE, "EM: share of count_base in the off-diagonal of T", minimum=0, maximum=1
    )
    count_window: int = _transition(
        0, "EM: samples in the window of counts; 0: min(N/4, 50·C²)", minimum=0
    )
    hold_diagonal: bool = _transition(True, "EM: hold the noise rate while the network learns")
    gate_components: int = _transition(
        N_COMPONENTS, "learned parts: principal components of the gate", minimum=1
    )
    min_gain: float = _transition(
        MIN_GAIN,
        "learned parts: minimum gain in held-out log-likelihood, in standard errors",
        minimum=0,
    )
    learned_epochs: float = _transition(
        2 / 3, "learned parts: length of the last stage as a share of epochs", above=0
    )
    learned_lr: float = _transition(
        0.5,
        "learned parts: learning rate of the last stage, in units of lr; it falls to 0",
        above=0,
    )

    forget_rate: float = _baselines(
        -1.0,
        "share of a batch that small-loss methods leave out; -1: the noise rate",
        minimum=0,
        maximum=1,
        otherwise=-1,
    )
    ramp_epochs: int = _baselines(10, "epochs over which that share rises from 0", minimum=0)
    disagreement_start: int = _baselines(
        0, "Co-teaching+: epoch from which it trains on disagreement", minimum=0
    )
    disagreement_free_steps: int = _baselines(
        5000, "Co-teaching+: steps in which a batch without disagreement is used whole", minimum=0
    )
    joint_lr: float = _baselines(0.1, "Joint: constant learning rate", above=0)
    joint_alpha: float = _baselines(1.0, "Joint: weight of KL(uniform, mean prediction)")
    joint_beta: float = _baselines(0.5, "Joint: weight of the entropy")
    joint_epochs: int = _baselines(200, "Joint: epochs of the first stage", minimum=1)
    joint_soft_from: int = _baselines(70, "Joint: epoch from which labels are soft", minimum=0)
    joint_average: int = _baselines(
        10, "Joint: number of epochs that a soft label averages", minimum=1
    )
    joint_final_epochs: int = _baselines(120, "Joint: epochs of the final network", minimum=1)
    dmi_epochs: int = _baselines(100, "DMI: epochs after pre-training", minimum=1)
    dmi_lr: float = _baselines(1e-6, "DMI: learning rate", above=0)
    dmi_per_sample: bool = _baselines(
        False,
        "DMI: divide by the batch size within the determinant, which at ten classes leaves almost "
        "no gradient",
    )
    dmi_batch_size: int = _baselines(256, "DMI: samples per step", minimum=1)

    device: str = _run("auto", "cpu, cuda, cuda:1, …; auto: a GPU if there is one")
    threads: int = _run(0, "CPU threads; 0: chosen by the size of network and batch", minimum=0)
    amp: str = _run("none", "mixed precision", ("none", "float16", "bfloat16"))
    channels_last: bool = _run(True, "channels-last memory format of images")
    compile: str = _run(
        "none",
        "mode of torch.compile; reduce-overhead uses CUDA graphs",
        ("none", "default", "reduce-overhead", "max-autotune"),
    )
    resident: str = _run(
        "auto", "keep the data set on the device; auto: if it fits", ("auto", "yes", "no")
    )
    checkpoint_steps: int = _run(0, "steps between checkpoints within an epoch; 0: none", minimum=0)
    warm_up_cache: str = _run("", "folder in which runs share warmed-up networks")
    tensorboard: bool = _run(False, "write TensorBoard event files")
    report: bool = _run(True, "write report.html, a page of the labels that are probably wrong")
    verbose: bool = _run(False, "print a line for every epoch instead of one for every stage")
    progress: bool = _run(True, "show progress bars where the terminal supports them")

    def __post_init__(self) -> None:
        for name, entry in self.entries().items():
            entry.check(getattr(self, name))

    @classmethod
    @cache
    def entries(cls) -> Mapping[str, Setting]:
        """The entries of all settings, by name."""
        types = get_type_hints(cls)
        return MappingProxyType(
            {
                field.name: dataclasses.replace(
                    field.metadata["entry"], name=field.name, type=types[field.name]
                )
                for field in dataclasses.fields(cls)
            }
        )

    def replace(self, **changes: Any) -> Self:
        """A copy with some settings changed."""
        return dataclasses.replace(self, **changes)

    @property
    def left_out(self) -> float:
        """The share of a batch that small-loss methods leave out in the end."""
        return self.rate if self.forget_rate < 0 else self.forget_rate
