#include "../simplex_projection.h"

#include <torch/csrc/stable/library.h>

#include "../map_rows.h"
#include "inputs.h"
#include "simplex_table.h"

namespace ptd {
namespace {

// About what a step of Newton's method costs per entry, times the usual number of steps.
constexpr double kWorkPerEntry = 12;

template <class T>
void forward(const Tensor& x, const Tensor& out) {
  const int64_t parts = x.size(-1);
  const SimplexKernels<T>& kernels = simplex_kernels<T>();
  const Ranges ranges(x.numel() / parts, kWorkPerEntry * double(parts));
  ranges.run([&](int64_t, int64_t begin, int64_t end) {
    Buffer scratch(Buffer::bytes_for<T>(kernels.project_scratch(parts)));
    kernels.project(static_cast<const T*>(x.data_ptr()), begin, end, parts,
                    reinterpret_cast<T*>(scratch.data()), static_cast<T*>(out.data_ptr()));
  });
}

template <class T>
void backward(const Tensor& grad, const Tensor& projected, const Tensor& out) {
  const int64_t parts = projected.size(-1);
  const Ranges ranges(projected.numel() / parts, 4.0 * double(parts));
  ranges.run([&](int64_t, int64_t begin, int64_t end) {
    simplex_kernels<T>().project_backward(static_cast<const T*>(grad.data_ptr()),
                                          static_cast<const T*>(projected.data_ptr()), begin, end,
                                          parts, static_cast<T*>(out.data_ptr()));
  });
}

Tensor simplex_projection(Tensor x) {
  check_simplex_projection(x);
  return map_rows(x, []<class T>(const Tensor& rows, const Tensor& out) { forward<T>(rows, out); });
}

Tensor simplex_projection_backward(Tensor grad, Tensor projected) {
  check_simplex_projection_backward(grad, projected);
  return map_rows_backward(grad, projected,
                           []<class T>(const Tensor& grads, const Tensor& rows, const Tensor& out) {
                             backward<T>(grads, rows, out);
                           });
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) {
  m.impl("simplex_projection", TORCH_BOX(&simplex_projection));
  m.impl("simplex_projection_backward", TORCH_BOX(&simplex_projection_backward));
}

}  // namespace ptd
