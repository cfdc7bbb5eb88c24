// P(noisy label | x) = T(x)^T g, which needs every column of T(x), one after another.
#pragma once

#include "kernels.h"
#include "loss_kernels.h"

namespace ptd {
namespace PTD_ISA {

// out_k = sum_i T_ik g_i
template <class T>
void noisy_posterior(const Batch<T>& batch, const Matrix& logits, int64_t begin, int64_t end,
                     T* scratch, T* posterior, T* saved) {
  const int64_t classes = batch.classes;
  LossScratch<T> at(scratch, batch);
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = end - first < kBlock ? end - first : kBlock;
    const T* h = block_weights(batch, first, count, at.weights);
    T* sums = saved + first * classes;
    if (batch.slack) row_sums(batch, h, count, sums);
    for (int64_t s = 0; s < count; ++s) {
      T* entry = at.entry + s * classes;
      softmax_row(read_row(logits, first + s, classes, at.logits), classes, entry);
      // Rows without a positive entry are uniform: their share is the same in every column.
      T uniform_share = T(0);
      if (batch.slack) {
        for (int64_t i = 0; i < classes; ++i) {
          const T sum = sums[s * classes + i];
          uniform_share += sum == T(0) ? entry[i] / T(classes) : T(0);
          entry[i] *= inverse_row_sum(sum);
        }
      }
      T* out = posterior + (first + s) * classes;
      for (int64_t k = 0; k < classes; ++k) out[k] = uniform_share;
    }
    for_each_tile(batch, h, count,
                  [&]<int S, int K>(int64_t s, int64_t k, int64_t i, Vec<T>(&m)[S][K]) {
                    for (int t = 0; t < S; ++t) {
                      const Vec<T> entry = load(at.entry + (s + t) * classes + i, classes - i);
                      for (int c = 0; c < K; ++c) {
                        const Vec<T> value = batch.slack ? clamp_lanes<T>(m[t][c]) : m[t][c];
                        posterior[(first + s + t) * classes + k + c] += sum_lanes(entry * value);
                      }
                    }
                  });
  }
}

// With d_i = sum_k T_ik G_k:   dz_i = g_i (d_i - <g, d>),   dT_ik = g_i G_k, and with slack
// dM_ik = [M_ik > 0] g_i (G_k - d_i) / r_i.
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
      const Pull<T> block{at.entry, at.row, nullptr, block_grad};
      spread(batch, h, first, count, block, grads, at.dm);
    }
  }
}

// out_nji = h_nj g_ni
template <class T>
void outer_product(const Matrix& weights, const T* softmax, int64_t parts, int64_t classes,
                   int64_t begin, int64_t end, T* out) {
  for (int64_t n = begin; n < end; ++n) {
    const T* h = static_cast<const T*>(weights.data) + n * weights.row_stride;
    const T* g = softmax + n * classes;
    for (int64_t j = 0; j < parts; ++j) {
      T* row = out + (n * parts + j) * classes;
      const T weight = h[j * weights.stride];
      for_lanes<T>(classes, [&](int64_t i, int64_t left) {
        store(row + i, weight * load(g + i, left), left);
      });
    }
  }
}

}  // namespace PTD_ISA
}  // namespace ptd
