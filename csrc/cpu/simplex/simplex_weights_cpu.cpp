#include "simplex_weights.h"

#include <torch/csrc/stable/library.h>

#include <algorithm>

#include "inputs.h"

namespace ptd {
namespace {

template <class T>
WeightProblem<T> problem_of(const WeightProblems& all, const Tensor& weights, int64_t which) {
  const auto data_of = [](const Tensor& tensor) {
    return static_cast<const T*>(tensor.data_ptr());
  };
  const int64_t parts = all.sizes.parts, rows = which * all.sizes.rows * parts;
  return {
      .parts = parts,
      .contraction = data_of(all.contraction) + which * parts * parts,
      .step = data_of(all.step)[which],
      .shift = data_of(all.shift) + which * parts,
      .linear = data_of(all.linear) + rows,
      .start = all.start ? data_of(*all.start) + rows : nullptr,
      .weights = static_cast<T*>(weights.data_ptr()) + rows,
      .max_iter = all.max_iter,
      .tol = T(all.tol),
  };
}

struct SimplexWeightsCpu {
  template <class T>
  static void solve(const WeightProblems& all, const Tensor& weights) {
    const Kernels<T>& table = kernels<T>();
    const int64_t batch = all.sizes.batch, rows = all.sizes.rows;
    const double parts = double(all.sizes.parts);
    // The rows of all problems form one sequence, so that threads divide them evenly.
    const Ranges ranges(batch * rows, double(all.max_iter + 1) * parts * (parts + 15));
    ranges.run([&](int64_t, int64_t begin, int64_t end) {
      Buffer scratch(Buffer::bytes_for<T>(table.simplex_weights_scratch(all.sizes.parts)));
      while (begin < end) {
        const int64_t which = begin / rows, first = which * rows;
        const int64_t stop = std::min(end, first + rows);
        table.simplex_weights(problem_of<T>(all, weights, which), begin - first, stop - first,
                              reinterpret_cast<T*>(scratch.data()));
        begin = stop;
      }
    });
  }
};

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) {
  m.impl("simplex_weights", TORCH_BOX(&simplex_weights<SimplexWeightsCpu>));
}

}  // namespace ptd
