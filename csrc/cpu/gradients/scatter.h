// The vector-Jacobian product from a transition matrix to slack, parts and weights.
//
// Every operator's gradient with respect to M = T(x) + slack has the form
//
//   dL/dM_ik = [M_ik > 0] (entry_i column_k - row_i)      with slack, row_i from the normalisation
//   dL/dM_ik = entry_i column_k                           without
//
// where column_k is [k = y] for operators that read column y alone. It follows that
//
//   dL/dslack = sum_n dL/dM,   dL/dP^j = sum_n h_j dL/dM,   dL/dh_j = <P^j, dL/dM>.
#pragma once

#include "transition_columns.h"

namespace ptd {
namespace PTD_ISA {

// dL/dM of a block in factored form. A sample without a gradient has rows of zeros and label -1.
template <class T>
struct Vjp {
  const T* entry;         // [count, C]
  const T* row;           // [count, C]; read only with slack
  const int64_t* labels;  // [count]: column_k = [k = label]; or nullptr, with slack, and then
  const T* column;        // [count, C]
};

// Adds one column dm of dL/dM to the gradients of the parts and of one sample's weights.
template <class T>
PTD_INLINE void scatter_column(const T* h, const T* column, const T* dm, int64_t parts,
                               int64_t classes, T* grad_column, T* grad_h) {
  for (int64_t j = 0; j < parts; ++j) {
    const int64_t at = j * classes;
    Vec<T> dot{};
    for (int64_t i = 0; i < classes; i += kLanes<T>) {
      const int64_t n = classes - i;
      const Vec<T> d = load(dm + i, n);
      if (grad_column) {
        store(grad_column + at + i, load(grad_column + at + i, n) + h[j] * d, n);
      }
      if (grad_h) dot += load(column + at + i, n) * d;
    }
    if (grad_h) grad_h[j] += sum_lanes(dot);
  }
}

// Without slack, for operators that read the label's column: no other column has a gradient.
template <class T>
PTD_INLINE void scatter_plain(const Batch<T>& batch, const T* h, int64_t begin, int64_t count,
                              const Vjp<T>& vjp, const Gradients<T>& grads) {
  const int64_t classes = batch.classes, parts = batch.parts;
  for (int64_t s = 0; s < count; ++s) {
    T* grad_h = static_cast<T*>(grads.weights.data);
    if (grad_h) {
      grad_h += (begin + s) * parts;
      memset(grad_h, 0, sizeof(T) * parts);
    }
    if (vjp.labels[s] < 0) continue;
    const int64_t at = vjp.labels[s] * parts * classes;
    scatter_column(h + s * parts, grad_h ? part_columns(batch, vjp.labels[s]) : nullptr,
                   vjp.entry + s * classes, parts, classes,
                   grads.columns ? grads.columns + at : nullptr, grad_h);
  }
}

template <class T>
PTD_INLINE T column_factor(const Vjp<T>& vjp, int64_t classes, int64_t s, int64_t k) {
  return vjp.labels ? T(vjp.labels[s] == k) : vjp.column[s * classes + k];
}

// The gradient of slack alone, which is all that revision trains: the sums of K columns stay in
// registers over all samples of a block.
template <int K, class T>
PTD_INLINE void scatter_slack_columns(const Batch<T>& batch, const T* h, int64_t count,
                                      const Vjp<T>& vjp, int64_t k, T* grad_slack) {
  constexpr int S = 4;
  const int64_t classes = batch.classes, parts = batch.parts;
  const T* columns = batch.columns + k * parts * classes;
  const T* slack = batch.slack + k * classes;
  for_lanes<T>(classes, [&](int64_t i, int64_t n) {
    Vec<T> d[K] = {};
    const auto add = [&](auto& m, int64_t s, int samples) {
      combine_tile(h + s * parts, columns, slack, parts, classes, i, m);
      for (int t = 0; t < samples; ++t) {
        const int64_t at = (s + t) * classes + i;
        const Vec<T> entry = load(vjp.entry + at, n), row = load(vjp.row + at, n);
        for (int c = 0; c < K; ++c) {
          const Vec<T> open = column_factor(vjp, classes, s + t, k + c) * entry - row;
          d[c] += m[t][c] <= Vec<T>{} ? Vec<T>{} : open;
        }
      }
    };
    Vec<T> m[S][K], single[1][K];
    int64_t s = 0;
    for (; s + S <= count; s += S) add(m, s, S);
    for (; s < count; ++s) add(single, s, 1);
    for (int c = 0; c < K; ++c) {
      T* grad = grad_slack + (k + c) * classes + i;
      store(grad, load(grad, n) + d[c], n);
    }
  });
}

template <class T>
PTD_INLINE void scatter_slack(const Batch<T>& batch, const T* h, int64_t count, const Vjp<T>& vjp,
                              T* grad_slack) {
  int64_t k = 0;
  for (; k + 2 <= batch.classes; k += 2)
    scatter_slack_columns<2>(batch, h, count, vjp, k, grad_slack);
  if (k < batch.classes) scatter_slack_columns<1>(batch, h, count, vjp, k, grad_slack);
}

// Column k of dL/dM, [count, C], for a block of samples, S at a time. Adds it to the gradient of
// slack unless that is nullptr.
template <class T>
PTD_INLINE void matrix_gradient_column(const Batch<T>& batch, const T* h, int64_t count,
                                       const Vjp<T>& vjp, int64_t k, T* grad_slack, T* dm) {
  const int64_t classes = batch.classes, parts = batch.parts;
  const T* column = batch.columns + k * parts * classes;
  const T* slack = batch.slack + k * classes;
  for_lanes<T>(classes, [&](int64_t i, int64_t n) {
    Vec<T> total{};
    const auto some = [&]<int S>(int64_t s) PTD_INLINE_LAMBDA {
      Vec<T> m[S][1];
      combine_tile(h + s * parts, column, slack, parts, classes, i, m);
      for (int t = 0; t < S; ++t) {
        const int64_t at = (s + t) * classes + i;
        const T factor = column_factor(vjp, classes, s + t, k);
        const Vec<T> open = factor * load(vjp.entry + at, n) - load(vjp.row + at, n);
        const Vec<T> d = m[t][0] <= Vec<T>{} ? Vec<T>{} : open;
        total += d;
        store(dm + at, d, n);
      }
    };
    int64_t s = 0;
    for (; s + 4 <= count; s += 4) some.template operator()<4>(s);
    for (; s < count; ++s) some.template operator()<1>(s);
    if (!grad_slack) return;
    T* grad = grad_slack + k * classes + i;
    store(grad, load(grad, n) + total, n);
  });
}

// With slack, if the gradient of the parts or of the weights is requested. Column by column, so
// that the gradient of a column of the parts is read and written once for all samples of a block,
// and that of the weights, as vectors of partial sums, is added up once for all columns. A lane of
// these adds C^2 / lanes terms, so sums are blocked: after kLaneTerms terms they are added to
// totals. Rounding errors then grow with the length of a block plus the number of blocks, not with
// their product.
template <class T>
PTD_INLINE void scatter_revised(const Batch<T>& batch, const T* h, int64_t begin, int64_t count,
                                const Vjp<T>& vjp, const Gradients<T>& grads, T* dm) {
  constexpr int W = kLanes<T>, kLaneTerms = 512;
  const int64_t classes = batch.classes, parts = batch.parts;
  const int64_t block_columns = 1 + kLaneTerms * W / classes, size = count * parts * W;
  T* dots = dm + kBlock * classes;  // [count, R, lanes]
  T* totals = dots + size;          // [count, R, lanes]
  T* grad_h = static_cast<T*>(grads.weights.data);
  if (grad_h) memset(dots, 0, 2 * sizeof(T) * size);
  int64_t counted[kBlock], samples = 0;  // an ignored sample may have weights that are not finite
  for (int64_t s = 0; s < count; ++s) {
    if (!vjp.labels || vjp.labels[s] >= 0) counted[samples++] = s;
  }
  for (int64_t k = 0; k < classes; ++k) {
    const T* column = batch.columns + k * parts * classes;
    T* grad_column = grads.columns ? grads.columns + k * parts * classes : nullptr;
    matrix_gradient_column(batch, h, count, vjp, k, grads.slack, dm);
    for (int64_t j = 0; j < parts; ++j) {
      for_lanes<T>(classes, [&](int64_t i, int64_t n) {
        const int64_t at = j * classes + i;
        if (grad_column) {
          Vec<T> sum = load(grad_column + at, n);
          for (int64_t c = 0; c < samples; ++c) {
            sum += h[counted[c] * parts + j] * load(dm + counted[c] * classes + i, n);
          }
          store(grad_column + at, sum, n);
        }
        if (!grad_h) return;
        const Vec<T> part = load(column + at, n);
        for (int64_t c = 0; c < samples; ++c) {
          T* dot = dots + (counted[c] * parts + j) * W;
          store(dot, load(dot) + part * load(dm + counted[c] * classes + i, n));
        }
      });
    }
    if (!grad_h || (k + 1) % block_columns != 0) continue;
    for (int64_t at = 0; at < size; at += W) {
      store(totals + at, load(totals + at) + load(dots + at));
    }
    memset(dots, 0, sizeof(T) * size);
  }
  if (!grad_h) return;
  for (int64_t sj = 0; sj < count * parts; ++sj) {
    grad_h[begin * parts + sj] = sum_lanes(load(totals + sj * W) + load(dots + sj * W));
  }
}

template <class T>
PTD_INLINE bool wants_transition(const Gradients<T>& grads) {
  return grads.columns || grads.slack || grads.weights.data;
}

template <class T>
PTD_INLINE void scatter(const Batch<T>& batch, const T* h, int64_t begin, int64_t count,
                        const Vjp<T>& vjp, const Gradients<T>& grads,
                        T* dm) {  // scratch for scatter_revised
  if (!batch.slack) {
    scatter_plain(batch, h, begin, count, vjp, grads);
  } else if (grads.columns || grads.weights.data) {
    scatter_revised(batch, h, begin, count, vjp, grads, dm);
  } else if (grads.slack) {
    scatter_slack(batch, h, count, vjp, grads.slack);
  }
}

}  // namespace PTD_ISA
}  // namespace ptd
