// The loss of one sample and the coefficients of its gradient, from a few sums over the classes.
//
// With logits z, softmax g, noisy label y and u = column y of T(x):
//
//   E = sum_i exp(z_i - shift)            e_i = exp(z_i - shift)
//   U = sum_i exp(z_i - column_shift) u_i e'_i = exp(z_i - column_shift)
//   S = sum over i other than y of e_i
//
// The two shifts differ only without smoothing, in two cases. If u is zero at the largest logit,
// exp(z_i - shift) could underflow for every i with u_i > 0, and so could U. If all u_i are tiny, U
// would be subnormal and its inverse infinite.
//
//   log p = log sum_i g_i u_i = log U + column_shift - log E - shift
//   q_i   = g_i u_i / p = e'_i u_i / U                              (P(Y = i | x, y))
//   forward   loss = -log p                  d/dz = g - q
//   reweight  beta = g_y / p, l = -log g_y, loss = beta l
//     beta detached                          d/dz = beta (g - [i = y])
//     beta attached                          d/dz = beta g - beta l q + beta (l - 1) [i = y]
//
// If T(x) almost rules out a label that the network is sure of, beta is very large while l and
// 1 - g_y are very small. Both are computed from S, which avoids cancellation in 1 - g_y:
//
//   l = log(1 + S) where z_y is the largest logit,   1 - g_y = S / E
//
// Without smoothing beta can overflow while l and 1 - g_y underflow. Let S' be the sum S under the
// column shift. Then beta S = S' / U, and if z_y is the largest logit
//
//   beta l = S' / U * log(1 + S) / S,   beta g_i = e'_i / (U E),   beta (1 - g_y) = S' / (U E)
//
// So in every case, with four numbers per sample,
//
//   dloss/dz_i = softmax * e_i + posterior * q_i         (softmax * e'_i if softmax_of_column)
//   dloss/dz_y = label + posterior * q_y                            (reweight)
//   dloss/du_i = posterior * e'_i / U                 q_i = e'_i u_i / U
//
// `posterior` is kept apart from 1 / U: with beta attached it is -beta l, and if U is below 1e-19
// its product with 1 / U overflows in float, while its product with q_i does not.
//
// If the shifts differ and u_i = 0, e'_i can overflow. Both e'_i and the gradients that follow from
// dloss/du_i then saturate, because they are multiplied by zeros (u_i, entries of the parts) and
// zero times infinity would be NaN.
//
// The clean posterior q has, with G = dL/dq,
//
//   d/dz_i = q_i (G_i - <G, q>),   d/du_i = e'_i / U (G_i - <G, q>)
//
// If q_m is almost one and u_m is tiny, G_m - <G, q> is a difference of nearly equal numbers, and
// e'_m / U amplifies its rounding error. With all gradients taken relative to G_m, where m is the
// class with the largest q, nothing cancels: the term of m is exactly zero, whatever the rounding
// of q_m.
//
//   G_i - <G, q> = (G_i - G_m) - sum_k q_k (G_k - G_m)
#pragma once

#include "host_device.h"

namespace ptd {

// The values are part of the operator's schema.
enum Importance : int64_t { kForward = 0, kReweightDetached = 1, kReweightAttached = 2 };

template <class T>
struct ColumnSums {
  T shift;             // the largest logit
  T column_shift;      // the largest logit among classes with u_i > 0; `shift` if that is -infinity
  T exp_sum;           // E
  T column_sum;        // U
  T other_sum;         // S; only reweighting reads it
  T other_column_sum;  // S'; only reweighting reads it, if the shifts differ
};

// For a U this small the column shift is lowered by kTinyColumnShift: e'_i stays far below the
// largest number, and e'_i u_i is normal even for the smallest u_i of either type.
template <class T>
PTD_HD bool is_tiny_column(T column_sum) {
  return column_sum > T(0) && column_sum * largest_number<T>() < T(1e8);
}
constexpr int kTinyColumnShift = 40;

template <class T>
struct LossTerms {
  T loss;
  T softmax;
  T posterior;
  T inverse_column_sum;  // 1 / U, or 0 for a column without mass
  T label;
  bool softmax_of_column;  // softmax multiplies e'_i instead of e_i
};

template <class T>
PTD_HD LossTerms<T> loss_terms(const ColumnSums<T>& sums, T label_logit, int64_t importance,
                               T max_importance) {
  const T softmax = T(1) / sums.exp_sum;
  // A column without mass (only possible with smoothing = 0) has an infinite loss and no posterior.
  const T inverse_column_sum = sums.column_sum == T(0) ? T(0) : T(1) / sums.column_sum;
  if (importance == kForward) {
    const T loss =
        (sums.shift - sums.column_shift) + (log_of(sums.exp_sum) - log_of(sums.column_sum));
    return {loss, softmax, T(-1), inverse_column_sum, T(0), false};
  }

  // If the column has no mass, the label is infinitely more likely under g than under T^T g.
  const T beta = sums.column_sum == T(0)
                     ? T(1) / sums.column_sum
                     : exp_of(label_logit - sums.column_shift) * inverse_column_sum;
  const bool capped = beta > max_importance;
  const T weight = capped ? max_importance : beta;
  // g_y log g_y -> 0: a label that the network rules out has weight zero, and 0 * inf must not
  // become NaN. If a logit is NaN, the loss must be NaN all the same.
  if (weight == T(0) && sums.exp_sum == sums.exp_sum) {
    return {T(0), T(0), T(0), T(0), T(0), false};
  }
  if (label_logit == sums.shift && sums.column_shift < sums.shift && !capped) {
    const T others = sums.other_column_sum * inverse_column_sum;
    const T loss =
        sums.other_sum == T(0) ? others : others * (log1p_of(sums.other_sum) / sums.other_sum);
    if (importance == kReweightDetached) {
      return {loss, softmax * inverse_column_sum, T(0), T(0), -others * softmax, true};
    }
    return {loss, softmax * inverse_column_sum, -loss, inverse_column_sum, loss - others * softmax,
            true};
  }
  const T cross_entropy = label_logit == sums.shift
                              ? log1p_of(sums.other_sum)
                              : log_of(sums.exp_sum) - (label_logit - sums.shift);
  const T others = sums.other_sum * softmax;
  if (importance == kReweightDetached || capped) {
    return {weight * cross_entropy, weight * softmax, T(0), T(0), -weight * others, false};
  }
  return {weight * cross_entropy,
          weight * softmax,
          -weight * cross_entropy,
          inverse_column_sum,
          weight * (cross_entropy - others),
          false};
}

}  // namespace ptd
