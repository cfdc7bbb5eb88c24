// simplex_weights: accelerated projected-gradient steps on every row's quadratic problem, all of
// them in one launch. The method and its symbols are in math/simplex.h.
//
// Sixteen or thirty-two lanes of a warp (R <= 32) or a block (R <= 256) have kWeightRows rows of
// one problem, and a thread one entry of each, in registers. For the product with the contraction M
// the candidates are exchanged through shared memory, where one vector load reads an entry of every
// row, so that each number of M, from L1, is used for all of them.
// Bytes that must move: 3 B N R sizeof(T) with a start, once for all steps. Arithmetic takes
// longer: B N R^2 multiply-adds a step.
#include "simplex/row_threads.cuh"
#include "simplex/simplex_launchers.h"

namespace ptd {

// One entry of each row of a group, read with one vector load.
template <class T>
struct alignas(16) RowEntries {
  T of[kWeightRows<T>];
};

// The theta of each row's projection, from any start. Threads without an entry have -infinity.
template <class T, int kRows, class Threads>
__device__ __forceinline__ void thresholds(Threads& threads, const T (&entry)[kRows],
                                           T (&theta)[kRows]) {
  for (bool first = true;; first = false) {
    T sums[2 * kRows];
#pragma unroll
    for (int s = 0; s < kRows; ++s) {
      const bool above = entry[s] > theta[s];
      sums[s] = above ? entry[s] : T(0);
      sums[kRows + s] = above ? T(1) : T(0);
    }
    threads.sum(sums);
    bool arrived = true;
#pragma unroll
    for (int s = 0; s < kRows; ++s) {
      const T next = newton_threshold(sums[s], sums[kRows + s]);
      // The first step may start right of the solution and lower theta.
      arrived = arrived && !(first ? next != theta[s] : next > theta[s]);
      theta[s] = first || next > theta[s] ? next : theta[s];
    }
    if (arrived) return;
  }
}

// e(x) = x M + o for every row.
template <class T, int kRows, class Threads>
__device__ __forceinline__ void image_of(const Threads& threads,
                                         const T* column,  // [R, R], from the thread's column on
                                         int parts,
                                         RowEntries<T>* exchange,  // [R], shared by the group
                                         const RowEntries<T>& offset, const T (&x)[kRows],
                                         T (&image)[kRows]) {
  threads.sync();  // all threads have read the exchange of the previous product
  if (threads.rank() < parts) {
#pragma unroll
    for (int s = 0; s < kRows; ++s) exchange[threads.rank()].of[s] = x[s];
  }
  threads.sync();
#pragma unroll
  for (int s = 0; s < kRows; ++s) image[s] = offset.of[s];
#pragma unroll 2
  for (int j = 0; j < parts; ++j) {
    const T m = column[j * parts];
    const RowEntries<T> entries = exchange[j];
#pragma unroll
    for (int s = 0; s < kRows; ++s) image[s] += m * entries.of[s];
  }
}

template <class T, int kLanes>
__global__ void __launch_bounds__(kWeightThreads, resident_blocks<T>(kWeightBlocks))
    simplex_weights_rows(WeightArgs<T> args, unsigned blocks) {  // for each problem
  constexpr int kRows = kWeightRows<T>;
  using Threads = RowThreads<T, kLanes, 2 * kRows>;
  __shared__ typename Threads::Scratch scratch;
  PTD_DYNAMIC_SHARED(RowEntries<T>, memory);  // [2, threads]
  Threads threads(scratch);
  RowEntries<T>* const exchange = memory + threads.row_of_block() * kLanes;
  // Private to the thread, but in shared memory, to lower the register pressure.
  RowEntries<T>& offset = memory[blockDim.x + threadIdx.x];
  const int64_t problem = blockIdx.x / blocks, block = blockIdx.x % blocks;
  const int64_t first_row = (block * threads.rows_per_block() + threads.row_of_block()) * kRows;
  if (first_row >= args.rows) return;

  const int parts = args.parts;
  const bool inside = threads.rank() < parts;
  const int column = inside ? threads.rank() : 0;
  const T* const contraction = args.contraction + problem * parts * parts + column;
  const int64_t first = (problem * args.rows + first_row) * parts + column;
  const int64_t left = args.rows - first_row;
  const int present = left < kRows ? static_cast<int>(left) : kRows;
  const auto at = [&](int s) {  // rows beyond the last repeat it
    return first + (s < present ? s : present - 1) * parts;
  };

  // o = s b + shift, minus its largest entry.
  T weights[kRows], image[kRows];
  const T step = args.step[problem], shift = args.shift[problem * parts + column];
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    const T entry = step * args.linear[at(s)] + shift;
    offset.of[s] = offset_below(entry, threads.max_or_nan(inside ? entry : -infinity<T>()));
    weights[s] = !inside ? T(0) : args.start ? args.start[at(s)] : T(1) / T(parts);
  }
  image_of(threads, contraction, parts, exchange, offset, weights, image);

  T ahead[kRows], theta[kRows];  // e + beta (e - e_before), and its threshold
  float age[kRows];              // steps since the momentum was zero
  bool moving[kRows], any_moving = true;
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    ahead[s] = image[s];
    theta[s] = -infinity<T>();
    age[s] = 0;
    moving[s] = true;
  }
  for (int64_t k = 0; k < args.max_iter && any_moving; ++k) {
    T c[kRows], c_image[kRows];
#pragma unroll
    for (int s = 0; s < kRows; ++s) c[s] = inside ? ahead[s] : -infinity<T>();
    thresholds(threads, c, theta);
#pragma unroll
    for (int s = 0; s < kRows; ++s) c[s] = inside ? above_zero(c[s] - theta[s]) : T(0);
    image_of(threads, contraction, parts, exchange, offset, c, c_image);

    T found[2 * kRows];  // how far q rises, and how far the weights move
#pragma unroll
    for (int s = 0; s < kRows; ++s) {
      const T rise = rise_term(c[s], c_image[s], weights[s], image[s], theta[s]);
      found[s] = inside ? rise : T(0);
      found[kRows + s] = moved_term(c[s], weights[s]);
    }
    threads.sum(found);
    any_moving = false;
#pragma unroll
    for (int s = 0; s < kRows; ++s) {
      const bool risen = found[s] > T(0), taken = !risen && moving[s];
      const bool stalled = risen || found[kRows + s] <= args.tol * args.tol;
      moving[s] = moving[s] && !(stalled && age[s] == 0);
      age[s] = stalled ? 0 : age[s] + 1;
      any_moving = any_moving || moving[s];
      const T before = image[s];
      weights[s] = taken ? c[s] : weights[s];
      image[s] = taken ? c_image[s] : image[s];
      ahead[s] = image[s] + momentum(T(age[s])) * (image[s] - before);
    }
  }
#pragma unroll
  for (int s = 0; s < kRows; ++s) {
    if (inside && s < present) args.weights[first + s * parts] = weights[s];
  }
}

#ifndef __CUDACC_RTC__

template <class T>
cudaError_t launch_simplex_weights(const WeightArgs<T>& args, cudaStream_t stream) {
  const auto launch = [&]<int kLanes>(unsigned threads, int groups) {
    const unsigned blocks = blocks_for(args.rows, groups * kWeightRows<T>);
    PTD_LAUNCH((simplex_weights_rows<T, kLanes>), static_cast<unsigned>(args.batch * blocks),
               threads, 2 * threads * sizeof(RowEntries<T>), stream, args, blocks);
  };
  if (args.parts <= kWeightLanes) {
    launch.template operator()<kWeightLanes>(kWeightThreads, kWeightThreads / kWeightLanes);
  } else if (args.parts <= kWarp) {
    launch.template operator()<kWarp>(kWeightThreads, kWeightThreads / kWarp);
  } else {
    launch.template operator()<kWholeBlock>(whole_warps(args.parts, kWeightThreads), 1);
  }
  return cudaGetLastError();
}

template cudaError_t launch_simplex_weights<float>(const WeightArgs<float>&, cudaStream_t);
template cudaError_t launch_simplex_weights<double>(const WeightArgs<double>&, cudaStream_t);

#endif

}  // namespace ptd
