// Races between blocks on global memory: two blocks touch a byte, one of them writes, and nothing
// orders the two accesses. As with shared memory (race.h) they are found from a happens-before
// relation, so any schedule finds them. No write is held back: a thread that could tell whether it
// sees one is reported instead.
//
// Strong accesses, atomic or volatile, never race with each other. Any other access comes before
// one of another block if
//   - a __threadfence() has published it: of the same thread, or of one that comes after the access
//     by __syncthreads or __syncwarp;
//   - the block that published it then made a strong write, and the other block made a strong read
//     of that place later on, or of one to which the news was passed on in the same way.
// Strong accesses count as published at once. The news reaches a block, not one of its threads, and
// needs no fence to be used: within a block, races on the shared memory by which threads pass it on
// are found anyway.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "../api/vectors.h"
#include "memory.h"
#include "race.h"

namespace cuda_emulator {

struct GlobalAccess {
  static constexpr uint32_t kNobody = ~uint32_t{0};
  uint64_t time = 0;
  Access thread;
  uint32_t block = kNobody;  // Block::order()
  Touch touch = Touch::read;
  bool strong = false;
};

// The latest read since the last write is kept, and the latest of another block: whichever block
// writes next, one of the two is not its own.
struct GlobalCell {
  GlobalAccess write, read, other_read;
};

class GlobalRaces {
 public:
  void start_launch();
  void end_launch();
  bool watching() const { return watching_; }

  // Returns its order among the blocks.
  uint32_t start_block(uint3 index);

  // The rest is called by the running thread.
  void fence();
  // Fails if the access races with an earlier one.
  void on_access(const Array& array, const void* address, size_t bytes, Touch touch,
                 const void* code, bool strong);

 private:
  static constexpr size_t kPage = 1024;  // bytes
  static constexpr uint64_t kNever = ~uint64_t{0};
  using Page = std::array<GlobalCell, kPage>;
  using Times = std::vector<uint64_t>;  // by block; zero where there is none

  struct Fence {
    uint64_t time;
    Access thread;
    std::array<uint32_t, 32> known;  // clocks of the lanes of its warp

    bool publishes(const Access& access) const;
  };

  struct BlockHistory {
    uint3 index;
    std::vector<Fence> fences;
    uint64_t last_weak = 0;  // the time of its last access that a fence may publish
    Times seen;              // its own strong writes, and those of others that it knows of
  };

  GlobalCell& cell(const char* address);
  void pass_on(const void* address, Touch touch);
  uint64_t published(const GlobalAccess& access) const;
  const GlobalAccess* conflict(const GlobalAccess& earlier, const GlobalAccess& access) const;

  bool watching_ = false;
  uint64_t time_ = 0;  // counts fences and strong accesses
  std::vector<BlockHistory> blocks_;
  std::unordered_map<const void*, Times> left_;  // by strong writes, at their address
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;
  uintptr_t recent_number_ = 0;
  Page* recent_ = nullptr;
};

extern GlobalRaces global_races;

}  // namespace cuda_emulator
