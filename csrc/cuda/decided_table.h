// What a block knows of the entries of T(x) + slack (decided.cuh), in shared memory.
#pragma once

#include "launch.h"

namespace ptd {

constexpr int kLoneClasses = 10;  // the most that a lane alone has registers for
constexpr int kSlackParts = 20;   // the same, with slack
constexpr int kKeptLogits = 6;    // of a sample, in shared memory while row sums are added up

// Whether an entry is positive, as a lane asks it of its own weights: if the products of the bytes
// of `part` and of the weights come to no less than -margin, it is.
struct alignas(16) EntryTest {
  unsigned part[kSlackParts / 4];
  int margin;
  unsigned row;  // the bit of that number
  unsigned padding;
};

struct alignas(16) DecidedTable {
  static constexpr int kMostThreads = 512;
  static constexpr int kRows = 3;  // that a warp decides, three lanes for a class
  static constexpr int kWarps = (kLoneClasses + kRows - 1) / kRows;
  // Lanes read two parts of entries (i, y) at once, y their labels: ten labels are twenty banks.
  static constexpr int kPitch = kSlackParts + 2;
  static constexpr int kLinearPitch = kSlackParts + 4;

  float part[kLoneClasses][kLoneClasses][kPitch];  // P^j_ik at [i][k][j]
  float all[kLoneClasses][kLinearPitch];    // sums over k of those that may be positive, and of
                                            // their slack at [kSlackParts],
  float never[kLoneClasses][kLinearPitch];  // and of those that are never clamped
  EntryTest tests[kWarps][kRows * kLoneClasses];
  float slack[kLoneClasses][kLoneClasses];
  unsigned undecided[kLoneClasses];   // a bit for each k
  int count[kWarps];                  // of tests
  unsigned char label[kMostThreads];  // of each thread's sample, from kBad on
};

}  // namespace ptd
