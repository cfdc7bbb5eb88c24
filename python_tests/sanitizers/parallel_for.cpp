// torch's parallel_for as std::thread, for the build with ThreadSanitizer: what orders the threads
// of an OpenMP library that is not instrumented it cannot see, and would report races everywhere.
#include <torch/csrc/stable/c/shim.h>

#include <exception>
#include <thread>
#include <vector>

extern "C" {

AOTITorchError torch_get_num_threads(uint32_t* threads) {
  *threads = 4;
  return AOTI_TORCH_SUCCESS;
}

AOTITorchError torch_parallel_for(int64_t begin, int64_t end, int64_t grain, ParallelFunc body,
                                  void* context) {
  std::vector<std::thread> threads;
  for (int64_t first = begin; first < end; first += grain) {
    const int64_t last = end - first < grain ? end : first + grain;
    threads.emplace_back([=] { body(first, last, context); });
  }
  for (std::thread& thread : threads) thread.join();
  return AOTI_TORCH_SUCCESS;
}

}  // extern "C"
