// Compiled once per instruction set, with PTD_ISA naming it.
#include "kernels.h"

#include "decided_kernels.h"
#include "loss_kernels.h"
#include "posterior_kernels.h"
#include "project_kernels.h"

namespace ptd {
namespace PTD_ISA {

template <class T>
const Kernels<T>& table() {
  static constexpr Kernels<T> kTable = {
      .loss_forward = loss_forward<T>,
      .loss_backward = loss_backward<T>,
      .clean_posterior = clean_posterior<T>,
      .clean_posterior_backward = clean_posterior_backward<T>,
      .noisy_posterior = noisy_posterior<T>,
      .noisy_posterior_backward = noisy_posterior_backward<T>,
      .weighted_sum = weighted_sum<T>,
      .weight_bounds = weight_bounds<T>,
      .count_support = count_support<T>,
      .fill_support = fill_support<T>,
      .decide = decide<T>,
      .finish_decided_slack = finish_decided_slack<T>,
      .project = project<T>,
      .project_backward = project_backward<T>,
  };
  return kTable;
}

template const Kernels<float>& table<float>();
template const Kernels<double>& table<double>();

}  // namespace PTD_ISA
}  // namespace ptd
