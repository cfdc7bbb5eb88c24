// Runs the blocks of a grid, one after another or several at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../api/vectors.h"

namespace cuda_emulator {

struct GridSettings {
  uint64_t seed = 0;
  uint32_t interleave = 1;  // blocks that are resident at once
};

extern GridSettings grid_settings;

void run_grid(dim3 grid, dim3 block_size, size_t shared_bytes);

}  // namespace cuda_emulator
