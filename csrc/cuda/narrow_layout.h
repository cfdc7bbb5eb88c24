// The dynamic shared memory of a narrow block (narrow.cuh), set out by the launcher.
#pragma once

#include "blocks.h"
#include "decided_table.h"

namespace ptd {

constexpr int kNarrowMostWarps = 16;
constexpr int kNarrowMostThreads = 32 * kNarrowMostWarps;
constexpr int kNarrowMaxClasses = 14;
constexpr int kNarrowSlackPitch = 16;
constexpr int kLoneSamples = 32;  // of a warp: a lane for each
constexpr int kLoneParts = 10;    // staged at a time
constexpr int kPairSamples = 16;  // of a warp: two lanes for each

struct NarrowLayout {
  // The parts, [C, R, C] floats with padding after rows and columns, in floats.
  int row_pitch, row_padding, column_pitch, column_padding, padded;
  // floor(2^32 / C) + 1 and floor(2^32 / (R C)) + 1: the high half of the product with e is e / C
  // and e / (R C), for every e that shared memory has room for.
  unsigned by_row, by_column;
  int slack;              // [C, 16] floats; in bytes, as what follows
  int tiles, tile_bytes;  // one for each warp
  int bytes;
};

#ifndef __CUDACC_RTC__

// Whether samples have to have two lanes: backward with slack they do, for want of registers.
inline bool in_pairs(int classes, int parts, bool has_slack, bool backward) {
  return classes > kLoneClasses || (has_slack && (backward || parts > kSlackParts));
}

inline unsigned reciprocal(int divisor) {  // more than one
  return static_cast<unsigned>((uint64_t(1) << 32) / static_cast<uint64_t>(divisor) + 1);
}

inline NarrowLayout narrow_layout(int classes, int parts, bool has_slack, bool pairs, int warps) {
  const auto round_up = [](int value, int unit) { return (value + unit - 1) / unit * unit; };
  NarrowLayout layout;
  layout.row_pitch = round_up(classes, 2);
  // Twice an odd number: columns of up to sixteen labels start in different even banks, so that
  // reads of one class or of two are free of conflicts; a second half of the classes, an odd number
  // of them further on, has the odd banks.
  layout.column_pitch = round_up(parts * layout.row_pitch - 2, 4) + 2;
  layout.padded = classes * layout.column_pitch + 16;
  layout.row_padding = layout.row_pitch - classes;
  layout.column_padding = layout.column_pitch - parts * layout.row_pitch;
  layout.by_row = reciprocal(classes);
  layout.by_column = reciprocal(parts * classes);
  layout.slack = round_up(layout.padded * 4, 16);
  layout.tiles = layout.slack + (has_slack ? classes * kNarrowSlackPitch * 4 : 0);
  // A lone lane with slack has its parts and slack in a table.
  if (has_slack && !pairs) layout.tiles = sizeof(DecidedTable);
  // In turn rows of logits, of weights (a lone lane's: some at a time) and of results.
  const int staged = pairs ? parts : kLoneParts, samples = pairs ? kPairSamples : kLoneSamples;
  layout.tile_bytes = samples * (staged > classes ? staged : classes) * 4;
  layout.bytes = layout.tiles + warps * layout.tile_bytes;
  return layout;
}

// The fewest warps, eight or sixteen, whose block leaves half of a multiprocessor's warps room:
// the parts are there once per block, so more warps have less of them each. Zero if neither does.
inline int narrow_warps(int classes, int parts, bool has_slack, bool pairs) {
  constexpr int kStatic = 512;  // for the kernels' own
  if (classes < 2 || classes > kNarrowMaxClasses) return 0;
  if (parts > kNarrowMostWarps * kSharedOfWarp) return 0;  // and so are the numbers too large
  // The table of a lone lane with slack is staged by as many as there can be.
  const int least = has_slack && !pairs ? kNarrowMostWarps : kNarrowMostWarps / 2;
  for (int warps = least; warps <= kNarrowMostWarps; warps *= 2) {
    const int bytes = narrow_layout(classes, parts, has_slack, pairs, warps).bytes;
    if (bytes + kStatic <= warps * kSharedOfWarp) return warps;
  }
  return 0;
}

#endif

}  // namespace ptd
