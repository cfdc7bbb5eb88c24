// What blocks leave for the mean of a loss, and the block that waits for it (loss_mean.cuh). The
// emulator runs blocks one after another: here, one block has a warp that plays all the others.
#include "../csrc/cuda/loss_mean.cuh"

using namespace ptd;

__device__ void leave(double* partials, unsigned block, const double* sums) {  // [blocks, 2]
  leave_loss(partials, block, with_one_nan(sums[2 * block]));
  leave_weight(partials, block, with_one_nan(sums[2 * block + 1]));
}

// sums[b] are what block b has seen; `last` draws the last ticket.
__global__ void add_up(LossOutputs<double> out, const double* sums,  // [blocks, 2]
                       unsigned last) {
  if (block_of_grid() != last) return;
  if (warp_id() == 0) {
    WarpMean<double> mean(out);
    mean.begin(true, sums[2 * last + 1]);
    return mean.finish(lane_id() == 0 ? sums[2 * last] : 0.0);
  }
  for (unsigned b = lane_id(); b < blocks_of_grid(); b += kWarp) {
    if (b == last) continue;
    leave(out.partials, b, sums);
  }
}

// A thread that adds up all blocks waits for what another warp leaves; got[0] says whether that of
// block 1 had been left before.
__global__ void wait_for_sums(double* partials,
                              const double* sums,  // [blocks, 2]
                              double* got) {       // [3]
  if (block_of_grid() > 0) return;
  if (threadIdx.x == 0) {
    BlocksOfThread left(partials, 0, 1);
    left.ask(0);
    got[0] = is_left(left.of[1].loss) && is_left(left.of[1].weight);
    const LossSums found = left.sum({sums[0], sums[1]});
    got[1] = found.loss;
    got[2] = found.weight;
  } else if (warp_id() == 1) {
    for (unsigned b = 1 + lane_id(); b < blocks_of_grid(); b += kWarp) {
      leave(partials, b, sums);
    }
  }
}

// Block 0 leaves what it has seen, and the other has the last ticket.
__global__ void leave_sums(LossOutputs<double> out, const double* sums) {  // [2]
  if (block_of_grid() > 0) return;
  WarpMean<double> mean(out);
  mean.begin(false, sums[1]);
  mean.finish(lane_id() == 0 ? sums[0] : 0.0);
}

extern "C" void launch_add_up(double* partials, const double* sums, int64_t wide, int64_t tall,
                              int64_t last, int64_t mean, double* result) {
  LossOutputs<double> out{};
  out.loss = result;
  out.total_weight = result + 1;
  out.mean = mean != 0;
  out.partials = partials;
  PTD_LAUNCH(add_up, dim3(unsigned(wide), unsigned(tall)), 2 * kWarp, 0, nullptr, out, sums,
             unsigned(last));
}

extern "C" void launch_wait(double* partials, const double* sums, int64_t blocks, double* got) {
  PTD_LAUNCH(wait_for_sums, unsigned(blocks), 2 * kWarp, 0, nullptr, partials, sums, got);
}

extern "C" void launch_leave(double* partials, const double* sums) {
  LossOutputs<double> out{};
  out.partials = partials;
  PTD_LAUNCH(leave_sums, 2, kWarp, 0, nullptr, out, sums);
}
