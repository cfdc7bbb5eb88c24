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
using namespace ptd;
#define BIND(name, Z, T)                                                                         \\
  extern "C" int forward_##name(const Z* logits, const T* weights, const T* columns,             \\
                                const T* slack, T* posterior, T* row_sums, T* scratch,           \\
                                int64_t n, int64_t c, int64_t r) {                               \\
    const TransitionBatch<T> batch{weights, columns, slack, n, int(c), int(r)};                  \\
    return launch_noisy_posterior<Z, T>(batch, logits, posterior, row_sums, scratch, nullptr);   \\
  }                                                                                              \\
  extern "C" int64_t forward_scratch_##name(int64_t n, int64_t c, int64_t r) {                   \\
    return noisy_posterior_scratch(                                                              \\
        TransitionBatch<T>{nullptr, nullptr, nullptr, n, int(c), int(r)});                       \\
  }                                                                                              \\
  extern "C" int64_t backward_scratch_##name(const T* weights, const T* slack, int64_t n,        \\
                                             int64_t c, int64_t r) {                             \\
    return noisy_posterior_backward_scratch(                                                     \\
        TransitionBatch<T>{weights, nullptr, slack, n, int(c), int(r)});                         \\
  }                                                                                              \\
  extern "C" int backward_##name(const Z* logits, const T* weights, const T* columns,            \\
                                 const T* slack, const T* grad, const T* row_sums, Z* dz, T* dh, \\
                                 T* dp, T* ds, T* scratch, int64_t n, int64_t c, int64_t r) {    \\
    const TransitionBatch<T> batch{weights, columns, slack, n, int(c), int(r)};                  \\
    const PosteriorGradients<Z, T> grads{dz, dh, dp, ds, c, 1};                                  \\
    return launch_noisy_posterior_backward<Z, T>(batch, logits, grad, row_sums, grads, scratch,  \\
                                                 nullptr);                                       \\
  }
BIND(float32, float, float)
BIND(float64, double, double)
BIND(float16, Half, float)
BIND(bfloat16, BFloat16, float)
// The kernels of many samples of 65 to 128 classes, for few of them.
extern "C" int fused(const float* logits, const float* weights, const float* columns,
                     const float* slack, const float* grad, float* posterior, float* row_sums,
                     float* dz, int64_t n, int64_t c, int64_t r) {
  const TransitionBatch<float> batch{weights, columns, slack, n, int(c), int(r)};
  const unsigned grid = (n + 15) / 16;
  const size_t shared = 4 * sizeof(Four<float>) * r;
  float* const none = nullptr;
  PTD_LAUNCH((noisy_posterior_narrow<32, 4, float, float>), grid, 128, shared, nullptr, batch,
             logits, posterior, row_sums);
  PTD_LAUNCH((noisy_posterior_narrow_backward<32, 4, float, float>), grid, 128, shared, nullptr,
             batch, logits, grad, row_sums, dz, none, none);
  return cudaGetLastError();
}
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


def run(batch, grad, wanted=NAMES, seed=0, check=True):
    """What the kernels make of a batch: the posterior, and the gradients that are wanted."""
    logits, weights, parts, slack = batch
    (n, c), r = logits.shape, 1 if weights is None else weights.shape[1]
    name = str(logits.dtype).removeprefix("torch.")
    columns = (parts if parts.dim() == 3 else parts[None]).permute(2, 0, 1)
    wide = parts.dtype
    with Emulator(kernels(check), seed=seed) as gpu:
        z, h, p, s = (
            None if t is None else gpu.input(t, name=label)
            for t, label in zip((logits, weights, columns, None), NAMES, strict=True)
        )
        s = None if slack is None else gpu.input(slack.t(), name="slack")
        out, row_sums = gpu.output((n, c), wide, name="out"), gpu.output((n, c), wide, name="sums")
        sizes = (n, c, r)
        scratch = gpu.output(gpu.call(f"forward_scratch_{name}", *sizes), wide, name="scratch")
        if n:
            assert gpu.call(f"forward_{name}", z, h, p, s, out, row_sums, scratch, *sizes) == 0
        size = gpu.call(f"backward_scratch_{name}", h, s, *sizes)
        scratch = gpu.output(size, wide, name="scratch")
        shapes = {"logits": (n, c), "weights": (n, r), "parts": (c, r, c), "slack": (c, c)}
        given = dict(zip(NAMES, batch, strict=True))
        grads = {
            label: gpu.output(shape, logits.dtype if label == "logits" else wide, name=f"d{label}")
            for label, shape in shapes.items()
            if label in wanted and given[label] is not None
        }
        g = gpu.input(grad, name="grad")
        outputs = (grads.get(label) for label in NAMES)
        arguments = (z, h, p, s, g, row_sums, *outputs, scratch, *sizes)
        assert gpu.call(f"backward_{name}", *arguments) == 0
        result = {label: array.get() for label, array in grads.items()}
        if "parts" in result:
            result["parts"] = result["parts"].permute(1, 2, 0).reshape(parts.shape)
        return out.get(), result


def run_fused(batch, grad):
    """Posterior and gradient of the logits by the kernels that only many samples use."""
    logits, weights, parts, slack = batch
    (n, c), r = logits.shape, weights.shape[1]
    with Emulator(kernels()) as gpu:
        given = (
            logits,
            weights,
            parts.permute(2, 0, 1),
            None if slack is None else slack.t(),
            grad,
        )
        names = (*NAMES, "grad")
        inputs = [
            None if t is None else gpu.input(t, name=name)
            for t, name in zip(given, names, strict=True)
        ]
        outputs = [
            gpu.output((n, c), logits.dtype, name=name) for name in ("out", "sums", "dlogits")
        ]
        assert gpu.call("fused", *inputs, *outputs, n, c, r) == 0
        return outputs[0].get(), {"logits": outputs[2].get()}


def check(batch, wanted=NAMES, seed=0, watched=True, fused=False):
    logits, _, parts, _ = batch
    grad = torch.randn(logits.shape, dtype=parts.dtype)
    out, grads = run_fused(batch, grad) if fused else run(batch, grad, wanted, seed, watched)
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
@pytest.mark.parametrize("c", [66, 100, 128])
def test_several_classes_in_a_lane(c, slack):
    check(batch_of(17, c, 4, slack, seed=c), fused=True)


@pytest.mark.parametrize("slack", [False, True])
def test_many_samples_of_some_classes(slack):
    """So many that they take one launch."""
    with recording(traffic=True) as launches:
        check(batch_of(5_121, 33, 1, slack), wanted=("logits",), watched=False)
    assert [launch.kernel.split(",")[0] for launch in launches] == [
        "noisy_posterior_narrow<32",
        "noisy_posterior_narrow_backward<32",
    ]


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
    slack[:] = -2
    out, _ = run((logits, weights, parts, slack), torch.ones_like(logits))
    torch.testing.assert_close(out, torch.full_like(out, 1 / c))


@pytest.mark.parametrize("slack", [False, True])
@pytest.mark.parametrize("c", [6, 40])
def test_nan_stays_in_its_sample(c, slack):
    batch = batch_of(7, c, 3, slack)
    batch[0][2, 1] = torch.nan
    out, grads = run(batch, torch.ones_like(batch[0]), wanted=("logits",))
    for result in (out, grads["logits"]):
        assert result[2].isnan().all()
        assert not result[[0, 1, 3, 4, 5, 6]].isnan().any()


@pytest.mark.parametrize("c", [10, 40])
def test_order_of_threads_does_not_matter(c):
    batch = batch_of(33, c, 4, True)
    grad = torch.randn(batch[0].shape)
    first, first_grads = run(batch, grad, seed=0)
    for seed in range(1, 3):
        out, grads = run(batch, grad, seed=seed)
        assert torch.equal(out, first)
        assert all(torch.equal(grads[name], first_grads[name]) for name in NAMES)
