// The launchers of the sign table of T(x) + slack, and of sums over its rows, clamped at zero. T is
// float or double.
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
  int* slots;    // [C, C] by column: 2 x the slot of entry (i, k) in its row, + 1 if positive
  int* indices;  // [C, tiles, kRowSumEntries]: 2 k + 1 if positive, of the entry in each slot
  T* positive;   // [C, R + 1, C]: parts and slack by column, zero if not positive; or nullptr
  int tiles;     // of a row

#ifndef __CUDACC_RTC__
  // Numbers of scratch memory that a table takes.
  static int64_t size(int64_t classes, int64_t parts) {
    return (parts + 1) * (classes + 1) * padded(classes) + classes * (1 + classes) +
           classes * padded(classes);
  }

  SignTable(T* scratch, int64_t classes, int64_t parts, T* positive = nullptr)
      : linear(scratch),
        entries(linear + (parts + 1) * padded(classes)),
        unknown(reinterpret_cast<int*>(entries + (parts + 1) * classes * padded(classes))),
        slots(unknown + classes),
        indices(slots + classes * classes),
        positive(positive),
        tiles(int(padded(classes) / kRowSumEntries)) {}

 private:
  static int64_t padded(int64_t classes) {
    return ceil_div(classes, kRowSumEntries) * kRowSumEntries;
  }
#endif
};

// Sums over the rows of max(M, 0), M = T(x) + slack:
//
//   out_i = sum_k max(M_ik, 0)                              without factors
//   out_i += start + sum_k factor_k (max(M_ik, 0) - K_ik)   with factors
//
// K_ik is M_ik for entries known to be positive, else zero: their terms are in `out` already.
template <class T>
struct ClampedRows {
  const T* factors;  // [N, C] or nullptr
  const T* start;    // [N] or nullptr
  T* out;            // [N, C]
};

#ifndef __CUDACC_RTC__

template <class T>
cudaError_t launch_sign_table(const Transition<T>& transition, const SignTable<T>& table,
                              cudaStream_t stream);

template <class T>
cudaError_t launch_row_sums(const Transition<T>& transition, const SignTable<T>& table,
                            const ClampedRows<T>& rows, cudaStream_t stream);

#endif

}  // namespace ptd
