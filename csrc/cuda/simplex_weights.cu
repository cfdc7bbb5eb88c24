#include "simplex_weights.h"

#include "blocks.h"
#include "simplex_weights_kernels.cuh"

namespace ptd {
namespace {

template <class T, int Lanes>
void launch_lanes(const WeightArgs<T>& args, cudaStream_t stream) {
  constexpr int groups = LaneGroup<Lanes>::kPerBlock;
  constexpr int64_t per_block = groups * kWeightRows<T>;
  const int64_t blocks = (args.rows + per_block - 1) / per_block;
  const size_t parts = static_cast<size_t>(args.parts);
  const size_t entries = 2 * kLaneBlock + groups * parts;
  const size_t shared = entries * sizeof(RowEntries<T>) + parts * parts * sizeof(T);
  PTD_LAUNCH((simplex_weights_lanes<T, Lanes>), static_cast<unsigned>(args.batch * blocks),
             kLaneBlock, shared, stream, args, blocks);
}

template <class T>
void launch_block(const WeightArgs<T>& args, cudaStream_t stream) {
  const int64_t blocks = (args.rows + kWeightRows<T> - 1) / kWeightRows<T>;
  const unsigned threads = 32 * whole_warps(args.parts);
  const size_t shared = 3 * threads * sizeof(RowEntries<T>);
  PTD_LAUNCH(simplex_weights_block<T>, static_cast<unsigned>(args.batch * blocks), threads, shared,
             stream, args, blocks);
}

}  // namespace

template <class T>
cudaError_t launch_simplex_weights(const WeightArgs<T>& args, cudaStream_t stream) {
  if (args.parts <= 8) {
    launch_lanes<T, 8>(args, stream);
  } else if (args.parts <= 16) {
    launch_lanes<T, 16>(args, stream);
  } else if (args.parts <= 32) {
    launch_lanes<T, 32>(args, stream);
  } else {
    launch_block(args, stream);
  }
  return cudaGetLastError();
}

template cudaError_t launch_simplex_weights<float>(const WeightArgs<float>&, cudaStream_t);
template cudaError_t launch_simplex_weights<double>(const WeightArgs<double>&, cudaStream_t);

}  // namespace ptd
