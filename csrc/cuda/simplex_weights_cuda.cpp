#include "../simplex_weights.h"

#include <torch/csrc/stable/ops.h>

#include "on_device.h"
#include "simplex_weights.h"

namespace ptd {
namespace {

template <class T>
void solve(const Tensor& contraction, const Tensor& step, const Tensor& shift, const Tensor& linear,
           const OptionalTensor& start, int64_t steps, double tolerance, const WeightSizes& sizes,
           const Tensor& out) {
  const WeightArgs<T> args = {
      .contraction = pointer<T>(contraction),
      .step = pointer<T>(step),
      .shift = pointer<T>(shift),
      .linear = pointer<T>(linear),
      .start = start ? pointer<T>(*start) : nullptr,
      .weights = pointer<T>(out),
      .batch = sizes.batch,
      .rows = sizes.rows,
      .parts = static_cast<int>(sizes.parts),
      .steps = steps,
      .tolerance = static_cast<T>(tolerance),
  };
  const OnDevice device(linear);
  check_launch("simplex_weights", launch_simplex_weights(args, device.stream()));
}

Tensor simplex_weights(Tensor contraction, Tensor step, Tensor shift, Tensor linear,
                       std::optional<Tensor> start, int64_t steps, double tolerance) {
  const WeightSizes sizes = check_simplex_weights(contraction, step, shift, linear, start, steps);
  const auto dense = [](const Tensor& tensor) { return torch::stable::contiguous(tensor); };
  const Tensor rows = dense(linear);
  OptionalTensor from;
  if (start) from = dense(*start);
  Tensor out = fresh(torch::stable::empty_like(rows));
  if (out.numel() == 0) return out;
  const auto run = linear.scalar_type() == ScalarType::Double ? solve<double> : solve<float>;
  run(dense(contraction), dense(step), dense(shift), rows, from, steps, tolerance, sizes, out);
  return out;
}

}  // namespace

PTD_CUDA_OPERATORS(m) { m.impl("simplex_weights", TORCH_BOX(&simplex_weights)); }

}  // namespace ptd
