"""Elementary functions that give the same bits on every device, in batches of every size.

A library's exp or log may differ in the last bit from one device to the next, or between the
vectorised body of an array and its remainder. The functions here use only operations whose result
IEEE 754 fixes to the bit: +, −, ×, ÷ of two tensors, √, rounding to integers, and the bits of a
float64. A compiler must not contract them into fused multiply-adds; separate torch operations never
are.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

# ln 2 in two pieces: an integer below 2²⁰ times the first is exact.
_LN2_HIGH = math.floor(math.log(2) * 2**32) / 2**32
_LN2_LOW = 2.3190468138462996e-17 + (0.6931471805599453 - _LN2_HIGH)  # the sum is ln 2 to 2⁻¹⁰⁰

_EXP = [1 / math.factorial(n) for n in range(14)]
_SIN = [(-1) ** n / math.factorial(2 * n + 1) for n in range(9)]
_COS = [(-1) ** n / math.factorial(2 * n) for n in range(9)]
_ATANH = [1 / (2 * n + 1) for n in range(11)]


def power_of_two(exponent: Tensor) -> Tensor:
    """Return 2^exponent as float64, for integers from −1022 to 1023, by setting exponent bits."""
    return ((exponent.long() + 1023) << 52).view(torch.float64)


def exp(x: Tensor) -> Tensor:
    """eˣ for float64 x from −700 to 700: 2ᵏ eʳ with x = k ln 2 + r, |r| ≤ ½ ln 2."""
    k = (x * (1 / math.log(2))).round()
    r = (x - k * _LN2_HIGH) - k * _LN2_LOW
    return _polynomial(_EXP, r) * power_of_two(k)


def log(x: Tensor) -> Tensor:
    """The natural logarithm of positive normal float64 x.

    With x = m · 2ᵉ and m between √½ and √2, ln m = 2 artanh s, s = (m − 1)/(m + 1), |s| < 0.172.
    """
    m, e = torch.frexp(x)
    low = m < math.sqrt(0.5)
    m = torch.where(low, m + m, m)
    e = torch.where(low, e - 1, e).double()
    s = (m - 1) / (m + 1)
    return e * _LN2_HIGH + (e * _LN2_LOW + 2 * s * _polynomial(_ATANH, s * s))


def cos_sin_turns(x: Tensor) -> tuple[Tensor, Tensor]:
    """The cosine and sine of 2πx, for float64 x from 0 to 1, each to 2⁻⁵².

    The angle is split, without rounding, into the nearest quarter turn k and a rest f π/2 with
    |f| ≤ ½. If (c, s) are the cosine and sine of the rest, the result is (c, s), (−s, c), (−c, −s)
    or (s, −c), depending on k.
    """
    quarters = 4 * x
    k = quarters.round()
    angle = (quarters - k) * (math.pi / 2)
    square = angle * angle
    c, s = _polynomial(_COS, square), angle * _polynomial(_SIN, square)
    k = k.long()
    odd = (k & 1) == 1
    cosine, sine = torch.where(odd, s, c), torch.where(odd, c, s)
    return (
        torch.where(((k + 1) & 2) == 2, -cosine, cosine),
        torch.where((k & 2) == 2, -sine, sine),
    )


def _polynomial(coefficients: list[float], x: Tensor) -> Tensor:
    """Horner's rule."""
    result = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result
