// Memory that the code around the launches has from torch and hands to kernels. Two calls of that
// code say which: `allocated` for what it may write, `watch` for what a kernel is to see.
#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "../api/host.h"
#include "memory.h"
#include "record.h"
#include "report.h"

namespace cuda_emulator {

namespace {

struct Extent {
  char* begin;
  size_t bytes;

  bool contains(const Extent& other) const {
    return begin <= other.begin && other.begin + other.bytes <= begin + bytes;
  }
  bool overlaps(const Extent& other) const {
    return begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
};

struct Gone {
  std::string name;
  size_t bytes;
};

bool watching = false;
size_t count = 0;                          // arrays without a name
std::map<const void*, std::string> names;  // by first byte
std::vector<Extent> own;                   // extents that the running operator allocated
std::vector<Gone> gone;                    // arrays whose memory has been allocated anew

}  // namespace

void allocated(void* begin, size_t bytes) {
  constexpr int kPoison = 0xff;  // a NaN in every floating type, -1 in every integer
  if (bytes == 0) return;
  if (record.mode != Recording::launches) std::memset(begin, kPoison, bytes);
  if (!watching) return;
  // The memory may have been that of a tensor that has gone: it is another array from here on, so
  // that an operator names its arrays alike wherever the allocator puts them.
  const Extent extent{static_cast<char*>(begin), bytes};
  std::erase_if(own, [&](const Extent& other) { return other.overlaps(extent); });
  for (const Array& array : memory.arrays()) {
    if (array.borrowed() && extent.overlaps({array.begin(), array.bytes()})) {
      gone.push_back({array.name(), array.bytes()});
    }
  }
  memory.forget(extent.begin, bytes);
  own.push_back(extent);
}

void watch(void* begin, size_t bytes) {
  if (!watching || bytes == 0) return;
  const Extent extent{static_cast<char*>(begin), bytes};
  for (const Array& array : memory.arrays()) {
    if (array.begin() == begin && array.bytes() == bytes) return;
  }
  const auto name = names.find(begin);
  const bool writable = std::any_of(own.begin(), own.end(),
                                    [&](const Extent& other) { return other.contains(extent); });
  memory.borrow(name != names.end() ? name->second : format("scratch %zu", ++count), extent.begin,
                bytes, writable);
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

extern "C" {

// From here on borrowed arrays are watched, or no longer.
void cuda_emulator_watch_borrowed(int on) { watching = on != 0; }

// The array that starts there is called so until it is forgotten.
void cuda_emulator_name(const void* begin, const char* name) { names[begin] = name; }

// A line for each borrowed array: name, address of the first byte, bytes. The address is zero where
// other arrays have the memory by now. The caller owns nothing.
const char* cuda_emulator_borrowed() {
  static std::string text;
  text.clear();
  for (const Gone& array : gone) text += array.name + format("\t0\t%zu\n", array.bytes);
  for (const Array& array : memory.arrays()) {
    if (!array.borrowed()) continue;
    text += array.name() + format("\t%zu\t%zu\n", size_t(array.begin()), array.bytes());
  }
  return text.c_str();
}

void cuda_emulator_forget_borrowed() {
  memory.forget_borrowed();
  names.clear();
  own.clear();
  gone.clear();
  count = 0;
}
}
