"""The CUDA operators move little more than they must: counted by the emulator, by sectors."""

import math
from dataclasses import dataclass

import pytest
import torch
from cases import normal
from cuda.test_cuda_simplex_weights import make_problem
from cuda_cases import NAMES, batch_of
from emulator.harness import compiler
from traffic import traffic_of

import ptd_ext

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found"),
]

FLOAT, DOUBLE = torch.float32, torch.float64
LOGITS = ("logits",)
MOST_OF_A_LAUNCH = 1.3  # over the distinct sectors that it touches
MOST_OF_ONE_LAUNCH = 1.3  # over the inputs and outputs of the operator
MOST_OF_SEVERAL = 2.0
# With slack, two [N, C] factors of the gradient of T(x) are written by one launch and read by the
# next: seven numbers for each logit, where inputs and results have three (2.47 is counted). To
# compute them again would take an exponential and R multiply-adds for each entry of T(x), not for
# each logit.
MOST_OF_MANY_CLASSES = 2.5
# noisy_posterior with slack, beyond the fused kernels: torch's matrix products, whose own traffic
# is not counted here, need g / r in memory, and a kernel adds the entries that may be clamped to
# their result. That is seven numbers for each logit, where inputs and results have three, and two
# sign tables (2.24 to 2.68 are counted). The backward pass has eight for four, and one table.
MOST_OF_NOISY_POSTERIOR = 2.7
MOST_OF_NOISY_BACKWARD = 2.25


@dataclass(frozen=True)
class Case:
    """An operator on n samples."""

    n: int
    c: int
    r: int
    slack: bool = False
    dtype: torch.dtype = FLOAT
    wanted: tuple[str, ...] = LOGITS

    def batch(self, n):
        batch = batch_of(n, self.c, self.r, 0.01 if self.slack else None, self.dtype)
        batch.parts = ptd_ext.ops.prepare_parts(batch.parts)
        return batch

    def row_sums(self, n):
        """Any, of the shape that the operators save: what is moved does not depend on them."""
        return torch.ones((n, self.c) if self.slack else (0,), dtype=self.dtype)

    def grad(self, n):
        return torch.ones(n, self.c, dtype=self.dtype)

    def loss(self, n):
        batch = self.batch(n)
        tensors = (batch.logits, batch.labels, *batch.matrix[:2], batch.slack, None)
        return "transition_loss", (*tensors, 0, math.inf, 1, *batch.saved_options)

    def loss_backward(self, n):
        _, arguments = self.loss(n)
        one = torch.ones((), dtype=self.dtype)
        tensors, options = arguments[:6], arguments[6:]
        given = (one, *tensors, one, self.row_sums(n), *options)
        return "transition_loss_backward", (*given, *self.batch(1).needs(self.wanted))

    def posterior(self, n):
        batch = self.batch(n)
        return "clean_posterior", (batch.logits, batch.labels, *batch.matrix, *batch.saved_options)

    def posterior_backward(self, n):
        batch = self.batch(n)
        tensors = (self.grad(n), batch.logits, batch.labels, *batch.matrix, self.row_sums(n))
        return "clean_posterior_backward", (
            *tensors,
            *batch.saved_options,
            *batch.needs(self.wanted),
        )

    def noisy(self, n):
        batch = self.batch(n)
        return "noisy_posterior", (batch.logits, *batch.matrix)

    def noisy_backward(self, n):
        batch = self.batch(n)
        tensors = (self.grad(n), batch.logits, *batch.matrix, self.row_sums(n))
        return "noisy_posterior_backward", (*tensors, *batch.needs(self.wanted))

    def check(self, call):
        samples = {10: 65_536, 14: 65_536, 100: 8_192}.get(self.c, 2_048)
        most = {}
        if self.slack:
            most = {"noisy": MOST_OF_NOISY_POSTERIOR, "noisy_backward": MOST_OF_NOISY_BACKWARD}
        check(call, self.n, samples, most.get(call.__name__, MOST_OF_SEVERAL))


def check(call, counted, samples, most=MOST_OF_SEVERAL):
    traffic = traffic_of(call, counted, samples)
    if not traffic.launches:  # torch's own operators do it all
        assert "noisy" in call.__name__
        return
    for launch in traffic.launches:
        assert launch.ratio <= MOST_OF_A_LAUNCH, launch
    most = MOST_OF_ONE_LAUNCH if len(traffic.launches) == 1 else most
    # Columns of labels that none of the counted samples has, and saved row sums that are evaluated
    # again, are not read.
    assert 0.65 <= traffic.ratio <= most, traffic


each_slack = pytest.mark.parametrize("slack", [False, True])


@each_slack
@pytest.mark.parametrize(("n", "c"), [(512, 10), (512, 14), (256, 100)])
def test_losses(n, c, slack):
    case = Case(64 if c == 100 and slack else n, c, 20, slack)
    case.check(case.loss)
    case.check(case.loss_backward)


@each_slack
@pytest.mark.parametrize(("n", "c"), [(256, 10), (64, 100)])
def test_clean_posterior(n, c, slack):
    case = Case(n, c, 20, slack)
    case.check(case.posterior)
    case.check(case.posterior_backward)


@each_slack
@pytest.mark.parametrize(("n", "c", "r"), [(384, 10, 20), (24, 100, 3)])
def test_all_gradients_of_the_losses(n, c, r, slack):
    case = Case(n, c, r, slack, wanted=NAMES)
    case.check(case.loss_backward)


def test_all_gradients_of_many_samples_and_classes():
    """More than the L2 cache keeps: several chunks of samples, and many classes for each part."""
    case = Case(130, 100, 2, True, wanted=NAMES)
    check(case.loss_backward, case.n, 8_192, MOST_OF_MANY_CLASSES)


@each_slack
@pytest.mark.parametrize(("c", "dtype"), [(200, FLOAT), (40, DOUBLE)])
def test_many_classes(c, dtype, slack):
    case = Case(16, c, 3, slack, dtype)
    for call in (case.loss, case.loss_backward, case.posterior, case.posterior_backward):
        case.check(call)
    case = Case(8, c, 3, slack, dtype, NAMES)
    case.check(case.loss_backward)


@each_slack
def test_doubles(slack):
    case = Case(256, 10, 20, slack, DOUBLE, NAMES)
    case.check(case.loss)
    case.check(case.loss_backward)
    case = Case(64, 10, 20, slack, DOUBLE)
    case.check(case.posterior)
    case.check(case.posterior_backward)


@each_slack
@pytest.mark.parametrize("wanted", [LOGITS, NAMES])
@pytest.mark.parametrize(
    ("n", "c", "r", "dtype"),
    [
        (256, 10, 20, FLOAT),
        (256, 14, 12, FLOAT),
        (64, 20, 20, FLOAT),
        (64, 100, 3, FLOAT),
        (48, 144, 2, FLOAT),
        (64, 10, 20, DOUBLE),
        (32, 40, 3, DOUBLE),
    ],
)
def test_noisy_posterior(n, c, r, dtype, slack, wanted):
    case = Case(n, c, r, slack, dtype, wanted)
    if wanted == LOGITS:
        case.check(case.noisy)
    case.check(case.noisy_backward)


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE])
@pytest.mark.parametrize(("matrices", "c"), [(103, 10), (3, 100), (1, 200)])
def test_project_transition(matrices, c, dtype):
    def forward(count):
        return "project_transition", (normal(count, c, c, dtype=dtype),)

    def backward(count):
        return "project_transition_backward", tuple(normal(2, count, c, c, dtype=dtype))

    for call in (forward, backward):
        check(call, matrices, 100 * matrices)


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE])
@pytest.mark.parametrize(("rows", "r"), [(1024, 20), (256, 28), (32, 40), (8, 1000)])
def test_simplex_projection(rows, r, dtype):
    def forward(count):
        return "simplex_projection", (normal(count, r, dtype=dtype),)

    def backward(count):
        grad = normal(count, r, dtype=dtype)
        return "simplex_projection_backward", (grad, grad.softmax(-1))

    for call in (forward, backward):
        check(call, rows, 65_536 * 20 // r)


@pytest.mark.parametrize("dtype", [FLOAT, DOUBLE])
@pytest.mark.parametrize(("rows", "r"), [(1024, 20), (64, 64)])
def test_simplex_weights(rows, r, dtype):
    def call(count):
        return "simplex_weights", (*make_problem(r, count, dtype=dtype), 2, 0.0)

    check(call, rows, 65_536)
