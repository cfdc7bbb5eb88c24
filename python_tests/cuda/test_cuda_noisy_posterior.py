"""noisy_posterior on CUDA, run by the emulator, against its definition."""

from dataclasses import replace

import pytest
import torch
from cases import normal
from cuda_cases import NAMES, Batch, batch_of, check_noisy, off_a_boundary, run_noisy, same
from emulator.harness import compiler
from random_numbers import new_generator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found"),
]

each_slack = pytest.mark.parametrize("slack", [False, True])


def noisy_batch(n, c, r, slack, dtype=torch.float32, seed=0):
    return batch_of(n, c, r, 0.3 / c if slack else None, dtype, seed)


@each_slack
@pytest.mark.parametrize("c", [1, 2, 8, 10, 14, 32, 33])
@pytest.mark.parametrize("n", [0, 1, 33])
def test_sizes(n, c, slack):
    check_noisy(noisy_batch(n, c, 20 if c < 32 else 5, slack, seed=c), seed=n)


@each_slack
@pytest.mark.parametrize("r", [0, 1, 10, 33])
def test_parts(r, slack):
    check_noisy(noisy_batch(31, 5, r, slack, seed=r))
    check_noisy(noisy_batch(9, 35, r, slack, seed=r))


@pytest.mark.parametrize("c", [3, 34])
def test_most_parts(c):
    check_noisy(noisy_batch(5, c, 320, True, torch.float64), check=False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@each_slack
@pytest.mark.parametrize("c", [10, 15, 40])
def test_types(dtype, c, slack):
    check_noisy(noisy_batch(33, c, 4, slack, dtype))


@each_slack
def test_many_classes(slack):
    check_noisy(noisy_batch(2, 1000, 2, slack), wanted=("logits",), check=False)


@each_slack
def test_many_samples(slack):
    """So many that the sums over samples are divided into ranges."""
    check_noisy(noisy_batch(5_003, 3, 2, slack), check=False)


@each_slack
@pytest.mark.parametrize("c", [1, 7, 11, 16])
@pytest.mark.parametrize(("n", "r"), [(1, 3), (31, 1), (32, 12), (131, 8)])
def test_few_classes(n, r, c, slack):
    check_noisy(noisy_batch(n, c, r, slack, seed=n + c), wanted=("logits",), seed=n)


@each_slack
@pytest.mark.parametrize(("c", "r"), [(10, 40), (9, 63), (14, 20), (16, 33)])
def test_few_classes_and_many_parts(c, r, slack):
    check_noisy(noisy_batch(75, c, r, slack, seed=r), wanted=("logits",))


@each_slack
@pytest.mark.parametrize(
    ("n", "c", "r"),
    [(1, 100, 20), (17, 41, 4), (32, 40, 3), (33, 64, 1), (97, 39, 2), (3, 128, 33), (5, 113, 4)],
)
def test_more_classes(n, c, r, slack):
    check_noisy(noisy_batch(n, c, r, slack, seed=n + c), wanted=("logits",), seed=n)


@each_slack
@pytest.mark.parametrize(
    ("n", "c", "r"), [(37, 100, 20), (73, 101, 2), (1, 51, 45), (36, 75, 1), (145, 76, 1)]
)
def test_parts_of_tiles(n, c, r, slack):
    """Samples, classes and parts that are not a multiple of a power of two."""
    check_noisy(noisy_batch(n, c, r, slack, seed=n + c), wanted=("logits",), check=False)


@each_slack
@pytest.mark.parametrize("c", [8, 12, 36])
@pytest.mark.parametrize("off", [*NAMES, "grad", "sums"])
def test_numbers_that_are_not_aligned(off, c, slack):
    """One tensor begins off a 16-byte boundary, where the rows of all are whole vectors."""
    batch = noisy_batch(37, c, 4, slack)
    if off in NAMES and getattr(batch, off) is not None:
        batch = replace(batch, **{off: off_a_boundary(getattr(batch, off))})
    layout = off_a_boundary if off == "grad" else torch.clone
    saved_layout = off_a_boundary if off == "sums" else torch.clone
    check_noisy(batch, wanted=("logits",), layout=layout, saved_layout=saved_layout)


@each_slack
@pytest.mark.parametrize("c", [10, 16, 33, 50])
def test_one_matrix(c, slack):
    check_noisy(noisy_batch(19, c, 0, slack, seed=c))


@each_slack
@pytest.mark.parametrize("c", [6, 12, 35, 64])
def test_all_gradients(c, slack):
    check_noisy(noisy_batch(21, c, 3, slack, seed=c))


@each_slack
def test_many_samples_of_some_classes(slack):
    check_noisy(noisy_batch(5_121, 33, 1, slack), wanted=("logits",), check=False)


@pytest.mark.parametrize("r", [81, 161, 200])
def test_many_parts(r):
    check_noisy(noisy_batch(21, 5, r, True, seed=r), check=r == 81)


@pytest.mark.parametrize("c", [6, 40])
@pytest.mark.parametrize("wanted", NAMES)
def test_one_gradient_alone(wanted, c):
    check_noisy(noisy_batch(7, c, 3, True), wanted=(wanted,))


@pytest.mark.parametrize("c", [6, 40])
def test_empty_rows_are_uniform(c):
    batch = noisy_batch(7, c, 3, True)
    batch.slack[1] = -2
    batch.slack[c - 1] = -2
    check_noisy(batch)
    batch.slack[:] = -2
    out, _ = run_noisy(batch, None, wanted=())
    torch.testing.assert_close(out, torch.full_like(out, 1 / c))


@pytest.mark.parametrize("c", [6, 40])
@pytest.mark.parametrize("factor", [0.0, 0.5, 0.99, 1.5, -1.0])
def test_weights_off_the_simplex(c, factor):
    batch = noisy_batch(7, c, 3, True)
    batch.slack -= 0.1 / c
    batch.weights[5] *= factor
    check_noisy(batch)


@pytest.mark.parametrize("c", [6, 40])
def test_negative_weights(c):
    batch = noisy_batch(7, c, 3, True)
    batch.weights[3] = torch.tensor([-3.0, 3.5, 0.5])
    check_noisy(batch)


@pytest.mark.parametrize("c", [6, 40])
def test_entries_of_every_kind(c):
    """Never clamped, always clamped, clamped in some samples, zero in some, and zero in all."""
    batch = noisy_batch(9, c, 3, True)
    batch.weights[::2] = torch.eye(3)[torch.arange(5) % 3]
    batch.slack[0] = 0.1
    batch.slack[1] = -2.0
    batch.slack[2] = -batch.parts[:, 2].mean(0)
    batch.slack[3:5] = 0.0
    batch.parts[:, 4, ::2] = 0.0
    check_noisy(batch)


@pytest.mark.parametrize("c", [6, 40])
@pytest.mark.parametrize("name", ["weights", "parts", "slack"])
def test_nan_reaches_the_posterior(c, name):
    batch = noisy_batch(7, c, 3, True)
    tensor = getattr(batch, name)
    tensor[(0,) * tensor.dim()] = torch.nan
    out, _ = run_noisy(batch, None, wanted=())
    bad = slice(0, 1) if name == "weights" else slice(None)
    assert out[bad].isnan().any(1).all()
    assert name != "weights" or out[1:].isfinite().all()


@each_slack
@pytest.mark.parametrize("c", [6, 40])
def test_nan_stays_in_its_sample(c, slack):
    batch = noisy_batch(7, c, 3, slack)
    batch.logits[2, 1] = torch.nan
    out, grads = run_noisy(batch, torch.ones_like(batch.logits), wanted=("logits",))
    for result in (out, grads["logits"]):
        assert result[2].isnan().all()
        assert not result[[0, 1, 3, 4, 5, 6]].isnan().any()


@each_slack
@pytest.mark.parametrize("c", [10, 40])
def test_order_of_threads_does_not_matter(c, slack):
    batch = noisy_batch(37, c, 4, slack)
    grad = normal(*batch.logits.shape)
    first = run_noisy(batch, grad)
    for seed in range(1, 4):
        same(run_noisy(batch, grad, seed=seed), first)


@pytest.mark.parametrize("c", [10, 16, 36])
def test_small_posteriors_are_as_exact_as_torch_has_them(c):
    logits = torch.randint(-30, 30, (64, c), generator=new_generator(c)).float()
    logits[0], logits[0, 0] = 0, 90  # a softmax below the least normal number
    batch = Batch(logits, torch.zeros(64), None, torch.eye(c), None)
    out, _ = run_noisy(batch, None, wanted=())
    truth = logits.double().softmax(-1)

    def error(posterior):
        return ((posterior.double() - truth) / truth).abs()[1:].max()

    assert error(out) <= 3 * error(logits.softmax(-1))
    torch.testing.assert_close(out[0, 1].log().double(), truth[0, 1].log(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("c", [10, 16, 36])
def test_row_sums_near_the_largest_number(c):
    batch = replace(noisy_batch(9, c, 3, False), slack=torch.full((c, c), 3e38 / c))
    out, grads = run_noisy(batch, torch.ones(9, c), ("logits",))
    torch.testing.assert_close(out, torch.full((9, c), 1 / c))
    torch.testing.assert_close(grads["logits"], torch.zeros(9, c), rtol=0, atol=1e-6)
