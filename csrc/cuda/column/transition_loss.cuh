// The transition loss of a sample that a cooperative group of threads holds, and its gradient, for
// the kernels of column/kernels.cuh. The formulas are in math/loss_terms.h.
#pragma once

#include "column/loss_sum.cuh"
#include "column/sample.cuh"

namespace ptd {

template <class T, int V, class Group>
__device__ __forceinline__ LossTerms<T> sample_terms(const LossRule<T>& rule,
                                                     const SampleSums<T, V, Group>& sums, int label,
                                                     Group& group) {
  ColumnSums<T> of_label = sums.sums;
  T label_logit = -infinity<T>();
  if (rule.importance != kForward) {
    T other_sum = T(0);
    Fragment<T, V>::for_each(group, sums.classes, [&](int v, int i) {
      if (i == label) {
        label_logit = sums.sample.z[v];
      } else {
        other_sum += sums.exponential(v);
      }
    });
    label_logit = group.max(label_logit);
    of_label.other_sum = group.sum(other_sum);
    if (of_label.column_shift != of_label.shift) {
      T other_column_sum = T(0);
      Fragment<T, V>::for_each(group, sums.classes, [&](int v, int i) {
        if (i != label) other_column_sum += sums.column_exponential(v);
      });
      of_label.other_column_sum = group.sum(other_column_sum);
    }
  }
  return loss_terms(of_label, label_logit, rule.importance, rule.max_importance);
}

template <class T>
__device__ __forceinline__ T class_weight_of(const LossRule<T>& rule, int label) {
  return rule.class_weight ? rule.class_weight[label * rule.class_weight_stride] : T(1);
}

template <class S>
struct TransitionLoss {
  using T = Accumulation<S>;
  static constexpr bool kWritesRowSums = true;
  LossRule<T> rule;
  LossOutputs<T> out;

  template <int V, class Group>
  __device__ __forceinline__ void visit(const ColumnBatch<S>& batch, int64_t n, int label,
                                        const Fragment<T, V>& sample, Group& group,
                                        LossSums& thread_sums) const {
    const SampleSums<T, V, Group> sums(batch, sample, group);
    T loss = sample_terms(rule, sums, label, group).loss, weight = T(0);
    if (label >= 0) {
      weight = class_weight_of(rule, label);
      loss *= weight;
    } else {  // a NaN of an ignored sample must not reach the sum
      loss = label == Labels::kIgnored ? T(0) : not_a_number<T>();
    }
    if (group.rank() != 0) return;
    if (out.losses) out.losses[n] = loss;
    thread_sums.loss += double(loss);
    thread_sums.weight += double(weight);
  }

  __device__ __forceinline__ void finish(const LossSums& thread_sums) const {
    finish_loss(out, thread_sums);
  }
};

template <class S>
struct TransitionLossBackward {
  using T = Accumulation<S>;
  static constexpr bool kWritesRowSums = false;
  LossRule<T> rule;
  LossGradients<S> grads;

  template <int V, class Group>
  __device__ __forceinline__ void visit(const ColumnBatch<S>& batch, int64_t n, int label,
                                        const Fragment<T, V>& sample, Group& group,
                                        LossSums&) const {
    const int classes = batch.transition.classes;
    const bool counts = label >= 0;
    T factor = T(0);
    if (counts) {
      factor = grads.grad_loss[n * grads.grad_stride] * class_weight_of(rule, label);
      if (grads.total_weight) factor /= *grads.total_weight;
    }
    const SampleSums<T, V, Group> sums(batch, sample, group);
    const LossTerms<T> terms = sample_terms(rule, sums, label, group);
    const T of_column = factor * terms.posterior;
    sample.for_each(group, classes, [&](int v, int i) {
      // dloss/dz_i = softmax e_i + posterior q_i; reweighting has its own term for the label.
      const bool own = i == label && rule.importance != kForward;
      const T e = terms.softmax_of_column ? sums.column_exponential(v) : sums.exponential(v);
      const T of_softmax = own ? terms.label : terms.softmax * e;
      const T q = terms.inverse_column_sum * sums.joint(v);
      const T grad = of_softmax + terms.posterior * q;
      // Select, do not multiply by zero: NaN or infinity of an ignored sample must not propagate.
      if (grads.logits) store(grads.logits + n * classes + i, counts ? factor * grad : T(0));
      // dloss/du_i = posterior e'_i / U; a select avoids zero times an infinite e'_i.
      const T e_u = of_column * sums.column_exponential(v) * terms.inverse_column_sum;
      const T grad_u = counts && of_column != T(0) ? e_u : T(0);
      write_factors(batch, grads.matrix, sample, n, v, i, grad_u);
    });
  }

  __device__ __forceinline__ void finish(const LossSums&) const {}
};

}  // namespace ptd
