// T(x) + slack, clamped at zero and divided by its row sums.
//
// A row with nothing positive becomes uniform, with zero gradient. So does a row whose sum is
// subnormal: one over it could be infinite, and where subnormal numbers are flushed to zero nothing
// would be left of it anyway. NaN is not clamped away: it must reach the loss, where somebody sees
// it.
#pragma once

#include "host_device.h"

namespace ptd {

template <class T>
PTD_HD T clamp_entry(T entry) {
  return entry <= T(0) ? T(0) : entry;
}

// True of a row that becomes uniform, false of one with a NaN.
template <class T>
PTD_HD bool is_empty_row(T row_sum) {
  return row_sum < smallest_normal<T>();
}

// clamped / row_sum, where clamped is an entry of the row that row_sum adds up.
template <class T>
PTD_HD T normalised_entry(T clamped, T row_sum, T uniform) {
  return is_empty_row(row_sum) ? uniform : clamped / row_sum;
}

// 1 / row_sum as the gradient sees it: a uniform row does not depend on its entries.
template <class T>
PTD_HD T inverse_row_sum(T row_sum) {
  return is_empty_row(row_sum) ? T(0) : T(1) / row_sum;
}

}  // namespace ptd
