// Compiled once per instruction set, with PTD_ISA naming it.
#include "simplex/simplex_least_squares_columns.h"
#include "simplex/simplex_projection_rows.h"
#include "simplex/simplex_table.h"
#include "simplex/simplex_weights_rows.h"

namespace ptd {
namespace PTD_ISA {

template <class T>
const SimplexKernels<T>& simplex_table() {
  static constexpr SimplexKernels<T> kTable = {
      .project_scratch = simplex_project_scratch<T>,
      .weights_scratch = simplex_weights_scratch<T>,
      .least_squares_scratch = InteriorPoint<T>::scratch,
      .project = simplex_project<T>,
      .project_backward = simplex_project_backward<T>,
      .weights = simplex_weights<T>,
      .least_squares = simplex_least_squares<T>,
  };
  return kTable;
}

template const SimplexKernels<float>& simplex_table<float>();
template const SimplexKernels<double>& simplex_table<double>();

}  // namespace PTD_ISA
}  // namespace ptd
