// Inverses of small symmetric positive definite matrices, one in each lane: M = L D L^T without a
// square root, then M^-1 = L^-T D^-1 L^-1. All matrices are [R, R] vectors, row after row.
#pragma once

#include "simd/simd.h"

namespace ptd {
namespace PTD_ISA {

constexpr int kRowsAtOnce = 4;  // independent sums, which hide the latency of additions

// Calls body.template operator()<n>(i) for i = begin ... end - 1, n of them at a time.
template <class Body>
PTD_INLINE void in_blocks(int64_t begin, int64_t end, const Body& body) {
  int64_t i = begin;
  for (; i + kRowsAtOnce <= end; i += kRowsAtOnce) body.template operator()<kRowsAtOnce>(i);
  for (; i < end; ++i) body.template operator()<1>(i);
}

// Replaces M by L, with 1 / D on the diagonal. Returns false if a pivot is not positive. Until the
// last loop the columns hold L D; the update of column j subtracts, for each k < j, the rank-one
// term (L D)_k (L_k)^T = (L D)_k (L D)_k^T / D_k.
template <class T>
PTD_INLINE bool factorise(T* matrix,  // [R, R] vectors; only the lower triangle is read
                          int64_t size,
                          T* scaled) {  // [R] vectors
  constexpr int64_t lanes = kLanes<T>;
  const auto at = [&](int64_t i, int64_t j) { return matrix + (i * size + j) * lanes; };
  auto positive = Vec<T>{} == Vec<T>{};
  for (int64_t j = 0; j < size; ++j) {
    for (int64_t k = 0; k < j; ++k) store(scaled + k * lanes, load(at(j, k)) * load(at(k, k)));
    in_blocks(j, size, [&]<int n>(int64_t i) {
      Vec<T> sum[n];
      for (int u = 0; u < n; ++u) sum[u] = load(at(i + u, j));
      for (int64_t k = 0; k < j; ++k) {
        const Vec<T> w = load(scaled + k * lanes);
        for (int u = 0; u < n; ++u) sum[u] -= load(at(i + u, k)) * w;
      }
      for (int u = 0; u < n; ++u) store(at(i + u, j), sum[u]);
    });
    const Vec<T> pivot = load(at(j, j));
    positive = positive & (pivot > Vec<T>{});
    store(at(j, j), T(1) / pivot);
  }
  for (int64_t i = 1; i < size; ++i) {
    for (int64_t j = 0; j < i; ++j) store(at(i, j), load(at(i, j)) * load(at(j, j)));
  }
  return lane_bits(~positive) == 0;
}

// L^-1 with zeros above its unit diagonal.
template <class T>
PTD_INLINE void invert_triangle(const T* factor, int64_t size, T* inverse) {
  constexpr int64_t lanes = kLanes<T>;
  const auto at = [&](int64_t i, int64_t j) { return inverse + (i * size + j) * lanes; };
  for (int64_t i = 0; i < size; ++i) {
    in_blocks(0, i, [&]<int n>(int64_t j) {
      Vec<T> sum[n] = {};
      for (int64_t k = j; k < i; ++k) {
        const Vec<T> l = load(factor + (i * size + k) * lanes);
        for (int u = 0; u < n; ++u) sum[u] -= l * load(at(k, j + u));
      }
      for (int u = 0; u < n; ++u) store(at(i, j + u), sum[u]);
    });
    store(at(i, i), splat(T(1)));
    for (int64_t j = i + 1; j < size; ++j) store(at(i, j), Vec<T>{});
  }
}

// M^-1, both triangles, from `factorise` and `invert_triangle`.
template <class T>
PTD_INLINE void inverse_of(const T* factor, const T* triangle, int64_t size, T* inverse,
                           T* scaled) {  // [R] vectors
  constexpr int64_t lanes = kLanes<T>;
  const auto x = [&](int64_t i, int64_t j) { return load(triangle + (i * size + j) * lanes); };
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t k = i; k < size; ++k) {
      store(scaled + k * lanes, x(k, i) * load(factor + (k * size + k) * lanes));
    }
    in_blocks(0, i + 1, [&]<int n>(int64_t j) {
      Vec<T> sum[n] = {};
      for (int64_t k = i; k < size; ++k) {
        const Vec<T> w = load(scaled + k * lanes);
        for (int u = 0; u < n; ++u) sum[u] += w * x(k, j + u);
      }
      for (int u = 0; u < n; ++u) {
        store(inverse + (i * size + j + u) * lanes, sum[u]);
        store(inverse + ((j + u) * size + i) * lanes, sum[u]);
      }
    });
  }
}

// Calls use(i, (A x)_i) for every i, with a symmetric A.
template <class T, class X, class Use>
PTD_INLINE void times(const T* matrix, int64_t size, const X& x, const Use& use) {
  constexpr int64_t lanes = kLanes<T>;
  in_blocks(0, size, [&]<int n>(int64_t i) {
    Vec<T> sum[n] = {};
    for (int64_t j = 0; j < size; ++j) {
      const Vec<T> entry = x(j);
      for (int u = 0; u < n; ++u) sum[u] += load(matrix + ((i + u) * size + j) * lanes) * entry;
    }
    for (int u = 0; u < n; ++u) use(i + u, sum[u]);
  });
}

}  // namespace PTD_ISA
}  // namespace ptd
