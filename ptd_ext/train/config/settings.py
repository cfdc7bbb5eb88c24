"""The settings of an experiment, each with a default, a section and a help text.

A setting is a field of :class:`Settings`; flags, the configuration file and its checks are made
from the fields, so that a new one is written once.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any, get_type_hints

from ptd_ext.train.config.bounds import check_bounds
from ptd_ext.transition.barrier import class_prior_of
from ptd_ext.transition.fit import RIDGE

__all__ = ["SECTIONS", "Settings", "describe"]

SECTIONS = {
    "data": "what to train on, and its noise",
    "method": "what is trained, and how it meets the noise",
    "optimiser": "the schedule of the main stage of training",
    "transition": "how T(x) is estimated and revised",
    "baselines": "settings of the methods that do without T(x)",
    "run": "where and how it runs; none of these changes what is computed, but for rounding",
}


def _setting(default: Any, section: str, text: str, choices: tuple[str, ...] = ()) -> Any:
    about = {"section": section, "help": text, "choices": choices}
    return field(default=default, metadata=about)


@dataclass(frozen=True)
class Settings:
    """The settings of one experiment, named as flags and configuration files name them."""

    dataset: str = _setting(
        "digits",
        "data",
        "digits, mnist, fashion_mnist, svhn, cifar10, news, clothing1m, npz or image_folder",
    )
    data: str = _setting("", "data", "folder or file that the data set is read from")
    data_limit: int = _setting(0, "data", "use only so many training samples; 0: all of them")
    noise: str = _setting(
        "instance",
        "data",
        "noise put on the training labels; none leaves them as they are",
        ("instance", "symmetric", "pairwise", "none"),
    )
    rate: float = _setting(0.4, "data", "share of training labels that the noise is to make wrong")
    noise_input: str = _setting(
        "raw",
        "data",
        "values that instance noise depends on: raw, or standardised",
        ("raw", "standardised"),
    )
    noise_file: str = _setting("", "data", "noisy labels from a file of `ptd-ext noise` instead")
    labels_file: str = _setting(
        "",
        "data",
        "noisy labels that people made instead: CIFAR-10N's CIFAR-10_human.pt, .npy, .npz",
    )
    human_labels: str = _setting(
        "", "data", "which labels of that file: aggre_label, worse_label, random_label1, …"
    )
    image_size: int = _setting(
        0,
        "data",
        "pixels per side of image files; 0: 224, or 32 for image_folder without network_weights",
    )
    word_vectors: str = _setting(
        "", "data", "news: a GloVe text file, or a .npy file beside its .words"
    )
    text_length: int = _setting(0, "data", "news: words of a text; 0: 1000")
    text_headers: str = _setting("", "data", "news: strip, subject or keep header lines")
    test_labels: str = _setting(
        "auto",
        "data",
        "whether the test labels are clean, or given like the training labels; auto: clean, except "
        "those of one's own data without y_clean and without noise put on them",
        ("auto", "clean", "given"),
    )
    validation: float = _setting(
        0.1, "data", "share of the training set held out; 0: 0.1, more of few samples"
    )
    seed: int = _setting(0, "data", "seed of the noise, the split, the network and the order")

    method: str = _setting("PTD-L", "method", "one of those that `ptd-ext train --list` names")
    against: str = _setting("", "method", "a second method to train on the same data, to compare")
    preset: str = _setting(
        "fast",
        "method",
        "paper: its networks and schedules; fast: minutes on a CPU",
        ("paper", "fast"),
    )
    network: str = _setting(
        "auto",
        "method",
        "linear, mlp, lenet5, resnet18, resnet34, resnet50, news_conv, or module:factory",
    )
    network_weights: str = _setting("", "method", "file of weights that the network starts from")
    select: str = _setting(
        "accuracy",
        "method",
        "what chooses the epoch, on noisy validation data",
        ("accuracy", "likelihood", "last"),
    )

    epochs: int = _setting(100, "optimiser", "epochs of the main stage")
    batch_size: int = _setting(128, "optimiser", "samples of a step, over all processes")
    optimiser: str = _setting("sgd", "optimiser", "optimiser of the main stage", ("sgd", "adam"))
    lr: float = _setting(0.01, "optimiser", "learning rate")
    momentum: float = _setting(0.9, "optimiser", "momentum of sgd")
    weight_decay: float = _setting(1e-4, "optimiser", "weight decay, as torch.optim defines it")
    schedule: str = _setting(
        "steps",
        "optimiser",
        "steps: multiply lr by decay at milestones; linear: fall to 0 from decay_from on; constant",
        ("steps", "linear", "constant"),
    )
    milestones: tuple[int, ...] = _setting(
        (40, 80), "optimiser", "epochs at which lr is multiplied by decay"
    )
    decay: float = _setting(0.1, "optimiser", "factor at a milestone")
    decay_from: float = _setting(
        0.4, "optimiser", "share of epochs after which linear decay starts"
    )
    late_beta1: float = _setting(0.1, "optimiser", "Adam's β₁ once linear decay has started")

    parts: int = _setting(10, "transition", "number of parts R; methods of one matrix have 1")
    warm_up_epochs: int = _setting(
        10, "transition", "epochs of cross entropy, to learn P(noisy label | x)"
    )
    posterior_epochs: int = _setting(
        3, "transition", "last epochs that the posterior is averaged over"
    )
    anchor_rule: str = _setting(
        "band",
        "transition",
        "how anchors are chosen, as in ptd_ext.find_anchors",
        ("band", "percentile", "argmax"),
    )
    anchor_band: tuple[float, ...] = _setting((97.0, 99.0), "transition", "percentiles of the band")
    anchor_count: int = _setting(1000, "transition", "anchors per class, at most")
    ridge: float = _setting(
        RIDGE,
        "transition",
        "pull of Eq. 4 towards the class-dependent row, per anchor: without it parts fit the "
        "anchors that are of another class",
    )
    nmf_iterations: int = _setting(
        100, "transition", "largest number of iterations of the factorisation into parts"
    )
    start: str = _setting(
        "auto",
        "transition",
        "network of the main stage; auto: fresh if the noise rate is unknown or ≥ fresh_from",
        ("auto", "fresh", "warm"),
    )
    fresh_from: float = _setting(
        0.4, "transition", "noise rate from which start = auto trains a fresh network"
    )
    max_importance: float = _setting(0.0, "transition", "cap on β of reweighting; 0: none")
    revision_epochs: int = _setting(10, "transition", "epochs of learning ΔT")
    revision_lr: float = _setting(
        5e-7, "transition", "Adam's learning rate for the network during revision"
    )
    slack_lr: float = _setting(1e-4, "transition", "Adam's learning rate for ΔT")
    slack_loss: str = _setting(
        "forward",
        "transition",
        "what teaches ΔT of a reweighted loss: the forward likelihood, or the loss itself",
        ("forward", "own"),
    )

    class_prior: str = _setting(
        "unknown",
        "transition",
        "EM-F, PTD-L: shares of the clean classes; unknown, uniform, or numbers: 0.5,0.3,0.2",
    )
    barrier: float = _setting(
        1.0, "transition", "EM-F, PTD-L: weight of the term that keeps classes alive, prior unknown"
    )
    prior_weight: float = _setting(
        0.3, "transition", "EM-F, PTD-L: weight of the divergence from a known prior"
    )
    count_base: str = _setting(
        "anchors",
        "transition",
        "EM-F, PTD-L: what the off-diagonal of T starts from and is drawn to; with anchors, half "
        "of it or more is uniform",
        ("anchors", "neighbours", "uniform"),
    )
    count_rate: str = _setting(
        "between",
        "transition",
        "EM-F, PTD-L: the noise rate to hold, the error on noisy validation labels or between it "
        "and the anchors' rate",
        ("between", "validation"),
    )
    count_base_share: float = _setting(
        0.4, "transition", "EM-F, PTD-L: share of count_base in the off-diagonal of T"
    )
    count_window: int = _setting(
        0, "transition", "EM-F, PTD-L: samples that counts go back over; 0: min(N/4, 50·C²)"
    )
    hold_diagonal: bool = _setting(
        True, "transition", "EM-F, PTD-L: hold the noise rate while the network learns"
    )
    gate_components: int = _setting(64, "transition", "PTD-L: principal components of the gate")
    min_gain: float = _setting(
        0.0,
        "transition",
        "PTD-L: least gain of learned parts in held-out likelihood, in standard errors",
    )
    learned_epochs: float = _setting(
        2 / 3, "transition", "PTD-L: length of the last stage, as a share of epochs"
    )
    learned_lr: float = _setting(
        0.5, "transition", "PTD-L: learning rate of the last stage, in units of lr; it falls to 0"
    )

    forget_rate: float = _setting(
        -1.0, "baselines", "share of a batch left out; -1: the noise rate"
    )
    ramp_epochs: int = _setting(10, "baselines", "epochs over which that share rises from 0")
    disagreement_start: int = _setting(0, "baselines", "epoch from which Co-teaching+ disagrees")
    disagreement_free_steps: int = _setting(
        5000, "baselines", "steps in which Co-teaching+ without disagreement takes the whole batch"
    )
    joint_lr: float = _setting(0.1, "baselines", "Joint: constant learning rate")
    joint_alpha: float = _setting(1.0, "baselines", "Joint: weight of KL(uniform, mean prediction)")
    joint_beta: float = _setting(0.5, "baselines", "Joint: weight of the entropy")
    joint_epochs: int = _setting(200, "baselines", "Joint: epochs of the first stage")
    joint_soft_from: int = _setting(70, "baselines", "Joint: epoch from which labels are soft")
    joint_average: int = _setting(10, "baselines", "Joint: epochs that a soft label averages")
    joint_final_epochs: int = _setting(120, "baselines", "Joint: epochs of the fresh network")
    dmi_epochs: int = _setting(100, "baselines", "DMI: epochs after pre-training")
    dmi_lr: float = _setting(1e-6, "baselines", "DMI: learning rate")
    dmi_per_sample: bool = _setting(
        False,
        "baselines",
        "DMI: divide by the batch size within the determinant, which at ten classes leaves next to "
        "no gradient",
    )
    dmi_batch_size: int = _setting(256, "baselines", "DMI: samples of a step")

    device: str = _setting("auto", "run", "cpu, cuda, cuda:1, …; auto: a GPU if there is one")
    threads: int = _setting(
        0, "run", "CPU threads; 0: as many as pay off for the network and the batch"
    )
    amp: str = _setting("none", "run", "mixed precision", ("none", "float16", "bfloat16"))
    channels_last: bool = _setting(True, "run", "memory format of images")
    compile: str = _setting(
        "none",
        "run",
        "torch.compile the network; reduce-overhead runs it as CUDA graphs",
        ("none", "default", "reduce-overhead", "max-autotune"),
    )
    resident: str = _setting(
        "auto", "run", "keep the data set on the device; auto: if it fits", ("auto", "yes", "no")
    )
    checkpoint_steps: int = _setting(0, "run", "checkpoint every so many steps besides each epoch")
    warm_up_cache: str = _setting("", "run", "folder in which runs share warmed-up networks")
    tensorboard: bool = _setting(False, "run", "write TensorBoard's files too")
    report: bool = _setting(
        True, "run", "write report.html, the page that shows which labels are probably wrong"
    )
    progress: bool = _setting(True, "run", "show progress bars, where the terminal can")

    def __post_init__(self) -> None:
        for name, value in dataclasses.asdict(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} must be a finite number; got {value}.")
            choices = describe(name)["choices"]
            if choices and value not in choices:
                raise ValueError(f"{name} must be one of {', '.join(choices)}; got {value!r}.")
        check_bounds(self)
        class_prior_of(self.class_prior)

    def replace(self, **changes: Any) -> Settings:
        """A copy with some settings changed."""
        return dataclasses.replace(self, **changes)

    @property
    def left_out(self) -> float:
        """The share of a batch that small-loss methods leave out in the end."""
        return self.rate if self.forget_rate < 0 else self.forget_rate


def describe(name: str) -> dict[str, Any]:
    """The section, help, choices and type of a setting."""
    about = Settings.__dataclass_fields__[name]
    return {**about.metadata, "type": _TYPES[name], "default": about.default}


_TYPES = get_type_hints(Settings)
