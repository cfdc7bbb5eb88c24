// The seeded choices: order of blocks, order of threads, switches between accesses.
#pragma once

#include <cstdint>

namespace cuda_emulator {

// splitmix64: any seed, zero included, gives a good stream.
class Random {
 public:
  explicit Random(uint64_t seed = 0) : state_(seed) {}

  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint32_t below(uint32_t bound) { return ((next() >> 32) * bound) >> 32; }

 private:
  uint64_t state_;
};

}  // namespace cuda_emulator
