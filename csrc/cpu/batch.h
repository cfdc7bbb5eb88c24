// The transition T(x) of a batch of samples, as every CPU kernel takes it.
#pragma once

#include "decided.h"
#include "views.h"

namespace ptd {

// Samples are worked on in blocks of this many, so that what is read of `columns` serves them all
// while a block's rows stay in the first-level cache at the paper's sizes.
constexpr int64_t kBlock = 16;
// Where lanes run over samples, there are more of them.
constexpr int64_t kWideBlock = 64;

template <class T>
struct Batch {
  int64_t samples;   // N
  int64_t classes;   // C
  int64_t parts;     // R
  Matrix weights;    // [N, R]; absent: one part of weight one
  const T* columns;  // [C, R, C]: columns[k][j][i] = parts[j][i][k], so a column is contiguous
  const T* slack;    // [C, C] transposed, slack[k][i]; or nullptr
  // What is known of the signs of T(x) + slack; or nullptr, and every entry is evaluated.
  const Decided<T>* decided = nullptr;
  int64_t block = kBlock;  // samples worked on at a time
};

// Gradients asked for; absent ones are nullptr. `columns` and `slack` are added to, so that samples
// can be handled in several ranges; rows of `logits` and `weights` are written.
template <class T>
struct Gradients {
  Matrix logits;   // [N, C] in the type of the logits
  Matrix weights;  // [N, R]
  T* columns;      // [C, R, C]
  T* slack;        // [C, C] transposed
  T* slack_rows;   // [C]: with batch.decided, what is still to be subtracted from slack
};

}  // namespace ptd
