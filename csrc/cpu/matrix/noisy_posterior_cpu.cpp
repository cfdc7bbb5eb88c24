#include "noisy_posterior.h"

#include <torch/csrc/stable/library.h>

#include "gradients/gradients.h"

namespace ptd {
namespace {

// With more classes than this, matrix products are faster. With fewer, T(x) is computed in
// registers, in less time than the calls of torch's operators take.
constexpr int64_t kMaxClassesInRegisters = 32;

// A kernel of our own, because torch's bmm calls the BLAS library for each small matrix.
struct CpuContraction {
  static constexpr int64_t kIntermediate = int64_t(1) << 21;  // few products, each at full speed

  void operator()(const Tensor& d, const Tensor& weights, const Tensor& softmax,
                  const Tensor& grad_softmax, const Tensor& grad_weights) const {
    d.scalar_type() == ScalarType::Double
        ? run<double>(d, weights, softmax, grad_softmax, grad_weights)
        : run<float>(d, weights, softmax, grad_softmax, grad_weights);
  }

  template <class T>
  static void run(const Tensor& d, const Tensor& weights, const Tensor& softmax,
                  const Tensor& grad_softmax, const Tensor& grad_weights) {
    const int64_t count = d.size(0), parts = d.size(1), classes = d.size(2);
    const auto pointer = [](const Tensor& gradient) {
      return gradient.numel() > 0 ? static_cast<T*>(gradient.data_ptr()) : nullptr;
    };
    const Ranges ranges(count, double(parts * classes));
    ranges.run([&](int64_t, int64_t begin, int64_t end) {
      std::vector<T> row(parts);
      kernels<T>().contract_parts(static_cast<const T*>(d.data_ptr()), matrix_of(weights),
                                  static_cast<const T*>(softmax.data_ptr()), parts, classes, begin,
                                  end, row.data(), pointer(grad_softmax), pointer(grad_weights));
    });
  }
};

using Product = NoisyPosteriorProduct<CpuContraction>;

template <class T>
std::tuple<Tensor, Tensor> forward(const Sizes& sizes, const Tensor& logits,
                                   const OptionalTensor& weights, const Tensor& parts,
                                   const OptionalTensor& slack) {
  const ScalarType dtype = parts.scalar_type();
  Tensor posterior = empty({sizes.samples, sizes.classes}, dtype, logits);
  Tensor saved =
      slack ? empty({sizes.samples, sizes.classes}, dtype, logits) : empty({0}, dtype, logits);
  BatchInputs<T> inputs(sizes, weights, parts, slack, ColumnsRead::all);
  row_sums_by_sign(inputs.batch, static_cast<T*>(saved.data_ptr()));
  const Matrix rows = matrix_of(logits);
  const Ranges ranges(sizes.samples, 2 * transition_work(inputs.batch));
  ranges.run([&](int64_t, int64_t begin, int64_t end) {
    Scratch<T> scratch(inputs.batch, /*whole=*/true);
    kernels<T>().noisy_posterior(inputs.batch, rows, begin, end, scratch.data(),
                                 static_cast<T*>(posterior.data_ptr()),
                                 static_cast<T*>(saved.data_ptr()));
  });
  return {posterior, saved};
}

std::tuple<Tensor, Tensor> noisy_posterior(Tensor logits, OptionalTensor weights, Tensor parts,
                                           OptionalTensor slack) {
  const Sizes sizes = check_batch("noisy_posterior", logits, weights, parts, slack);
  if (!slack && sizes.classes > kMaxClassesInRegisters) {
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
  const BatchInputs<T> inputs(sizes, weights, parts, slack, ColumnsRead::all);
  const Matrix rows = matrix_of(logits);
  const Tensor dense_grad = torch::stable::contiguous(grad);
  return backward_ranges(
      logits, parts, slack, inputs, needs, 2 * transition_work(inputs.batch), /*by_sign=*/false,
      [&](const Batch<T>& batch, int64_t begin, int64_t end, T* scratch, const Gradients<T>& grads,
          const T*) {
        kernels<T>().noisy_posterior_backward(batch, rows, begin, end, scratch,
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
  if (!slack && (sizes.classes > kMaxClassesInRegisters || needs.transition())) {
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
