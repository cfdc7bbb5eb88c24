// The glue between torch's tensors and the launchers: the device and the stream that a launch
// belongs to, pointers, views, and where operators are registered:
//   PTD_CUDA_OPERATORS(m) { m.impl(...); }.
//
// Under the emulator device memory is the host's: the same operators then take CPU tensors, and
// stand beside the real ones as torch.ops.ptd_emulated.
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

// Makes a tensor's device the current one for as long as this lives.
class OnDevice {
 public:
  explicit OnDevice(const Tensor& tensor) : guard_(tensor.get_device_index()) {
    void* stream = nullptr;
    STABLE_TORCH_ERROR_CODE_CHECK(
        aoti_torch_get_current_cuda_stream(tensor.get_device_index(), &stream));
    stream_ = static_cast<cudaStream_t>(stream);
  }

  // torch's current stream there.
  cudaStream_t stream() const { return stream_; }

 private:
  torch::stable::accelerator::DeviceGuard guard_;
  cudaStream_t stream_;
};

#endif

// Reports a launch that failed; what a kernel does is known only later, and not waited for.
inline void check_launch(const char* op, cudaError_t error) {
  if (error == cudaSuccess) return;
  refuse(std::string(op) + ": a CUDA kernel could not be launched: " + cudaGetErrorString(error) +
         ".");
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

// The memory of a tensor, for a kernel. The emulator of the tests lets kernels touch no other: from
// the tensor's first number to its last, whatever else its storage holds.
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
