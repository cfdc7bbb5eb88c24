// invert_posterior on the CPU: a row takes all its steps before the next one begins, so that none
// waits for another. T stays in the L1 or L2 cache at the usual sizes. Most entries of g soon are
// exact zeros: products skip their rows of T, and their curvature is not needed.
#pragma once

#include "simd/simd.h"
#include "simplex/problems.h"

namespace ptd {
namespace PTD_ISA {

constexpr int kProductsAtOnce = 4;  // of T, whose products with a vector share its loads
constexpr int kSumsAtOnce = 4;      // of a sum of rows of T
constexpr int kLengthsTried = 3;    // of a step

// Square root of the smallest normal number: 1 / q^2 stays finite.
template <class T>
constexpr T kSmallestProbability = T(0x1p-63);
template <>
constexpr double kSmallestProbability<double> = 0x1p-511;

// Share of the uniform distribution in the start: a class that p rules out may be the true one.
template <class T>
constexpr T kUniformShare = T(0.01);

// The state of one row, each [C], in the scratch of a thread.
template <class T>
struct InversionRow {
  T *explained, *slope_terms, *curvature_terms, *gradient, *curvature, *step, *change;
  static constexpr int64_t kVectors = 7;

  InversionRow(T* scratch, int64_t classes) {
    T** const vectors[] = {&explained, &slope_terms, &curvature_terms, &gradient,
                           &curvature, &step,        &change};
    for (int64_t v = 0; v < kVectors; ++v) *vectors[v] = scratch + v * classes;
  }
};

template <class T>
int64_t invert_posterior_scratch(const InversionProblem<T>& problem) {
  const int64_t classes = problem.classes;
  return InversionRow<T>::kVectors * classes + (problem.weights ? classes * classes : 0);
}

// sums_k = sum_i factors_i T_ik for kVectors vectors of entries.
template <int kVectors, class T>
PTD_INLINE void sum_of_rows_at(const T* matrix,   // [C, C], from an entry of the first row on
                               const T* factors,  // [C]
                               int64_t classes, int64_t left, T* sums) {
  Vec<T> sum[kVectors] = {};
  for (int64_t i = 0; i < classes; ++i) {
    if (factors[i] == T(0)) continue;
    const T* row = matrix + i * classes;
    for (int v = 0; v < kVectors; ++v) {
      sum[v] += factors[i] * load(row + v * kLanes<T>, left - v * kLanes<T>);
    }
  }
  for (int v = 0; v < kVectors; ++v) store(sums + v * kLanes<T>, sum[v], left - v * kLanes<T>);
}

// T^T factors
template <class T>
PTD_INLINE void sum_of_rows(const T* matrix, const T* factors, int64_t classes, T* sums) {
  int64_t k = 0;
  const auto while_left = [&]<int kVectors>() {
    for (; k + (kVectors - 1) * kLanes<T> < classes; k += kVectors * kLanes<T>) {
      sum_of_rows_at<kVectors>(matrix + k, factors, classes, classes - k, sums + k);
    }
  };
  while_left.template operator()<8>();
  while_left.template operator()<4>();
  while_left.template operator()<2>();
  while_left.template operator()<1>();
}

// Calls use(i, sum_k term(T_ik, x_k)) for kRows rows of T.
template <int kRows, class T, class Term, class Use>
PTD_INLINE void sums_along_rows(const T* matrix, const int64_t (&rows)[kRows],
                                const T* x,  // [C]
                                int64_t classes, const Term& term, const Use& use) {
  Vec<T> sum[kRows] = {};
  for_lanes<T>(classes, [&](int64_t k, int64_t left) {
    const Vec<T> entries = load(x + k, left);
    for (int r = 0; r < kRows; ++r) {
      sum[r] += term(load(matrix + rows[r] * classes + k, left), entries);
    }
  });
  for (int r = 0; r < kRows; ++r) use(rows[r], sum_lanes(sum[r]));
}

// The same for the rows i that chosen(i) accepts.
template <class T, class Chosen, class Term, class Use>
PTD_INLINE void for_rows(const T* matrix, const T* x, int64_t classes, const Chosen& chosen,
                         const Term& term, const Use& use) {
  int64_t rows[kSumsAtOnce];
  int count = 0;
  for (int64_t i = 0; i < classes; ++i) {
    if (!chosen(i)) continue;
    rows[count++] = i;
    if (count < kSumsAtOnce) continue;
    sums_along_rows(matrix, rows, x, classes, term, use);
    count = 0;
  }
  for (int r = 0; r < count; ++r) {
    const int64_t row[1] = {rows[r]};
    sums_along_rows(matrix, row, x, classes, term, use);
  }
}

// q, 1 - p / q and p / q^2
template <class T>
PTD_INLINE void explain(const T* matrix, const T* p, const T* g, int64_t classes,
                        InversionRow<T>& row) {
  sum_of_rows(matrix, g, classes, row.explained);
  for_lanes<T>(classes, [&](int64_t k, int64_t left) {
    const Vec<T> q = larger<T>(splat(kSmallestProbability<T>), load(row.explained + k, left));
    const Vec<T> ratio = load(p + k, left) / q;
    store(row.slope_terms + k, 1 - ratio, left);
    store(row.curvature_terms + k, ratio / q, left);
  });
}

// d, and h where it is needed.
template <class T>
PTD_INLINE void differentiate(const T* matrix, const T* g, int64_t classes, InversionRow<T>& row) {
  for_rows(
      matrix, row.slope_terms, classes, [](int64_t) { return true; },
      [](Vec<T> entry, Vec<T> x) { return entry * x; },
      [&](int64_t i, T sum) { row.gradient[i] = sum; });
  for (int64_t i = 0; i < classes; ++i) row.curvature[i] = T(1);
  for_rows(
      matrix, row.curvature_terms, classes,
      [&](int64_t i) { return g[i] > T(0) || row.gradient[i] < T(0); },
      [](Vec<T> entry, Vec<T> x) { return entry * entry * x; },
      [&](int64_t i, T sum) { row.curvature[i] = sum; });
}

// Sets z and returns true if an entry of it is longer than the tolerance.
template <class T>
PTD_INLINE bool find_step(const T* g, int64_t classes, T tol, InversionRow<T>& row) {
  uint32_t far = 0;
  for_lanes<T>(classes, [&](int64_t i, int64_t left) {
    const Vec<T> d = load(row.gradient + i, left), h = load(row.curvature + i, left);
    const Vec<T> entry = load(g + i, left), zero{};
    const Vec<T> newton = 1 / larger<T>(splat(kSmallestProbability<T>), h);
    const Vec<T> scale = h * entry < splat(T(1)) ? newton : entry;
    Vec<T> z = -d * scale;
    z = z < -entry ? -entry : z;
    z = z > splat(T(1)) ? splat(T(1)) : z;
    z = ((entry == zero) & (d >= zero)) ? zero : z;
    store(row.step + i, z, left);
    const Vec<T> size = larger<T>(entry, load(row.explained + i, left));
    far |= lane_bits((z < zero ? -z : z) > tol * size);
  });
  return far != 0;
}

// The length of the step z, whose change of q is row.change.
template <class T>
PTD_INLINE T step_length(const T* p, int64_t classes, const InversionRow<T>& row) {
  constexpr T kOfTheWay = T(0.9);            // to where a q_k vanishes
  constexpr T kSlopeLeft = T(-0.1);          // of that at the start
  Vec<T> slopes{}, shortest = splat(T(-1));  // minus the length
  for_lanes<T>(classes, [&](int64_t k, int64_t left) {
    slopes += load(row.step + k, left) * load(row.gradient + k, left);
    const Vec<T> change = load(row.change + k, left), zero{};
    const Vec<T> limit = kOfTheWay * load(row.explained + k, left) / change;
    const auto falls = (change < zero) & (load(p + k, left) > zero);
    shortest = larger<T>(falls ? limit : splat(T(-1)), shortest);
  });
  const T start = sum_lanes(slopes);
  T length = -max_lanes(shortest);
  for (int tried = 0; tried < kLengthsTried; ++tried) {
    Vec<T> sum{};
    for_lanes<T>(classes, [&](int64_t k, int64_t left) {
      const Vec<T> change = load(row.change + k, left);
      const Vec<T> q = load(row.explained + k, left) + length * change;
      sum += change * (1 - load(p + k, left) / larger<T>(splat(kSmallestProbability<T>), q));
    });
    const T slope = sum_lanes(sum);
    if (!(slope > kSlopeLeft * start)) break;
    length *= start / (start - slope);
  }
  return length;
}

template <class T>
PTD_INLINE void invert_row(const T* matrix, const T* p, int64_t classes, int64_t max_iter, T tol,
                           InversionRow<T>& row, T* g) {
  for (int64_t i = 0; i < classes; ++i) {
    g[i] = p[i] + kUniformShare<T> * (T(1) / T(classes) - p[i]);
  }
  for (int64_t step = 0; step < max_iter; ++step) {
    explain(matrix, p, g, classes, row);
    differentiate(matrix, g, classes, row);
    if (!find_step(g, classes, tol, row)) break;
    sum_of_rows(matrix, row.step, classes, row.change);
    const T length = step_length(p, classes, row);
    for_lanes<T>(classes, [&](int64_t i, int64_t left) {
      const Vec<T> moved = load(g + i, left) + length * load(row.step + i, left);
      store(g + i, positive_part(moved), left);
    });
  }
  T sum = T(0);
  for (int64_t i = 0; i < classes; ++i) sum += g[i];
  for (int64_t i = 0; i < classes; ++i) g[i] = sum == T(0) ? p[i] : g[i] / sum;
}

// sum_j h_j P^j
template <class T>
PTD_INLINE void mix_parts(const T* h, const T* parts, int64_t count, int64_t size, T* mixed) {
  for_lanes<T>(size, [&](int64_t at, int64_t left) {
    Vec<T> sum{};
    for (int64_t j = 0; j < count; ++j) sum += h[j] * load(parts + j * size + at, left);
    store(mixed + at, sum, left);
  });
}

template <class T>
void invert_posterior(const InversionProblem<T>& problem, int64_t begin, int64_t end, T* scratch) {
  const int64_t classes = problem.classes, parts = problem.parts;
  InversionRow<T> row(scratch, classes);
  T* const mixed = scratch + InversionRow<T>::kVectors * classes;
  for (int64_t n = begin; n < end; ++n) {
    const T* matrix = problem.matrices;
    if (problem.weights) {
      mix_parts(problem.weights + n * parts, matrix, parts, classes * classes, mixed);
      matrix = mixed;
    }
    invert_row(matrix, problem.probs + n * classes, classes, problem.max_iter, problem.tol, row,
               problem.clean + n * classes);
  }
}

}  // namespace PTD_ISA
}  // namespace ptd
