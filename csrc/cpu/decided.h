// Entries of T(x) + slack whose sign is the same for every sample of a batch, found once per step.
//
// With weights h >= 0 that sum to between `least` and `most`, entry (i, k) lies for every sample
// between least * min_j P^j_ik + slack_ik and most * max_j P^j_ik + slack_ik. Where both are
// positive the entry is never clamped and its share of the row sum is linear in h:
//
//   r_i = constant_i + sum_j h_j linear_ji + sum over undecided k of max(m_ik, 0)
//
// Where both are negative it is always clamped and adds nothing. What is left is evaluated sample
// by sample, over the parts that are non-zero there. Exact, not an approximation.
#pragma once

#include "support.h"

namespace ptd {

struct WeightBounds {
  double least, most;  // of the sum of a sample's weights
  bool usable;         // all weights finite and >= 0
};

template <class T>
struct Decided {
  Support<T> support;
  T* linear;    // [R, C]; nullptr where only gradients are wanted
  T* constant;  // [C]
  T* never;     // [C, C] by column: 1 where an entry is never clamped, else 0
  T* share;     // [entries] of the support: 1 never, -1 always clamped, 0 undecided
  // The undecided entries: those of row i stand from support.row_first[i] on.
  int32_t* count;          // [C]
  int32_t* entry;          // [entries] into the support
  T* entry_slack;          // [entries]
  int64_t* multiply_adds;  // [C] non-zeros of them
};

}  // namespace ptd
