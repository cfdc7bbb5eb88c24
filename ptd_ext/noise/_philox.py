"""Random numbers that are a function of a seed and a name, not of what was drawn before.

Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) turns a
counter of four 32-bit words and a key of two into four random words. The key is the seed; the
counter names what the number is for (a sample's id, an index into a weight matrix), so it does not
matter when, in which batch, on which rank or on which device it is drawn. It passes all tests of
TestU01's BigCrush. Words are held in int64 tensors, whose products wrap around modulo 2⁶⁴.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ptd_ext.noise import _exact_math as exact_math

_MASK = 0xFFFFFFFF
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85  # the golden ratio and √3 − 1
_ROUNDS = 10


def words(seed: int, *counter: Tensor | int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The four words of every counter (c₀, c₁, c₂, c₃), which broadcast: int64 below 2³²."""
    tensors = [c for c in counter if isinstance(c, Tensor)]
    c0, c1, c2, c3 = torch.broadcast_tensors(
        *(c if isinstance(c, Tensor) else tensors[0].new_tensor(c) for c in counter)
    )
    k0, k1 = seed & _MASK, seed >> 32
    for _ in range(_ROUNDS):
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c2 = (second >> 32) & _MASK ^ c1 ^ k0, (first >> 32) & _MASK ^ c3 ^ k1
        c1, c3 = second & _MASK, first & _MASK
        k0, k1 = (k0 + _KEY_STEPS[0]) & _MASK, (k1 + _KEY_STEPS[1]) & _MASK
    return c0, c1, c2, c3


def uniforms(high: Tensor, low: Tensor) -> Tensor:
    """Two words as a float64 with 53 random bits, 0 ≤ u < 1."""
    return ((high << 21) | (low >> 11)).double() * 2.0**-53


def normals(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Two words as two independent standard normal float64 numbers, none beyond ±6.77.

    Box and Muller: √(−2 ln u) (cos 2πv, sin 2πv), with u in the middle of its 2⁻³² interval.
    """
    radius = (-2 * exact_math.log((first.double() + 0.5) * 2.0**-32)).sqrt()
    cosine, sine = exact_math.cos_sin_turns(second.double() * 2.0**-32)
    return radius * cosine, radius * sine
