// T(x) + slack, clamped at zero and divided by its row sums.
//
// An empty row, one without a positive entry, becomes uniform, with zero gradient. A row whose sum
// is subnormal counts as empty too: the inverse of the sum could be infinite, and hardware that
// flushes subnormal numbers to zero would see an empty row anyway. NaN is not clamped to zero: it
// must reach the loss, where the user sees it.
#pragma once

#include "host_device.h"

namespace ptd {

template <class T>
PTD_HD T clamp_entry(T entry) {
  return entry <= T(0) ? T(0) : entry;
}

// True for a row that becomes uniform, false for a row with a NaN.
template <class T>
PTD_HD bool is_empty_row(T row_sum) {
  return row_sum < smallest_normal<T>();
}

// clamped / row_sum, where row_sum is the sum of the row that `clamped` is an entry of.
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
