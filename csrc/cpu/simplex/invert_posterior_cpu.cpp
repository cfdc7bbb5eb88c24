#include "invert_posterior.h"

#include <torch/csrc/stable/library.h>

#include "inputs.h"

namespace ptd {
namespace {

constexpr double kUsualSteps = 12;

Tensor invert_posterior_cpu(Tensor probs, OptionalTensor weights, Tensor parts, int64_t max_iter,
                            double tol) {
  const Sizes sizes = check_invert_posterior(probs, weights, parts, max_iter);
  const Tensor matrices = torch::stable::contiguous(parts);
  const OptionalTensor shares = contiguous(weights);
  return map_rows(probs, [&]<class T>(const Tensor& rows, const Tensor& clean) {
    const InversionProblem<T> problem = {
        .classes = sizes.classes,
        .parts = sizes.parts,
        .probs = static_cast<const T*>(rows.data_ptr()),
        .weights = shares ? static_cast<const T*>(shares->data_ptr()) : nullptr,
        .matrices = static_cast<const T*>(matrices.data_ptr()),
        .clean = static_cast<T*>(clean.data_ptr()),
        .max_iter = max_iter,
        .tol = T(tol),
    };
    const Kernels<T>& table = kernels<T>();
    const double products = kUsualSteps + double(weights ? sizes.parts : 0);
    const Ranges ranges(sizes.samples, products * double(sizes.classes * sizes.classes));
    ranges.run([&](int64_t, int64_t begin, int64_t end) {
      Buffer scratch(Buffer::bytes_for<T>(table.invert_posterior_scratch(problem)));
      table.invert_posterior(problem, begin, end, reinterpret_cast<T*>(scratch.data()));
    });
  });
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) {
  m.impl("invert_posterior", TORCH_BOX(&invert_posterior_cpu));
}

}  // namespace ptd
