// Whether an entry of T(x) + slack is clamped, for all weights on the simplex at once: T_ik(x) is
// between the least and the largest P^j_ik of all parts.
#pragma once

#include "../math/revision.h"
#include "launch.h"

namespace ptd {

// How far from one the sum of a sample's weights may be for its entries to be decided.
constexpr float kWeightsOff = 1.0f / 256;
// Of the numbers it is the difference of, what an entry may be wrong by for rounding.
constexpr float kRounding = 1.0f / 65536;

enum class Entry { kUndecided, kNeverClamped, kAlwaysClamped };

// An entry between least + slack and most + slack, both not NaN. What is never clamped has no need
// for that to be exact: it is far from zero, or a sum of nothing negative.
template <class T>
__device__ __forceinline__ Entry decide(T least, T most, T slack) {
  if (clamp_entry(most) * T(1.0f + kWeightsOff) + slack <= T(0)) return Entry::kAlwaysClamped;
  if (!(least >= T(0))) return Entry::kUndecided;
  const T off = least * T(1.0f - kWeightsOff) + slack;
  const bool never = slack >= T(0) || off >= T(kRounding) * (most - slack);
  return never ? Entry::kNeverClamped : Entry::kUndecided;
}

}  // namespace ptd
