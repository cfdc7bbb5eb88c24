#include "simplex_weights.h"

#include "blocks.h"
#include "simplex_weights_few_kernels.cuh"
#include "simplex_weights_kernels.cuh"

namespace ptd {
namespace {

template <int Lanes, class T>
void launch_lanes(const WeightArgs<T>& args, cudaStream_t stream) {
  constexpr int groups = LaneGroup<Lanes>::kPerBlock;
  constexpr int64_t per_block = groups * kWeightRows<T>;
  const int64_t blocks = ceil_div(args.rows, per_block);
  const size_t parts = static_cast<size_t>(args.parts);
  const size_t entries = 2 * kLaneBlock + groups * parts;
  const size_t shared = entries * sizeof(RowEntries<T>) + parts * parts * sizeof(T);
  PTD_LAUNCH((simplex_weights_lanes<T, Lanes>), static_cast<unsigned>(args.batch * blocks),
             kLaneBlock, shared, stream, args, static_cast<unsigned>(blocks));
}

template <int L, int V>
void launch_few(const WeightArgs<float>& args, cudaStream_t stream) {
  const int64_t blocks = ceil_div(args.rows, kFewBlock / L);
  PTD_LAUNCH((simplex_weights_few<L, V>), static_cast<unsigned>(args.batch * blocks), kFewBlock, 0,
             stream, args, static_cast<unsigned>(blocks));
}

template <class T>
void launch_block(const WeightArgs<T>& args, cudaStream_t stream) {
  const int64_t blocks = ceil_div(args.rows, kWeightRows<T>);
  const unsigned threads = 32 * whole_warps(args.parts);
  const size_t shared = 3 * threads * sizeof(RowEntries<T>);
  PTD_LAUNCH(simplex_weights_block<T>, static_cast<unsigned>(args.batch * blocks), threads, shared,
             stream, args, static_cast<unsigned>(blocks));
}

}  // namespace

template <class T>
cudaError_t launch_simplex_weights(const WeightArgs<T>& args, cudaStream_t stream) {
  if (args.parts > 32) {
    launch_block(args, stream);
  } else if constexpr (sizeof(T) == sizeof(float)) {
    if (args.parts <= 10) {
      launch_few<1, 10>(args, stream);
    } else if (args.parts <= 20) {
      launch_few<2, 10>(args, stream);
    } else {
      launch_few<4, 8>(args, stream);
    }
  } else if (args.parts <= 8) {
    launch_lanes<8>(args, stream);
  } else if (args.parts <= 16) {
    launch_lanes<16>(args, stream);
  } else {
    launch_lanes<32>(args, stream);
  }
  return cudaGetLastError();
}

template cudaError_t launch_simplex_weights<float>(const WeightArgs<float>&, cudaStream_t);
template cudaError_t launch_simplex_weights<double>(const WeightArgs<double>&, cudaStream_t);

}  // namespace ptd
