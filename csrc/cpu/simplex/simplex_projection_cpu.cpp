#include "simplex_projection.h"

#include <torch/csrc/stable/library.h>

#include "inputs.h"

namespace ptd {
namespace {

// The approximate cost of a Newton step per entry, times the usual number of steps.
constexpr double kWorkPerEntry = 12;

struct SimplexProjectionCpu {
  template <class T>
  static void forward(const Tensor& x, const Tensor& projected) {
    const int64_t parts = x.size(-1);
    const Kernels<T>& table = kernels<T>();
    const Ranges ranges(x.numel() / parts, kWorkPerEntry * double(parts));
    ranges.run([&](int64_t, int64_t begin, int64_t end) {
      Buffer scratch(Buffer::bytes_for<T>(table.simplex_projection_scratch(parts)));
      table.simplex_projection(static_cast<const T*>(x.data_ptr()), begin, end, parts,
                               reinterpret_cast<T*>(scratch.data()),
                               static_cast<T*>(projected.data_ptr()));
    });
  }

  template <class T>
  static void backward(const Tensor& grad, const Tensor& projected, const Tensor& grad_x) {
    const int64_t parts = projected.size(-1);
    const Ranges ranges(projected.numel() / parts, 4.0 * double(parts));
    ranges.run([&](int64_t, int64_t begin, int64_t end) {
      kernels<T>().simplex_projection_backward(static_cast<const T*>(grad.data_ptr()),
                                               static_cast<const T*>(projected.data_ptr()), begin,
                                               end, parts, static_cast<T*>(grad_x.data_ptr()));
    });
  }
};

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) {
  m.impl("simplex_projection",
         TORCH_BOX((&row_operator<SimplexProjectionRows, SimplexProjectionCpu>)));
  m.impl("simplex_projection_backward",
         TORCH_BOX((&row_operator_backward<SimplexProjectionRows, SimplexProjectionCpu>)));
}

}  // namespace ptd
