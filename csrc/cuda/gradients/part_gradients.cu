// Gradients of slack and parts: sums of dL/dM over all samples.
//
// A block has one column k and a chunk of samples; lanes run over the classes i, groups of lanes
// over the samples, and a thread's sums stay in registers. With slack each entry of T(x) + slack is
// evaluated again where it is needed. Each chunk has partial sums, which sum_chunks adds up in
// order. N (C + R + 2) numbers must move and the result, with slack N (2 C + R + 2) and
// 2 (R + 1) C^2; every column reads the samples again, from L2.
#include "gradients/matrix_gradient.cuh"

namespace ptd {

// Destinations of a block's sums; blockIdx.y is the chunk. Absent ones are nullptr.
template <class T>
struct PartialSums {
  T* slack;    // [chunks, C, C], by column
  T* columns;  // [chunks, C, R, C]
};

// Grid: [C x class tiles, sample chunks, part tiles].
template <class T, bool kSlack>
__global__ void __launch_bounds__(kGradientThreads, 8)
    part_gradients(Transition<T> transition, Labels labels, MatrixGradient<T> grad,
                   PartialSums<T> sums, int lanes, int64_t chunk) {
  constexpr int kParts = kGradientParts<T>, kSamples = kGradientSamples;
  struct alignas(16) Weights {
    T of[kSamples];
  };
  __shared__ Weights staged[kSlack ? kGradientStagedParts * kGradientThreads / 16 : 1];
  __shared__ T scratch[kGradientThreads];
  const int classes = transition.classes, parts = transition.parts;
  const int tiles = (classes + lanes - 1) / lanes, x = static_cast<int>(blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int group = static_cast<int>(threadIdx.x) / lanes, groups = kGradientThreads / lanes;
  const int k = x / tiles, i = x % tiles * lanes + lane;
  const int first_part = static_cast<int>(blockIdx.z) * kParts;
  const bool inside = i < classes;
  const int64_t begin = int64_t(blockIdx.y) * chunk;
  const int64_t end = begin + chunk < transition.samples ? begin + chunk : transition.samples;

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

// out[a stride_a + b stride_b] = sum over chunks of partial[chunk][a][b], in order. As many numbers
// move as there are in partial and out.
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
  lanes = 16;
  while (lanes < classes && lanes < kGradientThreads) lanes *= 2;
  tiles = ceil_div(classes, lanes);
  part_tiles = out.columns ? ceil_div(transition.parts, kGradientParts<T>) : 1;
  slack_size = out.slack.data ? square : 0;
  columns_size = out.columns ? square * transition.parts : 0;
  // As many chunks as keep the device busy, as long as they are worth it and their sums small.
  const int64_t wanted =
      int64_t(kGradientBlocksPerMultiprocessor) * device_properties().multiprocessors;
  int64_t most = ceil_div(wanted, classes * tiles * part_tiles);
  const auto at_most = [&most](int64_t bound) { most = bound < most ? bound : most; };
  at_most(kGradientScratch / (slack_size + columns_size + 1));
  at_most(ceil_div(transition.samples, kGradientChunk));
  if (most < 1) most = 1;
  chunk = ceil_div(transition.samples, most);
  chunks = chunk ? ceil_div(transition.samples, chunk) : 1;
}

template <class T>
cudaError_t launch_part_gradients(const GradientPlan& plan, const Transition<T>& transition,
                                  const Labels& labels, const MatrixGradient<T>& grad,
                                  const TransitionGradients<T>& out, T* scratch,
                                  cudaStream_t stream) {
  PartialSums<T> sums{};
  if (out.slack.data) sums.slack = scratch;
  if (out.columns) {
    sums.columns = plan.chunks > 1 ? scratch + plan.chunks * plan.slack_size : out.columns;
  }
  const dim3 grid(unsigned(transition.classes * plan.tiles), unsigned(plan.chunks),
                  unsigned(plan.part_tiles));
  if (transition.slack.data) {
    PTD_LAUNCH((part_gradients<T, true>), grid, kGradientThreads, 0, stream, transition, labels,
               grad, sums, plan.lanes, plan.chunk);
  } else {
    PTD_LAUNCH((part_gradients<T, false>), grid, kGradientThreads, 0, stream, transition, labels,
               grad, sums, plan.lanes, plan.chunk);
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
  template cudaError_t launch_part_gradients<T>(const GradientPlan&, const Transition<T>&,  \
                                                const Labels&, const MatrixGradient<T>&,    \
                                                const TransitionGradients<T>&, T*, cudaStream_t);
PTD_INSTANTIATE(float)
PTD_INSTANTIATE(double)
#undef PTD_INSTANTIATE

#endif

}  // namespace ptd
