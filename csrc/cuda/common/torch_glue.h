// The glue between torch's tensors and the launchers: the device and the stream of a launch,
// pointers, views, and the registration of operators:
//   PTD_CUDA_OPERATORS(m) { m.impl(...); }.
//
// Under the emulator device memory is host memory: the same operators then take CPU tensors, and
// are registered as torch.ops.ptd_emulated.
#pragma once

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/library.h>

#include "common/types.h"
#include "tensor.h"

#if defined(PTD_CUDA_EMULATOR)
#define PTD_CUDA_OPERATORS(m) STABLE_TORCH_LIBRARY_IMPL(ptd_emulated, CPU, m)
#else
#define PTD_CUDA_OPERATORS(m) STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CUDA, m)
#endif

namespace ptd {

#if defined(PTD_CUDA_EMULATOR)

class OnDevice {
 public:
  explicit OnDevice(const Tensor&) {}
  cudaStream_t stream() const { return nullptr; }
};

#else

// Makes a tensor's device the current one during the lifetime of this object.
class OnDevice {
 public:
  explicit OnDevice(const Tensor& tensor) : guard_(tensor.get_device_index()) {
    void* stream = nullptr;
    STABLE_TORCH_ERROR_CODE_CHECK(
        aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream));
    stream_ = static_cast<cudaStream_t>(stream);
  }

  // torch's current stream on that device.
  cudaStream_t stream() const { return stream_; }

 private:
  torch::stable::accelerator::DeviceGuard guard_;
  cudaStream_t stream_;
};

#endif

// Raises if a launch failed. Errors inside a kernel appear later; nothing waits for them here.
inline void check_launch(const char* op, cudaError_t error) {
  if (error == cudaSuccess) return;
  raise_error(std::string(op) +
              ": a CUDA kernel could not be launched: " + cudaGetErrorString(error) + ".");
}

// run.template operator()<S>() with the type that a tensor is stored in.
template <class Run>
auto with_storage(const Tensor& tensor, const Run& run) {
  switch (tensor.scalar_type()) {
    case ScalarType::Double:
      return run.template operator()<double>();
    case ScalarType::Half:
      return run.template operator()<Half>();
    case ScalarType::BFloat16:
      return run.template operator()<BFloat16>();
    default:
      return run.template operator()<float>();
  }
}

// The memory of a tensor, for a kernel. Under the tests' emulator, kernels may access no other: the
// range from the tensor's first number to its last, even if its storage is larger.
template <class T>
T* pointer(const Tensor& tensor) {
#if defined(PTD_CUDA_EMULATOR)
  size_t extent = tensor.numel() > 0;
  for (int64_t d = 0; extent && d < tensor.dim(); ++d) {
    extent += (tensor.size(d) - 1) * tensor.stride(d);
  }
  cuda_emulator::watch(tensor.data_ptr(), extent * tensor.element_size());
#endif
  return static_cast<T*>(tensor.data_ptr());
}

template <class S>
Rows<const S> rows_of(const Tensor& tensor) {  // [rows, columns]
  return {pointer<const S>(tensor), tensor.stride(0), tensor.stride(1)};
}

}  // namespace ptd
