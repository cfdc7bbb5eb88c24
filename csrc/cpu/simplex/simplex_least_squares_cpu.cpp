#include "simplex_least_squares.h"

#include <torch/csrc/stable/library.h>

#include <algorithm>

#include "inputs.h"

namespace ptd {
namespace {

constexpr int64_t kScratchBytes = 512 << 20;  // for all threads, unless one thread needs more
constexpr double kUsualSteps = 20;

Tensor simplex_least_squares_cpu(Tensor gram, Tensor right) {
  check_simplex_least_squares(gram, right);
  const Tensor matrices = torch::stable::contiguous(gram);
  return map_rows(right, [&]<class T>(const Tensor& linear, const Tensor& rows) {
    const int64_t problems = right.size(0), parts = right.size(1), columns = right.size(2);
    const Kernels<double>& table = kernels<double>();
    const int64_t bytes =
        Buffer::bytes_for<double>(table.simplex_least_squares_scratch(parts, columns));
    const double r = double(parts);
    const double work = kUsualSteps * double(columns) * r * r * (r / 2 + 5);
    const Ranges ranges(problems, work, std::max<int64_t>(1, kScratchBytes / bytes), 1);
    ranges.run([&](int64_t, int64_t begin, int64_t end) {
      Buffer scratch(bytes);
      for (int64_t which = begin; which < end; ++which) {
        const int64_t at = which * parts * columns;
        const LeastSquaresProblem<double> problem = {
            .parts = parts,
            .columns = columns,
            .gram = static_cast<const double*>(matrices.data_ptr()) + which * parts * parts,
            .right = static_cast<const double*>(linear.data_ptr()) + at,
            .rows = static_cast<double*>(rows.data_ptr()) + at,
        };
        table.simplex_least_squares(problem, reinterpret_cast<double*>(scratch.data()));
      }
    });
  });
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) {
  m.impl("simplex_least_squares", TORCH_BOX(&simplex_least_squares_cpu));
}

}  // namespace ptd
