"""The CUDA kernels move little more than they must: counted by the emulator, sector by sector."""

from dataclasses import dataclass

import cuda_labels
import cuda_noisy as noisy
import pytest
import test_cuda_project_transition as project
import test_cuda_simplex_projection as simplex
import test_cuda_simplex_weights as weights
import torch
from emulator.harness import compiler
from emulator.launches import recording
from traffic import ADD_UP, LABEL, SUM_UP, base_name, moved_by

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")

TOO_MUCH = 1.3
TOO_LITTLE = 0.99  # a least that is too large would hide what is moved beyond it
SECTOR = 32
FLOAT, DOUBLE = torch.float32, torch.float64


@dataclass(frozen=True)
class Case:
    n: int
    c: int
    r: int
    slack: bool = False
    dtype: torch.dtype = FLOAT
    factors: bool = False  # of the gradient of T(x) are written
    ranges: int = 1  # of samples, with sums of their own

    @property
    def samples(self):
        """That the counts stand for: many, or what L2 holds of more classes."""
        return {10: 65_536, 14: 65_536, 100: 8_192}.get(self.c, 2_048)

    @property
    def matrix(self):
        """Bytes of one."""
        return self.dtype.itemsize * self.c**2

    def moved(self, launch):
        kind = (self.slack, self.factors, self.samples, self.dtype.itemsize)
        return moved_by(launch, self.n, self.c, self.r, *kind)

    def labels(self):
        slack = 0.01 if self.slack else None
        return cuda_labels.batch_of(self.n, self.c, self.r, slack, self.dtype)

    def noisy(self):
        return noisy.batch_of(self.n, self.c, self.r, self.slack, self.dtype)

    def normal(self):
        return torch.randn(self.n, self.c, dtype=self.dtype)


def check(launches, case):
    """Names of the kernels, each within its bounds."""
    for launch in launches:
        moved, name = case.moved(launch), base_name(launch.kernel)
        arrays = {(traffic.array, traffic.writes): traffic for traffic in launch.traffic}
        if name in ADD_UP:
            matrices = case.r if ("dparts", True) in arrays else 1
            ratio = moved.once / ((case.ranges + 1) * matrices * case.matrix)
        else:
            ratio = moved.ratio
        assert TOO_LITTLE <= ratio <= TOO_MUCH, (ratio, moved, launch.traffic)
        most = {("parts", False): case.r, ("slack", False): 1}
        if name in SUM_UP:
            most["scratch", True] = case.ranges * (case.r + case.slack)
        for array in most.keys() & arrays.keys():
            assert arrays[array].launch <= most[array] * case.matrix + SECTOR, launch
    return [launch.kernel.split("<")[0] for launch in launches]


def operator_ratio(launches, case, numbers, matrices, labels=False):
    """Bytes of all launches over the least: numbers of a sample, and matrices, each once."""
    moved = [case.moved(launch) for launch in launches]
    least = case.samples * (case.dtype.itemsize * numbers + LABEL * labels)
    return sum(launch.streams + launch.once for launch in moved) / (least + matrices * case.matrix)


def from_cache(launch, array):
    """Bytes of an array that go from L2 to the multiprocessors, once for each block."""
    (found,) = (t.block for t in launch.traffic if t.array == array and not t.writes)
    return found


def run_loss(case, wanted=("logits",)):
    with recording() as launches:
        cuda_labels.run_loss(case.labels(), wanted=wanted)
    return launches


def run_posterior(case):
    with recording() as launches:
        cuda_labels.run_posterior(case.labels(), case.normal())
    return launches


def run_noisy(case, wanted=noisy.NAMES):
    with recording() as launches:
        noisy.run(case.noisy(), case.normal(), wanted)
    return launches


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize(("n", "c"), [(512, 10), (512, 14), (256, 100)])
def test_losses(n, c, slack):
    case = Case(64 if c == 100 and slack else n, c, 20, slack)
    launches = run_loss(case)
    kind = "grouped" if c == 100 else "pair" if slack or c == 14 else "lone"
    forward = "lone_slack" if slack and c == 10 else "quartet" if c == 100 and not slack else kind
    expected = [f"transition_loss_{forward}", f"transition_loss_backward_{kind}"]
    if c == 100 and slack:
        expected = ["tabulate_rows", "row_sums", *expected]
    assert check(launches, case) == expected


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize(("n", "c"), [(256, 10), (64, 100)])
def test_clean_posterior(n, c, slack):
    case = Case(n, c, 20, slack)
    seen = check(run_posterior(case), case)
    kinds = ("grouped", "grouped") if c == 100 else ("lone_slack" if slack else "lone", "pair")
    assert seen[-2:] == [f"clean_posterior_{kinds[0]}", f"clean_posterior_backward_{kinds[1]}"]


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize(("n", "c", "r"), [(384, 10, 20), (24, 100, 3)])
def test_gradients_of_parts_and_weights(n, c, r, slack):
    case = Case(n, c, r, slack, factors=True, ranges=3 if c == 10 else 1)
    seen = check(run_loss(case, cuda_labels.NAMES), case)
    kind = "revised" if slack else "plain"
    assert {f"weights_{kind}", f"spread_{kind}"} <= set(seen)
    assert seen.count("sum_chunks") == (case.ranges > 1) + slack


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize(("c", "dtype"), [(200, FLOAT), (40, DOUBLE)])
def test_a_block_for_each_sample(c, dtype, slack):
    case = Case(16, c, 3, slack, dtype)
    for kind, launches in (
        ("transition_loss", run_loss(case)),
        ("clean_posterior", run_posterior(case)),
    ):
        seen = check(launches, case)
        assert seen[-2:] == [f"{kind}_wide", f"{kind}_backward_wide"]
        for launch in launches[-2:]:
            column = case.dtype.itemsize * c
            parts = from_cache(launch, "parts") / case.n
            assert case.r * column <= parts <= case.r * (column + SECTOR)
            # Slack has rows, of which a column takes a sector for each entry.
            assert not slack or from_cache(launch, "slack") == case.n * c * SECTOR


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize(("c", "dtype"), [(200, FLOAT), (40, DOUBLE)])
def test_gradients_of_parts_and_weights_of_more_classes(c, dtype, slack):
    case = Case(8, c, 3, slack, dtype, factors=True)
    launches = run_loss(case, cuda_labels.NAMES)
    check(launches, case)
    if slack:
        (spread,) = (launch for launch in launches if "spread_revised" in launch.kernel)
        moved = case.moved(spread)
        assert 0.5 * c <= moved.cached / moved.least <= 0.56 * c


@pytest.mark.parametrize("slack", [False, True])
def test_doubles(slack):
    kind = "revised" if slack else "plain"
    case = Case(256, 10, 20, slack, DOUBLE, factors=True, ranges=2)
    seen = check(run_loss(case, cuda_labels.NAMES), case)
    expected = ["transition_loss_grouped", "transition_loss_backward_grouped"]
    expected = ["tabulate_rows", "row_sums"] * slack + expected
    expected += [f"weights_{kind}", f"spread_{kind}"]
    assert seen == expected + ["sum_chunks"] * (1 + slack)
    case = Case(64, 10, 20, slack, DOUBLE)
    assert check(run_posterior(case), case)[-1] == "clean_posterior_backward_grouped"


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("wanted", [("logits",), noisy.NAMES])
def test_noisy_posterior(slack, wanted):
    case = Case(256, 10, 20, slack, factors=len(wanted) > 1, ranges=16)
    seen = check(run_noisy(case, wanted), case)
    assert seen[:2] == ["noisy_posterior_lanes", "noisy_posterior_backward_lanes"]
    assert ({"spread_weights", "spread_parts"} <= set(seen)) == (len(wanted) > 1)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize(("n", "c", "r"), [(256, 10, 20), (256, 14, 12), (64, 100, 3)])
def test_noisy_posterior_of_many_samples(n, c, r, slack):
    case = Case(n, c, r, slack)
    with recording() as launches:
        noisy.run_tiled(case.noisy(), case.normal())
    kind = "lanes" if c < 100 else "warps" if slack else "product"
    assert check(launches, case) == [f"noisy_posterior_{kind}", f"noisy_posterior_backward_{kind}"]


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize(("c", "dtype"), [(10, DOUBLE), (20, FLOAT)])
def test_noisy_posterior_of_a_lane_for_each_class(c, dtype, slack):
    case = Case(64, c, 20, slack, dtype, factors=True, ranges=4)
    seen = check(run_noisy(case), case)
    assert seen[:2] == ["noisy_posterior_narrow", "noisy_posterior_narrow_backward"]
    assert seen[2:] == ["spread_weights", "spread_parts"] + ["sum_ranges"] * (1 + slack)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize(("n", "c", "r", "dtype"), [(48, 144, 2, FLOAT), (32, 40, 3, DOUBLE)])
def test_noisy_posterior_of_several_launches(n, c, r, dtype, slack):
    case = Case(n, c, r, slack, dtype, factors=True, ranges=n // 16)
    launches = run_noisy(case)
    forward = ["pull_rows"] * slack + ["softmax_entries", "push_columns"]
    backward = ["pull_rows", "posterior_gradients", "spread_weights", "spread_parts"]
    assert check(launches, case) == forward + backward + ["sum_ranges"] * (1 + slack)

    # What L2 serves: a sample's numbers once for every eight columns, 32 classes, 128 entries.
    push, pull = launches[len(forward) - 1], launches[len(forward)]
    row = case.n * case.dtype.itemsize * c
    shares = SECTOR * push.blocks * slack
    assert row * (c // 8) <= from_cache(push, "scratch") <= row * (c // 8) + 4 * shares
    assert from_cache(pull, "grad") == row * -(-c // 32)
    spread = case.moved(launches[len(forward) + 3])
    assert spread.cached / spread.least <= (0.7 if slack else 0.54) * c


# Bytes over the least of the operator, a little more than is counted.
@pytest.mark.parametrize(
    ("slack", "wanted", "forward_most", "backward_most"),
    [
        (False, ("logits",), 1.95, 1.68),
        (True, ("logits",), 2.02, 1.75),
        (False, noisy.NAMES, 1.95, 3.75),
        (True, noisy.NAMES, 2.02, 3.9),
    ],
)
def test_noisy_posterior_as_a_whole(slack, wanted, forward_most, backward_most):
    """Many classes: what goes from launch to launch, and is read by several."""
    c, r, everything = 144, 2, len(wanted) > 1
    case = Case(48, c, r, slack, factors=everything, ranges=3)
    launches = run_noisy(case, wanted)
    first = 2 + slack  # of the backward pass
    matrices = r + slack
    forward = operator_ratio(launches[:first], case, 2 * c + r + c * slack, matrices)
    assert 1 <= forward <= forward_most
    numbers = 3 * c + r + c * slack + r * everything
    backward = operator_ratio(launches[first:], case, numbers, matrices * (1 + everything))
    assert 1 <= backward <= backward_most


def test_loss_with_slack_as_a_whole():
    """A hundred classes: row sums, which are written in any case, from a table and turned weights.

    The loss reads parts and weights once more. Of all that L2 holds what is not a sample's row.
    """
    case = Case(32, 100, 20, slack=True)
    c, r = case.c, case.r
    *forward, backward = run_loss(case)
    assert len(forward) == 3
    assert 1 <= operator_ratio(forward, case, 2 * c + r, r + 1, labels=True) <= 1.93
    # Columns of labels that no sample has are not read.
    assert 0.9 <= operator_ratio([backward], case, 3 * c + r, r + 1, labels=True) <= 1.02


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE])
@pytest.mark.parametrize(
    ("rows", "c"), [(1024, 10), (256, 100), (32, 200), (8, 1000), (4, 4096), (4, 5003)]
)
def test_project_transition(rows, c, dtype):
    case = Case(rows, c, 0, dtype=dtype)
    with recording() as launches:
        project.run(case.normal(), case.normal())
    kind = "short" if c <= 128 else "long"
    assert check(launches, case) == [f"project_{kind}_rows", f"project_{kind}_rows_backward"]


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE])
@pytest.mark.parametrize(("rows", "r"), [(1024, 20), (256, 28), (32, 40), (8, 1000)])
def test_simplex_projection(rows, r, dtype):
    case = Case(rows, 10, r, dtype=dtype)
    x = torch.randn(rows, r, dtype=dtype)
    with recording() as launches:
        simplex.run(x, x)
    kind = "short" if r <= 32 else "long"
    wanted = [f"simplex_project_{kind}", f"simplex_project_{kind}_backward"]
    assert check(launches, case) == wanted


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE])
@pytest.mark.parametrize(("rows", "r"), [(1024, 20), (64, 64)])
def test_simplex_weights(rows, r, dtype):
    case = Case(rows, 10, r, dtype=dtype)
    with recording() as launches:
        weights.run(weights.make_problem(r, rows, dtype=dtype), steps=2)
    lanes = "few" if dtype is FLOAT else "lanes"
    assert check(launches, case) == [f"simplex_weights_{lanes if r <= 32 else 'block'}"]
