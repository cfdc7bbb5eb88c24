// Gradients of weights, parts and slack: sums of dL/dM over matrix entries and over samples.
//
// A chunk of samples has weight blocks, with a warp per sample, and a column block for each column
// k and kGradientParts parts: its lanes run over the classes i, groups of lanes over the samples,
// and a thread's sums stay in registers. These blocks run at the same time, so that all but the
// first read the samples from L2. With slack each entry of T(x) + slack is computed again where it
// is needed, from parts in L2. Column blocks write partial sums of their chunk, which sum_chunks
// adds up in order. N (C + 2 R + 2) numbers must move, with slack N (2 C + 2 R + 2), and the parts
// and their gradient.
#include "gradients/matrix_gradient.cuh"

namespace ptd {

// Destinations of the sums; blockIdx.y is the chunk. Absent ones are nullptr.
template <class T>
struct GradientSums {
  T* weights;  // [N, R]
  T* slack;    // [chunks, C, C], by column
  T* columns;  // [chunks, C, R, C]
};

// dL/dh_j = <P^j, dL/dM> of one sample, by a warp. Without slack its lanes run along column y; with
// slack they run over all entries (i, k) and compute M again for every kGradientParts parts. An
// offset within a column fits in 32 bits.
//
// With slack a lane adds C^2 / 32 terms, 31,000 at C = 1000, so sums are blocked: after
// kGradientColumns columns a lane adds its partial sums to its totals in shared memory. Rounding
// errors then grow with the length of a block plus the number of blocks, not with their product.
template <bool kSlack, class T>
__device__ __forceinline__ void sum_over_entries(const Transition<T>& transition,
                                                 const Labels& labels,
                                                 const MatrixGradient<T>& grad, int64_t n,
                                                 T* __restrict__ grad_weights) {  // [N, R]
  constexpr int kParts = kGradientParts<T>;
  __shared__ T totals[kSlack ? kParts : 1][kGradientThreads];
  const int classes = transition.classes, parts = transition.parts;
  const ColumnFactor<T> factor(grad, labels, n, classes);
  // The columns that have a gradient.
  const int first_column = kSlack ? 0 : factor.label;
  const int end_column = !factor.counts() ? first_column : kSlack ? classes : first_column + 1;
  for (int first_part = 0; first_part < parts; first_part += kParts) {
    T sums[kParts] = {};
    if constexpr (kSlack) {
#pragma unroll
      for (int p = 0; p < kParts; ++p) totals[p][threadIdx.x] = T(0);
    }
    for (int k = first_column; k < end_column; ++k) {
      const T* column = transition.column(k);
      const T factor_k = factor.at(k);
      for (int i = lane_id(); i < classes; i += kWarp) {
        if constexpr (kSlack) {
          T m = transition.slack_at(i, k);
#pragma unroll 2
          for (int j = 0; j < parts; ++j) m += transition.weight(n, j) * column[j * classes + i];
          if (m <= T(0)) continue;
        }
        const T dm = unclamped_gradient<kSlack>(grad, factor_k, n * classes + i);
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
          if (first_part + p < parts) sums[p] += column[(first_part + p) * classes + i] * dm;
        }
      }
      if constexpr (kSlack) {
        if (k % kGradientColumns != kGradientColumns - 1 && k != classes - 1) continue;
#pragma unroll
        for (int p = 0; p < kParts; ++p) {
          totals[p][threadIdx.x] += sums[p];
          sums[p] = T(0);
        }
      }
    }
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      const T sum = lanes_sum<kWarp>(kSlack ? totals[p][threadIdx.x] : sums[p]);
      if (lane_id() == 0 && first_part + p < parts) grad_weights[n * parts + first_part + p] = sum;
    }
  }
}

// dL/dslack and dL/dP^j of column k, summed over the samples from `begin` to `end` by a block.
// `tile` is the index of a column, a class tile and a part tile: [C, class tiles, part tiles].
template <bool kSlack, class T>
__device__ __forceinline__ void sum_over_samples(const Transition<T>& transition,
                                                 const Labels& labels,
                                                 const MatrixGradient<T>& grad,
                                                 const GradientSums<T>& sums, int tile, int lanes,
                                                 int part_tiles, int64_t begin, int64_t end) {
  constexpr int kParts = kGradientParts<T>, kSamples = kGradientSamples<T>;
  struct alignas(16) Weights {
    T of[kSamples];
  };
  __shared__ Weights staged[kSlack ? kGradientStagedParts * kGradientThreads / 16 : 1];
  __shared__ T scratch[kGradientThreads];
  const int classes = transition.classes, parts = transition.parts;
  const int class_tiles = (classes + lanes - 1) / lanes, x = tile / part_tiles;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int group = static_cast<int>(threadIdx.x) / lanes, groups = kGradientThreads / lanes;
  const int k = x / class_tiles, i = x % class_tiles * lanes + lane;
  const int first_part = tile % part_tiles * kParts;
  const bool inside = i < classes;

  T slack_sum = T(0), part_sums[kParts] = {};
  const auto add = [&](int64_t n) {
    const ColumnFactor<T> factor(grad, labels, n, classes);
    if (!factor.counts() || (!kSlack && factor.at(k) == T(0))) return;
    const T dm = unclamped_gradient<kSlack>(grad, factor.at(k), n * classes + i);
    slack_sum += dm;
    if (!sums.columns) return;
#pragma unroll
    for (int p = 0; p < kParts; ++p) {
      if (first_part + p < parts) part_sums[p] += transition.weight(n, first_part + p) * dm;
    }
  };
  if constexpr (kSlack) {
    const T base = inside ? transition.slack_at(i, k) : T(0);
    const T* column = transition.column(k) + (inside ? i : 0);
    const int step = groups * kSamples;  // samples of the block at a time
    for (int64_t first = begin; first < end; first += step) {
      T m[kSamples];
#pragma unroll
      for (int s = 0; s < kSamples; ++s) m[s] = base;
      for (int start = 0; start < parts; start += kGradientStagedParts) {
        const int left = parts - start;
        const int count = left < kGradientStagedParts ? left : kGradientStagedParts;
        __syncthreads();
        for (int e = threadIdx.x; e < count * step; e += kGradientThreads) {
          const int j = e % count, s = e / count;
          staged[j * groups + s / kSamples].of[s % kSamples] =
              first + s < end ? transition.weight(first + s, start + j) : T(0);
        }
        __syncthreads();
        for (int j = 0; j < count; ++j) {
          const T part = column[int64_t(start + j) * classes];
          const Weights h = staged[j * groups + group];
#pragma unroll
          for (int s = 0; s < kSamples; ++s) m[s] += h.of[s] * part;
        }
      }
#pragma unroll
      for (int s = 0; s < kSamples; ++s) {
        const int64_t n = first + group * kSamples + s;
        if (inside && n < end && !(m[s] <= T(0))) add(n);
      }
    }
  } else {
    for (int64_t n = begin + group; n < end; n += groups) {
      if (inside) add(n);
    }
  }

  // The groups' sums are added up in order.
  const auto total = [&](T own) {
    __syncthreads();
    scratch[threadIdx.x] = own;
    __syncthreads();
    T sum = T(0);
    for (int g = 0; g < groups; ++g) sum += scratch[g * lanes + lane];
    return sum;
  };
  const bool writes = group == 0 && inside;
  const int64_t column_index = int64_t(blockIdx.y) * classes + k;
  if (sums.slack && first_part == 0) {
    const T sum = total(slack_sum);
    if (writes) sums.slack[column_index * classes + i] = sum;
  }
  if (!sums.columns) return;
#pragma unroll
  for (int p = 0; p < kParts; ++p) {
    const T sum = total(part_sums[p]);
    const int j = first_part + p;
    if (writes && j < parts) sums.columns[(column_index * parts + j) * classes + i] = sum;
  }
}

// Grid: [weight blocks and then column blocks, chunks].
template <class T, bool kSlack>
__global__ void __launch_bounds__(kGradientThreads, 8)
    transition_gradients(Transition<T> transition, Labels labels, MatrixGradient<T> grad,
                         GradientSums<T> sums, GradientMapping mapping) {
  constexpr int kWarps = kGradientThreads / kWarp;
  const int block = static_cast<int>(blockIdx.x), column_block = block - mapping.weight_blocks;
  const int64_t begin = int64_t(blockIdx.y) * mapping.chunk;
  const int64_t end =
      begin + mapping.chunk < transition.samples ? begin + mapping.chunk : transition.samples;
  if (column_block >= 0) {
    sum_over_samples<kSlack>(transition, labels, grad, sums, column_block, mapping.lanes,
                             mapping.part_tiles, begin, end);
    return;
  }
  const int count = static_cast<int>(end - begin);
  for (int s = block * kWarps + warp_id(); s < count; s += mapping.weight_blocks * kWarps) {
    sum_over_entries<kSlack>(transition, labels, grad, begin + s, sums.weights);
  }
}

// out[a row_stride + b stride] = sum over chunks of partial[chunk][a][b], in order. The numbers of
// partial and of out must move.
template <class T>
__global__ void __launch_bounds__(kGradientThreads)
    sum_chunks(const T* __restrict__ partial,  // [chunks, rows, columns]
               Rows<T> out, int64_t chunks, int64_t rows, int64_t columns) {
  const int64_t at = int64_t(blockIdx.x) * kGradientThreads + threadIdx.x;
  if (at >= rows * columns) return;
  T sum = T(0);
#pragma unroll 8
  for (int64_t c = 0; c < chunks; ++c) sum += partial[c * rows * columns + at];
  out.data[at / columns * out.row_stride + at % columns * out.stride] = sum;
}

#ifndef __CUDACC_RTC__

template <class T>
void launch_sum_chunks(const T* partial, const Rows<T>& out, int64_t chunks, int64_t rows,
                       int64_t columns, cudaStream_t stream) {
  PTD_LAUNCH(sum_chunks<T>, blocks_for(rows * columns, kGradientThreads), kGradientThreads, 0,
             stream, partial, out, chunks, rows, columns);
}

template <class T>
GradientPlan::GradientPlan(const Transition<T>& transition, const TransitionGradients<T>& out) {
  const int64_t classes = transition.classes, square = classes * classes;
  mapping.lanes = 16;
  while (mapping.lanes < classes && mapping.lanes < kGradientThreads) mapping.lanes *= 2;
  mapping.part_tiles = out.columns ? int(ceil_div(transition.parts, kGradientParts<T>)) : 1;
  slack_size = out.slack.data ? square : 0;
  columns_size = out.columns ? square * transition.parts : 0;
  const int64_t class_tiles = ceil_div(classes, mapping.lanes);
  column_blocks = slack_size + columns_size > 0 ? classes * class_tiles * mapping.part_tiles : 0;
  // Enough chunks to fill the device, but none under kGradientChunk samples, and partial sums
  // within kGradientScratch.
  const int64_t wanted =
      int64_t(kGradientBlocksPerMultiprocessor) * device_properties().multiprocessors;
  int64_t most = ceil_div(wanted, column_blocks > 0 ? column_blocks : 1);
  const auto at_most = [&most](int64_t bound) { most = bound < most ? bound : most; };
  at_most(kGradientScratch / (slack_size + columns_size + 1));
  at_most(ceil_div(transition.samples, kGradientChunk));
  if (most < 1) most = 1;
  mapping.chunk = ceil_div(transition.samples, most);
  chunks = mapping.chunk ? ceil_div(transition.samples, mapping.chunk) : 1;
  if (!out.weights) return;
  const int64_t weight_blocks = ceil_div(mapping.chunk, kGradientThreads / 32);
  mapping.weight_blocks =
      int(weight_blocks < kGradientWeightBlocks ? weight_blocks : kGradientWeightBlocks);
}

template <class T>
cudaError_t launch_transition_gradients(const GradientPlan& plan, const Transition<T>& transition,
                                        const Labels& labels, const MatrixGradient<T>& grad,
                                        const TransitionGradients<T>& out, T* scratch,
                                        cudaStream_t stream) {
  GradientSums<T> sums{out.weights, nullptr, nullptr};
  if (out.slack.data) sums.slack = scratch;
  if (out.columns) {
    sums.columns = plan.chunks > 1 ? scratch + plan.chunks * plan.slack_size : out.columns;
  }
  const dim3 grid(unsigned(plan.mapping.weight_blocks + plan.column_blocks), unsigned(plan.chunks));
  if (transition.slack.data) {
    PTD_LAUNCH((transition_gradients<T, true>), grid, kGradientThreads, 0, stream, transition,
               labels, grad, sums, plan.mapping);
  } else {
    PTD_LAUNCH((transition_gradients<T, false>), grid, kGradientThreads, 0, stream, transition,
               labels, grad, sums, plan.mapping);
  }
  if (out.columns && plan.chunks > 1) {
    launch_sum_chunks(sums.columns, {out.columns, 0, 1}, plan.chunks, 1, plan.columns_size, stream);
  }
  if (out.slack.data) {  // rows of the sums are columns of the result
    const Rows<T> transposed{out.slack.data, out.slack.stride, out.slack.row_stride};
    launch_sum_chunks(sums.slack, transposed, plan.chunks, transition.classes, transition.classes,
                      stream);
  }
  return cudaGetLastError();
}

#define PTD_INSTANTIATE(T)                                                                  \
  template GradientPlan::GradientPlan(const Transition<T>&, const TransitionGradients<T>&); \
  template cudaError_t launch_transition_gradients<T>(                                      \
      const GradientPlan&, const Transition<T>&, const Labels&, const MatrixGradient<T>&,   \
      const TransitionGradients<T>&, T*, cudaStream_t);
PTD_INSTANTIATE(float)
PTD_INSTANTIATE(double)
#undef PTD_INSTANTIATE

#endif

}  // namespace ptd
