// Four samples of a label that share a warp. Lane l has classes E l to E l + E - 1 of all four;
// where there are none, it has the first, and these do not count.
//
// What is needed once per sample is computed by eight lanes of its own (sample_lanes.cuh), for all
// four at a time.
#pragma once

#include "sample_lanes.cuh"

namespace ptd {

constexpr int kQuartet = 4;  // samples

// Of four samples, what is joined over all lanes; each sample's in its own.
template <class Join>
__device__ __forceinline__ float to_own_lanes(const float (&of)[kQuartet], const Join& join) {
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
__device__ __forceinline__ float sum_to_own_lanes(const float (&of)[kQuartet]) {
  return to_own_lanes(of, [](float a, float b) { return a + b; });
}
__device__ __forceinline__ float max_to_own_lanes(const float (&of)[kQuartet]) {
  return to_own_lanes(of, [](float a, float b) { return max_of(a, b); });
}

// What sample s has in its own lanes.
template <class T>
__device__ __forceinline__ T of_sample(T own, int s) {
  return __shfl_sync(0xffffffffu, own, s * (kWarp / kQuartet));
}

template <int E>
struct WarpSamples {
  float z[kQuartet][E];       // logits
  float column[kQuartet][E];  // column y of T(x), before smoothing
  bool has_classes;           // this lane, of its own

  // The sums of loss_terms.h for the lane's own sample; both may have a factor near one in common,
  // unless `exactly`.
  __device__ __forceinline__ ColumnSums<float> sums(const Smoothing<float>& smooth, bool exactly) {
    // exp(z - top) is 2^(z log2(e) - scaled), by one multiply-add, but for a power of two that
    // rounding `scaled` leaves: it is the same for all classes, and near one for a moderate top.
    constexpr float kLog2E = 1.4426950408889634f, kMostTop = 0x1p20f;
    const float top = largest([](float) { return true; });
    ColumnSums<float> sums{top, top, 0.0f, 0.0f};
    const bool leaves_out = !(smooth.floor > 0.0f);  // smoothing leaves no class out
    if (leaves_out) {
      const float open_top = largest([](float entry) { return entry > 0.0f; });
      // A column without mass: nothing of it overflows, and its sum is zero.
      if (open_top > -infinity<float>()) sums.column_shift = open_top;
      sums.column_sum = open_column_sum(smooth, sums.column_shift);
    }
    // Where the top is not moderate, logits are taken relative to it.
    const bool far = !(fabsf(top) <= kMostTop);
    if (__any_sync(0xffffffffu, far)) {
#pragma unroll
      for (int s = 0; s < kQuartet; ++s) {
        const float base = of_sample(far ? top : 0.0f, s);
#pragma unroll
        for (int e = 0; e < E; ++e) z[s][e] -= base;
      }
    }
    const float near_top = far ? 0.0f : top, scaled = near_top * kLog2E;
    float of_exps[kQuartet], of_column[kQuartet];
#pragma unroll
    for (int s = 0; s < kQuartet; ++s) {
      const float scaled_s = of_sample(scaled, s);
      float all = 0.0f, products = 0.0f;
#pragma unroll
      for (int e = 0; e < E; ++e) {
        const float x = quick_exp2(fmaf(z[s][e], kLog2E, -scaled_s));
        all = e == 0 ? x : all + x;
        products = e == 0 ? x * column[s][e] : products + x * column[s][e];
      }
      of_exps[s] = has_classes ? all : 0.0f;
      of_column[s] = has_classes ? products : 0.0f;
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
  __device__ __forceinline__ float largest(const Wanted& wanted) const {
    float tops[kQuartet];
#pragma unroll
    for (int s = 0; s < kQuartet; ++s) {
      tops[s] = -infinity<float>();
#pragma unroll
      for (int e = 0; e < E; ++e) {
        if (wanted(column[s][e])) tops[s] = max_of(tops[s], z[s][e]);
      }
    }
    return max_to_own_lanes(tops);
  }

  // U of the lane's own sample, where classes may have no part in the column.
  __device__ __forceinline__ float open_column_sum(const Smoothing<float>& smooth,
                                                   float column_top) const {
    float of_column[kQuartet];
#pragma unroll
    for (int s = 0; s < kQuartet; ++s) {
      const float column_top_s = of_sample(column_top, s);
      of_column[s] = 0.0f;
#pragma unroll
      for (int e = 0; e < E; ++e) {
        const float u = smooth(column[s][e]);
        if (has_classes && u != 0.0f) of_column[s] += quick_exp(z[s][e] - column_top_s) * u;
      }
    }
    return sum_to_own_lanes(of_column);
  }
};

}  // namespace ptd
