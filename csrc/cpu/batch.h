// The transition T(x) of a batch of samples, as every CPU kernel takes it.
#pragma once

#include "row_sums/sign_table.h"
#include "views.h"

namespace ptd {

// Samples are worked on in blocks of this many, so that what is read of `columns` serves them all
// while a block's rows stay in the first-level cache at the paper's sizes.
constexpr int64_t kBlock = 16;

// Parts in the layout of their tensor.
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
  // [C]: where in `columns` each column stands that a label asks for; nullptr where all are there.
  const int32_t* column_index = nullptr;
  const T* slack;             // [C, C] transposed, slack[k][i]; or nullptr
  bool has_row_sums = false;  // the forward operator's row sums are there already
};

// Gradients asked for; absent ones are nullptr. `columns` and `slack` are added to, so that samples
// can be handled in several ranges; rows of `logits` and `weights` are written.
template <class T>
struct Gradients {
  Matrix logits;   // [N, C] in the type of the logits
  Matrix weights;  // [N, R]
  T* columns;      // [C, R, C]
  T* slack;        // [C, C] transposed
  // [N, C] or nullptr: where the losses leave what rows of the matrix take from the gradient of
  // slack, for row_sums/sign_table.h, instead of taking it off themselves.
  T* row_grad;
};

}  // namespace ptd
