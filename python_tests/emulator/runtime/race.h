// Races on shared memory: two threads touch a byte, one of them writes, and no barrier orders the
// two accesses. Found from the order that barriers give (a happens-before relation), not from the
// order in which the fibers happen to run, so any schedule finds them.
//
// __syncthreads starts a new epoch of the block. Within an epoch, __syncwarp orders the lanes it
// meets: each lane counts its own syncs, and knows of every other lane of its warp the latest count
// whose accesses it comes after (a vector clock).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cuda_emulator {

enum class Touch : uint8_t { read, write, atomic };
const char* verb(Touch touch);  // "reads"

// An access of one thread: when, who, and from where in the code.
struct Access {
  uint32_t epoch = 0;
  uint32_t clock = 0;
  uint32_t thread = 0;
  const void* code = nullptr;

  // True for accesses of one thread with no barrier between them.
  bool same_moment(const Access& other) const {
    return epoch == other.epoch && clock == other.clock && thread == other.thread;
  }
};

// The reads of several threads since the last write. Exact: readers of one warp are kept lane by
// lane; as soon as a second warp reads in the same epoch, one reader of it is enough, for whichever
// thread writes next is in another warp than one of the two.
struct AccessSet {
  Access latest;
  Access other_warp;
  uint32_t lanes = 0;  // index into the pool of per-lane records; 0 for none
};

struct Cell {
  Access write;
  AccessSet reads;
  AccessSet atomics;
  uint32_t written_in_block = 0;
};

// Shared memory of one kind, static or dynamic, with one cell for each byte.
struct SharedRegion {
  const char* kind = "";
  char* begin = nullptr;
  size_t bytes = 0;
  std::vector<Cell> cells;

  bool contains(const void* address) const {
    return static_cast<size_t>(static_cast<const char*>(address) - begin) < bytes;
  }
  void set(const char* kind, char* begin, size_t bytes);
};

class Races {
 public:
  // True if a read of shared memory that no thread of the block has written is an error.
  static inline bool check_initialised = true;

  void start_block();
  void block_barrier();
  void warp_barrier(uint32_t warp, unsigned mask);

  // Fails if the access of the current thread races with an earlier one.
  void on_access(SharedRegion& region, const void* address, size_t bytes, Touch touch,
                 const void* code);

  // These return an access of the current thread, and the latest clock of each lane of its warp
  // whose accesses it comes after.
  Access now(const void* code) const;
  const std::array<uint32_t, 32>& known_clocks() const;

 private:
  using Lanes = std::array<Access, 32>;
  using Clocks = std::array<std::array<uint32_t, 32>, 32>;

  bool ordered(const Access& earlier) const;
  const Access* unordered(const AccessSet& set) const;
  const Access* unordered(const Access& access) const;
  void add(AccessSet& set, const Access& access);

  uint32_t epoch_ = 0;
  uint32_t block_ = 0;
  std::vector<Clocks> clocks_;  // [warp][lane][lane it knows of]
  std::vector<Lanes> pool_;
};

extern Races races;

}  // namespace cuda_emulator
