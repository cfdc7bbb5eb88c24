// The sign table of a range of rows of T(x) + slack: the entries whose sign is the same for every
// sample of a batch. It is computed at every call.
//
// With weights h >= 0 that sum to between `least` and `most`, entry (i, k) lies for every sample
// between least * min_j P^j_ik + slack_ik and most * max_j P^j_ik + slack_ik. If both are positive,
// the entry is never clamped and its term in the row sum is linear in h:
//
//   r_i = constant_i + sum_j h_j linear_ji + sum over k of unknown sign of max(m_ik, 0)
//
// If both are negative, the entry is always clamped and adds nothing. Entries of unknown sign are
// evaluated for each sample, over the parts that are non-zero there: rows of P are projections onto
// the simplex, so with many classes most of their entries are exact zeros. Nothing is approximated.
// The gradient reads the signs that this evaluation found, a bit each.
//
// A thread fills the table of its own rows and uses it for all samples, because reading data that
// another core has just written is slow.
#pragma once

#include <stdint.h>

namespace ptd {

struct WeightBounds {
  double least, most;  // of the sum of a sample's weights
  bool usable;         // true if all weights are finite and >= 0
};

// An entry of unknown sign: its column k, and a bit for each group of parts, set if one of them is
// not zero at this entry.
struct UnknownSign {
  int32_t column;
  uint32_t groups;
};

// Parts [b * parts_of_a_bit, (b + 1) * parts_of_a_bit) belong to bit b.
constexpr int64_t parts_of_a_bit(int64_t parts) { return (parts + 31) / 32; }

// The number of samples that the kernels which loop over rows handle at a time.
constexpr int64_t kSignSamples = 256;

template <class T>
struct SignTable {
  int64_t begin, end;    // the rows, from a multiple of the lanes on
  T* linear;             // [rows, R]
  T* constant;           // [rows]
  int32_t* count;        // [rows]: the number of entries of unknown sign
  UnknownSign* unknown;  // [rows, C]: the first `count` of each row are used
  uint32_t* positive;    // [C, rows / lanes, rounded up]: a bit for each row, set if m > 0 is known
  // [all entries of unknown sign, kSignSamples / lanes]: a bit for each sample of the last call of
  // row_sums_by_sign, set unless m <= 0; or nullptr if no gradient follows.
  uint16_t* signs;
};

}  // namespace ptd
