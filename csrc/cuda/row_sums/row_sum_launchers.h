// The launcher of row sums of T(x) + slack, clamped at zero. T is float or double.
#pragma once

#include "common/device.h"
#include "common/transition.h"
#include "common/tuning.h"

namespace ptd {

// The sign of each entry of T(x) + slack, if it is known for the whole batch, and the entries in
// the order that row sums read them: in every row, those of unknown sign come first.
template <class T>
struct SignTable {
  T* linear;     // [R + 1, C]: parts and slack, summed over the entries of a row known positive
  T* entries;    // [C, tiles, R + 1, kRowSumEntries]: parts and slack of each entry of a row
  int* unknown;  // [C]: the number of entries of a row whose sign is unknown
  int* slots;    // [C, C] by column: 2 x the index of entry (i, k) in its row, + 1 if positive
  int tiles;     // of a row

#ifndef __CUDACC_RTC__
  // Numbers of scratch memory that a table takes.
  static int64_t size(int64_t classes, int64_t parts) {
    return (parts + 1) * (classes + 1) * padded(classes) + classes + classes * classes;
  }

  SignTable(T* scratch, int64_t classes, int64_t parts)
      : linear(scratch),
        entries(linear + (parts + 1) * padded(classes)),
        unknown(reinterpret_cast<int*>(entries + (parts + 1) * classes * padded(classes))),
        slots(unknown + classes),
        tiles(int(padded(classes) / kRowSumEntries)) {}

 private:
  static int64_t padded(int64_t classes) {
    return ceil_div(classes, kRowSumEntries) * kRowSumEntries;
  }
#endif
};

#ifndef __CUDACC_RTC__

// Writes row_sums [N, C]: r_i = sum_k max(M_ik, 0), M = T(x) + slack.
template <class T>
cudaError_t launch_row_sums(const Transition<T>& transition, const SignTable<T>& table, T* row_sums,
                            cudaStream_t stream);

#endif

}  // namespace ptd
