"""The CUDA kernels move little more than they must: counted by the emulator, sector by sector."""

import cuda_labels
import pytest
import test_cuda_noisy_posterior as noisy
import test_cuda_project_transition as project
import test_cuda_simplex_projection as simplex
import test_cuda_simplex_weights as weights
import torch
from emulator.harness import compiler
from emulator.launches import recording
from traffic import moved_by

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")

SAMPLES = {10: 65_536, 14: 65_536, 100: 8_192}  # that the counts stand for, by classes
TOO_MUCH = 1.3


def check(launches, n, c, r, slack=False, factors=False):
    """Names of the kernels that were compared, each within its bounds."""
    seen = []
    for launch in launches:
        moved = moved_by(launch, n, c, r, slack, factors, SAMPLES[c])
        if moved is None:
            continue
        assert moved.ratio <= TOO_MUCH, (moved, launch.traffic)
        # A least that is too large would hide what is moved beyond it.
        assert moved.ratio >= 0.99, (moved, launch.traffic)
        parts = [t.launch for t in launch.traffic if t.array == "parts"]
        assert all(size <= 4 * r * c * c + 32 for size in parts)
        seen.append(launch.kernel.split("<")[0])
    return seen


@pytest.mark.parametrize("slack", [None, 0.01])
@pytest.mark.parametrize(("n", "c"), [(512, 10), (512, 14), (256, 100)])
def test_losses(n, c, slack):
    n = 64 if c == 100 and slack else n
    with recording() as launches:
        cuda_labels.run_loss(cuda_labels.batch_of(n, c, 20, slack))
    kind = "grouped" if c == 100 else "pair" if slack or c == 14 else "lone"
    forward = "lone_slack" if slack and c == 10 else kind
    expected = [f"transition_loss_{forward}", f"transition_loss_backward_{kind}"]
    if c == 100 and slack:
        expected = ["row_sums", *expected]
    assert check(launches, n, c, 20, bool(slack)) == expected


@pytest.mark.parametrize("slack", [None, 0.01])
@pytest.mark.parametrize(("n", "c"), [(256, 10), (64, 100)])
def test_clean_posterior(n, c, slack):
    with recording() as launches:
        cuda_labels.run_posterior(cuda_labels.batch_of(n, c, 20, slack), torch.randn(n, c))
    seen = check(launches, n, c, 20, bool(slack))
    kinds = ("grouped", "grouped") if c == 100 else ("lone_slack" if slack else "lone", "pair")
    assert seen[-2:] == [f"clean_posterior_{kinds[0]}", f"clean_posterior_backward_{kinds[1]}"]


@pytest.mark.parametrize("slack", [None, 0.01])
@pytest.mark.parametrize(("n", "c", "r"), [(128, 10, 20), (24, 100, 3)])
def test_gradients_of_parts_and_weights(n, c, r, slack):
    with recording() as launches:
        batch = cuda_labels.batch_of(n, c, r, slack)
        cuda_labels.run_loss(batch, wanted=cuda_labels.NAMES)
    kind = "revised" if slack else "plain"
    seen = check(launches, n, c, r, bool(slack), factors=True)
    assert {f"weights_{kind}", f"spread_{kind}"} <= set(seen)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("wanted", [("logits",), noisy.NAMES])
def test_noisy_posterior(slack, wanted):
    n, c, r = 256, 10, 20
    with recording() as launches:
        noisy.run(noisy.batch_of(n, c, r, slack), torch.randn(n, c), wanted)
    seen = check(launches, n, c, r, slack, factors=len(wanted) > 1)
    assert seen[:2] == ["noisy_posterior_lanes", "noisy_posterior_backward_lanes"]
    assert ({"spread_weights", "spread_parts"} <= set(seen)) == (len(wanted) > 1)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize(("n", "c", "r"), [(256, 10, 20), (256, 14, 12), (64, 100, 3)])
def test_noisy_posterior_of_many_samples(n, c, r, slack):
    batch = noisy.batch_of(n, c, r, slack)
    with recording() as launches:
        noisy.run_tiled(batch, torch.randn(n, c))
    kind = "warps" if c == 100 else "lanes"
    seen = check(launches, n, c, r, slack)
    assert seen == [f"noisy_posterior_{kind}", f"noisy_posterior_backward_{kind}"]


@pytest.mark.parametrize(("rows", "c"), [(1024, 10), (256, 100)])
def test_project_transition(rows, c):
    matrix = torch.randn(rows, c)
    with recording() as launches:
        project.run(matrix, matrix)
    assert len(check(launches, rows, c, 0)) == 2


def test_simplex():
    rows, r = 1024, 20
    with recording() as launches:
        simplex.run(torch.randn(rows, r), torch.randn(rows, r))
    assert len(check(launches, rows, 10, r)) == 2
    with recording() as launches:
        weights.run(weights.make_problem(r, rows), steps=2)
    assert len(check(launches, rows, 10, r)) == 1
