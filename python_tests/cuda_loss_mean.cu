// What blocks leave for the mean of a loss (csrc/cuda/loss_mean.cuh), by two threads of one block.
#include "../csrc/cuda/loss_mean.cuh"

namespace {

// The first thread of the first warp waits for what the second warp's leaves.
__global__ void wait_for_sums(double* partials,    // [blocks, 2], all bits set
                              const double* sums,  // [2]
                              unsigned block,
                              double* got) {  // [3]: whether they had been left, and the sums
  if (threadIdx.x == 0) {
    ptd::BlockSums found;
    found.read(partials, block);
    got[0] = found.are_left();
    found.wait(partials, block);
    got[1] = found.loss;
    got[2] = found.weight;
  } else if (threadIdx.x == 32) {
    ptd::BlockSums{sums[0], sums[1]}.leave(partials, block);
  }
}

}  // namespace

extern "C" void launch_wait(double* partials, const double* sums, int64_t block, double* got) {
  PTD_LAUNCH(wait_for_sums, 1, 64, 0, nullptr, partials, sums, static_cast<unsigned>(block), got);
}
