// The clean posterior of a sample that a cooperative group of threads holds, and its gradient, for
// the kernels of column/kernels.cuh:
//
//   q = softmax(z + log u),   dL/dz_i = q_i (G_i - <G, q>),   dL/du_i = dL/dz_i / u_i
//
// The differences are computed as in math/loss_terms.h.
#pragma once

#include "column/loss_sum.cuh"
#include "column/sample.cuh"

namespace ptd {

// 1 / sum_i e'_i u_i, or NaN if any logit is NaN, even one whose u is zero.
template <class T>
__device__ __forceinline__ T inverse_column_sum(const ColumnSums<T>& sums) {
  return sums.exp_sum == sums.exp_sum ? T(1) / sums.column_sum : sums.exp_sum;
}

template <class S>
struct CleanPosterior {
  using T = Accumulation<S>;
  static constexpr bool kWritesRowSums = false;  // it would have a stack frame on sm_70
  T* posterior;                                  // [N, C]

  template <int V, class Group>
  __device__ __forceinline__ void visit(const ColumnBatch<S>& batch, int64_t n, int label,
                                        const Fragment<T, V>& sample, Group& group,
                                        LossSums&) const {
    const SampleSums<T, V, Group> sums(batch, sample, group);
    const T inverse = inverse_column_sum(sums.sums);
    sample.for_each(group, sums.classes, [&](int v, int i) {
      const T q = sums.joint(v) * inverse;
      posterior[n * sums.classes + i] = label == Labels::kBad ? not_a_number<T>() : q;
    });
  }

  __device__ __forceinline__ void finish(const LossSums&) const {}
};

template <class S>
struct CleanPosteriorBackward {
  using T = Accumulation<S>;
  static constexpr bool kWritesRowSums = false;
  PosteriorGradients<S> grads;

  template <int V, class Group>
  __device__ __forceinline__ void visit(const ColumnBatch<S>& batch, int64_t n, int label,
                                        const Fragment<T, V>& sample, Group& group,
                                        LossSums&) const {
    const SampleSums<T, V, Group> sums(batch, sample, group);
    const T inverse = inverse_column_sum(sums.sums);
    const T* grad = grads.grad + n * sums.classes;
    // The pivot is the gradient at the largest q, the largest such gradient in a tie; the others
    // are taken relative to it.
    T most = -infinity<T>(), pivot = -infinity<T>(), mean = T(0);
    sample.for_each(group, sums.classes, [&](int v, int) { most = max_of(most, sums.joint(v)); });
    most = group.max(most);
    sample.for_each(group, sums.classes, [&](int v, int i) {
      if (sums.joint(v) == most) pivot = max_of(pivot, grad[i]);
    });
    pivot = group.max(pivot);
    sample.for_each(group, sums.classes,
                    [&](int v, int i) { mean += (grad[i] - pivot) * (sums.joint(v) * inverse); });
    mean = group.sum(mean);
    sample.for_each(group, sums.classes, [&](int v, int i) {
      const T centred_grad = (grad[i] - pivot) - mean;
      const T dz = label == Labels::kBad ? T(0) : sums.joint(v) * inverse * centred_grad;
      if (grads.logits) store(grads.logits + n * sums.classes + i, dz);
      // centred_grad q_i / u_i, in an order that multiplies no zero by an infinity. A sample whose
      // label is ignored or bad has no column.
      const T e = saturated(sums.column_exponential(v));
      const T grad_u = label >= 0 ? centred_grad * inverse * e : T(0);
      write_factors(batch, grads.matrix, sample, n, v, i, grad_u);
    });
  }

  __device__ __forceinline__ void finish(const LossSums&) const {}
};

}  // namespace ptd
