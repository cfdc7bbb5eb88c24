// noisy_posterior: P(noisy label | x) = T(x)^T g, and its gradients; here by matrix products, for
// transitions without slack, on any device.
//
// T(x) is linear in the weights h. With columns[k][j][i] = P^j_ik, and G [N, C] the gradient of the
// result:
//
//   Y_kj = sum_i g_i columns_kji     out_k = sum_j Y_kj h_j
//   D_ji = sum_k G_k columns_kji     dh_j = sum_i D_ji g_i     dg_i = sum_j h_j D_ji
//   dz = g (dg - <g, dg>)            dcolumns_kji = sum_n G_k h_j g_i
//
// Y and D are products of [N, C] with the parts seen as a matrix, dcolumns is one of G with h (x)
// g. These [N, R * C] are formed for some of the samples (or parts) at a time and never held whole.
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
  check_backward(op, "grad", grad, {sizes.samples, sizes.classes}, dtype);
  if (!slack) return;
  check_backward(op, "saved_row_sum", saved_row_sum, {sizes.samples, sizes.classes}, dtype);
}

// out_k = sum_j Y_kj h_j of some samples, by torch's product of batches of matrices.
struct TorchWeightedSum {
  void operator()(const Tensor& y,            // [count, C * R]
                  const Tensor& weights,      // [count, R]
                  const Tensor& out) const {  // [count, C]
    const int64_t count = weights.size(0), parts = weights.size(1), classes = out.size(1);
    aten::bmm_out(aten::view(y, {count, classes, parts}, {classes * parts, parts, 1}),
                  aten::view(weights, {count, parts, 1}, {weights.stride(0), weights.stride(1), 1}),
                  aten::view(out, {count, classes, 1}, {classes, 1, 1}));
  }
};

template <class WeightedSum = TorchWeightedSum>
class NoisyPosteriorProduct {
 public:
  NoisyPosteriorProduct(const Sizes& sizes, const Tensor& logits, const OptionalTensor& weights,
                        const Tensor& parts)
      : samples_(sizes.samples),
        classes_(sizes.classes),
        parts_(sizes.parts),
        logits_(logits),
        weights_(weights),
        matrices_(parts),
        columns_(aten::view(is_column_layout(parts) ? parts : parts_by_column(parts),
                            {classes_, parts_ * classes_}, {parts_ * classes_, 1})),
        softmax_(aten::softmax(logits, parts.scalar_type())) {}

  Tensor forward() const {
    Tensor posterior = empty({samples_, classes_}, softmax_.scalar_type(), logits_);
    if (samples_ == 0) return posterior;
    const Tensor by_class = aten::view(columns_, {classes_, width()}, {1, classes_});
    if (!weights_) {
      aten::mm_out(softmax_, by_class, posterior);
      return posterior;
    }
    const int64_t step = samples_at_a_time();
    const Tensor buffer = empty({step, width()}, softmax_.scalar_type(), logits_);
    for (int64_t first = 0; first < samples_; first += step) {
      const int64_t count = std::min(step, samples_ - first);
      const Tensor y = rows(buffer, 0, count);
      aten::mm_out(rows(softmax_, first, count), by_class, y);
      WeightedSum()(y, weights_of(first, count), rows(posterior, first, count));
    }
    return posterior;
  }

  FourTensors backward(const Tensor& given_grad, const Needs& needs) const {
    GradientTensors gradients({samples_, classes_, parts_}, logits_, matrices_, std::nullopt,
                              needs);
    const Tensor grad = torch::stable::contiguous(given_grad);
    if (needs.parts) parts_gradient(grad, gradients.parts);
    if (samples_ == 0 || (!needs.logits && !needs.weights)) return gradients.tuple();
    const ScalarType dtype = softmax_.scalar_type();
    const Tensor grad_softmax = empty({needs.logits ? samples_ : 0, classes_}, dtype, logits_);
    if (!weights_) {
      aten::mm_out(grad, columns_, grad_softmax);
    } else {
      const int64_t step = samples_at_a_time();
      const Tensor buffer = empty({step, width()}, dtype, logits_);
      for (int64_t first = 0; first < samples_; first += step) {
        const int64_t count = std::min(step, samples_ - first);
        contract(grad, first, count, rows(buffer, 0, count), needs, grad_softmax,
                 gradients.weights);
      }
    }
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
  // An intermediate may have this many numbers, or half as many as the parts where that is more:
  // with fewer samples at a time, reading the parts once for each few would take the time.
  static constexpr int64_t kIntermediate = int64_t(1) << 18;

  int64_t width() const { return parts_ * classes_; }
  int64_t most_numbers() const { return std::max(kIntermediate, classes_ * width() / 2); }
  int64_t samples_at_a_time() const {
    return std::clamp(most_numbers() / width(), int64_t(1), samples_);
  }
  // The gradient of the parts is a sum over samples; a range of parts is done with when all
  // samples have passed, and needs no second addition.
  int64_t parts_at_a_time() const {
    return std::clamp(most_numbers() / (samples_ * classes_), int64_t(1), parts_);
  }

  static Tensor rows(const Tensor& matrix, int64_t first, int64_t count) {
    const int64_t stride = matrix.stride(0);
    return aten::view(matrix, {count, matrix.size(1)}, {stride, 1}, first * stride);
  }

  Tensor weights_of(int64_t first, int64_t count) const {
    const int64_t stride = weights_->stride(0);
    return aten::view(*weights_, {count, parts_}, {stride, weights_->stride(1)}, first * stride);
  }

  // D of some samples, and its products with h and g.
  void contract(const Tensor& grad, int64_t first, int64_t count, const Tensor& d,
                const Needs& needs, const Tensor& grad_softmax, const Tensor& grad_weights) const {
    aten::mm_out(rows(grad, first, count), columns_, d);
    const Tensor by_part = aten::view(d, {count, parts_, classes_}, {width(), classes_, 1});
    if (needs.logits) {
      const int64_t stride = weights_->stride(0), part_stride = weights_->stride(1);
      const Tensor h =
          aten::view(*weights_, {count, 1, parts_}, {stride, 0, part_stride}, first * stride);
      const Tensor out =
          aten::view(grad_softmax, {count, 1, classes_}, {classes_, classes_, 1}, first * classes_);
      aten::bmm_out(h, by_part, out);
    }
    if (needs.weights) {
      const Tensor g =
          aten::view(softmax_, {count, classes_, 1}, {classes_, 1, 1}, first * classes_);
      const Tensor out =
          aten::view(grad_weights, {count, parts_, 1}, {parts_, 1, 1}, first * parts_);
      aten::bmm_out(by_part, g, out);
    }
  }

  void parts_gradient(const Tensor& grad, const Tensor& out) const {
    const Tensor columns = aten::view(out, {classes_, width()}, {width(), 1});
    if (samples_ == 0) {
      torch::stable::zero_(const_cast<Tensor&>(columns));
      return;
    }
    const Tensor by_class = aten::view(grad, {classes_, samples_}, {1, classes_});
    if (!weights_) {
      aten::mm_out(by_class, softmax_, columns);
      return;
    }
    const int64_t step = parts_at_a_time();
    const Tensor buffer = empty({samples_ * step * classes_}, softmax_.scalar_type(), logits_);
    for (int64_t first = 0; first < parts_; first += step) {
      const int64_t count = std::min(step, parts_ - first), wide = count * classes_;
      const Tensor outer = aten::view(buffer, {samples_, wide}, {wide, 1});
      const int64_t stride = weights_->stride(0), part_stride = weights_->stride(1);
      aten::mul_out(aten::view(*weights_, {samples_, count, 1}, {stride, part_stride, 0},
                               first * part_stride),
                    aten::view(softmax_, {samples_, 1, classes_}, {classes_, 0, 1}),
                    aten::view(buffer, {samples_, count, classes_}, {wide, classes_, 1}));
      aten::mm_out(by_class, outer,
                   aten::view(columns, {classes_, wide}, {width(), 1}, first * classes_));
    }
  }

  int64_t samples_, classes_, parts_;
  Tensor logits_;
  OptionalTensor weights_;  // [N, R], or absent for one part of weight one
  Tensor matrices_;         // the parts as they were given
  Tensor columns_;          // [C, R * C]
  Tensor softmax_;          // [N, C]
};

}  // namespace ptd
