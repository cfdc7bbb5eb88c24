// Torch operators, called by name through torch's stable ABI, on the device of their arguments.
// Products use the `out` overloads: autocast does not cast those, and one buffer can serve several
// calls.
#pragma once

#include <torch/csrc/stable/ops.h>

#include <array>
#include <optional>

#include "tensor.h"

namespace ptd::aten {

template <class... Arguments>
Tensor call(const char* name, const char* overload, const Arguments&... arguments) {
  std::array<StableIValue, sizeof...(Arguments)> stack{torch::stable::detail::from(arguments)...};
  STABLE_TORCH_ERROR_CODE_CHECK(
      torch_call_dispatcher(name, overload, stack.data(), TORCH_ABI_VERSION));
  return torch::stable::detail::to<Tensor>(stack[0]);
}

// A view of the same memory with other sizes and strides, starting at element `offset`.
inline Tensor view(const Tensor& tensor, std::initializer_list<int64_t> sizes,
                   std::initializer_list<int64_t> strides, int64_t offset = 0) {
  AtenTensorHandle handle;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch__reinterpret_tensor(
      tensor.get(), int64_t(sizes.size()), sizes.begin(), strides.begin(), offset, &handle));
  return Tensor(handle);
}

inline void mul_out(const Tensor& a, const Tensor& b, const Tensor& out) {
  call("aten::mul", "out", a, b, out);
}

inline void mm_out(const Tensor& a, const Tensor& b, const Tensor& out) {
  call("aten::mm", "out", a, b, out);
}

inline void bmm_out(const Tensor& a, const Tensor& b, const Tensor& out) {
  call("aten::bmm", "out", a, b, out);
}

// The softmax of every row of a matrix, in the given type.
inline Tensor softmax(const Tensor& rows, ScalarType dtype) {
  return call("aten::softmax", "int", rows, int64_t(1), std::optional<ScalarType>(dtype));
}

inline Tensor softmax_backward(const Tensor& grad, const Tensor& softmax) {
  return call("aten::_softmax_backward_data", "", grad, softmax, int64_t(1), softmax.scalar_type());
}

}  // namespace ptd::aten
