"""What the CUDA kernels move, as the emulator counts it, against the least that they must move.

The least is what the header comments of csrc/cuda state, per sample and for float32. What a V100's
memory moves of an array is taken to be

  * each 32-byte sector once, if the array is so small that the L2 cache keeps it: up to a third of
    its 6 MB, at the number of samples that the count stands for;
  * else each sector once for all blocks that touch it at about the same time: `near` in
    emulator/launches.py.

Arrays that do not grow with the samples (parts, slack and what is summed over samples) are
counted apart: they move once for a launch, and the more samples, the less they matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from emulator.launches import Launch, Traffic

L2_SHARE = 2 * 2**20
FIXED = {"parts", "slack", "dparts", "dslack", "loss", "total", "workspace", "class_weight", "step"}
FIXED |= {"contraction", "shift"}

# Bytes of a sample (of a row, for the projections), by kernel; e: whether factors of the gradient
# of T(x) are written too.
Least = Callable[[int, int, bool, bool], int]
LEAST: dict[str, Least] = {
    "transition_loss": lambda c, r, slack, e: 4 * c + 4 * r + 8 + 4 * c * slack,
    "transition_loss_backward": lambda c, r, slack, e: (
        8 * c + 4 * r + 8 + 4 * c * slack + 4 * c * (1 + slack) * e
    ),
    "clean_posterior": lambda c, r, slack, e: 8 * c + 4 * r + 8 + 4 * c * slack,
    "clean_posterior_backward": lambda c, r, slack, e: (
        12 * c + 4 * r + 8 + 4 * c * slack + 4 * c * (1 + slack) * e
    ),
    "row_sums": lambda c, r, slack, e: 4 * c + 4 * r,
    "weights_plain": lambda c, r, slack, e: 4 * c + 4 * r + 8,
    "weights_revised": lambda c, r, slack, e: 8 * c + 8 * r + 8,
    "spread_plain": lambda c, r, slack, e: 4 * c + 4 * r + 8,
    "spread_revised": lambda c, r, slack, e: 8 * c + 4 * r + 8,
    "noisy_posterior": lambda c, r, slack, e: 8 * c + 4 * r + 4 * c * slack,
    "noisy_posterior_backward": lambda c, r, slack, e: (
        12 * c + 4 * r + 4 * c * slack + 4 * c * (1 + slack) * e
    ),
    "softmax_entries": lambda c, r, slack, e: 8 * c + (4 * c + 4) * slack,
    "push_columns": lambda c, r, slack, e: 8 * c + 4 * r + 4 * slack,
    "posterior_gradients": lambda c, r, slack, e: 12 * c + 8 * c * slack,
    "spread_weights": lambda c, r, slack, e: 8 * c + 4 * r + (4 * c + 4 * r) * slack,
    "spread_parts": lambda c, r, slack, e: 8 * c + 4 * r + 4 * c * slack,
    "project_short_rows": lambda c, r, slack, e: 8 * c,
    "project_short_rows_backward": lambda c, r, slack, e: 12 * c,
    "simplex_project_short": lambda c, r, slack, e: 8 * r,
    "simplex_project_short_backward": lambda c, r, slack, e: 12 * r,
    "simplex_weights_lanes": lambda c, r, slack, e: 12 * r,
}
MAPPINGS = ("_lone", "_lone_slack", "_pair", "_grouped", "_wide", "_lanes", "_warps", "_narrow")
# These leave sums over samples in scratch memory.
SUM_UP = ("spread_plain", "spread_revised", "spread_parts")


@dataclass
class Moved:
    """Bytes of a launch, for `samples` samples unless said otherwise."""

    kernel: str
    least: float
    streams: float  # that memory moves, of arrays that grow with the samples
    cached: float  # of the same arrays, between L2 and the multiprocessors
    once: int  # of the other arrays, however many samples there are

    @property
    def ratio(self) -> float:
        return self.streams / self.least


def base_name(kernel: str) -> str:
    name = kernel.split("<")[0]
    for mapping in MAPPINGS:
        if name not in LEAST:
            name = name.removesuffix(mapping)
    return name


def is_fixed(name: str, traffic: Traffic) -> bool:
    return traffic.array in FIXED or (
        name in SUM_UP and traffic.array == "scratch" and traffic.writes
    )


def moved_by(
    launch: Launch, n: int, c: int, r: int, slack: bool, factors: bool, samples: int
) -> Moved | None:
    """What a launch for n samples says of one for `samples`; None for kernels without a least."""
    name = base_name(launch.kernel)
    if name not in LEAST:
        return None
    scale = samples / n
    streams = cached = 0.0
    once = 0
    for traffic in launch.traffic:
        if is_fixed(name, traffic):
            once += traffic.launch
            continue
        kept = traffic.launch * scale <= L2_SHARE
        streams += scale * (traffic.launch if kept else traffic.near)
        cached += scale * traffic.block
    least = samples * LEAST[name](c, r, slack, factors)
    return Moved(launch.kernel, least, streams, cached, once)
