// simplex_weights: accelerated projected-gradient steps on min h G h^T / 2 - b h over the simplex,
// for every row b of `linear`. The method is in math/simplex.h.
//
//   contraction  [B, R, R]   M = I - s G, symmetric
//   step         [B]         s; at most one over the largest eigenvalue of G
//   shift        [B, R]      added to s b: the image of h is h M + s b + shift
//   linear       [B, N, R]   b
//   start        [B, N, R]   rows on the simplex; absent: their centre
//   result       [B, N, R]   rows on the simplex, no worse than start
//
// Because h sums to one, G may be centred, which lowers its largest eigenvalue and so allows a
// larger s: see ptd_ext/ops/simplex.py, which computes M, s and shift. The B problems are
// independent. A row makes at most `max_iter` steps; it stops after a step without momentum that
// moves it by no more than `tol`, in the Euclidean norm, or that would raise the objective.
#pragma once

#include "check.h"
#include "map_rows.h"

namespace ptd {

constexpr int64_t kMaxParts = 256;

struct WeightSizes {
  int64_t batch, rows, parts;
};

inline WeightSizes check_simplex_weights(const Tensor& contraction, const Tensor& step,
                                         const Tensor& shift, const Tensor& linear,
                                         const OptionalTensor& start, int64_t max_iter) {
  const std::string here = "simplex_weights: ";
  if (linear.dim() != 3)
    raise_error(here + "linear must be [B, N, R]; got " + shape_text(linear) + ".");
  const ScalarType dtype = linear.scalar_type();
  if (dtype != ScalarType::Float && dtype != ScalarType::Double) {
    raise_error(here + "linear must be float32 or float64; got " + dtype_text(dtype) + ".");
  }
  const int64_t batch = linear.size(0), parts = linear.size(2);
  if (parts < 1 || parts > kMaxParts) {
    raise_error(here + "linear must have 1 to " + std::to_string(kMaxParts) + " parts; got " +
                std::to_string(parts) + ".");
  }
  if (max_iter < 0)
    raise_error(here + "max_iter must not be negative; got " + std::to_string(max_iter) + ".");
  const auto check = [&](const char* name, const Tensor& tensor, const std::string& shape) {
    if (shape_text(tensor) != shape || tensor.scalar_type() != dtype) {
      raise_error(here + name + " must be " + shape + ", " + dtype_text(dtype) + "; got " +
                  shape_text(tensor) + ", " + dtype_text(tensor.scalar_type()) + ".");
    }
    check_device("simplex_weights", name, tensor, linear, "linear");
  };
  const std::string b = std::to_string(batch), r = std::to_string(parts);
  check("contraction", contraction, "[" + b + ", " + r + ", " + r + "]");
  check("step", step, "[" + b + "]");
  check("shift", shift, "[" + b + ", " + r + "]");
  if (start) check("start", *start, shape_text(linear));
  return {batch, linear.size(1), parts};
}

// The arguments, contiguous.
struct WeightProblems {
  WeightSizes sizes;
  Tensor contraction, step, shift, linear;
  OptionalTensor start;
  int64_t max_iter;
  double tol;
};

// Device::solve<T>(problems, weights) runs the kernel on tensors that are not empty.
template <class Device>
Tensor simplex_weights(Tensor contraction, Tensor step, Tensor shift, Tensor linear,
                       OptionalTensor start, int64_t max_iter, double tol) {
  const WeightSizes sizes =
      check_simplex_weights(contraction, step, shift, linear, start, max_iter);
  const auto dense = [](const Tensor& tensor) { return torch::stable::contiguous(tensor); };
  return map_rows(linear, [&]<class T>(const Tensor& rows, const Tensor& weights) {
    const WeightProblems problems = {
        .sizes = sizes,
        .contraction = dense(contraction),
        .step = dense(step),
        .shift = dense(shift),
        .linear = rows,
        .start = start ? OptionalTensor(dense(*start)) : OptionalTensor(),
        .max_iter = max_iter,
        .tol = tol,
    };
    Device::template solve<T>(problems, weights);
  });
}

}  // namespace ptd
