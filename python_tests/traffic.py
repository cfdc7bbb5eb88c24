"""What the CUDA kernels move, as the emulator counts it, against the least that they must move.

The least is what the header comments of csrc/cuda state, per sample. What a V100's memory moves of
an array is taken to be

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
FIXED = {"parts", "slack", "dparts", "dslack", "loss", "total", "class_weight"}
FIXED |= {"contraction", "shift", "step", "table"}

# Numbers of a sample (of a row, for the projections), by kernel; e: whether factors of the gradient
# of T(x) are written too.
Least = Callable[[int, int, bool, bool], int]
LEAST: dict[str, Least] = {
    "transition_loss": lambda c, r, slack, e: c + r + c * slack,
    "transition_loss_backward": lambda c, r, slack, e: 2 * c + r + c * slack + c * (1 + slack) * e,
    "clean_posterior": lambda c, r, slack, e: 2 * c + r + c * slack,
    "clean_posterior_backward": lambda c, r, slack, e: 3 * c + r + c * slack + c * (1 + slack) * e,
    "tabulate_rows": lambda c, r, slack, e: 2 * r,
    "row_sums": lambda c, r, slack, e: c + r,
    "weights_plain": lambda c, r, slack, e: c + r,
    "weights_revised": lambda c, r, slack, e: 2 * c + 2 * r,
    "spread_plain": lambda c, r, slack, e: c + r,
    "spread_revised": lambda c, r, slack, e: 2 * c + r,
    "noisy_posterior": lambda c, r, slack, e: 2 * c + r + c * slack,
    "noisy_posterior_backward": lambda c, r, slack, e: 3 * c + r + c * slack + c * (1 + slack) * e,
    "pull_rows": lambda c, r, slack, e: c + r,
    "softmax_entries": lambda c, r, slack, e: 2 * c + (c + 1) * slack,
    "push_columns": lambda c, r, slack, e: 2 * c + r + slack,
    "posterior_gradients": lambda c, r, slack, e: 3 * c + 2 * c * slack + c * (1 + slack) * e,
    "spread_weights": lambda c, r, slack, e: 2 * c + r + (c + r) * slack,
    "spread_parts": lambda c, r, slack, e: 2 * c + r + c * slack,
    "project_rows": lambda c, r, slack, e: 2 * c,
    "project_rows_backward": lambda c, r, slack, e: 3 * c,
    "simplex_project": lambda c, r, slack, e: 2 * r,
    "simplex_project_backward": lambda c, r, slack, e: 3 * r,
    "simplex_weights": lambda c, r, slack, e: 3 * r,
}
LABEL = 8  # bytes
CHUNK = 128  # samples, whole ones of which have weights by part: csrc/cuda/row_sums_table.h
LABELLED = {"transition_loss", "transition_loss_backward", "clean_posterior"}
LABELLED |= {"clean_posterior_backward", "weights_plain", "weights_revised"}
LABELLED |= {"spread_plain", "spread_revised"}
# Words of a kernel's name that say which threads do what.
MAPPINGS = {"lone", "slack", "pair", "grouped", "quartet", "wide", "lanes", "product", "warps"}
MAPPINGS |= {"narrow", "short", "long", "block", "few"}
# These leave sums over ranges of samples in scratch memory, and those add them up.
SUM_UP = {"spread_plain", "spread_revised", "spread_parts"}
ADD_UP = {"sum_ranges", "sum_chunks"}


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
    """What a kernel does, whichever threads do it."""
    return "_".join(word for word in kernel.split("<")[0].split("_") if word not in MAPPINGS)


def is_fixed(kernel: str, traffic: Traffic) -> bool:
    name = base_name(kernel)
    if traffic.array == "workspace":  # two numbers for each block, and wide: for each sample
        return "_wide" not in kernel
    if traffic.array == "scratch":
        return name in ADD_UP or (name in SUM_UP and traffic.writes)
    return traffic.array in FIXED


def least_of(launch: Launch, c: int, r: int, slack: bool, factors: bool, size: int) -> int:
    """Bytes of a sample, for numbers of `size` bytes; none of kernels that add up what is fixed."""
    name = base_name(launch.kernel)
    if name in ADD_UP:
        return 0
    numbers = LEAST[name](c, r, slack, factors)
    if name == "pull_rows":  # of a gradient, or of ones
        numbers += c * any(traffic.array == "grad" for traffic in launch.traffic)
    return size * numbers + LABEL * (name in LABELLED)


def moved_by(
    launch: Launch, n: int, c: int, r: int, slack: bool, factors: bool, samples: int, size: int = 4
) -> Moved:
    """What a launch for n samples, with numbers of `size` bytes, says of one for `samples`."""
    streams = cached = 0.0
    once = 0
    for traffic in launch.traffic:
        if is_fixed(launch.kernel, traffic):
            once += traffic.launch
            continue
        scale = samples / (-(-n // CHUNK) * CHUNK if traffic.array == "turned" else n)
        kept = traffic.launch * scale <= L2_SHARE
        streams += scale * (traffic.launch if kept else traffic.near)
        cached += scale * traffic.block
    least = samples * least_of(launch, c, r, slack, factors, size)
    return Moved(launch.kernel, least, streams, cached, once)
