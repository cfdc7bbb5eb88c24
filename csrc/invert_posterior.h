// invert_posterior: for every row p of `probs`, the probabilities g of the true label that best
// explain p = P(given label | x): the g on the simplex that attains
//
//   max  sum_k p_k log q_k,   q = T(x)^T g
//
//   probs    [N, C]      rows on the simplex; float32 or float64, as are the others
//   weights  [N, R]      T(x) = sum_j h_j(x) P^j; absent: one matrix T
//   parts    [R, C, C]   P; [C, C] without weights; every row on the simplex
//   result   [N, C]      rows on the simplex
//
// Every row of T sums to one, so that sum_k q_k = sum_i g_i, and the scale that attains the minimum
// of F(g) = sum_k (q_k - p_k log q_k) over g >= 0 is one: the minimum lies on the simplex by itself
// (but for entries p_k whose column of T is zero; the result is normalised, and is p if no column
// of a positive p_k has an entry). With
//
//   d_i = dF/dg_i = sum_k T_ik (1 - p_k / q_k),   h_i = d2F/dg_i^2 = sum_k T_ik^2 p_k / q_k^2
//
// a step goes along z_i = max(-g_i, -d_i s_i), s_i = max(1 / h_i, g_i): Newton's step for an entry
// alone, but not shorter than that of expectation maximisation, s_i = g_i, which Newton's is where
// q_k is far too small. An entry that vanishes does so in one step. The length of a step, at most
// one, follows from the slope of F along z, by the secant method.
//
// A row takes at most `max_iter` steps. It ends where no entry is to move by more than `tol` times
// the larger of g_i and q_i.
#pragma once

#include "check.h"
#include "map_rows.h"

namespace ptd {

inline Sizes check_invert_posterior(const Tensor& probs, const OptionalTensor& weights,
                                    const Tensor& parts, int64_t max_iter) {
  const std::string here = "invert_posterior: ";
  const ScalarType dtype = probs.scalar_type();
  if (probs.dim() != 2 || probs.size(1) < 1 ||
      (dtype != ScalarType::Float && dtype != ScalarType::Double)) {
    raise_error(here + "probs must be [N, C], float32 or float64; got " + shape_text(probs) + ", " +
                dtype_text(dtype) + ".");
  }
  if (max_iter < 0)
    raise_error(here + "max_iter must not be negative; got " + std::to_string(max_iter) + ".");
  const int64_t samples = probs.size(0), classes = probs.size(1);
  const int64_t count = weights && parts.dim() == 3 ? parts.size(0) : 1;
  const auto check = [&](const char* name, const Tensor& tensor, const std::string& shape) {
    if (shape_text(tensor) != shape || tensor.scalar_type() != dtype) {
      raise_error(here + name + " must be " + shape + ", " + dtype_text(dtype) + "; got " +
                  shape_text(tensor) + ", " + dtype_text(tensor.scalar_type()) + ".");
    }
    check_device("invert_posterior", name, tensor, probs, "probs");
  };
  const std::string c = std::to_string(classes), r = std::to_string(count);
  check("parts", parts, "[" + (weights ? r + ", " : "") + c + ", " + c + "]");
  if (weights) check("weights", *weights, "[" + std::to_string(samples) + ", " + r + "]");
  return {samples, classes, count};
}

}  // namespace ptd
