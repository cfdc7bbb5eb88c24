#include "../simplex_weights.h"

#include <torch/csrc/stable/library.h>

#include <algorithm>

#include "inputs.h"
#include "simplex_table.h"

namespace ptd {
namespace {

struct Problems {
  Tensor contraction, step, shift, linear;
  OptionalTensor start;
  int64_t steps;
  double tolerance;
};

template <class T>
const T* data_of(const Tensor& tensor) {
  return static_cast<const T*>(tensor.data_ptr());
}

template <class T>
WeightProblem<T> problem_of(const Problems& all, const Tensor& out, const WeightSizes& sizes,
                            int64_t which) {
  const int64_t parts = sizes.parts, rows = which * sizes.rows * parts;
  return {
      .parts = parts,
      .contraction = data_of<T>(all.contraction) + which * parts * parts,
      .step = data_of<T>(all.step)[which],
      .shift = data_of<T>(all.shift) + which * parts,
      .linear = data_of<T>(all.linear) + rows,
      .start = all.start ? data_of<T>(*all.start) + rows : nullptr,
      .weights = static_cast<T*>(out.data_ptr()) + rows,
      .steps = all.steps,
      .tolerance = T(all.tolerance),
  };
}

template <class T>
void solve(const Problems& all, const Tensor& out, const WeightSizes& sizes) {
  const SimplexKernels<T>& kernels = simplex_kernels<T>();
  const double parts = double(sizes.parts);
  // The rows of all problems in one sequence, so that threads share them evenly.
  const Ranges ranges(sizes.batch * sizes.rows, double(all.steps + 1) * parts * (parts + 15));
  ranges.run([&](int64_t, int64_t begin, int64_t end) {
    Buffer scratch(Buffer::bytes_for<T>(kernels.weights_scratch(sizes.parts)));
    while (begin < end) {
      const int64_t which = begin / sizes.rows, first = which * sizes.rows;
      const int64_t stop = std::min(end, first + sizes.rows);
      kernels.weights(problem_of<T>(all, out, sizes, which), begin - first, stop - first,
                      reinterpret_cast<T*>(scratch.data()));
      begin = stop;
    }
  });
}

Tensor simplex_weights(Tensor contraction, Tensor step, Tensor shift, Tensor linear,
                       std::optional<Tensor> start, int64_t steps, double tolerance) {
  const WeightSizes sizes = check_simplex_weights(contraction, step, shift, linear, start, steps);
  const auto dense = [](const Tensor& tensor) { return torch::stable::contiguous(tensor); };
  const Problems all = {dense(contraction), dense(step), dense(shift), dense(linear),
                        contiguous(start),  steps,       tolerance};
  Tensor out = torch::stable::empty_like(all.linear);
  if (out.numel() == 0) return out;
  linear.scalar_type() == ScalarType::Double ? solve<double>(all, out, sizes)
                                             : solve<float>(all, out, sizes);
  return out;
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) {
  m.impl("simplex_weights", TORCH_BOX(&simplex_weights));
}

}  // namespace ptd
