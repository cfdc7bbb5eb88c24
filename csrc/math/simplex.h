// Euclidean projection onto the simplex, and accelerated steps on it.
//
// Projection. The nearest point of {p >= 0, sum p = 1} to v is p = max(v - theta, 0), where theta
// solves f(theta) = sum_i max(v_i - theta, 0) = 1. f is convex, piecewise linear and falling, so
// Newton's method needs no sort: with A = {i : v_i > theta} a step leads to
//
//   theta' = (sum_A v_i - 1) / |A|.
//
// From a theta at or left of the solution, theta rises and A shrinks until A no longer changes:
// then theta is exact. From the right of the solution the first step leads to the left of it; if A
// is empty, it leads to -1/0 = -infinity, where all of v is in A. So any start converges. With
// f_k = f(theta_k) - 1 and the slope |A_k|,
//   f_{k+1} / f_k + |A_{k+1}| / |A_k| <= 1,
// so f_k |A_k| falls at least fourfold at each step: a few dozen steps at most, whatever the length
// of v, and usually three to six.
//
// Subtracting the maximum first changes the rounding alone: every entry that matters then lies in
// (-1, 0], and -1 is left of the solution. It also treats infinities as limits: entries of plus
// infinity share the mass equally, entries of minus infinity get none, and a row that is minus
// infinity throughout becomes uniform.
//
// The projection's Jacobian is I - 11^T / |A| on the support A and zero off it. It is symmetric, so
// the vector-Jacobian product multiplies by the same matrix, and it is piecewise constant in v, so
// the second derivative is zero.
//
// Steps. For q(h) = h G h^T / 2 - b h on the simplex, the image of h under a gradient step of
// length s is affine, e(h) = h - s (h G - b) = h M + o with M = I - s G and o = s b. Nesterov's
// extrapolated point y = h + beta (h - h_before) has the image e + beta (e - e_before), so a step
//
//   c = projection(e + beta (e - e_before)),   e(c) = c M + o
//
// takes one product with M. The largest entry of o is subtracted from every entry of o. That
// changes no projection, but the entries that can have a weight are then near zero, where a change
// of order one is not lost in rounding. An entry far below gets no weight, however far it is; it is
// raised to kFarBelow, so that sums of such entries stay finite.
//
// With s (h G - b) = h - e, the change of q is known too, without the cancellation in q(c) - q(h):
//
//   2 s (q(c) - q(h)) = (c - h) . (c + h - e(c) - e + 2 theta).
//
// Here theta is the projection's. In exact arithmetic it has no effect, since c - h sums to zero.
// But at the solution s times the gradient is -theta on the support, not zero, and would multiply
// the rounding error of that sum; with theta the second factor vanishes there as fast as the first.
//
// If q would rise, the step is not taken and the momentum starts again at zero; without momentum a
// step can raise q only by rounding. If a step without momentum does not move h, h is the solution.
#pragma once

#include "host_device.h"

namespace ptd {

// One Newton step; V is a number or a vector of numbers.
template <class V>
PTD_HD V newton_threshold(V sum, V count) {
  return (sum - 1) / count;
}

// The larger of two numbers, or NaN if one of them is NaN.
template <class T>
PTD_HD T larger_or_nan(T a, T b) {
  return a > b || a != a ? a : b;
}

constexpr float kFarBelow = -1e36f;  // 256 times as much is still finite in float

// An entry of o minus the largest one, at least kFarBelow. NaN stays NaN.
template <class T>
PTD_HD T offset_below(T entry, T top) {
  const T below = entry - top;
  return below < T(kFarBelow) ? T(kFarBelow) : below;
}

// max(x, 0), or NaN if x is NaN.
template <class T>
PTD_HD T above_zero(T x) {
  return x <= T(0) ? T(0) : x;
}

// beta after `age` steps since the momentum was last zero.
template <class V>
PTD_HD V momentum(V age) {
  return age / (age + 3);
}

// A term of 2 s (q(c) - q(h)).
template <class V>
PTD_HD V rise_term(V candidate, V candidate_image, V weight, V image, V theta) {
  const V slope = (candidate + weight) - (candidate_image + image) + (theta + theta);
  return (candidate - weight) * slope;
}

// A term of the squared length of a step.
template <class V>
PTD_HD V moved_term(V candidate, V weight) {
  return (candidate - weight) * (candidate - weight);
}

}  // namespace ptd
