// Every tuning constant of the kernels. None has been measured on a GPU: they are chosen for an
// occupancy of one half (python_tests/occupancy checks that) and for vector loads.
#pragma once

#include "common/launch.h"

namespace ptd {

// Blocks that the registers of a multiprocessor must have room for, the second argument of
// __launch_bounds__. For newer GPUs ptxas needs a few registers more than for a V100: with as many
// blocks as there it would spill.
template <class T>
constexpr int resident_blocks(int of_v100) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  return sizeof(T) == 8 || __CUDA_ARCH__ >= 1000 ? of_v100 * 3 / 4 : of_v100;
#else
  return of_v100;
#endif
}

// column/: losses and clean_posterior.
constexpr int kThreadPerSampleClasses = 16;   // at most; a thread keeps all of them in registers
constexpr int kColumnThreads = 256;           // of a block with several samples
constexpr int kLabelChunk = 2048;             // samples whose labels one block looks through
constexpr int kBlockPerSampleThreads = 1024;  // at most
template <class T>
constexpr int kWarpPerSampleItems = 16 / int(sizeof(T));  // classes of a lane at most
template <class T>
constexpr int kBlockPerSampleItems = sizeof(T) == 4 ? 6 : 2;  // classes of a thread at most

// row_sums/
constexpr int kSignTableThreads = 512;
constexpr int kSignTableRows = 8;    // rows of a block; 8 floats are one sector
constexpr int kRowSumThreads = 128;  // samples of a block, at most
constexpr int kRowSumRows = 8;       // rows of T(x) + slack of a block
constexpr int kRowSumEntries = 4;    // entries evaluated at a time, loaded as one vector

// matrix/: noisy_posterior.
constexpr int kFusedPosteriorClasses = 16;   // at most: lanes of a group; more take matrix products
constexpr int kFusedPosteriorThreads = 256;  // of a block
constexpr int kPosteriorSamples = 4;         // samples of a thread, whose weights are one vector
constexpr int kPosteriorThreads = 128;

// gradients/
constexpr int kGradientThreads = 128;
template <class T>
constexpr int kGradientParts = 20 / int(sizeof(T));  // accumulators of a thread
template <class T>
constexpr int kGradientSamples = 16 / int(sizeof(T));  // of a group of lanes at a time: one vector
constexpr int kGradientStagedParts = 32;               // weights staged at a time
constexpr int kGradientBlocksPerMultiprocessor = 8;    // target
constexpr int kGradientWeightBlocks = 256;             // of a chunk, at most
constexpr int64_t kGradientChunk = 128;                // minimum samples per chunk
constexpr int64_t kGradientScratch = 1 << 22;          // maximum number of partial sums
constexpr int kGradientColumns = 8;                    // of a partial sum over matrix entries

// simplex/: simplex_projection, project_transition and simplex_weights.
constexpr int kShortRowLanes = 8;      // lanes of a warp for each short row
constexpr int kShortRowEntries = 4;    // at most, that a lane keeps in registers
constexpr int kShortRowThreads = 128;  // of a block with several short rows
constexpr int kLongRowThreads = 512;   // of a block with one long row, at most
constexpr int kWeightThreads = 256;    // of a block, at most; a thread has one part
constexpr int kWeightBlocks = 4;       // resident on a multiprocessor
constexpr int kWeightLanes = 16;       // for up to as many parts; a warp for more
template <class T>
constexpr int kWeightRows = 16 / int(sizeof(T));  // rows with one vector load of their entries

}  // namespace ptd
