// simplex_weights of doubles, or of more than 32 parts (simplex_weights_few_kernels.cuh has the
// rest): the method is in math/simplex.h.
//
// A group of threads has kWeightRows rows of one problem, an entry of each in every thread, and
// keeps them in registers and shared memory through all steps. Of the candidates each thread needs
// all entries: they go through shared memory, where one load brings an entry of every row, so that
// a number of the contraction serves them all.
//   R <= 32   doubles: a group is some lanes of a warp; the contraction lies in shared memory.
//   more      a group is a block; the contraction comes from L1 (R <= 150 or so in float) or L2.
// B N R numbers must move for the linear terms, the weights and a start, if there is one: no more
// do. Arithmetic takes longer: B N R^2 multiply-adds a step.
#pragma once

#include "simplex_group.cuh"
#include "simplex_weights_args.h"

namespace ptd {

template <class T>
constexpr int kWeightRows = 16 / int(sizeof(T));

// An entry of each row of a group: one load.
template <class T>
struct alignas(16) RowEntries {
  T of[kWeightRows<T>];
};

// What a block keeps in shared memory. Registers for all of it would leave room for few threads.
template <class T>
struct WeightMemory {
  RowEntries<T>* exchange;  // [R] of the group
  RowEntries<T>* offset;    // of this thread alone
  RowEntries<T>* weights;   // of this thread alone
};

template <class T, class Group>
__device__ __forceinline__ void improve_rows(const WeightArgs<T>& args, Group& group,
                                             const WeightMemory<T>& memory, int64_t problem,
                                             int64_t first_row,
                                             const T* contraction) {  // [R, R]
  constexpr int Rows = kWeightRows<T>;
  const int parts = args.parts, part = group.part();
  const bool inside = part < parts;
  const int column = inside ? part : 0;
  const auto at = [&](int s) {  // rows beyond the last repeat it
    const int64_t row = first_row + s < args.rows ? first_row + s : args.rows - 1;
    return (problem * args.rows + row) * parts + column;
  };

  // o = s b + shift, less its largest entry.
  T image[Rows], tops[Rows];
  const T step = args.step[problem], shift = args.shift[problem * parts + column];
#pragma unroll
  for (int s = 0; s < Rows; ++s) {
    image[s] = step * args.linear[at(s)] + shift;
    tops[s] = inside ? image[s] : -infinity<T>();
  }
  group.top(tops);
#pragma unroll
  for (int s = 0; s < Rows; ++s) {
    memory.offset->of[s] = offset_below(image[s], tops[s]);
    image[s] = !inside ? T(0) : args.start ? args.start[at(s)] : T(1) / T(parts);
    memory.weights->of[s] = image[s];
  }

  // e(x) = x M + o
  const auto image_of = [&](const T(&x)[Rows], T(&out)[Rows]) {
    group.sync();  // nobody reads the exchange any more
    if (inside) {
#pragma unroll
      for (int s = 0; s < Rows; ++s) memory.exchange[part].of[s] = x[s];
    }
    group.sync();
#pragma unroll
    for (int s = 0; s < Rows; ++s) out[s] = memory.offset->of[s];
#pragma unroll 2
    for (int j = 0; j < parts; ++j) {
      const T m = contraction[j * parts + column];
      const RowEntries<T> entries = memory.exchange[j];
#pragma unroll
      for (int s = 0; s < Rows; ++s) out[s] += m * entries.of[s];
    }
  };

  T before[Rows], theta[Rows];
  float age[Rows];  // steps since the momentum was zero
  bool moving[Rows], any_moving = true;
  image_of(image, before);
#pragma unroll
  for (int s = 0; s < Rows; ++s) {
    image[s] = before[s];
    age[s] = 0;
    theta[s] = -infinity<T>();
    moving[s] = true;
  }
  for (int64_t k = 0; k < args.steps && any_moving; ++k) {
    T c[Rows], c_image[Rows];
#pragma unroll
    for (int s = 0; s < Rows; ++s) {
      const T ahead = image[s] + momentum(T(age[s])) * (image[s] - before[s]);
      c[s] = inside ? ahead : -infinity<T>();
    }
    thresholds(group, c, theta);
#pragma unroll
    for (int s = 0; s < Rows; ++s) c[s] = inside ? above_zero(c[s] - theta[s]) : T(0);
    image_of(c, c_image);

    T found[2 * Rows];  // how far q rises, and how far the weights move
#pragma unroll
    for (int s = 0; s < Rows; ++s) {
      const T h = memory.weights->of[s];
      found[s] = inside ? rise_term(c[s], c_image[s], h, image[s], theta[s]) : T(0);
      found[Rows + s] = moved_term(c[s], h);
    }
    group.sum(found);
    any_moving = false;
#pragma unroll
    for (int s = 0; s < Rows; ++s) {
      const bool risen = found[s] > T(0);
      const bool stalled = risen || found[Rows + s] <= args.tolerance * args.tolerance;
      before[s] = image[s];
      if (!risen && moving[s]) {
        memory.weights->of[s] = c[s];
        image[s] = c_image[s];
      }
      moving[s] = moving[s] && !(stalled && age[s] == 0);
      age[s] = stalled ? 0 : age[s] + 1;
      any_moving = any_moving || moving[s];
    }
  }
#pragma unroll
  for (int s = 0; s < Rows; ++s) {
    if (inside && first_row + s < args.rows) args.weights[at(s)] = memory.weights->of[s];
  }
}

// In shared memory: two entries of each thread, an exchange for each group, and the contraction.
template <class T, int Lanes>
__global__ void __launch_bounds__(kLaneBlock, 4)
    simplex_weights_lanes(WeightArgs<T> args, unsigned blocks) {  // for each problem
  LaneGroup<Lanes> group;
  PTD_DYNAMIC_SHARED(RowEntries<T>, own);                      // [2, threads]
  RowEntries<T>* exchange = own + 2 * kLaneBlock;              // [groups, R]
  T* contraction = exchange[group.kPerBlock * args.parts].of;  // [R, R]
  const int64_t problem = blockIdx.x / blocks, block = blockIdx.x % blocks;
  const int size = args.parts * args.parts;
  for (int i = threadIdx.x; i < size; i += kLaneBlock) {
    contraction[i] = args.contraction[problem * size + i];
  }
  __syncthreads();
  const WeightMemory<T> memory = {exchange + group.index() * args.parts, own + threadIdx.x,
                                  own + kLaneBlock + threadIdx.x};
  const int64_t first = (block * group.kPerBlock + group.index()) * kWeightRows<T>;
  improve_rows(args, group, memory, problem, first, contraction);
}

template <class T>
__global__ void __launch_bounds__(kMostBlockGroup, 4)
    simplex_weights_block(WeightArgs<T> args, unsigned blocks) {  // for each problem
  using Group = BlockGroup<T, 2 * kWeightRows<T>>;
  __shared__ typename Group::Scratch scratch;
  PTD_DYNAMIC_SHARED(RowEntries<T>, exchange);  // [threads]
  RowEntries<T>* own = exchange + blockDim.x;   // [2, threads]
  Group group(scratch);
  const int64_t problem = blockIdx.x / blocks, block = blockIdx.x % blocks;
  const T* contraction = args.contraction + problem * args.parts * args.parts;
  const WeightMemory<T> memory = {exchange, own + threadIdx.x, own + blockDim.x + threadIdx.x};
  improve_rows(args, group, memory, problem, block * kWeightRows<T>, contraction);
}

#ifdef __CUDACC_RTC__
template __global__ void simplex_weights_lanes<double, 8>(WeightArgs<double>, unsigned);
template __global__ void simplex_weights_lanes<double, 16>(WeightArgs<double>, unsigned);
template __global__ void simplex_weights_lanes<double, 32>(WeightArgs<double>, unsigned);
template __global__ void simplex_weights_block<float>(WeightArgs<float>, unsigned);
template __global__ void simplex_weights_block<double>(WeightArgs<double>, unsigned);
#endif

}  // namespace ptd
