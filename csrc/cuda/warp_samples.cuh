// Four samples of a label that share a warp. Lane l has classes l, l + 32, ... of all four, A of
// them, and what is left over at the end, at most 32 classes, is shared out by parts: with b of
// them, lane l has class 32 A + l % b, and of its column of T(x) every (32 / b)th part only, from
// l / b on. So few lanes are idle, and nothing has to be put together: a loss is a sum over classes
// of what is linear in the column.
//
// What is needed once per sample is computed by eight lanes of its own (sample_lanes.cuh), for all
// four at a time.
#pragma once

#include "sample_lanes.cuh"

namespace ptd {

// Of four samples, what is joined over all lanes; each sample's in its own.
template <class Join>
__device__ __forceinline__ float to_own_lanes(const float (&of)[4], const Join& join) {
  const int lane = opaque(lane_id());  // what comes of it is not kept
  const bool odd = (lane & 8) != 0, upper = (lane & 16) != 0;
  float kept[2];
#pragma unroll
  for (int c = 0; c < 2; ++c) {
    const float sent = upper ? of[c] : of[c + 2];
    kept[c] = join(upper ? of[c + 2] : of[c], __shfl_xor_sync(0xffffffffu, sent, 16));
  }
  const float sent = odd ? kept[0] : kept[1];
  float own = join(odd ? kept[1] : kept[0], __shfl_xor_sync(0xffffffffu, sent, 8));
#pragma unroll
  for (int o = 4; o > 0; o /= 2) own = join(own, __shfl_xor_sync(0xffffffffu, own, o));
  return own;
}
__device__ __forceinline__ float sum_to_own_lanes(const float (&of)[4]) {
  return to_own_lanes(of, [](float a, float b) { return a + b; });
}
__device__ __forceinline__ float max_to_own_lanes(const float (&of)[4]) {
  return to_own_lanes(of, [](float a, float b) { return max_of(a, b); });
}

// What sample s has in its own lanes.
__device__ __forceinline__ float of_sample(float own, int s) {
  return __shfl_sync(0xffffffffu, own, s * (kWarp / 4));
}

// The classes that are left over, as a lane has them.
struct LeftOver {
  int classes, turns;  // lanes that have the same class
  int turn;            // of the lane, among these

  // `inverse` is 2^kLeftBits over their number, rounded up: exact enough for quotients of up to 32.
  __device__ __forceinline__ LeftOver(int classes, int inverse, int lane)
      : classes(classes),
        turns(kWarp * inverse >> kLeftBits),
        turn(lane * inverse >> kLeftBits),
        lane(lane) {}
  __device__ __forceinline__ bool has() const { return turn < turns; }
  // Whether this lane has the class before all others.
  __device__ __forceinline__ bool has_first() const { return lane < classes; }
  __device__ __forceinline__ int index() const { return lane - turn * classes; }

 private:
  int lane;
};

template <int A>
struct WarpSamples {
  // Of a lane's classes, the last the one that is left over.
  float z[4][A + 1];       // logits
  float column[4][A + 1];  // column y of T(x), before smoothing; of the last, a summand

  // The sums of loss_terms.h for the lane's own sample; both may have a factor near one in common,
  // unless `exactly`.
  __device__ __forceinline__ ColumnSums<float> sums(const LeftOver& left,
                                                    const Smoothing<float>& smooth, bool exactly) {
    // exp(z - top) is 2^(z log2(e) - scaled), by one multiply-add, but for a power of two that
    // rounding `scaled` leaves: it is the same for all classes, and near one for a moderate top.
    constexpr float kLog2E = 1.4426950408889634f, kMostTop = 0x1p20f;
    const float top = largest(left, [](float) { return true; });
    ColumnSums<float> sums{top, top, 0.0f, 0.0f};
    const bool leaves_out = !(smooth.floor > 0.0f);  // smoothing leaves no class out
    if (leaves_out) {
      complete(left);
      const float open_top = largest(left, [](float entry) { return entry > 0.0f; });
      // A column without mass: nothing of it overflows, and its sum is zero.
      if (open_top > -infinity<float>()) sums.column_shift = open_top;
      sums.column_sum = open_column_sum(left, smooth, sums.column_shift);
    }
    // Where the top is not moderate, logits are taken relative to it.
    const bool far = !(fabsf(top) <= kMostTop);
    if (__any_sync(0xffffffffu, far)) {
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        const float base = of_sample(far ? top : 0.0f, s);
#pragma unroll
        for (int e = 0; e <= A; ++e) z[s][e] -= base;
      }
    }
    const float near_top = far ? 0.0f : top, scaled = near_top * kLog2E;
    float of_exps[4], of_column[4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const float scaled_s = of_sample(scaled, s);
      float exps[A + 1];
#pragma unroll
      for (int e = 0; e <= A; ++e) exps[e] = quick_exp2(fmaf(z[s][e], kLog2E, -scaled_s));
      of_exps[s] = left.has_first() ? exps[A] : 0.0f;
      of_column[s] = left.has() ? exps[A] * column[s][A] : 0.0f;
#pragma unroll
      for (int e = 0; e < A; ++e) {
        of_exps[s] += exps[e];
        of_column[s] += exps[e] * column[s][e];
      }
    }
    sums.exp_sum = sum_to_own_lanes(of_exps);
    const float column_sum = sum_to_own_lanes(of_column);
    if (!leaves_out) sums.column_sum = smooth.scale * column_sum + smooth.floor * sums.exp_sum;
    if (exactly || leaves_out) {
      const float factor = quick_exp2(-fmaf(near_top, kLog2E, -scaled));
      sums.exp_sum *= factor;
      if (!leaves_out) sums.column_sum *= factor;
    }
    return sums;
  }

 private:
  // The largest logit of the lane's own sample, of classes whose entry of the column is wanted.
  template <class Wanted>
  __device__ __forceinline__ float largest(const LeftOver& left, const Wanted& wanted) const {
    float tops[4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      tops[s] = -infinity<float>();
#pragma unroll
      for (int e = 0; e <= A; ++e) {
        if ((e < A || left.has()) && wanted(column[s][e])) tops[s] = max_of(tops[s], z[s][e]);
      }
    }
    return max_to_own_lanes(tops);
  }

  // U of the lane's own sample, where classes may have no part in the column.
  __device__ __forceinline__ float open_column_sum(const LeftOver& left,
                                                   const Smoothing<float>& smooth,
                                                   float column_top) const {
    float of_column[4];
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const float column_top_s = of_sample(column_top, s);
      of_column[s] = 0.0f;
#pragma unroll
      for (int e = 0; e <= A; ++e) {
        const float u = smooth(column[s][e]);
        const bool counts = (e < A || left.has_first()) && u != 0.0f;
        if (counts) of_column[s] += quick_exp(z[s][e] - column_top_s) * u;
      }
    }
    return sum_to_own_lanes(of_column);
  }

  // Puts the left-over class's column together, in all lanes that have a part of it.
  __device__ __forceinline__ void complete(const LeftOver& left) {
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      float whole = 0.0f;
#pragma unroll 1
      for (int turn = 0; turn < left.turns; ++turn) {
        whole += __shfl_sync(0xffffffffu, column[s][A], left.index() + turn * left.classes);
      }
      column[s][A] = whole;
    }
  }
};

}  // namespace ptd
