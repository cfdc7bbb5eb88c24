// One sample, held in registers by a team of threads: its softmax sums against a column of T(x),
// and from them losses, posteriors and gradients. The formulas are in math/loss_terms.h.
//
// Each thread of the team has V of the classes. Classes beyond the last have z = -infinity, which
// takes them out of every sum.
#pragma once

#include "../math/loss_terms.h"
#include "../math/revision.h"
#include "label_batch.cuh"
#include "reduce.cuh"
#include "scalar.cuh"

namespace ptd {

// A thread that has all classes of its sample.
template <class T>
struct LoneTeam {
  static constexpr int kRuns = 1;  // of classes, that differ in order from sample to sample
  __device__ __forceinline__ T sum(T x) const { return x; }
  __device__ __forceinline__ T max(T x) const { return x; }
};

// Lanes l and l + 16 of a warp. All 32 take part, so that all pairs meet at one shuffle.
template <class T>
struct PairTeam {
  static constexpr int kRuns = 1;
  __device__ __forceinline__ T sum(T x) const { return x + __shfl_xor_sync(0xffffffffu, x, 16); }
  __device__ __forceinline__ T max(T x) const {
    return max_of(x, __shfl_xor_sync(0xffffffffu, x, 16));
  }
};

// Two scratch arrays in turn: the barrier inside one reduction ends the use of the one before.
template <class T>
struct BlockTeam {
  static constexpr int kRuns = 1;
  T* scratch;  // shared, [2, 32]
  int turn = 0;

  __device__ __forceinline__ T* next() { return scratch + kWarp * (turn ^= 1); }
  __device__ __forceinline__ T sum(T x) { return block_sum(x, next()); }
  __device__ __forceinline__ T max(T x) { return block_max(x, next()); }
};

template <class T, int V>
struct Share {
  T z[V];       // logits
  T column[V];  // column y of T(x), before smoothing
  // Where a thread's classes are: `run` of them, each `apart` from the one before, and the next a
  // step further on, or where `flip` takes the first (sample_lanes.cuh).
  int first, step, run = 1, apart = 1, flip = 0;

  __device__ __forceinline__ int index(int v) const {
    return (first ^ v / run * flip) + v / run * step + v % run * apart;
  }
};

// normalised_entry of math/revision.h, to a few units in the last place.
template <class T>
__device__ __forceinline__ T quickly_normalised(T clamped, T row_sum, T uniform) {
  const T quotient = quick_quotient(clamped, row_sum);
  return row_sum == T(0) ? uniform : quotient;
}

// u = (1 - epsilon) column + epsilon / C.
template <class T>
struct Smoothing {
  T scale, floor;

  template <class S>
  __device__ __forceinline__ explicit Smoothing(const LabelBatch<S>& batch)
      : scale(T(1) - batch.smoothing), floor(batch.smoothing_floor) {}
  __device__ __forceinline__ T operator()(T column) const { return scale * column + floor; }
};

// e_i of loss_terms.h: kept where there are registers for it, else computed again.
template <class T, int V, bool kKept>
struct Exponentials {
  T of[kKept ? V : 1];
  T shift;

  // What is not kept is not to be kept from now on.
  __device__ __forceinline__ void forget() {
    if constexpr (!kKept) shift = opaque(shift);
  }

  __device__ __forceinline__ T operator()(const Share<T, V>& share, int v) const {
    if constexpr (kKept) {
      return of[v];
    } else {
      return quick_exp(share.z[v] - shift);
    }
  }
};

// A sum over a thread's classes, which are kRuns runs in an order that may differ from team to
// team: to the bit, it does not depend on that order.
template <class T, int V, int kRuns>
struct ShareSum {
  static_assert(V % kRuns == 0 && (kRuns == 1 || kRuns == 2 || kRuns == 4));
  static constexpr int kRun = V / kRuns;
  T of[kRuns];

  __device__ __forceinline__ void add(int v, T x) {
    of[v / kRun] = v % kRun == 0 ? x : of[v / kRun] + x;
  }
  __device__ __forceinline__ void add_product(int v, T x, T y) {
    of[v / kRun] = v % kRun == 0 ? rounded_product(x, y) : of[v / kRun] + x * y;
  }
  __device__ __forceinline__ T sum() const {
    if constexpr (kRuns == 4) return (of[0] + of[1]) + (of[2] + of[3]);
    if constexpr (kRuns == 2) return of[0] + of[1];
    return of[0];
  }
};

// The sums of loss_terms.h.
template <class T, int V, bool kKept, class Team>
__device__ __forceinline__ ColumnSums<T> column_sums(const Share<T, V>& share,
                                                     const Smoothing<T>& smooth, Team& team,
                                                     Exponentials<T, V, kKept>& kept) {
  ColumnSums<T> sums;
  constexpr int kAtOnce = V % 4 == 0 ? 4 : 1;  // so that they do not wait for each other
  T tops[kAtOnce];
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const T z = share.z[v];
    tops[v % kAtOnce] = max_of(v < kAtOnce ? -infinity<T>() : tops[v % kAtOnce], z);
  }
#pragma unroll
  for (int a = 1; a < kAtOnce; ++a) tops[0] = max_of(tops[0], tops[a]);
  sums.shift = sums.column_shift = team.max(tops[0]);
  if (!(smooth.floor > T(0))) {  // smoothing leaves no class out
    T open_top = -infinity<T>();
#pragma unroll
    for (int v = 0; v < V; ++v) {
      if (share.column[v] > T(0)) open_top = max_of(open_top, share.z[v]);
    }
    open_top = team.max(open_top);
    // A column without mass: nothing of it overflows, and its sum is zero.
    if (open_top > -infinity<T>()) sums.column_shift = open_top;
  }
  ShareSum<T, V, Team::kRuns> exps, products;
#pragma unroll
  for (int v = 0; v < V; v += kAtOnce) {
    T e[kAtOnce];
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) e[a] = share.z[v + a] - sums.shift;
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) e[a] = quick_exp(e[a]);
#pragma unroll
    for (int a = 0; a < kAtOnce; ++a) {
      exps.add(v + a, e[a]);
      if constexpr (kKept) {
        kept.of[v + a] = e[a];
      } else {
        products.add_product(v + a, e[a], share.column[v + a]);
      }
    }
  }
  const T exp_sum = exps.sum();
  T column_sum;
  if (sums.column_shift == sums.shift || sums.shift != sums.shift) {
    if constexpr (kKept) {
#pragma unroll
      for (int v = 0; v < V; ++v) products.add_product(v, kept.of[v], share.column[v]);
    }
    column_sum = smooth.scale * products.sum() + smooth.floor * exp_sum;
  } else {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const T u = smooth(share.column[v]);
      products.add(
          v, u != T(0) ? rounded_product(quick_exp(share.z[v] - sums.column_shift), u) : T(0));
    }
    column_sum = products.sum();
  }
  kept.shift = sums.shift;
  kept.forget();
  sums.exp_sum = team.sum(exp_sum);
  sums.column_sum = team.sum(column_sum);
  return sums;
}

// e'_i of loss_terms.h, given e_i; infinite where it should saturate.
template <class T>
__device__ __forceinline__ T column_exp(const ColumnSums<T>& sums, T z, T e) {
  return sums.column_shift == sums.shift ? e : quick_exp(z - sums.column_shift);
}

// e'_i u_i, which is zero where exp may saturate because u_i is.
template <class T>
__device__ __forceinline__ T joint(T column_e, T u) {
  return u <= T(0) ? T(0) : column_e * u;
}

template <class T, int V, class Team>
__device__ __forceinline__ T label_logit(const Share<T, V>& share, int y, Team& team) {
  T z = -infinity<T>();
#pragma unroll
  for (int v = 0; v < V; ++v) z = share.index(v) == y ? share.z[v] : z;
  return team.max(z);
}

// q = softmax(z + log u), of a thread's classes.
template <class T, int V, bool kKept>
struct Posterior {
  Exponentials<T, V, kKept> e;
  ColumnSums<T> sums;
  T inverse;

  template <class Team>
  __device__ __forceinline__ Posterior(const Share<T, V>& share, const Smoothing<T>& smooth,
                                       Team& team)
      : sums(column_sums(share, smooth, team, e)),
        // NaN where a logit is, even if u is zero there.
        inverse(sums.exp_sum == sums.exp_sum ? T(1) / sums.column_sum : sums.exp_sum) {}

  __device__ __forceinline__ T q(const Share<T, V>& share, const Smoothing<T>& smooth,
                                 int v) const {
    const T column_e = column_exp(sums, share.z[v], e(share, v));
    return joint(column_e, smooth(share.column[v])) * inverse;
  }
  // factor q_i / u_i, in an order in which no zero meets an infinity.
  __device__ __forceinline__ T quotient(const Share<T, V>& share, int v, T factor) const {
    const T column_e = column_exp(sums, share.z[v], e(share, v));
    const T most = largest_number<T>();
    return factor * inverse * (column_e > most ? most : column_e);
  }
};

// Takes dL/du of class v of a thread's share on to the factors of dL/dM:
//
//   entry_i = (1 - epsilon) dL/du_i / r_i,   row_i = entry_i u'_i
//
// for u' the column before smoothing. Without slack r = 1, and there is no row. An entry that has
// overflowed because u is zero saturates.
template <bool kSlack, class S, class T, int V>
__device__ __forceinline__ void write_factors(const LabelBatch<S>& batch,
                                              const ColumnGradient<T>& grads,
                                              const Share<T, V>& share, int64_t n, int v,
                                              T grad_u) {
  if (!grads.entry || share.index(v) >= batch.classes) return;
  const int64_t at = n * batch.classes + share.index(v);
  T entry = (T(1) - batch.smoothing) * grad_u;
  if constexpr (kSlack) entry *= inverse_row_sum(batch.row_sums[at]);
  // Where u' is zero; without slack, there are no registers left to keep u' in for that.
  if (kSlack ? share.column[v] == T(0) : batch.smoothing == T(0)) entry = saturated(entry);
  if constexpr (kSlack) grads.row[at] = entry * share.column[v];
  grads.entry[at] = entry;
}

}  // namespace ptd
