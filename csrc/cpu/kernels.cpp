// Compiled once per instruction set, with PTD_ISA naming it.
#include "kernels.h"

#include "column/clean_posterior_kernels.h"
#include "column/loss_kernels.h"
#include "layout_kernels.h"
#include "matrix/noisy_posterior_kernels.h"
#include "row_sums/row_sums_by_sign.h"
#include "row_sums/sign_table_kernels.h"
#include "simplex/invert_posterior_rows.h"
#include "simplex/project_transition_rows.h"
#include "simplex/simplex_least_squares_columns.h"
#include "simplex/simplex_projection_rows.h"
#include "simplex/simplex_weights_rows.h"

namespace ptd {
namespace PTD_ISA {

template <class T>
const Kernels<T>& table() {
  static constexpr Kernels<T> kTable = {
      .lanes = kLanes<T>,
      .loss_with_gradients = loss_with_gradients<T>,
      .loss_alone = loss_alone<T>,
      .clean_posterior = clean_posterior<T>,
      .clean_posterior_backward = clean_posterior_backward<T>,
      .noisy_posterior = noisy_posterior<T>,
      .noisy_posterior_backward = noisy_posterior_backward<T>,
      .lay_out_columns = lay_out_columns<T>,
      .contract_parts = contract_parts<T>,
      .weight_bounds = weight_bounds<T>,
      .fill_sign_table = fill_sign_table<T>,
      .row_sums_by_sign = row_sums_by_sign<T>,
      .slack_gradient_by_sign = slack_gradient_by_sign<T>,
      .project_transition = project_transition<T>,
      .project_transition_backward = project_transition_backward<T>,
      .simplex_projection_scratch = simplex_projection_scratch<T>,
      .simplex_projection = simplex_projection<T>,
      .simplex_projection_backward = simplex_projection_backward<T>,
      .simplex_weights_scratch = simplex_weights_scratch<T>,
      .simplex_weights = simplex_weights<T>,
      .simplex_least_squares_scratch = InteriorPoint<T>::scratch,
      .simplex_least_squares = simplex_least_squares<T>,
      .invert_posterior_scratch = invert_posterior_scratch<T>,
      .invert_posterior = invert_posterior<T>,
  };
  return kTable;
}

template const Kernels<float>& table<float>();
template const Kernels<double>& table<double>();

}  // namespace PTD_ISA
}  // namespace ptd
