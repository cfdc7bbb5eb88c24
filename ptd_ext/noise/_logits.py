"""The products x · w_y of Algorithm 2, in bounded memory and to the last bit.

w_y is a [D, C] matrix of standard normal numbers for every class y. It is never stored: a block of
its rows is made from the seed when the samples of class y are multiplied with it. Apart from
arguments and result, the memory in use is bounded, whatever N, D and C are.

A sum of floating-point numbers depends on its order, which batches, threads and devices change.
Here the sum is exact, so its order does not matter: w is rounded to multiples of 2⁻¹⁶ and a sample
to multiples of 2^(e−b), where 2ᵉ is above its largest |entry| and b = 34 − ⌈log₂ D⌉. As |w| < 2³,
every partial sum is less than 2⁵³ times the unit 2^(e−b−16), and float64 holds it exactly. Pixels
0 … 255 are not rounded at all as long as b ≥ 16 (D ≤ 262,144).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ptd_ext.noise import _exact_math as exact_math
from ptd_ext.noise import _philox as philox

PROJECTION_STREAM = 3
_WEIGHT_BITS = 16
_BLOCK = 1 << 20  # entries of w at once
_LARGEST_FEATURES = 1 << 24  # leaves a sample 10 bits


class NoiseInputs:
    """Samples [N, …] in memory or mapped from a file, read in blocks of float64 [n, d].

    Args:
        features: a tensor, an array or a memory map; everything after the first axis is one sample.
        statistics: (mean, std) to standardise by, numbers or arrays that broadcast against a
            sample.
    """

    def __init__(self, features: Any, statistics: tuple[Any, Any] | None = None) -> None:
        if not isinstance(features, (Tensor, np.ndarray)):
            features = np.asarray(features)
        if isinstance(features, Tensor):
            features = features.detach()
        if features.ndim < 2:
            raise ValueError(f"features must be [N, D] or [N, …]; got {list(features.shape)}.")
        self.samples = len(features)
        self.size = math.prod(features.shape[1:])
        if not 1 <= self.size <= _LARGEST_FEATURES:
            raise ValueError(
                f"features must have 1 to {_LARGEST_FEATURES} numbers a sample; got {self.size}."
            )
        self._features = features.reshape(self.samples, self.size)
        in_torch = isinstance(features, Tensor) and features.device.type in ("cpu", "cuda")
        self.device = features.device if in_torch else torch.device("cpu")
        self._mean: Tensor | None = None
        self._factor: Tensor | None = None
        if statistics is not None:
            shape = tuple(features.shape[1:])
            self._mean = self._per_entry(statistics[0], shape, "mean")
            std = self._per_entry(statistics[1], shape, "std")
            if not (std > 0).all():
                raise ValueError(f"std must be positive; got {std.min().item()}.")
            # A product, because devices differ in how they divide a tensor by one number.
            self._factor = std.reciprocal()

    def block(self, rows: Tensor | slice, columns: slice) -> Tensor:
        """Return these entries as float64, standardised if statistics were given."""
        if isinstance(self._features, Tensor):
            if isinstance(rows, Tensor):
                rows = rows.to(self._features.device)
            block = self._features[rows, columns].to(self.device).double()
        else:
            at = rows.cpu().numpy() if isinstance(rows, Tensor) else rows
            block = torch.from_numpy(self._features[at, columns].astype(np.float64))
        if self._mean is None or self._factor is None:
            return block
        return (block - self._mean[..., columns]) * self._factor[..., columns]

    def exponents(self, rows: Tensor) -> Tensor:
        """Return, for each row, an e such that its largest |entry| is below 2ᵉ."""
        if self._mean is None and self._features.dtype in (torch.uint8, np.uint8):
            return torch.full((len(rows),), 8, device=self.device)
        found = []
        for part in rows.split(max(1, 4 * _BLOCK // self.size)):
            largest = self.block(part, slice(None)).abs().amax(1)
            if not largest.isfinite().all():
                sample = part[(~largest.isfinite()).nonzero()[0, 0].to(part.device)].item()
                raise ValueError(f"features must be finite; those of sample {sample} are not.")
            found.append(torch.frexp(largest).exponent.long().clamp(min=-900))
        return torch.cat(found)

    def statistics(self) -> tuple[float, float]:
        """Mean and standard deviation of all entries.

        They are rounded to six digits, so that the order of the samples does not change them.
        """
        total = squares = 0.0
        for start in range(0, self.samples, max(1, 4 * _BLOCK // self.size)):
            stop = start + max(1, 4 * _BLOCK // self.size)
            block = self.block(slice(start, stop), slice(None))
            total += block.sum().item()
            squares += block.square().sum().item()
        count = self.samples * self.size
        mean = total / count
        std = math.sqrt(max(squares / count - mean**2, 0.0))
        if not std > 0:
            raise ValueError(f"features must vary and be finite to be standardised; std is {std}.")
        return float(f"{mean:.6g}"), float(f"{std:.6g}")

    def _per_entry(self, value: Any, shape: tuple[int, ...], name: str) -> Tensor:
        value = torch.as_tensor(value, dtype=torch.float64, device=self.device)
        try:
            return value.broadcast_to(shape).reshape(self.size)
        except RuntimeError:
            raise ValueError(
                f"{name} must broadcast against a sample, {list(shape)}; got {list(value.shape)}."
            ) from None


def noise_logits(
    inputs: NoiseInputs, rows: Tensor, label: int, n_classes: int, seed: int
) -> Tensor:
    """The products x · w_y, float64 [n, C], of the samples at `rows`, all of class y = `label`."""
    bits = 34 - max(inputs.size - 1, 0).bit_length()
    width = min(inputs.size, max(1, _BLOCK // n_classes))
    exponents = inputs.exponents(rows)
    scale = exact_math.power_of_two(bits - exponents)
    sums = torch.zeros(len(rows), n_classes, dtype=torch.float64, device=inputs.device)
    for start in range(0, inputs.size, width):
        columns = slice(start, min(start + width, inputs.size))
        weights = projection(label, columns, n_classes, seed, inputs.device)
        for part in torch.arange(len(rows)).split(max(1, 4 * _BLOCK // width)):
            chosen = slice(part[0].item(), part[-1].item() + 1)
            block = inputs.block(rows[chosen], columns) * scale[chosen, None]
            sums[chosen] += block.round_() @ weights
    return sums * exact_math.power_of_two(exponents - bits - _WEIGHT_BITS)[:, None]


def projection(
    label: int, columns: slice, n_classes: int, seed: int, device: torch.device
) -> Tensor:
    """These rows of 2¹⁶ w_y as whole float64 numbers, [d, C].

    Entries (i, 4k … 4k+3) come from the Philox counter (y, i, k, 3).
    """
    row = torch.arange(columns.start, columns.stop, device=device)[:, None]
    quad = torch.arange((n_classes + 3) // 4, device=device)
    words = philox.words(seed, label, row, quad, PROJECTION_STREAM)
    numbers = torch.stack(philox.normals(*words[:2]) + philox.normals(*words[2:]), -1)
    return (numbers.flatten(1)[:, :n_classes] * 2.0**_WEIGHT_BITS).round_()
