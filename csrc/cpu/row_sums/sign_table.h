// The sign table of some rows of T(x) + slack: entries whose sign is the same for every sample of a
// batch, found anew at every call.
//
// With weights h >= 0 that sum to between `least` and `most`, entry (i, k) lies for every sample
// between least * min_j P^j_ik + slack_ik and most * max_j P^j_ik + slack_ik. Where both are
// positive the entry is never clamped and its part of the row sum is linear in h:
//
//   r_i = constant_i + sum_j h_j linear_ji + sum over k of unknown sign of max(m_ik, 0)
//
// Where both are negative it is always clamped and adds nothing. Entries of unknown sign are
// evaluated sample by sample, over the parts that are non-zero there: rows of P come out of a
// projection onto the simplex, so at many classes most are exact zeros. Nothing is approximated.
//
// A thread makes the table of its rows and uses it for all samples: what one thread writes another
// reads slowly.
#pragma once

#include <stdint.h>

namespace ptd {

struct WeightBounds {
  double least, most;  // of the sum of a sample's weights
  bool usable;         // all weights finite and >= 0
};

// An entry of unknown sign: its column k, and a bit for each group of parts, set where one of them
// is not zero.
struct UnknownSign {
  int32_t column;
  uint32_t groups;
};

// Parts [b * parts_of_a_bit, (b + 1) * parts_of_a_bit) belong to bit b.
constexpr int64_t parts_of_a_bit(int64_t parts) { return (parts + 31) / 32; }

template <class T>
struct SignTable {
  int64_t begin, end;    // the rows, from a multiple of the lanes on
  T* linear;             // [rows, R]
  T* constant;           // [rows]
  int32_t* count;        // [rows]: the entries of unknown sign
  UnknownSign* unknown;  // [rows, C]: they stand first in each row
  uint32_t* positive;    // [C, rows / lanes]: a bit for each row, set where it is known that m > 0
};

// Samples that are taken at a time by what goes through rows.
constexpr int64_t kSignSamples = 256;

}  // namespace ptd
