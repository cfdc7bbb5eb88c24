// Scratch memory from torch's allocator, so that torch's profiler sees it.
#pragma once

#include "tensor.h"

namespace ptd {

class Buffer {
 public:
  explicit Buffer(int64_t bytes) {
    const int64_t stride = 1;
    AtenTensorHandle handle;
    STABLE_TORCH_ERROR_CODE_CHECK(aoti_torch_empty_strided(
        1, &bytes, &stride, aoti_torch_dtype_uint8(), aoti_torch_device_type_cpu(), 0, &handle));
    tensor_ = Tensor(handle);
    data_ = static_cast<char*>(tensor_.data_ptr());
  }

  const Tensor& tensor() const { return tensor_; }
  char* data() const { return data_; }

  // The next `count` numbers. The caller has sized the buffer for everything that it takes.
  template <class T>
  T* take(int64_t count) {
    T* at = reinterpret_cast<T*>(data_ + used_);
    used_ += bytes_for<T>(count);
    return at;
  }

  template <class T>
  static int64_t bytes_for(int64_t count) {
    return (int64_t(sizeof(T)) * count + 63) / 64 * 64;
  }

 private:
  Tensor tensor_;
  char* data_;
  int64_t used_ = 0;
};

}  // namespace ptd
