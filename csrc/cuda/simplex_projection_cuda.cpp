#include "../simplex_projection.h"

#include <torch/csrc/stable/ops.h>

#include "on_device.h"
#include "simplex_projection.h"

namespace ptd {
namespace {

template <class T>
void forward(const Tensor& x, const Tensor& out) {
  const int64_t parts = x.size(-1);
  const OnDevice device(x);
  check_launch("simplex_projection",
               launch_simplex_projection(static_cast<const T*>(x.data_ptr()),
                                         static_cast<T*>(out.data_ptr()), x.numel() / parts, parts,
                                         device.stream()));
}

template <class T>
void backward(const Tensor& grad, const Tensor& projected, const Tensor& out) {
  const int64_t parts = projected.size(-1);
  const OnDevice device(projected);
  check_launch(
      "simplex_projection_backward",
      launch_simplex_projection_backward(
          static_cast<const T*>(grad.data_ptr()), static_cast<const T*>(projected.data_ptr()),
          static_cast<T*>(out.data_ptr()), projected.numel() / parts, parts, device.stream()));
}

Tensor simplex_projection(Tensor x) {
  check_simplex_projection(x);
  const Tensor rows = torch::stable::contiguous(x);
  Tensor out = torch::stable::empty_like(rows);
  if (rows.numel() == 0) return out;
  x.scalar_type() == ScalarType::Double ? forward<double>(rows, out) : forward<float>(rows, out);
  return out;
}

Tensor simplex_projection_backward(Tensor grad, Tensor projected) {
  check_simplex_projection_backward(grad, projected);
  const Tensor rows = torch::stable::contiguous(projected);
  const Tensor grads = torch::stable::contiguous(grad);
  Tensor out = torch::stable::empty_like(rows);
  if (rows.numel() == 0) return out;
  rows.scalar_type() == ScalarType::Double ? backward<double>(grads, rows, out)
                                           : backward<float>(grads, rows, out);
  return out;
}

}  // namespace

PTD_CUDA_OPERATORS(m) {
  m.impl("simplex_projection", TORCH_BOX(&simplex_projection));
  m.impl("simplex_projection_backward", TORCH_BOX(&simplex_projection_backward));
}

}  // namespace ptd
