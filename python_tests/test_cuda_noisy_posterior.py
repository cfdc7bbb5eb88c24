"""The CUDA kernels of noisy_posterior, run by the emulator, against their definition."""

import pytest
import torch
from cuda_noisy import NAMES, batch_of, kernels, run, run_tiled
from emulator.harness import Emulator, compiler
from emulator.launches import recording

from ptd_ext import reference

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")


def check(batch, wanted=NAMES, seed=0, watched=True, **tiled):
    logits, _, parts, _ = batch
    grad = torch.randn(logits.shape, dtype=parts.dtype)
    if tiled:
        out, grads = run_tiled(batch, grad, seed=seed, **tiled)
    else:
        out, grads = run(batch, grad, wanted, seed, watched)
    compare(batch, grad, out, grads)


def compare(batch, grad, out, grads):
    logits, _, parts, _ = batch
    exact = [None if t is None else t.double().requires_grad_() for t in batch]
    truth = reference.noisy_posterior(*exact)
    truth.backward(grad.double())
    tolerance = 1e-11 if parts.dtype is torch.float64 else 3e-5

    def near(actual, expected, tolerance):
        scale = max(1, expected.abs().nan_to_num().max().item()) if expected.numel() else 1
        torch.testing.assert_close(
            actual.double(), expected, rtol=0, atol=tolerance * scale, equal_nan=True
        )

    near(out, truth.detach(), tolerance)
    for label, gradient in grads.items():
        half = label == "logits" and logits.dtype.itemsize == 2
        near(gradient, exact[NAMES.index(label)].grad, 1e-2 if half else tolerance)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("c", [1, 2, 8, 10, 14, 32, 33, 100])
@pytest.mark.parametrize("n", [0, 1, 33])
def test_sizes(n, c, slack):
    n = min(n, 5) if c == 100 else n
    check(batch_of(n, c, 20 if c < 100 else 3, slack, seed=c), seed=n)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("r", [0, 1, 10, 33])
def test_parts(r, slack):
    check(batch_of(31, 5, r, slack, seed=r))
    check(batch_of(9, 35, r, slack, seed=r))


@pytest.mark.parametrize("c", [3, 34])
def test_most_parts(c):
    check(batch_of(5, c, 320, True, torch.float64), watched=False)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("c", [10, 40])
def test_types(dtype, c):
    check(batch_of(32, c, 4, True, dtype))
    check(batch_of(32, c, 4, False, dtype))


@pytest.mark.parametrize("slack", [False, True])
def test_many_classes(slack):
    check(batch_of(2, 1000, 2, slack), wanted=("logits",), watched=False)


@pytest.mark.parametrize("slack", [False, True])
def test_many_samples(slack):
    """So many that the sums over samples are divided into ranges."""
    check(batch_of(5_003, 3, 2, slack), watched=False)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("sharing", [800, 1600])
@pytest.mark.parametrize("c", [1, 2, 7, 10, 11, 14, 16])
@pytest.mark.parametrize(("n", "r"), [(1, 3), (31, 1), (32, 12), (33, 5), (131, 8)])
def test_lanes(n, r, c, sharing, slack):
    check(batch_of(n, c, r, slack, seed=n + c), seed=n, sharing=sharing)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize(
    ("c", "sharing", "r"),
    [(10, 400, 10), (10, 800, 20), (10, 1600, 40), (9, 1600, 63), (14, 1600, 20), (16, 1600, 33)],
)
def test_lanes_that_fill_shared_memory(c, sharing, r, slack):
    check(batch_of(75, c, r, slack, seed=r), sharing=sharing)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("c", [33, 41, 64, 66, 100, 113, 128])
def test_warps(c, slack):
    check(batch_of(17, c, 4, slack, seed=c), sharing=0)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize(
    ("n", "c", "r"),
    [(1, 100, 20), (31, 33, 1), (32, 40, 3), (33, 64, 1), (97, 39, 2), (61, 57, 2), (3, 128, 33)],
)
def test_warps_at_the_edges(n, c, r, slack):
    """Whole tiles and parts of one, one part, and so many that a row takes several chunks."""
    check(batch_of(n, c, r, slack, seed=n + c), seed=n, sharing=0)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("sharing", [804, 1612])
@pytest.mark.parametrize(
    ("n", "c", "r"),
    [
        (37, 100, 20),
        (109, 97, 3),
        (73, 101, 2),
        (149, 50, 7),
        (1, 51, 45),
        (36, 75, 1),
        (145, 76, 1),
    ],
)
def test_warps_that_load(n, c, r, sharing, slack):
    """Small and large blocks, whole tiles and parts of one, and rows of several chunks."""
    check(batch_of(n, c, r, slack, seed=n + c), seed=n, sharing=sharing)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("c", [8, 12, 36])
@pytest.mark.parametrize(
    "off", ["logits", "weights", "parts", "slack", "grad", "out", "sums", "dlogits"]
)
def test_numbers_that_are_not_aligned(off, c, slack):
    """One tensor begins off a 16-byte boundary, where the rows of all are whole vectors."""
    check(batch_of(37, c, 4, slack), sharing=804, off=(off,))


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("c", [10, 15, 35, 48])
def test_tiled_types(c, dtype, slack):
    check(batch_of(33, c, 4, slack, dtype, seed=c), sharing=804)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("c", [10, 16, 33, 50])
def test_one_matrix(c, slack):
    check(batch_of(19, c, 0, slack, seed=c), sharing=804)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("c", [6, 12, 35, 64])
def test_factors_of_the_gradient(c, slack):
    """entry_i G_k - row_i, where it is not clamped, is the gradient of T(x) + slack."""
    batch = batch_of(21, c, 3, slack, seed=c)
    grad = torch.randn(batch[0].shape)
    _, grads = run_tiled(batch, grad, factors=True)
    logits, weights, parts, given_slack = (None if t is None else t.double() for t in batch)
    entries = logits.softmax(-1)
    if slack:
        matrix = (torch.einsum("nr,rik->nik", weights, parts) + given_slack).clamp(min=0)
        pulled = torch.einsum("nik,nk->ni", matrix / matrix.sum(-1, keepdim=True), grad.double())
        entries = entries / matrix.sum(-1)
        torch.testing.assert_close(grads["rows"].double(), entries * pulled, rtol=0, atol=1e-4)
    torch.testing.assert_close(grads["entries"].double(), entries, rtol=0, atol=1e-4)


@pytest.mark.parametrize("slack", [False, True])
def test_many_samples_of_some_classes(slack):
    """So many that they take one launch."""
    with recording(traffic=True) as launches:
        check(batch_of(5_121, 33, 1, slack), wanted=("logits",), watched=False)
    kind = "warps" if slack else "product"
    assert [launch.kernel.split("<")[0] for launch in launches] == [
        f"noisy_posterior_{kind}",
        f"noisy_posterior_backward_{kind}",
    ]


def test_layouts():
    """Copies of the parts are made only where kernels need them."""
    columns, rows = 1, 2

    def layout(n, c, r, forward, transition=False):
        with Emulator(kernels()) as gpu:
            given = (None, None, None, None, None)
            return gpu.call("layout_float32", *given, n, c, r, int(forward), int(transition))

    assert layout(100, 10, 20, forward=True) == layout(100, 10, 20, forward=False) == rows
    assert layout(100, 10, 20, forward=False, transition=True) == rows + columns
    assert layout(8_192, 100, 20, forward=True) == rows
    assert layout(8_192, 100, 20, forward=False) == columns
    assert layout(100, 100, 20, forward=True) == layout(100, 10, 300, forward=True) == columns


@pytest.mark.parametrize("r", [81, 161, 200])
def test_weights_that_fill_shared_memory(r):
    """Fewer samples share a block, then the kernels of many classes take over."""
    check(batch_of(21, 5, r, True, seed=r))


@pytest.mark.parametrize("c", [6, 40])
@pytest.mark.parametrize("wanted", NAMES)
def test_one_gradient_alone(wanted, c):
    check(batch_of(7, c, 3, True), wanted=(wanted,))


@pytest.mark.parametrize("c", [6, 40])
def test_empty_rows_are_uniform(c):
    logits, weights, parts, slack = batch_of(7, c, 3, True)
    slack[1] = -2
    slack[c - 1] = -2
    check((logits, weights, parts, slack))
    check((logits, weights, parts, slack), sharing=804)
    slack[:] = -2
    out, _ = run((logits, weights, parts, slack), torch.ones_like(logits))
    torch.testing.assert_close(out, torch.full_like(out, 1 / c))


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("c", [6, 40])
def test_nan_stays_in_its_sample(c, slack):
    batch = batch_of(7, c, 3, slack)
    batch[0][2, 1] = torch.nan
    results = [run(batch, torch.ones_like(batch[0]), wanted=("logits",))]
    results.append(run_tiled(batch, torch.ones_like(batch[0])))
    for result in (tensor for out, grads in results for tensor in (out, grads["logits"])):
        assert result[2].isnan().all()
        assert not result[[0, 1, 3, 4, 5, 6]].isnan().any()


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("c", [10, 40])
def test_order_of_threads_does_not_matter_to_tiles(c, slack):
    batch = batch_of(37, c, 4, slack)
    grad = torch.randn(batch[0].shape)
    first, first_grads = run_tiled(batch, grad)
    for seed in range(1, 4):
        out, grads = run_tiled(batch, grad, seed=seed)
        assert torch.equal(out, first)
        assert torch.equal(grads["logits"], first_grads["logits"])


@pytest.mark.parametrize("c", [10, 40])
def test_order_of_threads_does_not_matter(c):
    batch = batch_of(33, c, 4, True)
    grad = torch.randn(batch[0].shape)
    first, first_grads = run(batch, grad, seed=0)
    for seed in range(1, 3):
        out, grads = run(batch, grad, seed=seed)
        assert torch.equal(out, first)
        assert all(torch.equal(grads[name], first_grads[name]) for name in NAMES)


@pytest.mark.parametrize("c", [10, 16, 36])
def test_small_posteriors_are_as_exact_as_torch_has_them(c):
    logits = torch.randint(-30, 30, (64, c), generator=torch.Generator().manual_seed(c)).float()
    logits[0], logits[0, 0] = 0, 90  # a softmax below the least normal number
    out, _ = run((logits, None, torch.eye(c), None), torch.zeros(64, c), ())
    truth = logits.double().softmax(-1)

    def error(posterior):
        return ((posterior.double() - truth) / truth).abs()[1:].max()

    assert error(out) <= 3 * error(logits.softmax(-1))
    torch.testing.assert_close(out[0, 1].log().double(), truth[0, 1].log(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("c", [10, 16, 36])
def test_row_sums_near_the_largest_number(c):
    logits, weights, parts, _ = batch_of(9, c, 3, False)
    slack = torch.full((c, c), 3e38 / c)
    out, grads = run((logits, weights, parts, slack), torch.ones(9, c), ("logits",))
    torch.testing.assert_close(out, torch.full((9, c), 1 / c))
    torch.testing.assert_close(grads["logits"], torch.zeros(9, c), rtol=0, atol=1e-6)
