"""Bytes that the CUDA operators move, counted by the emulator, against the least possible.

The bytes of an array that a V100's memory moves are taken to be

  * each 32-byte sector once for all launches of an operator, if what they touch is so little that
    the L2 cache keeps it: up to a third of its 6 MB;
  * else each sector once for a launch, if the array is as small as that;
  * else each sector once for all blocks that touch it at about the same time: `near` in
    emulator/launches.py.

Kernels run on few samples, and the counts stand for many: a call on many samples, in which no
kernel runs, shows how large each array is then, and what is counted of it is scaled by that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from emulator.launches import Launch, recording
from emulator.operators import emulated

L2_SHARE = 2 * 2**20

# The name of an operator and its arguments, for a number of samples.
Call = Callable[[int], tuple[str, tuple[Any, ...]]]


@dataclass
class Moved:
    """Bytes of a launch: that memory moves, and of all distinct sectors that it touches."""

    kernel: str
    streamed: float
    distinct: float

    @property
    def ratio(self) -> float:
        return self.streamed / self.distinct if self.distinct else 1.0


@dataclass
class OperatorTraffic:
    launches: list[Moved]
    touched: float  # bytes of the distinct sectors of all launches
    least: int  # bytes of all inputs and outputs

    @property
    def ratio(self) -> float:
        streamed = sum(launch.streamed for launch in self.launches)
        return (self.touched if self.touched <= L2_SHARE else streamed) / self.least


def moved_by(launch: Launch, growth: Mapping[str, float]) -> Moved:
    """Scale the counts of a launch to arrays that are larger by the factors of `growth`."""
    streamed = distinct = 0.0
    for traffic in launch.traffic:
        scale = growth[traffic.array]
        touched = scale * traffic.launch
        streamed += touched if touched <= L2_SHARE else scale * traffic.near
        distinct += touched
    return Moved(launch.kernel, streamed, distinct)


def traffic_of(call: Call, counted: int, samples: int) -> OperatorTraffic:
    """Counted on `counted` samples, for as many as `samples` if the same launches serve them."""
    launches, sizes, _ = _run(call, counted, traffic=True)
    kernels = [launch.kernel for launch in launches]
    while True:
        many, large, least = _run(call, samples, traffic=False)
        if [launch.kernel for launch in many] == kernels and large.keys() == sizes.keys():
            break
        samples //= 2
        assert samples >= counted, (kernels, sizes)
    growth = {name: large[name] / sizes[name] for name in sizes}
    moved = [moved_by(launch, growth) for launch in launches]
    return OperatorTraffic(moved, _touched_by(launches, growth), least)


def _touched_by(launches: list[Launch], growth: Mapping[str, float]) -> float:
    """Sum, over the arrays, the bytes that the launch with most of each array touches."""
    most: dict[str, float] = {}
    for launch in launches:
        for traffic in launch.traffic:
            touched = growth[traffic.array] * traffic.launch
            most[traffic.array] = max(touched, most.get(traffic.array, 0.0))
    return sum(most.values())


def _run(call: Call, samples: int, traffic: bool) -> tuple[list[Launch], dict[str, int], int]:
    name, arguments = call(samples)
    with recording(traffic=traffic) as launches, emulated() as ops:
        results = getattr(ops, name)(*arguments)
    outputs = results if isinstance(results, tuple) else (results,)
    given = [a for a in arguments if isinstance(a, torch.Tensor)]
    return launches, ops.arrays, sum(tensor.nbytes for tensor in (*given, *outputs))
