// The dynamic shared memory of a narrow block (narrow.cuh), set out by the launcher.
#pragma once

#include "launch.h"

namespace ptd {

constexpr int kNarrowThreads = 256;
constexpr int kNarrowWarps = kNarrowThreads / 32;
constexpr int kNarrowMaxClasses = 14;
constexpr int kNarrowSlackPitch = 16;
constexpr int kLoneClasses = 10;  // the most that a lane alone has registers for
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
  int tile_logits;        // where a tile of pairs has its logits
  int bytes;
};

#ifndef __CUDACC_RTC__

// Whether samples have two lanes.
inline bool in_pairs(int classes, bool has_slack) { return has_slack || classes > kLoneClasses; }

inline unsigned reciprocal(int divisor) {  // more than one
  return static_cast<unsigned>((uint64_t(1) << 32) / static_cast<uint64_t>(divisor) + 1);
}

inline NarrowLayout narrow_layout(int classes, int parts, bool has_slack, int logit_bytes) {
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
  if (in_pairs(classes, has_slack)) {  // rows of weights, later of results; rows of logits
    layout.tile_logits = kPairSamples * (parts > classes ? parts : classes) * 4;
    layout.tile_bytes = layout.tile_logits + kPairSamples * classes * logit_bytes;
  } else {  // in turn rows of logits, of some weights, of results
    layout.tile_logits = 0;
    layout.tile_bytes = kLoneSamples * (kLoneParts > classes ? kLoneParts : classes) * 4;
  }
  layout.bytes = layout.tiles + kNarrowWarps * layout.tile_bytes;
  return layout;
}

#endif

}  // namespace ptd
