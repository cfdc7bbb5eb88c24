"""Runs the emulated CUDA kernels of noisy_posterior on torch tensors."""

import functools
from pathlib import Path

import torch
from emulator.harness import Emulator, compile_kernels

from ptd_ext import reference

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

// The tiled mappings at sizes for which the launchers choose others: sharing is 100 times the warps
// of a block and, above sixteen classes, how many of them multiply.
template <class Plan>
Plan loading_plan(const TransitionBatch<float>& batch, int64_t sharing) {
  return sharing ? Plan(batch, int(sharing / 100), int(sharing % 100)) : Plan(batch);
}
#define BIND_TILED(name, Z)                                                                      \\
  extern "C" int tiled_##name(const Z* logits, const float* weights, MATRICES(float),            \\
                              const float* grad, float* posterior, float* row_sums, Z* dz,       \\
                              float* entries, float* rows_of_grad, SIZES, int64_t sharing) {     \\
    const TransitionBatch<float> batch = BATCH(float);                                           \\
    if (c <= 16) {                                                                               \\
      const LanesPlan plan(batch, int(sharing / 100));                                           \\
      if (!plan.grid) return -1;                                                                 \\
      launch_lanes(plan, batch, logits, posterior, row_sums, nullptr);                           \\
      launch_lanes_backward(plan, batch, logits, grad, row_sums, dz, entries, rows_of_grad,      \\
                            nullptr);                                                            \\
    } else if (!has_slack(batch)) {                                                              \\
      const ProductPlan plan = loading_plan<ProductPlan>(batch, sharing);                        \\
      if (!plan.grid) return -1;                                                                 \\
      launch_product(plan, batch, logits, posterior, nullptr);                                   \\
      launch_product_backward(plan, batch, logits, grad, dz, entries, nullptr);                  \\
    } else {                                                                                     \\
      const WarpsPlan plan = loading_plan<WarpsPlan>(batch, sharing);                            \\
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
    """A batch in the emulator's memory; what `off` names begins off a 16-byte boundary."""

    def __init__(self, gpu, batch, grad, layout, off=()):
        logits, weights, parts, slack = batch
        (n, c), r = logits.shape, 1 if weights is None else weights.shape[1]
        self.sizes = (n, c, r)
        self.name = str(logits.dtype).removeprefix("torch.")
        parts = parts if parts.dim() == 3 else parts[None]
        columns = {"parts": parts.permute(2, 0, 1), "slack": None if slack is None else slack.t()}
        rows = {"parts": parts, "slack": slack}

        def given(tensor, name):
            return None if tensor is None else gpu.input(tensor, name=name)

        def placed(tensor, name):
            if tensor is None or name not in off:
                return given(tensor, name)
            numbers = torch.cat([tensor.new_full((1,), torch.nan), tensor.flatten()])
            return given(numbers, name).pointer + tensor.element_size()

        self.logits, self.weights = placed(logits, "logits"), placed(weights, "weights")
        self.matrices = [
            placed(tensor, name) if kind in layout else None
            for kind, tensors in (("columns", columns), ("rows", rows))
            for name, tensor in tensors.items()
        ]
        self.grad = placed(grad, "grad")


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


def run_tiled(batch, grad, sharing=804, layout=("columns", "rows"), seed=0, factors=False, off=()):
    """Posterior and gradient of the logits by the tiled kernels, however few the samples."""
    logits, _, parts, _ = batch
    with Emulator(kernels(), seed=seed) as gpu:
        given = Inputs(gpu, batch, grad, layout, off)
        n, c, _ = given.sizes

        def output(name, dtype=parts.dtype):
            # Arrays end at a boundary of their alignment: one number more, and they begin off it.
            more, align = (1, dtype.itemsize) if name in off else (0, 16)
            return gpu.output(n * c + more, dtype, name=name, align=align)

        out, sums, entries, rows = map(output, ("out", "sums", "entries", "rows"))
        dz = output("dlogits", logits.dtype)
        arguments = (given.logits, given.weights, *given.matrices, given.grad, out, sums, dz)
        arguments += (entries, rows) if factors else (None, None)
        assert gpu.call(f"tiled_{given.name}", *arguments, *given.sizes, sharing) == 0
        outputs = {"logits": dz}
        if factors:
            outputs |= {"entries": entries, "rows": rows}
        result = {name: array.get()[: n * c].view(n, c) for name, array in outputs.items()}
        return out.get()[: n * c].view(n, c), result
