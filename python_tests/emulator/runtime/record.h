// A record of what launches ask for and what they move, for tests and tables.
//
// Traffic on global memory is counted in sectors of 32 bytes, the unit in which a GPU moves it,
// under four assumptions on the caches:
//   requested   none: the distinct sectors of each access of a warp. The lanes' n-th passages of
//   one
//               place in the code are taken for one access;
//   block       a block's own: the distinct sectors that each block touches;
//   near        one of all blocks that run at about the same time: as before, but less those that
//               a block shortly before in the grid touches too;
//   launch      one that holds everything: the distinct sectors of the launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "memory.h"
#include "race.h"

namespace cuda_emulator {

enum class Recording { off, launches, traffic };  // `launches` runs no kernel

struct Sectors {
  uint64_t accessed = 0;  // bytes, thread by thread
  uint64_t requested = 0;
  std::vector<std::pair<uint64_t, uint64_t>> touches;  // each sector with each block
};

class Record {
 public:
  Recording mode = Recording::off;

  void start_launch(const std::string& kernel, uint64_t blocks, uint32_t threads,
                    size_t shared_bytes);
  void end_block(uint64_t number);
  void end_launch();
  void on_access(const Array& array, const void* address, size_t bytes, Touch touch,
                 const void* code);
  std::string take();

 private:
  struct Touched {
    const Array* array;
    bool writes;
    uint64_t access;  // which one of which warp
    uint64_t sector;
    auto operator<=>(const Touched&) const = default;
  };

  std::map<std::pair<std::string, bool>, Sectors> arrays_;
  std::vector<Touched> touched_;                                     // in this block
  std::vector<std::unordered_map<const void*, uint32_t>> passages_;  // by thread and place
  std::string text_;
  uint64_t near_ = 0;  // blocks
};

extern Record record;

}  // namespace cuda_emulator
