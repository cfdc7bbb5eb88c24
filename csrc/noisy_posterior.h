// noisy_posterior: P(noisy label | x) = T(x)^T g, and its gradients, by matrix products, on any
// device.
//
// T(x) is linear in the weights h. With the parts seen as one matrix P [R * C, C], whose row (j, i)
// is row i of part j, and G [N, C] the gradient of the result:
//
//   out_k = sum_ji (h_j g_i) P_jik
//   D_ji  = sum_k G_k P_jik          dh_j = sum_i D_ji g_i     dg_i = sum_j h_j D_ji
//   dz    = g (dg - <g, dg>)         dP_jik = sum_n (h_j g_i) G_k
//
// The outer products h_j g_i and D are [N, R * C]; they are formed for a range of samples (or
// parts) at a time and never held whole. Parts in row layout and in column layout are both views of
// this matrix; they differ in the strides alone.
//
// With slack, CUDA uses the same products for the entries of T(x) + slack that are positive in
// every sample: g is divided by the row sums, P is zero at all other entries, and the slack is one
// more part, of weight one. Kernels add the entries that may be clamped.
#pragma once

#include <algorithm>

#include "aten.h"
#include "gradient_tensors.h"

namespace ptd {

inline void check_noisy_posterior_backward(const Sizes& sizes, const Tensor& grad,
                                           const Tensor& parts, const OptionalTensor& slack,
                                           const Tensor& saved_row_sum) {
  const char* op = "noisy_posterior_backward";
  const ScalarType dtype = parts.scalar_type();
  check_backward(op, "grad", grad, {sizes.samples, sizes.classes}, dtype, parts);
  if (!slack) return;
  check_backward(op, "saved_row_sum", saved_row_sum, {sizes.samples, sizes.classes}, dtype, parts);
}

// dg_i = sum_j h_j D_ji and dh_j = sum_i D_ji g_i of a range of samples, by torch's batched matrix
// product (bmm). A gradient that is not asked for is an empty tensor.
struct TorchContraction {
  static constexpr int64_t kIntermediate = int64_t(1) << 23;  // few launches on a GPU

  void operator()(const Tensor& d,                     // [count, R, C]
                  const Tensor& weights,               // [count, R]
                  const Tensor& softmax,               // [count, C]
                  const Tensor& grad_softmax,          // [count, C]
                  const Tensor& grad_weights) const {  // [count, R]
    const int64_t count = d.size(0), parts = d.size(1), classes = d.size(2);
    if (grad_softmax.numel() > 0) {
      aten::bmm_out(
          aten::view(weights, {count, 1, parts}, {weights.stride(0), 0, weights.stride(1)}), d,
          aten::view(grad_softmax, {count, 1, classes}, {classes, classes, 1}));
    }
    if (grad_weights.numel() > 0) {
      aten::bmm_out(d, aten::view(softmax, {count, classes, 1}, {classes, 1, 1}),
                    aten::view(grad_weights, {count, parts, 1}, {parts, 1, 1}));
    }
  }
};

// The matrix products with P, for factors g [N, C] of any origin.
template <class Contraction>
class PartsProduct {
 public:
  PartsProduct(const Sizes& sizes, const Tensor& factors, const OptionalTensor& weights,
               const Tensor& parts)
      : samples_(sizes.samples),
        classes_(sizes.classes),
        parts_(sizes.parts),
        factors_(factors),
        weights_(weights),
        matrix_(as_matrix(parts)) {}

  // out_k = sum_ji (h_j g_i) P_jik
  Tensor forward() const {
    Tensor out = empty({samples_, classes_}, factors_.scalar_type(), factors_);
    if (samples_ == 0) return out;
    if (!weights_) {
      aten::mm_out(factors_, matrix_, out);
      return out;
    }
    const int64_t step = samples_at_a_time();
    const Tensor buffer = empty({step, width()}, factors_.scalar_type(), factors_);
    for (int64_t first = 0; first < samples_; first += step) {
      const int64_t count = std::min(step, samples_ - first);
      const Tensor outer = rows(buffer, 0, count);
      outer_product(weights_of(first, count), rows(factors_, first, count), outer);
      aten::mm_out(outer, matrix_, rows(out, first, count));
    }
    return out;
  }

  // The gradients of factors and weights from G. One that is not asked for is an empty tensor.
  void contract(const Tensor& grad,                  // G, [N, C], contiguous
                const Tensor& grad_factors,          // [N, C]
                const Tensor& grad_weights) const {  // [N, R]
    const Tensor by_class = torch::stable::transpose(matrix_, 0, 1);
    if (!weights_) {
      aten::mm_out(grad, by_class, grad_factors);
      return;
    }
    const int64_t step = samples_at_a_time();
    const Tensor buffer = empty({step, width()}, factors_.scalar_type(), factors_);
    const auto range = [](const Tensor& gradient, int64_t first, int64_t count) {
      return gradient.numel() > 0 ? rows(gradient, first, count) : gradient;
    };
    for (int64_t first = 0; first < samples_; first += step) {
      const int64_t count = std::min(step, samples_ - first);
      aten::mm_out(rows(grad, first, count), by_class, rows(buffer, 0, count));
      Contraction()(aten::view(buffer, {count, parts_, classes_}, {width(), classes_, 1}),
                    weights_of(first, count), rows(factors_, first, count),
                    range(grad_factors, first, count), range(grad_weights, first, count));
    }
  }

  // dP_jik = sum_n (h_j g_i) G_k
  void parts_gradient(const Tensor& grad,         // G, [N, C], contiguous
                      const Tensor& out) const {  // [R, C, C] in column layout
    const Tensor columns = aten::view(out, {classes_, width()}, {width(), 1});
    if (samples_ == 0) {
      torch::stable::zero_(const_cast<Tensor&>(columns));
      return;
    }
    const Tensor by_class = aten::view(grad, {classes_, samples_}, {1, classes_});
    if (!weights_) {
      aten::mm_out(by_class, factors_, columns);
      return;
    }
    const int64_t step = parts_at_a_time();
    const Tensor buffer = empty({samples_ * step * classes_}, factors_.scalar_type(), factors_);
    for (int64_t first = 0; first < parts_; first += step) {
      const int64_t count = std::min(step, parts_ - first), wide = count * classes_;
      const Tensor outer = aten::view(buffer, {samples_, wide}, {wide, 1});
      const int64_t stride = weights_->stride(1);
      outer_product(
          aten::view(*weights_, {samples_, count}, {weights_->stride(0), stride}, first * stride),
          factors_, outer);
      aten::mm_out(by_class, outer,
                   aten::view(columns, {classes_, wide}, {width(), 1}, first * classes_));
    }
  }

 private:
  // An intermediate may have Contraction::kIntermediate numbers, or half as many as the parts have
  // if that is more: every range of samples reads all parts, and with fewer samples in a range that
  // reading would dominate.
  int64_t width() const { return parts_ * classes_; }
  int64_t max_numbers() const {
    return std::max(Contraction::kIntermediate, classes_ * width() / 2);
  }
  int64_t samples_at_a_time() const {
    return std::clamp(max_numbers() / width(), int64_t(1), samples_);
  }
  // The gradient of the parts is a sum over samples. It is split into ranges of parts, not of
  // samples, so that one product gives the result of a range and no partial sums remain to be
  // added.
  int64_t parts_at_a_time() const {
    return std::clamp(max_numbers() / (samples_ * classes_), int64_t(1), parts_);
  }

  // The parts as [R * C, C]: a view if they are contiguous or in column layout, else a copy.
  static Tensor as_matrix(const Tensor& parts) {
    const int64_t classes = parts.size(-1), rows = parts.numel() / classes;
    if (is_column_layout(parts)) return aten::view(parts, {rows, classes}, {1, rows});
    return aten::view(torch::stable::contiguous(parts), {rows, classes}, {classes, 1});
  }

  static Tensor rows(const Tensor& matrix, int64_t first, int64_t count) {
    const int64_t stride = matrix.stride(0);
    return aten::view(matrix, {count, matrix.size(1)}, {stride, 1}, first * stride);
  }

  Tensor weights_of(int64_t first, int64_t count) const {
    const int64_t stride = weights_->stride(0);
    return aten::view(*weights_, {count, parts_}, {stride, weights_->stride(1)}, first * stride);
  }

  // out_nji = h_nj g_ni
  static void outer_product(const Tensor& weights,  // [count, parts]
                            const Tensor& factors,  // [count, C]
                            const Tensor& out) {    // [count, parts * C]
    const int64_t count = weights.size(0), parts = weights.size(1), classes = factors.size(1);
    aten::mul_out(aten::view(weights, {count, parts, 1}, {weights.stride(0), weights.stride(1), 0}),
                  aten::view(factors, {count, 1, classes}, {classes, 0, 1}),
                  aten::view(out, {count, parts, classes}, {parts * classes, classes, 1}));
  }

  int64_t samples_, classes_, parts_;
  Tensor factors_;          // g, [N, C]
  OptionalTensor weights_;  // h, [N, R], or absent for one part of weight one
  Tensor matrix_;           // P, [R * C, C]
};

// The operator without slack: g is the softmax of the logits.
template <class Contraction = TorchContraction>
class NoisyPosteriorProduct {
 public:
  NoisyPosteriorProduct(const Sizes& sizes, const Tensor& logits, const OptionalTensor& weights,
                        const Tensor& parts)
      : sizes_(sizes),
        logits_(logits),
        parts_(parts),
        softmax_(aten::softmax(logits, parts.scalar_type())),
        product_(sizes, softmax_, weights, parts) {}

  Tensor forward() const { return product_.forward(); }

  FourTensors backward(const Tensor& given_grad, const Needs& needs) const {
    GradientTensors gradients(sizes_, logits_, parts_, std::nullopt, needs);
    const Tensor grad = torch::stable::contiguous(given_grad);
    if (needs.parts) product_.parts_gradient(grad, gradients.parts);
    if (sizes_.samples == 0 || (!needs.logits && !needs.weights)) return gradients.tuple();
    const Tensor grad_softmax =
        empty({needs.logits ? sizes_.samples : 0, sizes_.classes}, softmax_.scalar_type(), logits_);
    product_.contract(grad, grad_softmax, gradients.weights);
    if (needs.logits) {
      const Tensor grad_logits = aten::softmax_backward(grad_softmax, softmax_);
      if (grad_logits.scalar_type() == logits_.scalar_type()) {
        gradients.logits = grad_logits;
      } else {
        torch::stable::copy_(gradients.logits, grad_logits);
      }
    }
    return gradients.tuple();
  }

 private:
  Sizes sizes_;
  Tensor logits_, parts_, softmax_;
  PartsProduct<Contraction> product_;
};

}  // namespace ptd
