// Helpers for torch's stable tensors: errors, strings for messages, and allocation.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/tensor.h>

#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>

#if defined(PTD_CUDA_EMULATOR)
#include "api/host.h"
#endif

namespace ptd {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// Raises for a bad argument. The message does not name the file and line of the check, which would
// not help the caller.
[[noreturn]] inline void raise_error(const std::string& message) {
  throw std::runtime_error(message);
}

inline std::string shape_text(const Tensor& tensor) {
  std::string text = "[";
  for (int64_t d = 0; d < tensor.dim(); ++d) {
    text += (d ? ", " : "") + std::to_string(tensor.size(d));
  }
  return text + "]";
}

inline std::string dtype_text(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Float:
      return "float32";
    case ScalarType::Double:
      return "float64";
    case ScalarType::Half:
      return "float16";
    case ScalarType::BFloat16:
      return "bfloat16";
    case ScalarType::Long:
      return "int64";
    case ScalarType::Int:
      return "int32";
    default:
      return std::string(torch::headeronly::toString(dtype));
  }
}

inline std::string device_text(const Tensor& tensor) {
  if (tensor.is_cpu()) return "cpu";
  return (tensor.is_cuda() ? "cuda:" : "device ") + std::to_string(tensor.get_device_index());
}

// float16 and bfloat16 are accumulated in float32.
inline ScalarType accumulation_type(ScalarType dtype) {
  return dtype == ScalarType::Double ? ScalarType::Double : ScalarType::Float;
}

inline int32_t shim_dtype(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Double:
      return aoti_torch_dtype_float64();
    case ScalarType::Half:
      return aoti_torch_dtype_float16();
    case ScalarType::BFloat16:
      return aoti_torch_dtype_bfloat16();
    default:
      return aoti_torch_dtype_float32();
  }
}

// Marks newly allocated memory: under the tests' emulator, kernels may write to no other memory.
inline Tensor fresh(Tensor tensor) {
#if defined(PTD_CUDA_EMULATOR)
  cuda_emulator::allocated(tensor.data_ptr(), tensor.numel() * tensor.element_size());
#endif
  return tensor;
}

// Calls torch's C shim: `empty` through the dispatcher looks up its name at every call, which is a
// large part of the time of a loss on a small batch.
inline Tensor empty_strided(std::initializer_list<int64_t> sizes,
                            std::initializer_list<int64_t> strides, ScalarType dtype,
                            const Tensor& beside) {
  AtenTensorHandle handle;
  int32_t device_type;
  STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(beside.get(), &device_type));
  STABLE_TORCH_ERROR_CODE_CHECK(
      aoti_torch_empty_strided(int64_t(sizes.size()), sizes.begin(), strides.begin(),
                               shim_dtype(dtype), device_type, beside.get_device_index(), &handle));
  return fresh(Tensor(handle));
}

inline Tensor empty(std::initializer_list<int64_t> sizes, ScalarType dtype, const Tensor& beside) {
  switch (sizes.size()) {
    case 0:
      return empty_strided({}, {}, dtype, beside);
    case 1:
      return empty_strided(sizes, {1}, dtype, beside);
    default:  // no caller needs more than two dimensions
      return empty_strided(sizes, {sizes.begin()[1], 1}, dtype, beside);
  }
}

}  // namespace ptd
