// Stands in for torch's libtorch_cuda when linking against a CPU torch; never called, not shipped.
#include <cstdint>

extern "C" __attribute__((visibility("default"))) int32_t
aoti_torch_get_current_cuda_stream(int32_t /*device_index*/, void** stream) {
  *stream = nullptr;
  return 0;
}
