// A batch as the kernels take it that read one column of T(x) per sample: the transition losses
// and the clean posterior.
#pragma once

#include "launch.h"
#include "storage.h"

namespace ptd {

// A strided [rows, columns] view; data == nullptr stands for an absent tensor.
template <class S>
struct Rows {
  S* data;
  int64_t row_stride;
  int64_t stride;
  // Rows follow each other without a gap and the first starts at a multiple of 16 bytes: any
  // sixteen of them are a run of whole 16-byte vectors.
  bool flat;
};

#ifndef __CUDACC_RTC__
template <class S>
inline Rows<S> rows_of(S* data, int64_t row_stride, int64_t stride, int64_t width) {
  const bool aligned = reinterpret_cast<uintptr_t>(data) % 16 == 0;
  return {data, row_stride, stride, aligned && row_stride == width && (stride == 1 || width == 1)};
}
#endif

struct LabelView {
  const void* data;  // [N] int64 or int32
  int64_t stride;
  bool is_int64;
};

template <class S>
struct LabelBatch {
  using T = Accumulation<S>;

  Rows<const S> logits;   // [N, C]
  LabelView labels;       // [N]
  Rows<const T> weights;  // [N, R]; absent: one part of weight one
  const T* columns;       // [C, R, C]: columns[k][j][i] = parts[j][i][k]
  const T* slack;         // [C, C] or nullptr
  int64_t slack_row_stride, slack_stride;
  T* row_sums;  // [N, C], of T(x) + slack clamped at zero; read or written only with slack
  int64_t samples;
  int classes, parts;
  int64_t ignore_index;
  T smoothing, smoothing_floor;  // epsilon, epsilon / C
};

// The factors of dL/dM, M = T(x) + slack, that a gradient with respect to column y comes to:
//
//   dL/dM_ik = [M_ik > 0] (entry_i [k = y] - row_i)    with slack
//   dL/dM_ik = entry_i [k = y]                         without
template <class T>
struct ColumnGradient {
  T* entry;  // [N, C], or nullptr where not asked for
  T* row;    // [N, C], with slack
};

}  // namespace ptd
