// Entries of T(x) + slack whose sign is the same for every sample of a batch, found once per step.
//
// With weights h >= 0 that sum to between `least` and `most`, entry (i, k) lies for every sample
// between the bounds that min_j P^j_ik and max_j P^j_ik give. Where both are positive the entry is
// never clamped and its share of the row sum is linear in h:
//
//   r_i = constant_i + sum_j h_j linear_ji + sum over undecided k of max(m_ik, 0)
//
// Where both are negative it is always clamped and adds nothing. What is left is evaluated sample
// by sample, over the parts with P^j_ik != 0: rows of P come out of a projection onto the simplex,
// so these are few. Exact, not an approximation.
#pragma once

#include <stdint.h>

namespace ptd {

struct WeightBounds {
  double least, most;  // of the sum of a sample's weights
  bool usable;         // all weights finite and >= 0
};

// The undecided entries of some columns, each with the parts that are non-zero there.
template <class T>
struct Undecided {
  int64_t entries;
  int32_t* row;      // [entries] i
  int32_t* column;   // [entries] k
  T* slack;          // [entries]
  int64_t* first;    // [entries + 1] into part and value
  int32_t* part;     // j
  T* value;          // P^j_ik
  int64_t capacity;  // of part and value; there is room for every entry of the columns
};

template <class T>
struct Decided {
  const T* linear;              // [R, C]
  const T* constant;            // [C]
  const T* never;               // [C, C] by column: 1 where an entry is never clamped, else 0
  const Undecided<T>* columns;  // [ranges]: columns are divided among threads
  int64_t ranges;
};

}  // namespace ptd
