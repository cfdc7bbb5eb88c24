#include "../noisy_posterior.h"

#include <torch/csrc/stable/library.h>

#include "gradients.h"

namespace ptd {
namespace {

// With more classes than this the products win; with fewer T(x) is formed in registers, in less
// time than the calls of torch's operators take.
constexpr int64_t kMostClassesInRegisters = 32;

// torch's product of batches calls a library for each little matrix.
struct CpuWeightedSum {
  void operator()(const Tensor& y, const Tensor& weights, const Tensor& out) const {
    out.scalar_type() == ScalarType::Double ? run<double>(y, weights, out)
                                            : run<float>(y, weights, out);
  }

  template <class T>
  static void run(const Tensor& y, const Tensor& weights, const Tensor& out) {
    const int64_t count = weights.size(0), parts = weights.size(1), classes = out.size(1);
    const Ranges ranges(count, double(parts * classes));
    ranges.run([&](int64_t, int64_t begin, int64_t end) {
      std::vector<T> row(parts);
      kernels<T>().weighted_sum(static_cast<const T*>(y.data_ptr()), matrix_of(weights), parts,
                                classes, begin, end, row.data(), static_cast<T*>(out.data_ptr()));
    });
  }
};

using Product = NoisyPosteriorProduct<CpuWeightedSum>;

template <class T>
std::tuple<Tensor, Tensor> forward(const Sizes& sizes, const Tensor& logits,
                                   const OptionalTensor& weights, const Tensor& parts,
                                   const OptionalTensor& slack) {
  const ScalarType dtype = parts.scalar_type();
  Tensor posterior = empty({sizes.samples, sizes.classes}, dtype, logits);
  Tensor saved =
      slack ? empty({sizes.samples, sizes.classes}, dtype, logits) : empty({0}, dtype, logits);
  const BatchInputs<T> inputs(sizes, weights, parts, slack);
  const Matrix rows = matrix_of(logits);
  const Ranges ranges(sizes.samples, 2 * transition_work(inputs.batch));
  ranges.run([&](int64_t, int64_t begin, int64_t end) {
    Scratch<T> scratch(inputs.batch, /*whole=*/true);
    const int64_t kept = slack ? matrices_at_a_time(sizes.classes) : 0;
    std::vector<T> matrices(kept * sizes.classes * sizes.classes);
    kernels<T>().noisy_posterior(
        inputs.batch, rows, begin, end, scratch.data(), kept ? matrices.data() : nullptr,
        static_cast<T*>(posterior.data_ptr()), static_cast<T*>(saved.data_ptr()));
  });
  return {posterior, saved};
}

std::tuple<Tensor, Tensor> noisy_posterior(Tensor logits, OptionalTensor weights, Tensor parts,
                                           OptionalTensor slack) {
  const Sizes sizes = check_batch("noisy_posterior", logits, weights, parts, slack);
  if (!slack && sizes.classes > kMostClassesInRegisters) {
    return {Product(sizes, logits, weights, parts).forward(),
            empty({0}, parts.scalar_type(), logits)};
  }
  return parts.scalar_type() == ScalarType::Double
             ? forward<double>(sizes, logits, weights, parts, slack)
             : forward<float>(sizes, logits, weights, parts, slack);
}

template <class T>
FourTensors backward(const Sizes& sizes, const Tensor& grad, const Tensor& logits,
                     const OptionalTensor& weights, const Tensor& parts,
                     const OptionalTensor& slack, const Tensor& saved, const Needs& needs) {
  const BatchInputs<T> inputs(sizes, weights, parts, slack);
  const Matrix rows = matrix_of(logits);
  const Tensor dense_grad = torch::stable::contiguous(grad);
  return backward_ranges(
      logits, parts, slack, inputs.batch, needs, 2 * transition_work(inputs.batch),
      [&](int64_t begin, int64_t end, T* scratch, const Gradients<T>& grads) {
        kernels<T>().noisy_posterior_backward(inputs.batch, rows, begin, end, scratch,
                                              static_cast<const T*>(dense_grad.data_ptr()),
                                              static_cast<const T*>(saved.data_ptr()), grads);
      });
}

FourTensors noisy_posterior_backward(Tensor grad, Tensor logits, OptionalTensor weights,
                                     Tensor parts, OptionalTensor slack, Tensor saved_row_sum,
                                     bool need_logits, bool need_weights, bool need_parts,
                                     bool need_slack) {
  const Sizes sizes = check_batch("noisy_posterior", logits, weights, parts, slack);
  check_noisy_posterior_backward(sizes, grad, parts, slack, saved_row_sum);
  const Needs needs{need_logits, need_weights, need_parts, need_slack};
  if (!slack && (sizes.classes > kMostClassesInRegisters || needs.transition())) {
    return Product(sizes, logits, weights, parts).backward(grad, needs);
  }
  return parts.scalar_type() == ScalarType::Double
             ? backward<double>(sizes, grad, logits, weights, parts, slack, saved_row_sum, needs)
             : backward<float>(sizes, grad, logits, weights, parts, slack, saved_row_sum, needs);
}

}  // namespace

STABLE_TORCH_LIBRARY_IMPL(ptd_ext, CPU, m) {
  m.impl("noisy_posterior", TORCH_BOX(&noisy_posterior));
  m.impl("noisy_posterior_backward", TORCH_BOX(&noisy_posterior_backward));
}

}  // namespace ptd
