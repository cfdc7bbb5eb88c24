// The transition T(x) of a batch of samples, as every CPU kernel takes it.
#pragma once

#include "row_sums/sign_table.h"
#include "views.h"

namespace ptd {

// The number of samples in a block. Each load from `columns` serves all samples of a block, and at
// the paper's sizes a block's rows stay in the L1 cache.
constexpr int64_t kBlock = 16;

// The parts as a strided view, in the layout of their tensor.
template <class T>
struct PartsView {
  const T* data;
  int64_t count, classes;  // R, C
  int64_t part_stride, row_stride, stride;
};

template <class T>
struct Batch {
  int64_t samples;   // N
  int64_t classes;   // C
  int64_t parts;     // R
  Matrix weights;    // [N, R]; absent: one part of weight one
  const T* columns;  // [C, R, C]: columns[k][j][i] = parts[j][i][k], so a column is contiguous
  // [C]: the index in `columns` of each label's column; nullptr if `columns` holds all columns.
  const int32_t* column_index = nullptr;
  const T* slack;             // [C, C] transposed, slack[k][i]; or nullptr
  bool has_row_sums = false;  // true if the row sums need no computation by the kernels
};

// The requested gradients; those not requested are nullptr. Kernels add to `columns` and `slack`,
// so that samples can be handled in several ranges; they overwrite rows of `logits` and `weights`.
template <class T>
struct Gradients {
  Matrix logits;   // [N, C] in the type of the logits
  Matrix weights;  // [N, R]
  T* columns;      // [C, R, C]
  T* slack;        // [C, C] transposed
  // [N, C] or nullptr. If present, the losses write row_i (gradients/scatter.h) here instead of
  // subtracting it from the gradient of slack; the sign tables then subtract it.
  T* row_grad;
};

}  // namespace ptd
