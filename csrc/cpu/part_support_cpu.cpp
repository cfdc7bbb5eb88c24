#include <torch/csrc/stable/library.h>

#include "decision.h"

namespace ptd {
namespace {

template <class T>
Tensor support_of(const Tensor& parts) {
  const int64_t classes = parts.size(-1), count = parts.dim() == 3 ? parts.size(0) : 1;
  const BatchInputs<T> inputs({0, classes, count}, std::nullopt, parts, std::nullopt);
  return make_support(inputs.batch);
}

Tensor part_support(Tensor parts) {
  const bool is_double = parts.scalar_type() == ScalarType::Double;
  if ((parts.dim() != 2 && parts.dim() != 3) || parts.size(-1) != parts.size(-2) ||
      parts.numel() == 0 || (!is_double && parts.scalar_type() != ScalarType::Float)) {
    refuse(
        "part_support: parts must be [R, C, C] or [C, C], float32 or float64, and not empty; got " +
        shape_text(parts) + ", " + dtype_text(parts.scalar_type()) + ".");
  }
  return is_double ? support_of<double>(parts) : support_of<float>(parts);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) { m.impl("part_support", TORCH_BOX(&part_support)); }

}  // namespace ptd
