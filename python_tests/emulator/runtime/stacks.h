// Stacks for fibers, each above an unmapped page that turns an overflow into a fault.
#pragma once

#include <cstddef>
#include <vector>

namespace cuda_emulator {

class Stacks {
 public:
  static constexpr size_t kBytes = 128 * 1024;

  // The stack returned last is handed out first: it is the one in the cache, and threads that meet
  // no barrier all run on the same one.
  char* take();
  void give_back(char* stack) { free_.push_back(stack); }
  void give_back_all();

  static bool contains(const char* stack, const void* address) {
    return static_cast<size_t>(static_cast<const char*>(address) - stack) < kBytes;
  }
  bool is_guard(const void* address) const;

 private:
  std::vector<char*> all_;
  std::vector<char*> free_;
};

}  // namespace cuda_emulator
