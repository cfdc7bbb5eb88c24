// An operator that maps rows to rows, and its gradient. Op defines the computation for one row; a
// short row has eight lanes of a warp, a long one a block (row_threads.cuh).
// Bytes that must move: 2 rows length sizeof(T) forward, 3 rows length sizeof(T) backward.
#pragma once

#include "simplex/row_threads.cuh"

namespace ptd {

// out = Op::of_row(x), row by row.
template <class Op, class T, int kLanes>
__global__ void __launch_bounds__(kRowThreads<kLanes>)
    row_operator(const T* __restrict__ x,  // [rows, length]
                 T* __restrict__ out,      // [rows, length]
                 int64_t rows, int length) {
  using Threads = RowThreads<T, kLanes>;
  __shared__ typename Threads::Scratch scratch;
  Threads threads(scratch);
  const int64_t row = int64_t(blockIdx.x) * threads.rows_per_block() + threads.row_of_block();
  if (row >= rows) return;
  const Row<T, kLanes> entries(x + row * length, length);
  Op::of_row(threads, entries, out + row * length, length);
}

// out = Op::gradient_of_row(grad, saved), row by row; `saved` is the operator's input or result.
template <class Op, class T, int kLanes>
__global__ void __launch_bounds__(kRowThreads<kLanes>)
    row_operator_backward(const T* __restrict__ grad,   // [rows, length]
                          const T* __restrict__ saved,  // [rows, length]
                          T* __restrict__ out,          // [rows, length]
                          int64_t rows, int length) {
  using Threads = RowThreads<T, kLanes>;
  __shared__ typename Threads::Scratch scratch;
  Threads threads(scratch);
  const int64_t row = int64_t(blockIdx.x) * threads.rows_per_block() + threads.row_of_block();
  if (row >= rows) return;
  const Row<T, kLanes> grads(grad + row * length, length), entries(saved + row * length, length);
  Op::gradient_of_row(threads, grads, entries, out + row * length, length);
}

#ifndef __CUDACC_RTC__

// A short row has eight lanes of a warp, a long one a block.
struct RowPlan {
  bool is_short;
  unsigned blocks, threads;

  RowPlan(int64_t rows, int64_t length)
      : is_short(length <= kShortRow),
        blocks(is_short ? blocks_for(rows, kShortRowThreads / kShortRowLanes) : unsigned(rows)),
        threads(is_short ? unsigned(kShortRowThreads) : whole_warps(length, kLongRowThreads)) {}
};

template <class Op, class T>
cudaError_t launch_row_operator(const T* x, T* out, int64_t rows, int64_t length,
                                cudaStream_t stream) {
  const RowPlan plan(rows, length);
  if (plan.is_short) {
    PTD_LAUNCH((row_operator<Op, T, kShortRowLanes>), plan.blocks, plan.threads, 0, stream, x, out,
               rows, int(length));
  } else {
    PTD_LAUNCH((row_operator<Op, T, kWholeBlock>), plan.blocks, plan.threads, 0, stream, x, out,
               rows, int(length));
  }
  return cudaGetLastError();
}

template <class Op, class T>
cudaError_t launch_row_operator_backward(const T* grad, const T* saved, T* out, int64_t rows,
                                         int64_t length, cudaStream_t stream) {
  const RowPlan plan(rows, length);
  if (plan.is_short) {
    PTD_LAUNCH((row_operator_backward<Op, T, kShortRowLanes>), plan.blocks, plan.threads, 0, stream,
               grad, saved, out, rows, int(length));
  } else {
    PTD_LAUNCH((row_operator_backward<Op, T, kWholeBlock>), plan.blocks, plan.threads, 0, stream,
               grad, saved, out, rows, int(length));
  }
  return cudaGetLastError();
}

#endif

}  // namespace ptd
