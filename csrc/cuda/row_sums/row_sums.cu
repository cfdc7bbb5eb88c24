// Row sums of T(x) + slack before its normalisation, r_i = sum_k max(M_ik, 0), or with a factor for
// each entry the terms that matrix products leave out (ClampedRows).
//
// A thread per sample; a block has kRowSumRows rows, whose entries all threads of a warp read from
// the same address (a broadcast). With many parts a block has fewer samples, so that their weights
// fit in shared memory, and its warps divide the rows. Row sums of entries known to be positive are
// one product with the weights; entries of unknown sign (row_sums/sign_table.cuh) are computed for
// each sample, kRowSumEntries at a time; for weights off the simplex all entries are.
// N (C + R) numbers must move, with factors N (3 C + R), and the unknown entries of the table.
#include "row_sums/row_sum_launchers.h"

#include "row_sums/sign_table.cuh"

namespace ptd {

// The entries of a tile, for one part or the slack.
template <class T>
struct alignas(kRowSumEntries * sizeof(T) < 16 ? kRowSumEntries * sizeof(T) : 16) EntryTile {
  T of[kRowSumEntries];
};

// The weights of a thread's sample, in shared or in global memory.
template <class T>
struct SampleWeights {
  const T* data;
  int64_t stride;

  __device__ __forceinline__ T operator[](int j) const { return data[j * stride]; }
  __device__ __forceinline__ bool on_simplex(int parts) const {
    T sum = T(0);
    bool positive = true;
    for (int j = 0; j < parts; ++j) {
      sum += (*this)[j];
      positive = positive && (*this)[j] >= T(0);
    }
    const T off = sum - T(1), most = T(kWeightSumTolerance);
    return positive && off <= most && off >= -most;
  }
};

template <class T>
__global__ void __launch_bounds__(kRowSumThreads, 8) row_sums_of_samples(
    Transition<T> transition, SignTable<T> table, ClampedRows<T> rows,
    int block_samples,  // whole warps
    bool staged) {      // true if shared memory holds the weights; must be if they are absent
  PTD_DYNAMIC_SHARED(T, shared_weights);  // [R, pitch]
  const int pitch = block_samples + 1;    // neighbouring parts are in neighbouring banks
  const int classes = transition.classes, parts = transition.parts;
  const int64_t block_first = int64_t(blockIdx.x) * block_samples;
  if (staged) {
    for (int e = threadIdx.x; e < block_samples * parts; e += kRowSumThreads) {
      const int64_t n = block_first + e / parts;
      shared_weights[e % parts * pitch + e / parts] =
          n < transition.samples ? transition.weight(n, e % parts) : T(0);
    }
    __syncthreads();
  }
  const int sample = static_cast<int>(threadIdx.x) % block_samples;
  const int64_t n = block_first + sample;
  if (n >= transition.samples) return;

  const Rows<const T>& weights = transition.weights;
  SampleWeights<T> h{shared_weights + sample, pitch};
  if (!staged) h = {weights.data + n * weights.row_stride, weights.stride};
  const bool on_simplex = h.on_simplex(parts);
  const int first_row = static_cast<int>(blockIdx.y) * kRowSumRows;
  const int end_row = first_row + kRowSumRows < classes ? first_row + kRowSumRows : classes;
  const int row_step = kRowSumThreads / block_samples;
  for (int i = first_row + int(threadIdx.x) / block_samples; i < end_row; i += row_step) {
    T sum = T(0);
    if (rows.factors) {
      sum = rows.out[n * classes + i] + (rows.start ? rows.start[n] : T(0));
    } else if (on_simplex) {
      sum = table.linear[int64_t(parts) * classes + i];
      for (int j = 0; j < parts; ++j) sum += h[j] * table.linear[int64_t(j) * classes + i];
    }
    const int count = on_simplex ? table.unknown[i] : classes;
    const int64_t first_tile = int64_t(i) * table.tiles;
    const T* row = table.entries + first_tile * (parts + 1) * kRowSumEntries;
    const int* indices = table.indices + first_tile * kRowSumEntries;
    for (int first = 0; first < count; first += kRowSumEntries) {
      const auto* tile = reinterpret_cast<const EntryTile<T>*>(row + int64_t(first) * (parts + 1));
      EntryTile<T> m = tile[parts];  // the slack
#pragma unroll 4
      for (int j = 0; j < parts; ++j) {
        const EntryTile<T> part = tile[j];
#pragma unroll
        for (int e = 0; e < kRowSumEntries; ++e) m.of[e] += h[j] * part.of[e];
      }
#pragma unroll
      for (int e = 0; e < kRowSumEntries; ++e) {
        if (first + e >= count) break;
        if (!rows.factors) {
          sum += clamp_entry(m.of[e]);
          continue;
        }
        const int index = indices[first + e];
        const T term = clamp_entry(index % 2 ? -m.of[e] : m.of[e]);  // max(M, 0) - K
        sum += rows.factors[n * classes + index / 2] * term;
      }
    }
    rows.out[n * classes + i] = sum;
  }
}

#ifndef __CUDACC_RTC__

template <class T>
cudaError_t launch_sign_table(const Transition<T>& transition, const SignTable<T>& table,
                              cudaStream_t stream) {
  PTD_LAUNCH(sign_table<T>, blocks_for(transition.classes, kSignTableRows), kSignTableThreads, 0,
             stream, transition, table);
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_row_sums(const Transition<T>& transition, const SignTable<T>& table,
                            const ClampedRows<T>& rows, cudaStream_t stream) {
  const size_t budget = shared_memory_budget(kRowSumThreads);
  const auto weight_bytes = [&](int samples) {
    return size_t(transition.parts) * size_t(samples + 1) * sizeof(T);
  };
  int samples = kRowSumThreads;
  while (samples > 32 && weight_bytes(samples) > budget) samples /= 2;
  const bool staged = weight_bytes(samples) <= budget;
  const dim3 grid(blocks_for(transition.samples, samples),
                  blocks_for(transition.classes, kRowSumRows));
  PTD_LAUNCH(row_sums_of_samples<T>, grid, kRowSumThreads, staged ? weight_bytes(samples) : 0,
             stream, transition, table, rows, samples, staged);
  return cudaGetLastError();
}

#define PTD_INSTANTIATE(T)                                                             \
  template cudaError_t launch_sign_table<T>(const Transition<T>&, const SignTable<T>&, \
                                            cudaStream_t);                             \
  template cudaError_t launch_row_sums<T>(const Transition<T>&, const SignTable<T>&,   \
                                          const ClampedRows<T>&, cudaStream_t);
PTD_INSTANTIATE(float)
PTD_INSTANTIATE(double)
#undef PTD_INSTANTIATE

#endif

}  // namespace ptd
