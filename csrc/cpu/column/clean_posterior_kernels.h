// The clean posterior, P(Y | x, noisy label).
#pragma once

#include "column/loss_kernels.h"

namespace ptd {
namespace PTD_ISA {

// q = softmax(z + log u); a sample whose label is ignored keeps its softmax.
template <class T>
void clean_posterior(const LossArgs<T>& args, int64_t begin, int64_t end, T* scratch, T* posterior,
                     T* saved, LossPartial* partial) {
  const int64_t classes = args.batch.classes;
  const auto finish = [&](int64_t n, int64_t, const T* z, const T* u) {
    T* q = posterior + n * classes;
    const ColumnSums<T> sums = column_sums<T>(z, u, -1, classes, args.smoothing > T(0), q);
    const T divisor = posterior_divisor(sums);
    for (int64_t i = 0; i < classes; i += kLanes<T>) {
      const int64_t n_left = classes - i;
      const Vec<T> column = load(u + i, n_left);
      const Vec<T> e = column_exp(sums, z + i, load(q + i, n_left), n_left);
      store(q + i, joint_exp<T>(e, column) / divisor, n_left);
    }
  };
  const auto skip = [&](int64_t n, const T* z) {
    softmax_row(z, classes, posterior + n * classes);
  };
  for_each_column_of_label(args, begin, end, scratch, saved, partial, finish, skip);
}

// G at the largest q. Each lane keeps the largest that it has seen.
template <class T>
struct Pivot {
  Vec<T> most = splat(T(-1)), grad = {};

  PTD_INLINE void see(Vec<T> q, Vec<T> g) {
    grad = q > most ? g : grad;
    most = maximum<T>(q, most);
  }
  PTD_INLINE T of_all_lanes() const {
    int best = 0;
    for (int lane = 1; lane < kLanes<T>; ++lane) best = most[lane] > most[best] ? lane : best;
    return grad[best];
  }
};

// dz_i = q_i (G_i - <G, q>),  du_i = dz_i / u_i, by the differences of loss_terms.h.
template <class T>
void clean_posterior_backward(const LossArgs<T>& args, int64_t begin, int64_t end, T* scratch,
                              const T* grad, const T* saved, const Gradients<T>& grads) {
  const int64_t classes = args.batch.classes;
  const auto measure = [&](int64_t, const T* z, const T* u, T* exps) {
    return column_sums(z, u, int64_t(-1), classes, args.smoothing > T(0), exps);
  };
  const auto vjp = [&](int64_t n, int64_t, const T* z, const T* u, const ColumnSums<T>& sums,
                       T* grad_z, T* grad_u) {
    const T* g = grad + n * classes;
    const T divisor = posterior_divisor(sums);
    Pivot<T> lanes_pivot;
    for_lanes<T>(classes, [&](int64_t i, int64_t left) {
      const Vec<T> column = load(u + i, left);
      const Vec<T> e = column_exp(sums, z + i, load(grad_z + i, left), left);
      const Vec<T> q = joint_exp<T>(e, column) / divisor;
      lanes_pivot.see(q, load(g + i, left));
      store(grad_u + i, e, left);
      store(grad_z + i, q, left);
    });
    const T pivot = lanes_pivot.of_all_lanes();
    Vec<T> dot{};
    for_lanes<T>(classes, [&](int64_t i, int64_t left) {
      dot += load(grad_z + i, left) * (load(g + i, left) - pivot);
    });
    const T mean = sum_lanes(dot);
    for (int64_t i = 0; i < classes; ++i) {
      const T centred = (g[i] - pivot) - mean;
      grad_u[i] = grad_u[i] * (centred / divisor);
      grad_z[i] *= centred;
    }
  };
  const auto skip = [&](int64_t n, const T* z, T* grad_z) {
    const T* g = grad + n * classes;
    softmax_row(z, classes, grad_z);
    T mean = T(0);
    for (int64_t i = 0; i < classes; ++i) mean += grad_z[i] * g[i];
    for (int64_t i = 0; i < classes; ++i) grad_z[i] *= g[i] - mean;
  };
  backward_through_column(args, begin, end, scratch, saved, grads, measure, vjp, skip);
}

}  // namespace PTD_ISA
}  // namespace ptd
