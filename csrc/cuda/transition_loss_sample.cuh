// The loss of a sample that a team of threads holds, and its gradient. math/loss_terms.h has the
// formulas.
#pragma once

#include "column.cuh"
#include "loss_mean.cuh"

namespace ptd {

template <class T>
__device__ __forceinline__ T class_weight_of(const LossRule<T>& rule, int y) {
  return rule.class_weight ? rule.class_weight[y * rule.class_weight_stride] : T(1);
}

template <class T, int V, class Team>
__device__ __forceinline__ LossTerms<T> terms_of(const LossRule<T>& rule, const Share<T, V>& share,
                                                 const ColumnSums<T>& sums, int y, Team& team) {
  const T z_y = rule.importance == kForward ? T(0) : label_logit(share, y, team);
  return loss_terms(sums, z_y, rule.importance, rule.max_importance);
}

template <class S, class T, int V, class Team>
__device__ __forceinline__ T loss_of(const LabelBatch<S>& batch, const LossRule<T>& rule,
                                     const Share<T, V>& share, int label, Team& team) {
  Exponentials<T, V, false> e;
  const ColumnSums<T> sums = column_sums(share, Smoothing<T>(batch), team, e);
  return terms_of(rule, share, sums, class_or_first(label), team).loss;
}

// What a sample adds to the sums of its batch. `loss` is what its column gives; it does not count
// unless its label does.
template <class T>
__device__ __forceinline__ LossSums counted(const LossRule<T>& rule, const LossOutputs<T>& out,
                                            int64_t n, int label, T loss) {
  const T weight = label >= 0 ? class_weight_of(rule, label) : T(0);
  if (label >= 0) loss *= weight;
  if (label == kIgnored) loss = T(0);
  if (label == kBad) loss = not_a_number<T>();
  if (out.losses) out.losses[n] = loss;
  return {double(loss), double(weight)};
}

// of_logits(v, dL/dz) and of_column(v, dL/du) for each of a thread's classes, in the order of v,
// the latter only where it is asked for or comes for free; zeros where the label does not count,
// and not by a factor of zero: NaN or infinity of an ignored sample must not get through.
template <bool kKept = true, class S, class T, int V, class Team, class OfLogits, class OfColumn>
__device__ __forceinline__ void gradients_of(const LabelBatch<S>& batch, const LossRule<T>& rule,
                                             const LossGradients<S>& grads,
                                             const Share<T, V>& share, int64_t n, int label,
                                             Team& team, const OfLogits& of_logits,
                                             const OfColumn& of_column) {
  const bool counted = label >= 0;
  T factor = T(0);
  if (counted) {
    factor = grads.grad_loss[n * grads.grad_stride] * class_weight_of(rule, label);
    if (grads.total_weight) factor = quick_quotient(factor, *grads.total_weight);
  }
  const Smoothing<T> smooth(batch);
  const int y = class_or_first(label);
  Exponentials<T, V, kKept> e;
  const ColumnSums<T> sums = column_sums(share, smooth, team, e);
  const LossTerms<T> terms = terms_of(rule, share, sums, y, team);
  const auto grad_z = [&](int v, T e_v, T column_e) {
    const T at_label = share.index(v) == y ? terms.label : T(0);
    const T grad =
        terms.softmax * e_v + terms.posterior * joint(column_e, smooth(share.column[v])) + at_label;
    return counted ? factor * grad : T(0);
  };
  // Nothing, and not zero times an e'_i that may be infinite.
  const T of_column_exp = factor * terms.posterior;
  const bool pulled = counted && of_column_exp != T(0);
  const auto grad_u = [&](T column_e) { return pulled ? of_column_exp * column_e : T(0); };
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const T e_v = e(share, v), column_e = column_exp(sums, share.z[v], e_v);
    of_logits(v, grad_z(v, e_v, column_e));
    if (kKept) of_column(v, grad_u(column_e));
  }
  if (kKept || !grads.column.entry) return;
  e.forget();
#pragma unroll
  for (int v = 0; v < V; ++v) {
    of_column(v, grad_u(column_exp(sums, share.z[v], e(share, v))));
  }
}

}  // namespace ptd
