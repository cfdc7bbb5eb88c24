// Which entries of T(x) can be non-zero, and through which parts: rows of P come out of a
// projection onto the simplex, so at many classes most entries are exact zeros in every part.
//
// Found once for given parts and kept as one block of bytes, in which this is laid out; see
// kept_support.h.
#pragma once

#include <stdint.h>

namespace ptd {

// Entries (i, k) with P^j_ik != 0 for some part j, row by row and by k within a row.
template <class T>
struct Support {
  int64_t entries;
  int64_t nonzeros;
  int32_t* row_first;  // [C + 1] into the entries
  int32_t* first;      // [entries + 1] into the non-zeros
  int32_t* column;     // [entries] k
  T* low;              // [entries] min_j P^j_ik, over all parts
  T* high;             // [entries] max_j P^j_ik
  int32_t* part;       // [nonzeros] j
  T* value;            // [nonzeros] P^j_ik

  static int64_t bytes(int64_t classes, int64_t entries, int64_t nonzeros) {
    return padded(4 * (classes + 1)) + padded(4 * (entries + 1)) + padded(4 * entries) +
           2 * padded(int64_t(sizeof(T)) * entries) + padded(4 * nonzeros) +
           padded(int64_t(sizeof(T)) * nonzeros);
  }

  // The arrays in memory that already holds, or is to hold, a support of these sizes.
  static Support over(char* memory, int64_t classes, int64_t entries, int64_t nonzeros) {
    Support s{};
    s.entries = entries;
    s.nonzeros = nonzeros;
    char* at = memory;
    const auto take = [&](auto*& array, int64_t count) {
      array = reinterpret_cast<decltype(+array)>(at);
      at += padded(int64_t(sizeof(*array)) * count);
    };
    take(s.row_first, classes + 1);
    take(s.first, entries + 1);
    take(s.column, entries);
    take(s.low, entries);
    take(s.high, entries);
    take(s.part, nonzeros);
    take(s.value, nonzeros);
    return s;
  }

 private:
  static int64_t padded(int64_t bytes) { return (bytes + 7) / 8 * 8; }
};

}  // namespace ptd
