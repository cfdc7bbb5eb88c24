// P(noisy label | x) = T(x)^T g, which needs every column of T(x), one after another.
#pragma once

#include "column/loss_kernels.h"
#include "kernels.h"

namespace ptd {
namespace PTD_ISA {

// entry_i = g_i / r_i. Returns the sum of g_i / C over the empty rows: they are uniform, so they
// add the same to every column.
template <class T>
PTD_INLINE T divide_by_row_sums(const T* sums, int64_t classes, T* entry) {
  Vec<T> share{};
  for_lanes<T>(classes, [&](int64_t i, int64_t left) {
    const Vec<T> g = load(entry + i, left), sum = load(sums + i, left);
    share += empty_rows<T>(sum) ? g : Vec<T>{};
    store(entry + i, g * inverse_row_sums<T>(sum), left);
  });
  return sum_lanes(share) / T(classes);
}

// out_k += sum_i M_ik entry_i for K columns from k on and S samples. The sums over i stay in vector
// registers to the end, because a horizontal sum is expensive compared with the work of a column.
template <int S, int K, class T>
PTD_INLINE void add_columns(const Batch<T>& batch,
                            const T* h,      // [S, R]
                            const T* entry,  // [S, C]
                            int64_t k,
                            T* out) {  // [S, C] from column k on
  const int64_t classes = batch.classes, parts = batch.parts;
  const T* columns = batch.columns + k * parts * classes;
  const T* slack = batch.slack ? batch.slack + k * classes : nullptr;
  Vec<T> sum[S][K] = {}, m[S][K];
  for_lanes<T>(classes, [&](int64_t i, int64_t left) {
    combine_tile(h, columns, slack, parts, classes, i, m);
    for (int s = 0; s < S; ++s) {
      const Vec<T> factor = load(entry + s * classes + i, left);
      for (int c = 0; c < K; ++c) sum[s][c] += factor * (slack ? clamp_lanes<T>(m[s][c]) : m[s][c]);
    }
  });
  for (int s = 0; s < S; ++s) {
    for (int c = 0; c < K; ++c) out[s * classes + c] += sum_lanes(sum[s][c]);
  }
}

// The same for all columns of a block.
template <class T>
PTD_INLINE void add_all_columns(const Batch<T>& batch, const T* h, const T* entries, int64_t count,
                                T* posterior) {  // [count, C]
  const int64_t classes = batch.classes;
  int64_t k = 0;
  const auto while_left = [&]<int K>() {
    for (; k + K <= classes; k += K) {
      const auto add = [&]<int S>(int64_t s) {
        add_columns<S, K>(batch, h + s * batch.parts, entries + s * classes, k,
                          posterior + s * classes + k);
      };
      int64_t s = 0;
      for (; s + 4 <= count; s += 4) add.template operator()<4>(s);
      for (; s < count; ++s) add.template operator()<1>(s);
    }
  };
  while_left.template operator()<kTileColumns>();
  while_left.template operator()<1>();
}

// out_k = sum_i T_ik g_i. With slack the row sums are computed first.
template <class T>
void noisy_posterior(const Batch<T>& batch, const Matrix& logits, int64_t begin, int64_t end,
                     T* scratch, T* posterior, T* saved) {
  const int64_t classes = batch.classes;
  LossScratch<T> at(scratch, batch);
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = end - first < kBlock ? end - first : kBlock;
    const T* h = block_weights(batch, first, count, at.weights);
    T* sums = saved + first * classes;
    if (batch.slack && !batch.has_row_sums) row_sums(batch, h, count, sums);
    for (int64_t s = 0; s < count; ++s) {
      T* entry = at.entry + s * classes;
      T* out = posterior + (first + s) * classes;
      softmax_row(read_row(logits, first + s, classes, at.logits), classes, entry);
      const T uniform = batch.slack ? divide_by_row_sums(sums + s * classes, classes, entry) : T(0);
      for (int64_t k = 0; k < classes; ++k) out[k] = uniform;
    }
    add_all_columns(batch, h, at.entry, count, posterior + first * classes);
  }
}

// With d_i = sum_k T_ik G_k:   dz_i = g_i (d_i - <g, d>),   and with slack
// dM_ik = [M_ik > 0] g_i (G_k - d_i) / r_i. Without slack this kernel computes the gradient of the
// logits alone: the gradients of weights and parts are matrix products (csrc/noisy_posterior.h).
template <class T>
void noisy_posterior_backward(const Batch<T>& batch, const Matrix& logits, int64_t begin,
                              int64_t end, T* scratch, const T* grad, const T* saved,
                              const Gradients<T>& grads) {
  const int64_t classes = batch.classes;
  LossScratch<T> at(scratch, batch);
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = end - first < kBlock ? end - first : kBlock;
    const T* h = block_weights(batch, first, count, at.weights);
    const T* block_grad = grad + first * classes;
    memset(at.row, 0, sizeof(T) * count * classes);
    for_each_tile(batch, h, count,
                  [&]<int S, int K>(int64_t s, int64_t k, int64_t i, Vec<T>(&m)[S][K]) {
                    for (int t = 0; t < S; ++t) {
                      T* row = at.row + (s + t) * classes + i;
                      Vec<T> d = load(row, classes - i);
                      for (int c = 0; c < K; ++c) {
                        const Vec<T> value = batch.slack ? clamp_lanes<T>(m[t][c]) : m[t][c];
                        d += block_grad[(s + t) * classes + k + c] * value;
                      }
                      store(row, d, classes - i);
                    }
                  });
    for (int64_t s = 0; s < count; ++s) {
      const int64_t n = first + s;
      T* entry = at.entry + s * classes;
      T* row = at.row + s * classes;
      const T* g_out = block_grad + s * classes;
      softmax_row(read_row(logits, n, classes, at.logits), classes, entry);
      if (batch.slack) {
        T uniform = T(0);
        for (int64_t k = 0; k < classes; ++k) uniform += g_out[k] / T(classes);
        for (int64_t i = 0; i < classes; ++i) {
          row[i] = normalised_entry(row[i], saved[n * classes + i], uniform);
        }
      }
      T mean = T(0);
      for (int64_t i = 0; i < classes; ++i) mean += entry[i] * row[i];
      if (grads.logits.data) {
        T* grad_z = output_row(grads.logits, n, at.out);
        for (int64_t i = 0; i < classes; ++i) grad_z[i] = entry[i] * (row[i] - mean);
        write_row(grads.logits, n, classes, grad_z);
      }
      if (batch.slack) {
        for (int64_t i = 0; i < classes; ++i) {
          entry[i] *= inverse_row_sum(saved[n * classes + i]);
          row[i] *= entry[i];
        }
      }
    }
    if (wants_transition(grads)) {
      const Vjp<T> block{at.entry, at.row, nullptr, block_grad};
      scatter(batch, h, first, count, block, grads, at.dm);
    }
  }
}

// dg_i = sum_j h_j d_ji and dh_j = sum_i d_ji g_i, unless their pointer is nullptr.
template <class T>
void contract_parts(const T* d, const Matrix& weights, const T* softmax, int64_t parts,
                    int64_t classes, int64_t begin, int64_t end, T* row, T* grad_softmax,
                    T* grad_weights) {
  for (int64_t n = begin; n < end; ++n) {
    const T* own = d + n * parts * classes;
    if (grad_softmax) {
      T* out = grad_softmax + n * classes;
      combine_column(read_row(weights, n, parts, row), own, static_cast<const T*>(nullptr), parts,
                     classes, [&](int64_t i, int64_t left, Vec<T> v) { store(out + i, v, left); });
    }
    if (!grad_weights) continue;
    for (int64_t j = 0; j < parts; ++j) {
      Vec<T> sum{};
      for_lanes<T>(classes, [&](int64_t i, int64_t left) {
        sum += load(own + j * classes + i, left) * load(softmax + n * classes + i, left);
      });
      grad_weights[n * parts + j] = sum_lanes(sum);
    }
  }
}

}  // namespace PTD_ISA
}  // namespace ptd
