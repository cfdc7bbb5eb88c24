"""Elementary functions with the same bits everywhere."""

import math

import torch
from cases import each_device

from ptd_ext.noise import _exact_math as exact_math


@each_device
def test_functions_to_the_last_digits(device):
    def near(ours, exact):
        exact = torch.tensor(exact, dtype=torch.float64)
        torch.testing.assert_close(ours.cpu(), exact, rtol=5e-16, atol=3e-16)

    x = torch.linspace(-39.7, 40.3, 997, dtype=torch.float64, device=device)
    near(exact_math.exp(x), [math.exp(v) for v in x.tolist()])
    x = exact_math.exp(x)
    near(exact_math.log(x), [math.log(v) for v in x.tolist()])
    turns = torch.linspace(0, 1, 1025, dtype=torch.float64, device=device)
    cosine, sine = exact_math.cos_sin_turns(turns)
    near(cosine[::128], [math.cos(k * math.pi / 4) for k in range(9)])
    near(sine[::128], [math.sin(k * math.pi / 4) for k in range(9)])
    torch.testing.assert_close(cosine.square() + sine.square(), torch.ones_like(sine))
    exponents = torch.tensor([-1022, -1, 0, 52, 1023], device=device)
    assert exact_math.power_of_two(exponents).tolist() == [2.0**e for e in exponents.tolist()]


def test_functions_do_not_depend_on_the_batch():
    x = torch.linspace(-20, 20, 1001, dtype=torch.float64)
    singly = torch.cat([exact_math.exp(v) for v in x.split(1)])
    assert torch.equal(singly, exact_math.exp(x))
    positive = x.abs() + 1e-3
    singly = torch.cat([exact_math.log(v) for v in positive.split(7)])
    assert torch.equal(singly, exact_math.log(positive))
