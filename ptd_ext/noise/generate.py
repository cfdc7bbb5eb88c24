"""Label noise to experiment with: instance-dependent (Algorithm 2), symmetric and pairwise.

Every random number is a function of the seed and the sample's id (`_philox`), and all
arithmetic between it and the label is exact or rounded in one way only (`_exact_math`,
`_logits`). The order of the samples, how they are split into batches or over
ranks, the number of threads and the device therefore change no label and no bit of a row.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, Literal

import torch
from torch import Tensor

from ptd_ext.noise import _exact_math as exact_math
from ptd_ext.noise import _philox as philox
from ptd_ext.noise._logits import NoiseInputs, noise_logits
from ptd_ext.noise.labels import LabelNoise
from ptd_ext.utils.arguments import check_integer, check_share
from ptd_ext.utils.ids import as_ids, as_labels

_RATE_STREAM, _LABEL_STREAM = 1, 2
_SCORE_BITS = 40  # softmax as integers, the largest 2⁴⁰: their sum is exact
_MAX_SHIFT = 0.1  # relative shift of the mean rate without a warning
_PANEL = 1 << 22  # entries of an [n, C] block at once

# Maps positions of samples of one class, and that class, to integer scores [n, C]. Wrong labels are
# drawn in proportion to the scores; the score of the class itself is zero.
_Scores = Callable[[Tensor, int], Tensor]


def instance_dependent_noise(
    features: Any,
    labels: Any,
    rate: float,
    *,
    random_state: int,
    n_classes: int | None = None,
    ids: Any = None,
    inputs: Literal["raw", "standardised"] = "raw",
    statistics: tuple[Any, Any] | None = None,
    rate_std: float = 0.1,
) -> LabelNoise:
    r"""Labels that are wrong in a way that depends on the sample (Algorithm 2 of the paper).

    For a sample x of class y::

        q ~ N(rate, rate_std²) restricted to [0, 1]     its probability of a wrong label
        z = x · w_y with z_y = −∞                       w_y [D, C] standard normal, one per class
        p = q · softmax(z), p_y = 1 − q                 the row that its label is drawn from

    The restriction to [0, 1] raises the mean of q where the rate is small: "10 %" means 12.9 %,
    "20 %" 20.6 %. A warning gives the mean where it differs from the rate by more than a tenth. The
    realised rate is in the result.

    Args:
        features: x, [N, D] or [N, …]: a tensor, an array or a memory map, read in blocks.
        labels: y, [N], the clean labels.
        rate: the mean of q before it is restricted.
        random_state: the seed, 0 to 2⁶⁴ − 1.
        n_classes: C; by default the largest label plus one. Give it for a shard.
        ids: the samples' ids, [N]; by default 0 … N−1. Give them for a shard or shuffled data.
        inputs: "raw" takes x as it comes, as the authors do with pixels 0 … 255, which makes the
            softmax nearly one-hot: z has the standard deviation ‖x‖. "standardised" takes
            (x − mean)/std, which is softer, yet sharp too where D is large.
        statistics: (mean, std) for "standardised": numbers or arrays that broadcast against a
            sample. By default those of all entries of `features`, to six digits; give those of
            the whole for a shard. A larger std makes softer noise.
        rate_std: the standard deviation of q before it is restricted, at most 1; 0 for one rate.

    Returns:
        Noisy labels, the rows p, and what they were made with, on the device of `labels`.

    Examples:
        >>> features, labels = torch.randn(1000, 5), torch.arange(1000) % 3
        >>> noise = ptd_ext.instance_dependent_noise(features, labels, 0.3, random_state=0)
        >>> noise.noisy_labels.shape, noise.rows.shape
        (torch.Size([1000]), torch.Size([1000, 3]))
        >>> abs(noise.realised_rate - 0.3) < 0.1
        True
    """
    labels, n_classes = as_labels(labels, n_classes)
    rate_std = check_share(rate_std, "rate_std")
    rate = check_share(rate, "rate")
    _warn_of_other_rate(rate, rate_std)
    if inputs not in ("raw", "standardised"):
        raise ValueError(f'inputs must be "raw" or "standardised"; got {inputs!r}.')
    if inputs == "raw" and statistics is not None:
        raise ValueError('statistics need inputs="standardised"; got inputs="raw".')
    source = NoiseInputs(features)
    if source.samples != len(labels):
        raise ValueError(
            f"features must have one row per label, {len(labels)}; got {source.samples}."
        )
    settings: dict[str, Any] = {"rate_std": rate_std, "inputs": inputs}
    if inputs == "standardised" and len(labels):
        statistics = source.statistics() if statistics is None else statistics
        source = NoiseInputs(features, statistics)
        settings |= {"mean": _plain(statistics[0]), "std": _plain(statistics[1])}

    def scores(rows: Tensor, label: int) -> Tensor:
        logits = noise_logits(source, rows, label, n_classes, random_state)
        logits[:, label] = -torch.inf
        gap = logits - logits.amax(1, keepdim=True)
        # exp(−30) is less than half of 2⁻⁴⁰.
        return (exact_math.exp(gap.clamp(min=-30)) * 2.0**_SCORE_BITS).round_().long()

    return _noise(
        "instance", labels, n_classes, rate, rate_std, random_state, ids, scores, settings
    )


def symmetric_noise(
    labels: Any, rate: float, *, random_state: int, n_classes: int | None = None, ids: Any = None
) -> LabelNoise:
    """Replace a label, with probability `rate`, by any other one: p_k = rate/(C − 1).

    Arguments as in :func:`instance_dependent_noise`.

    Examples:
        >>> noise = ptd_ext.noise.symmetric_noise(torch.arange(1000) % 3, 0.3, random_state=0)
        >>> noise.confusion
        tensor([[246,  44,  44],
                [ 50, 226,  57],
                [ 55,  61, 217]])
    """
    labels, n_classes = as_labels(labels, n_classes)

    def scores(rows: Tensor, label: int) -> Tensor:
        return torch.ones(len(rows), n_classes, dtype=torch.int64, device=rows.device)

    return _noise("symmetric", labels, n_classes, rate, 0.0, random_state, ids, scores, {})


def pairwise_noise(
    labels: Any, rate: float, *, random_state: int, n_classes: int | None = None, ids: Any = None
) -> LabelNoise:
    """Replace a label, with probability `rate`, by the next class, y + 1 modulo C.

    Arguments as in :func:`instance_dependent_noise`.

    Examples:
        >>> noise = ptd_ext.noise.pairwise_noise(torch.arange(1000) % 3, 0.3, random_state=0)
        >>> noise.confusion
        tensor([[246,  88,   0],
                [  0, 226, 107],
                [116,   0, 217]])
    """
    labels, n_classes = as_labels(labels, n_classes)

    def scores(rows: Tensor, label: int) -> Tensor:
        found = torch.zeros(len(rows), n_classes, dtype=torch.int64, device=rows.device)
        found[:, (label + 1) % n_classes] = 1
        return found

    return _noise("pairwise", labels, n_classes, rate, 0.0, random_state, ids, scores, {})


def _noise(
    kind: str,
    labels: Tensor,
    n_classes: int,
    rate: float,
    rate_std: float,
    seed: int,
    ids: Any,
    scores: _Scores,
    settings: dict[str, Any],
) -> LabelNoise:
    """Compute scores, flip rates, rows and labels, class by class and in panels."""
    rate = check_share(rate, "rate")
    seed = check_integer(seed, "random_state", 0, 2**64 - 1)
    ids = as_ids(ids, len(labels), labels.device)
    noisy = torch.empty_like(labels)
    rows = torch.empty(len(labels), n_classes, device=labels.device)
    for label in labels.unique().tolist():
        members = (labels == label).nonzero()[:, 0]
        for panel in members.split(max(1, _PANEL // n_classes)):
            score = scores(panel, label).to(labels.device)
            score[:, label] = 0
            flip_rate = _flip_rates(ids[panel], rate, rate_std, seed)
            row = flip_rate[:, None] * (score.double() / score.sum(1, keepdim=True).double())
            row[:, label] = 1 - flip_rate
            rows[panel] = row.float()
            noisy[panel] = _draw(score, flip_rate, label, ids[panel], seed)
    settings = {"rate": rate, "random_state": seed} | settings
    return LabelNoise(noisy, labels, rows, ids, kind, settings)


def _warn_of_other_rate(rate: float, std: float) -> None:
    """Warn where the restriction to [0, 1] moves the mean of q away from the rate."""
    if std == 0:
        return
    normal = NormalDist(rate, std)
    density = NormalDist()
    inside = normal.cdf(1) - normal.cdf(0)
    shift = std * (density.pdf(-rate / std) - density.pdf((1 - rate) / std)) / inside
    near = min(rate, 1 - rate)
    if abs(shift) > _MAX_SHIFT * near:
        warnings.warn(
            f"rate={rate:g} with rate_std={std:g} makes {rate + shift:.1%} of the labels wrong on "
            "average, since the rate of each sample is drawn around it and restricted to 0 to 1. "
            f"Give rate_std={near / 3:.2g} for an average near {rate:g}.",
            stacklevel=3,
        )


def _flip_rates(ids: Tensor, rate: float, std: float, seed: int) -> Tensor:
    """Draw from N(rate, std²) until the value is in [0, 1]; the counter is (id, attempt)."""
    rates = torch.full(ids.shape, rate, dtype=torch.float64, device=ids.device)
    if std == 0:
        return rates
    waiting = torch.arange(len(ids), device=ids.device)
    attempt = 0
    while len(waiting):
        first, second, *_ = _sample_words(seed, ids[waiting], attempt, _RATE_STREAM)
        drawn = philox.normals(first, second)[0] * std + rate
        inside = (drawn >= 0) & (drawn <= 1)
        rates[waiting[inside]] = drawn[inside]
        waiting = waiting[~inside]
        attempt += 1
    return rates


def _draw(score: Tensor, flip_rate: Tensor, label: int, ids: Tensor, seed: int) -> Tensor:
    """Draw labels: wrong with probability `flip_rate`, and then k in proportion to score_k."""
    a, b, c, d = _sample_words(seed, ids, 0, _LABEL_STREAM)
    total = score.sum(1)
    target = (philox.uniforms(c, d) * total.double()).floor().long().minimum(total - 1)
    other = (score.cumsum(1) <= target[:, None]).sum(1)
    return torch.where(philox.uniforms(a, b) < flip_rate, other, label)


def _sample_words(seed: int, ids: Tensor, index: int, stream: int) -> tuple[Tensor, ...]:
    return philox.words(seed, ids & 0xFFFFFFFF, ids >> 32, index, stream)


def _plain(value: Any) -> Any:
    """Convert to numbers and lists, for the file."""
    return torch.as_tensor(value, dtype=torch.float64).tolist()
