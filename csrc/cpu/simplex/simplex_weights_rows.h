// simplex_weights on the CPU: a strip of rows makes all its steps without leaving the L1 cache,
// which holds its six vectors of R entries and the contraction at the paper's sizes. Only `linear`,
// `start` and the result pass through memory, once.
#pragma once

#include <math.h>

#include "simplex/problems.h"
#include "simplex/strip.h"

namespace ptd {
namespace PTD_ISA {

// The number of parts whose image is computed at once: as many sums as fit in registers.
constexpr int kPartsAtOnce = kVectorBytes == 64 ? 8 : 4;

// Vectors of a strip, each [R, kStrip], in the scratch of a thread.
template <class T>
struct WeightStrip {
  T *offset, *weights, *candidate, *image, *image_before, *candidate_image;
  static constexpr int64_t kVectors = 6;

  WeightStrip(T* scratch, int64_t parts) {
    T** const vectors[] = {&offset, &weights, &candidate, &image, &image_before, &candidate_image};
    for (int64_t v = 0; v < kVectors; ++v) *vectors[v] = scratch + v * parts * kStrip<T>;
  }
};

template <class T>
int64_t simplex_weights_scratch(int64_t parts) {
  return WeightStrip<T>::kVectors * parts * kStrip<T>;
}

// Calls use(i, (h M + o)_i) for parts i = first ... first + kParts - 1.
template <int kParts, class T, class Use>
PTD_INLINE void image_of_parts(const T* contraction,  // [R, R]
                               const T* h,            // [R, kStrip]
                               const T* offset,       // [R, kStrip]
                               int64_t parts, int64_t first, const Use& use) {
  Pair<T> sum[kParts];
  for (int u = 0; u < kParts; ++u) sum[u] = load_pair(offset + (first + u) * kStrip<T>);
  for (int64_t j = 0; j < parts; ++j) {
    const Pair<T> x = load_pair(h + j * kStrip<T>);
    const T* row = contraction + j * parts + first;
    for (int u = 0; u < kParts; ++u) sum[u] = sum[u] + pair(row[u]) * x;
  }
  for (int u = 0; u < kParts; ++u) use(first + u, sum[u]);
}

// Calls use(i, (h M + o)_i) for all parts i.
template <class T, class Use>
PTD_INLINE void image_of(const T* contraction, const T* h, const T* offset, int64_t parts,
                         const Use& use) {
  int64_t i = 0;
  for (; i + kPartsAtOnce <= parts; i += kPartsAtOnce) {
    image_of_parts<kPartsAtOnce>(contraction, h, offset, parts, i, use);
  }
  if (kPartsAtOnce > 4 && i + 4 <= parts) {
    image_of_parts<4>(contraction, h, offset, parts, i, use);
    i += 4;
  }
  if (i + 2 <= parts) {
    image_of_parts<2>(contraction, h, offset, parts, i, use);
    i += 2;
  }
  if (i < parts) image_of_parts<1>(contraction, h, offset, parts, i, use);
}

// o = s b + shift, minus its largest entry.
template <class T>
PTD_INLINE void read_offset(const WeightProblem<T>& problem, int64_t row, int64_t count,
                            T* offset) {
  const int64_t parts = problem.parts;
  read_strip(problem.linear + row * parts, count, parts, offset);
  Pair<T> top = pair(-T(INFINITY));
  for (int64_t j = 0; j < parts; ++j) {
    const Pair<T> o =
        load_pair(offset + j * kStrip<T>) * pair(problem.step) + pair(problem.shift[j]);
    store_pair(offset + j * kStrip<T>, o);
    top = larger_or_nan(o, top);
  }
  for (int64_t j = 0; j < parts; ++j) {
    T* at = offset + j * kStrip<T>;
    store_pair(at, offset_below(load_pair(at), top));
  }
}

template <class T>
PTD_INLINE void read_start(const WeightProblem<T>& problem, int64_t row, int64_t count,
                           T* weights) {
  const int64_t parts = problem.parts;
  if (problem.start) return read_strip(problem.start + row * parts, count, parts, weights);
  const Pair<T> centre = pair(T(1) / T(parts));
  for (int64_t j = 0; j < parts; ++j) store_pair(weights + j * kStrip<T>, centre);
}

template <class T>
PTD_INLINE void take_steps(const WeightProblem<T>& problem, WeightStrip<T>& s) {
  const int64_t parts = problem.parts;
  image_of(problem.contraction, s.weights, s.offset, parts,
           [&](int64_t i, Pair<T> e) { store_pair(s.image + i * kStrip<T>, e); });
  Pair<T> age{};                       // steps since the momentum was zero
  Pair<T> theta = pair(-T(INFINITY));  // of the step before: a good start for the next
  PairMask<T> moving = age == age;
  for (int64_t step = 0; step < problem.max_iter && moving.any(); ++step) {
    const Pair<T> beta = momentum(age);
    // Without momentum, image_before may be uninitialised.
    const PairMask<T> plain = age == Pair<T>{};
    for (int64_t j = 0; j < parts; ++j) {
      const Pair<T> e = load_pair(s.image + j * kStrip<T>);
      const Pair<T> before = load_pair(s.image_before + j * kStrip<T>);
      store_pair(s.candidate + j * kStrip<T>, select(plain, e, e + beta * (e - before)));
    }
    theta = threshold(s.candidate, parts, theta);
    subtract_and_clamp(s.candidate, parts, theta);

    Pair<T> rise{}, moved{};
    image_of(problem.contraction, s.candidate, s.offset, parts, [&](int64_t i, Pair<T> e) {
      const int64_t at = i * kStrip<T>;
      store_pair(s.candidate_image + at, e);
      const Pair<T> c = load_pair(s.candidate + at), h = load_pair(s.weights + at);
      rise = rise + rise_term(c, e, h, load_pair(s.image + at), theta);
      moved = moved + moved_term(c, h);
    });

    const PairMask<T> risen = rise > Pair<T>{};
    const PairMask<T> stalled = risen | (moved <= pair(problem.tol * problem.tol));
    const PairMask<T> kept = risen | ~moving;
    if (kept.any()) {
      for (int64_t at = 0; at < parts * kStrip<T>; at += kStrip<T>) {
        const auto keep = [&](T* candidate, const T* old) {
          store_pair(candidate + at, select(kept, load_pair(old + at), load_pair(candidate + at)));
        };
        keep(s.candidate, s.weights);
        keep(s.candidate_image, s.image);
      }
    }
    T* const spare = s.image_before;
    s.image_before = s.image;
    s.image = s.candidate_image;
    s.candidate_image = spare;
    T* const old = s.weights;
    s.weights = s.candidate;
    s.candidate = old;
    moving = moving & ~(stalled & plain);
    age = select(stalled, Pair<T>{}, age + 1);
  }
}

template <class T>
void simplex_weights(const WeightProblem<T>& problem, int64_t begin, int64_t end, T* scratch) {
  const int64_t parts = problem.parts;
  for (int64_t row = begin; row < end; row += kStrip<T>) {
    const int64_t count = end - row < kStrip<T> ? end - row : kStrip<T>;
    WeightStrip<T> strip(scratch, parts);
    read_offset(problem, row, count, strip.offset);
    read_start(problem, row, count, strip.weights);
    take_steps(problem, strip);
    write_strip(strip.weights, count, parts, problem.weights + row * parts);
  }
}

}  // namespace PTD_ISA
}  // namespace ptd
