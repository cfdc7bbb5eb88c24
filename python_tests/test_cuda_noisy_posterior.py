"""The CUDA kernels of noisy_posterior, run by the emulator, against their definition."""

import functools
from pathlib import Path

import pytest
import torch
from emulator.harness import Emulator, compile_kernels, compiler
from emulator.launches import recording

from ptd_ext import reference

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++, none found")

CUDA = Path(__file__).parents[1] / "csrc" / "cuda"
BINDINGS = """
#include "noisy_posterior_plan.h"
using namespace ptd;

// Parts and slack with a column contiguous, or with a row contiguous.
template <class T>
struct Matrices {
  const T *columns, *slack, *rows, *slack_rows;

  TransitionBatch<T> batch(const T* weights, int64_t n, int64_t c, int64_t r) const {
    return {weights, columns, slack, n, int(c), int(r), rows, slack_rows};
  }
};
#define MATRICES(T) const T *columns, const T *slack, const T *rows, const T *slack_rows
#define SIZES int64_t n, int64_t c, int64_t r
#define BATCH(T) Matrices<T>{columns, slack, rows, slack_rows}.batch(weights, n, c, r)

#define BIND(name, Z, T)                                                                         \\
  extern "C" int forward_##name(const Z* logits, const T* weights, MATRICES(T), T* posterior,    \\
                                T* row_sums, T* scratch, SIZES) {                                \\
    return launch_noisy_posterior<Z, T>(BATCH(T), logits, posterior, row_sums, scratch,          \\
                                        nullptr);                                                \\
  }                                                                                              \\
  extern "C" int64_t forward_scratch_##name(const T* weights, MATRICES(T), SIZES) {              \\
    return noisy_posterior_scratch(BATCH(T));                                                    \\
  }                                                                                              \\
  extern "C" int64_t layout_##name(const T* weights, MATRICES(T), SIZES, int64_t forward,        \\
                                   int64_t transition) {                                         \\
    const PartsLayout layout = noisy_posterior_layout(BATCH(T), forward, transition);            \\
    return layout.columns + 2 * layout.rows;                                                     \\
  }                                                                                              \\
  extern "C" int64_t backward_scratch_##name(const T* weights, MATRICES(T), SIZES) {             \\
    return noisy_posterior_backward_scratch(BATCH(T));                                           \\
  }                                                                                              \\
  extern "C" int backward_##name(const Z* logits, const T* weights, MATRICES(T), const T* grad,  \\
                                 const T* row_sums, Z* dz, T* dh, T* dp, T* ds, T* scratch,      \\
                                 SIZES) {                                                        \\
    const PosteriorGradients<Z, T> grads{dz, dh, dp, ds, c, 1};                                  \\
    return launch_noisy_posterior_backward<Z, T>(BATCH(T), logits, grad, row_sums, grads,        \\
                                                 scratch, nullptr);                              \\
  }
BIND(float32, float, float)
BIND(float64, double, double)
BIND(float16, Half, float)
BIND(bfloat16, BFloat16, float)

// The tiled mappings at sizes for which the launchers choose others: up to sixteen classes, sharing
// is 100 times the warps of a block and how many of them share samples.
#define BIND_TILED(name, Z)                                                                      \\
  extern "C" int tiled_##name(const Z* logits, const float* weights, MATRICES(float),            \\
                              const float* grad, float* posterior, float* row_sums, Z* dz,       \\
                              float* entries, float* rows_of_grad, SIZES, int64_t sharing) {     \\
    const TransitionBatch<float> batch = BATCH(float);                                           \\
    if (c <= 16) {                                                                               \\
      const LanesPlan plan(batch, int(sharing % 100), int(sharing / 100));                       \\
      if (!plan.grid) return -1;                                                                 \\
      launch_lanes(plan, batch, logits, posterior, row_sums, nullptr);                           \\
      launch_lanes_backward(plan, batch, logits, grad, row_sums, dz, entries, rows_of_grad,      \\
                            nullptr);                                                            \\
    } else {                                                                                     \\
      const WarpsPlan plan(batch);                                                               \\
      if (!plan.grid) return -1;                                                                 \\
      launch_warps(plan, batch, logits, posterior, row_sums, nullptr);                           \\
      launch_warps_backward(plan, batch, logits, grad, row_sums, dz, entries, rows_of_grad,      \\
                            nullptr);                                                            \\
    }                                                                                            \\
    return cudaGetLastError();                                                                   \\
  }
BIND_TILED(float32, float)
BIND_TILED(float16, Half)
BIND_TILED(bfloat16, BFloat16)
"""
NAMES = ("logits", "weights", "parts", "slack")


@functools.cache
def kernels(check=True):
    return compile_kernels([CUDA / "noisy_posterior.cu"], bindings=BINDINGS, check=check)


def batch_of(n, c, r, slack, dtype=torch.float32, seed=0):
    """Logits, weights, parts and slack; r = 0: one matrix and no weights."""
    generator = torch.Generator().manual_seed(seed)
    wide = torch.float64 if dtype is torch.float64 else torch.float32

    def normal(*shape):
        return torch.randn(*shape, dtype=wide, generator=generator)

    logits = (2 * normal(n, c)).to(dtype)
    weights = normal(n, r).softmax(-1) if r else None
    parts = reference.project_transition(normal(*([r] if r else []), c, c))
    return logits, weights, parts, 0.3 / c * normal(c, c) if slack else None


class Inputs:
    """A batch in the emulator's memory."""

    def __init__(self, gpu, batch, grad, layout):
        logits, weights, parts, slack = batch
        (n, c), r = logits.shape, 1 if weights is None else weights.shape[1]
        self.sizes = (n, c, r)
        self.name = str(logits.dtype).removeprefix("torch.")
        parts = parts if parts.dim() == 3 else parts[None]
        columns = {"parts": parts.permute(2, 0, 1), "slack": None if slack is None else slack.t()}
        rows = {"parts": parts, "slack": slack}

        def given(tensor, name):
            return None if tensor is None else gpu.input(tensor, name=name)

        self.logits, self.weights = given(logits, "logits"), given(weights, "weights")
        self.matrices = [
            given(tensor, name) if kind in layout else None
            for kind, tensors in (("columns", columns), ("rows", rows))
            for name, tensor in tensors.items()
        ]
        self.grad = given(grad, "grad")


def run(batch, grad, wanted=NAMES, seed=0, check=True):
    """What the kernels make of a batch: the posterior, and the gradients that are wanted."""
    logits, _, parts, _ = batch
    wide = parts.dtype
    with Emulator(kernels(check), seed=seed) as gpu:
        given = Inputs(gpu, batch, grad, ("columns", "rows"))
        n, c, r = given.sizes
        matrices = (given.weights, *given.matrices)
        out, row_sums = gpu.output((n, c), wide, name="out"), gpu.output((n, c), wide, name="sums")
        size = gpu.call(f"forward_scratch_{given.name}", *matrices, *given.sizes)
        scratch = gpu.output(size, wide, name="scratch")
        if n:
            arguments = (given.logits, *matrices, out, row_sums, scratch, *given.sizes)
            assert gpu.call(f"forward_{given.name}", *arguments) == 0
        size = gpu.call(f"backward_scratch_{given.name}", *matrices, *given.sizes)
        scratch = gpu.output(size, wide, name="scratch")
        shapes = {"logits": (n, c), "weights": (n, r), "parts": (c, r, c), "slack": (c, c)}
        inputs = dict(zip(NAMES, batch, strict=True))
        grads = {
            label: gpu.output(shape, logits.dtype if label == "logits" else wide, name=f"d{label}")
            for label, shape in shapes.items()
            if label in wanted and inputs[label] is not None
        }
        outputs = (grads.get(label) for label in NAMES)
        arguments = (given.logits, *matrices, given.grad, row_sums, *outputs, scratch)
        assert gpu.call(f"backward_{given.name}", *arguments, *given.sizes) == 0
        result = {label: array.get() for label, array in grads.items()}
        if "parts" in result:
            result["parts"] = result["parts"].permute(1, 2, 0).reshape(parts.shape)
        return out.get(), result


def run_tiled(batch, grad, sharing=804, layout=("columns", "rows"), seed=0, factors=False):
    """Posterior and gradient of the logits by the tiled kernels, however few the samples."""
    logits, _, parts, _ = batch
    with Emulator(kernels(), seed=seed) as gpu:
        given = Inputs(gpu, batch, grad, layout)
        n, c, _ = given.sizes
        out, sums, entries, rows = (
            gpu.output((n, c), parts.dtype, name=name)
            for name in ("out", "sums", "entries", "rows")
        )
        dz = gpu.output((n, c), logits.dtype, name="dlogits")
        arguments = (given.logits, given.weights, *given.matrices, given.grad, out, sums, dz)
        arguments += (entries, rows) if factors else (None, None)
        assert gpu.call(f"tiled_{given.name}", *arguments, *given.sizes, sharing) == 0
        result = {"logits": dz.get()}
        if factors:
            result |= {"entries": entries.get(), "rows": rows.get()}
        return out.get(), result


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
@pytest.mark.parametrize("sharing", [804, 808])
@pytest.mark.parametrize("c", [1, 2, 7, 10, 11, 14, 16])
@pytest.mark.parametrize(("n", "r"), [(1, 3), (31, 1), (32, 12), (33, 5), (131, 8)])
def test_lanes(n, r, c, sharing, slack):
    check(batch_of(n, c, r, slack, seed=n + c), seed=n, sharing=sharing)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize(
    ("c", "sharing", "r"),
    [(10, 804, 20), (10, 808, 30), (10, 1604, 24), (10, 1608, 40), (14, 808, 20), (16, 1608, 33)],
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
@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize("c", [34, 36])
def test_one_layout_of_the_parts(c, layout, slack):
    check(batch_of(9, c, 3, slack, seed=c), sharing=0, layout=(layout,))


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("c", [10, 15, 35, 48])
def test_tiled_types(c, dtype, slack):
    check(batch_of(33, c, 4, slack, dtype, seed=c), sharing=804)


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("c", [10, 16, 33, 50])
def test_one_matrix(c, slack):
    check(batch_of(19, c, 0, slack, seed=c), sharing=808)


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
    assert [launch.kernel.split("<")[0] for launch in launches] == [
        "noisy_posterior_warps",
        "noisy_posterior_backward_warps",
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
