"""Losses and posteriors on CUDA, emulated: entries of T(x) + slack at zero or at a bound of it."""

import pytest
import torch
from cuda_cases import batch_of, check_loss, check_noisy, check_posterior, run_loss, run_row_sums
from emulator.harness import compiler
from emulator.launches import recording
from random_numbers import new_generator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found"),
]

TOLERANCE = 1 / 256  # for the sum of weights that the sign table holds for


def even_weights(n, r, total):
    """Multiples of 2^-12 that sum to `total`, so that sums are exact in every order."""
    g = new_generator(r)
    cuts = torch.rand(n, r - 1, generator=g).mul(total * 4096).long().sort(1).values
    first, last = cuts.new_zeros(n, 1), cuts.new_full((n, 1), round(total * 4096))
    return torch.cat([first, cuts, last], 1).diff() / 4096


@pytest.mark.parametrize("size", [(37, 10, 20), (37, 14, 3), (9, 40, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_entries_exactly_at_zero(size, dtype):
    """They count as clamped, and have no gradient: neither weights, parts nor slack get any."""
    n, c, r = size
    batch = batch_of(*size, 0.0, dtype, seed=c)
    batch.weights = even_weights(n, r, 1).to(dtype)
    g = new_generator(c)
    parts = torch.randint(8, (r, c, c), generator=g) / 64
    parts[:, :, 0] += 1 / 8  # so that no row is empty
    slack = -torch.einsum("j,jik->ik", batch.weights[0].double(), parts.double())
    slack[:, 0] = 0
    batch.parts, batch.slack = parts.to(dtype), slack.to(dtype)
    batch.weights[::2] = batch.weights[0].clone()
    entries = torch.einsum("nj,jik->nik", batch.weights, batch.parts) + batch.slack
    assert ((entries == 0).sum((1, 2)) >= c * (c - 1)).sum() >= n / 2
    check_loss(batch, reduction="none")
    check_loss(batch, wanted=("weights",), importance="attached")
    check_posterior(batch)
    check_noisy(batch)


@pytest.mark.parametrize("total", [1 - TOLERANCE, 1 + TOLERANCE])
@pytest.mark.parametrize("size", [(10, 20), (14, 3), (40, 4), (40, 20)])
def test_entries_that_cancel_at_a_bound_of_the_weights(size, total):
    """Weights with the least or the largest sum that the table holds for take a row to rounding.

    Row 1 is next to nothing. If the table took its entries to be positive, their sum would have
    terms of either sign where the columns have clamped ones. If it took them not to be, their sum
    would lack those that the columns have by rounding. In both cases probabilities would not sum to
    one.
    """
    c, r = size
    batch = batch_of(3 * c, c, r, 0.0, seed=13)  # each sample once with every label
    batch.labels = torch.arange(c).repeat(3)
    batch.logits = batch.logits[:3].repeat_interleave(c, 0)
    batch.logits[:, 1] += 8
    batch.weights = even_weights(3, r, total).repeat_interleave(c, 0)
    assert (batch.weights.sum(1) == total).all()
    batch.parts[:] = (batch.parts[:1] + 0.1) / (1 + 0.1 * c)
    batch.slack[1] = -total * batch.parts[0, 1]
    batch.slack[1, -1] += 2e-7
    loss, _ = run_loss(batch, reduction="none", wanted=())
    sums = loss.neg().exp().view(3, c).sum(1)
    torch.testing.assert_close(sums, torch.ones(3), rtol=0, atol=1e-4)


def bytes_read(batch):
    """How much threads read in the kernel that computes the entries of unknown sign."""
    with recording() as launches:
        run_row_sums(batch)
    (sums,) = (launch for launch in launches if "row_sums_of_samples" in launch.kernel)
    return sum(traffic.accessed for traffic in sums.traffic if not traffic.writes)


def test_known_signs_are_not_computed_again():
    """A slack of 0.9 or 1.1 of every part decides on the sign, one within the tolerance does not.

    If the table knew less, the results would be the same, and take longer.
    """
    batch = batch_of(32, 40, 4, 0.0)
    batch.parts[:] = 1 / 40
    least = bytes_read(batch)
    for share, known in ((0.9, True), (0.999, False), (1.001, False), (1.1, True)):
        batch.slack[:] = -share / 40
        assert (bytes_read(batch) == least) == known
