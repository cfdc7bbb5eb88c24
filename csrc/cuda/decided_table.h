// What a block knows of the entries of T(x) + slack (decided.cuh), in shared memory.
#pragma once

#include "launch.h"

namespace ptd {

constexpr int kLoneClasses = 10;  // the most that a lane alone has registers for
constexpr int kSlackParts = 20;   // the same, with slack

// Whether an entry is positive, as a lane asks it of its own weights: if the products of the bytes
// of `part` and of the weights come to no less than -margin, it is.
struct alignas(16) EntryTest {
  unsigned part[kSlackParts / 4];
  int margin;
  unsigned row;  // the bit of that number
  unsigned padding;
};

constexpr int kTestsAtOnce = 3;  // by a lane

// A bit for each entry (i, k), at 10 k + i.
struct alignas(16) EntryBits {
  unsigned of[4];
};

struct alignas(16) DecidedTable {
  static constexpr int kMostThreads = 512;
  static constexpr int kEntries = kLoneClasses * kLoneClasses;
  // Lanes read two parts of entries (i, y) at once, y their labels: ten labels are twenty banks.
  static constexpr int kPitch = kSlackParts + 2;
  static constexpr int kLinearPitch = kSlackParts + 4;

  // P^j_ik at [i][k][j], and slack after the last; sums of these over k likewise, of
  float part[kLoneClasses][kLoneClasses][kPitch];
  float all[kLoneClasses][kLinearPitch];    // those that may be positive,
  float never[kLoneClasses][kLinearPitch];  // and those that are never clamped
  EntryTest tests[kEntries + kTestsAtOnce - 1];
  EntryBits is_open, is_never_clamped;
  unsigned undecided[kLoneClasses];  // a bit for each k
  int count;                         // of tests
};

}  // namespace ptd
