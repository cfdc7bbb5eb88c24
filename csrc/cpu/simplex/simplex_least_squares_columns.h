// simplex_least_squares on the CPU: the interior-point method that is derived in
// ptd_ext/ops/_interior_point.py, with as many columns of Q side by side as a vector
// has lanes. A strip is kLanes columns, [R] vectors; its matrices M_k = G + diag(Z_k / Q_k) are
// inverted together. The unused lanes of the last strip repeat the last column, and sums leave them
// out.
#pragma once

#include <math.h>

#include "simplex/ldl.h"
#include "simplex/problems.h"

namespace ptd {
namespace PTD_ISA {

template <class T>
class InteriorPoint {
 public:
  static int64_t scratch(int64_t parts, int64_t columns) {
    const int64_t strips = strips_of(columns), vectors = kVectors * parts + parts * parts;
    return kLanes<T> * (strips * vectors + 4 * parts * parts + parts) + parts * parts + 3 * parts;
  }

  PTD_INLINE InteriorPoint(const LeastSquaresProblem<T>& problem, T* scratch)
      : parts_(problem.parts),
        columns_(problem.columns),
        strips_(strips_of(columns_)),
        gram_(problem.gram) {
    const auto take = [&](int64_t count) {
      T* const at = scratch;
      scratch += count;
      return at;
    };
    const int64_t square = parts_ * parts_ * kLanes<T>;
    T** const vectors[kVectors] = {&right_, &rows_, &signs_, &dual_, &change_, &d_rows_, &d_signs_};
    for (T** vector : vectors) *vector = take(strips_ * parts_ * kLanes<T>);
    inverses_ = take(strips_ * square);
    factor_ = take(square);
    triangle_ = take(square);
    total_ = take(square);
    gram_lanes_ = take(square);
    scaled_ = take(parts_ * kLanes<T>);
    system_ = take(parts_ * parts_);
    missing_ = take(parts_);
    sums_ = take(parts_);
    d_sums_ = take(parts_);
  }

  PTD_INLINE void solve(const LeastSquaresProblem<T>& problem) {
    read(problem.right);
    start();
    const T entries = T(parts_) * T(columns_);
    for (int step = 0; step < kMaxSteps; ++step) {
      const T gap = complementarity() / entries;
      if (!(gap > T(kMinGap)) || !linearise()) break;

      each([&](int64_t at, Vec<T>) { store(change_ + at, v(rows_, at) * v(signs_, at)); });
      Step ahead;
      if (!direction(ahead)) break;
      // Q dZ + Z dQ = -Q Z, so that the gap after a step is linear in it but for dQ dZ.
      const T length = ahead.length;
      const T left = (1 - length) * gap + length * length * ahead.product / entries;
      const T share = left > 0 ? left / gap : T(0);
      const Vec<T> centre = splat(gap * share * share * share);

      each([&](int64_t at, Vec<T>) {
        store(change_ + at,
              v(rows_, at) * v(signs_, at) + v(d_rows_, at) * v(d_signs_, at) - centre);
      });
      if (!direction(ahead)) break;
      const Vec<T> move = splat(T(kStayInside) * ahead.length);
      each([&](int64_t at, Vec<T>) {
        store(rows_ + at, v(rows_, at) + move * v(d_rows_, at));
        store(signs_ + at, v(signs_, at) + move * v(d_signs_, at));
      });
      for (int64_t j = 0; j < parts_; ++j) sums_[j] += T(kStayInside) * ahead.length * d_sums_[j];
    }
    write(problem.rows);
  }

 private:
  static constexpr int64_t kVectors = 7;
  static constexpr int kMaxSteps = 60;
  static constexpr double kMinGap = 1e-22;  // mean of Q Z; below it rounding dominates
  static constexpr double kStayInside = 0.995;

  struct Step {
    T length;   // the longest up to 1 that leaves Q and Z positive
    T product;  // sum of dQ dZ
  };

  int64_t parts_, columns_, strips_;
  const T* gram_;                                                     // [R, R]
  T *right_, *rows_, *signs_, *dual_, *change_, *d_rows_, *d_signs_;  // [strips, R] vectors
  T* inverses_;                                                       // [strips, R, R]
  T *factor_, *triangle_, *total_, *gram_lanes_;                      // [R, R] vectors
  T* scaled_;                                                         // [R] vectors
  T* system_;                                                         // [R, R] numbers
  T *missing_, *sums_, *d_sums_;                                      // [R] numbers

  static int64_t strips_of(int64_t columns) { return (columns + kLanes<T> - 1) / kLanes<T>; }

  static PTD_INLINE Vec<T> v(const T* vectors, int64_t at) { return load(vectors + at); }

  // One in each lane that holds a column of Q, zero in the unused lanes.
  PTD_INLINE Vec<T> counted(int64_t strip) const {
    const int64_t n = columns_ - strip * kLanes<T>;
    Vec<T> ones{};
    for (int64_t lane = 0; lane < kLanes<T>; ++lane) ones[lane] = lane < n ? T(1) : T(0);
    return ones;
  }

  // Calls body(offset of a vector, `counted` of its strip) for every vector.
  template <class Body>
  PTD_INLINE void each(const Body& body) const {
    for (int64_t strip = 0; strip < strips_; ++strip) {
      const Vec<T> ones = counted(strip);
      for (int64_t j = 0; j < parts_; ++j) body((strip * parts_ + j) * kLanes<T>, ones);
    }
  }

  PTD_INLINE void read(const T* right) {
    for (int64_t strip = 0; strip < strips_; ++strip) {
      for (int64_t j = 0; j < parts_; ++j) {
        T* const to = right_ + (strip * parts_ + j) * kLanes<T>;
        for (int64_t lane = 0; lane < kLanes<T>; ++lane) {
          const int64_t k = strip * kLanes<T> + lane;
          to[lane] = right[j * columns_ + (k < columns_ ? k : columns_ - 1)];
        }
      }
    }
  }

  PTD_INLINE void write(T* rows) const {
    for (int64_t strip = 0; strip < strips_; ++strip) {
      for (int64_t j = 0; j < parts_; ++j) {
        const int64_t k = strip * kLanes<T>;
        store(rows + j * columns_ + k, v(rows_, (strip * parts_ + j) * kLanes<T>), columns_ - k);
      }
    }
  }

  // Calls use(j, offset, (G Q - B)_j) for every part j of a strip.
  template <class Use>
  PTD_INLINE void gradient(int64_t strip, const Use& use) const {
    const int64_t first = strip * parts_ * kLanes<T>;
    const auto q = [&](int64_t j) { return v(rows_, first + j * kLanes<T>); };
    times<T>(gram_lanes_, parts_, q, [&](int64_t j, Vec<T> product) {
      const int64_t at = first + j * kLanes<T>;
      use(j, at, product - v(right_, at));
    });
  }

  // Starts at the centre of the simplex, with a nu that makes Z positive: an interior point without
  // residual.
  PTD_INLINE void start() {
    for (int64_t i = 0; i < parts_ * parts_; ++i)
      store(gram_lanes_ + i * kLanes<T>, splat(gram_[i]));
    each([&](int64_t at, Vec<T>) { store(rows_ + at, splat(T(1) / T(columns_))); });
    for (int64_t j = 0; j < parts_; ++j) sums_[j] = T(INFINITY);
    for (int64_t strip = 0; strip < strips_; ++strip) {
      gradient(strip, [&](int64_t j, int64_t at, Vec<T> g) {
        store(signs_ + at, g);
        const T least = -max_lanes(-g) - 1;
        sums_[j] = least < sums_[j] ? least : sums_[j];
      });
    }
    for (int64_t strip = 0; strip < strips_; ++strip) {
      for (int64_t j = 0; j < parts_; ++j) {
        const int64_t at = (strip * parts_ + j) * kLanes<T>;
        store(signs_ + at, v(signs_, at) - splat(sums_[j]));
      }
    }
  }

  // The sum of Q Z.
  PTD_INLINE T complementarity() const {
    Vec<T> sum{};
    each([&](int64_t at, Vec<T> ones) { sum += ones * v(rows_, at) * v(signs_, at); });
    return sum_lanes(sum);
  }

  // Computes M_k^-1 for all columns, the factors of their sum, and both residuals. Returns false if
  // rounding has made a matrix indefinite.
  PTD_INLINE bool linearise() {
    const int64_t square = parts_ * parts_;
    T trace = 0;
    for (int64_t j = 0; j < parts_; ++j) trace += gram_[j * parts_ + j];
    // Keeps M_k positive definite in rounding. It perturbs the direction, not the problem.
    const Vec<T> floor = splat(T(1e-15) * trace / T(parts_));
    for (int64_t i = 0; i < square; ++i) store(total_ + i * kLanes<T>, Vec<T>{});
    for (int64_t j = 0; j < parts_; ++j) missing_[j] = 1;
    for (int64_t strip = 0; strip < strips_; ++strip) {
      const Vec<T> ones = counted(strip);
      gradient(strip, [&](int64_t j, int64_t at, Vec<T> g) {
        store(dual_ + at, g - splat(sums_[j]) - v(signs_, at));
        missing_[j] -= sum_lanes(ones * v(rows_, at));
      });
      for (int64_t i = 0; i < parts_; ++i) {
        T* const row = factor_ + i * parts_ * kLanes<T>;
        for (int64_t j = 0; j <= i; ++j) {
          store(row + j * kLanes<T>, v(gram_lanes_, (i * parts_ + j) * kLanes<T>));
        }
        const int64_t at = (strip * parts_ + i) * kLanes<T>;
        T* const diagonal = row + i * kLanes<T>;
        store(diagonal, load(diagonal) + (v(signs_, at) / v(rows_, at) + floor));
      }
      if (!factorise(factor_, parts_, scaled_)) return false;
      T* const inverse = inverses_ + strip * square * kLanes<T>;
      invert_triangle(factor_, parts_, triangle_);
      inverse_of(factor_, triangle_, parts_, inverse, scaled_);
      for (int64_t i = 0; i < square * kLanes<T>; i += kLanes<T>) {
        store(total_ + i, v(total_, i) + ones * v(inverse, i));
      }
    }
    for (int64_t i = 0; i < square; ++i) system_[i] = sum_lanes(v(total_, i * kLanes<T>));
    return factorise_system();
  }

  // Computes dQ, dnu and dZ that lower Q Z by `change`. Returns false if they are not finite.
  PTD_INLINE bool direction(Step& step) {
    for (int64_t j = 0; j < parts_; ++j) d_sums_[j] = missing_[j];
    for (int64_t strip = 0; strip < strips_; ++strip) {
      const Vec<T> ones = counted(strip);
      const int64_t first = strip * parts_ * kLanes<T>;
      for (int64_t j = 0; j < parts_; ++j) {
        const int64_t at = first + j * kLanes<T>;
        store(scaled_ + j * kLanes<T>, -v(dual_, at) - v(change_, at) / v(rows_, at));
      }
      const auto s = [&](int64_t j) { return v(scaled_, j * kLanes<T>); };
      times<T>(inverses_ + first * parts_, parts_, s, [&](int64_t j, Vec<T> alone) {
        store(d_rows_ + first + j * kLanes<T>, alone);
        d_sums_[j] -= sum_lanes(ones * alone);
      });
    }
    solve_system();
    Vec<T> shrink = splat(T(1)), product{};
    for (int64_t strip = 0; strip < strips_; ++strip) {
      const Vec<T> ones = counted(strip);
      const int64_t first = strip * parts_ * kLanes<T>;
      const auto common = [&](int64_t j) { return splat(d_sums_[j]); };
      times<T>(inverses_ + first * parts_, parts_, common, [&](int64_t j, Vec<T> together) {
        const int64_t at = first + j * kLanes<T>;
        const Vec<T> q = v(rows_, at), z = v(signs_, at);
        const Vec<T> d_q = v(d_rows_, at) + together, d_z = -(v(change_, at) + z * d_q) / q;
        store(d_rows_ + at, d_q);
        store(d_signs_ + at, d_z);
        shrink = maximum<T>(maximum<T>(-d_q / q, -d_z / z), shrink);
        product += ones * d_q * d_z;
      });
    }
    step.length = 1 / max_lanes(shrink);
    step.product = sum_lanes(product);
    return step.product - step.product == 0;
  }

  // The Cholesky factor of the sum of all M_k^-1, in its lower triangle.
  PTD_INLINE bool factorise_system() {
    for (int64_t j = 0; j < parts_; ++j) {
      for (int64_t i = j; i < parts_; ++i) {
        T sum = system_[i * parts_ + j];
        for (int64_t k = 0; k < j; ++k) sum -= system_[i * parts_ + k] * system_[j * parts_ + k];
        if (i == j && !(sum > 0)) return false;
        system_[i * parts_ + j] = i == j ? __builtin_sqrt(sum) : sum / system_[j * parts_ + j];
      }
    }
    return true;
  }

  // Solves the system in place: d_sums_ holds the right-hand side, then the solution.
  PTD_INLINE void solve_system() {
    for (int64_t i = 0; i < parts_; ++i) {
      for (int64_t k = 0; k < i; ++k) d_sums_[i] -= system_[i * parts_ + k] * d_sums_[k];
      d_sums_[i] /= system_[i * parts_ + i];
    }
    for (int64_t i = parts_ - 1; i >= 0; --i) {
      for (int64_t k = i + 1; k < parts_; ++k) d_sums_[i] -= system_[k * parts_ + i] * d_sums_[k];
      d_sums_[i] /= system_[i * parts_ + i];
    }
  }
};

template <class T>
void simplex_least_squares(const LeastSquaresProblem<T>& problem, T* scratch) {
  InteriorPoint<T>(problem, scratch).solve(problem);
}

}  // namespace PTD_ISA
}  // namespace ptd
