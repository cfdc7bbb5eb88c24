// Compiled once per instruction set, with PTD_ISA naming it.
#include "simplex_projection_rows.h"
#include "simplex_table.h"
#include "simplex_weights_rows.h"

namespace ptd {
namespace PTD_ISA {

template <class T>
const SimplexKernels<T>& simplex_table() {
  static constexpr SimplexKernels<T> kTable = {
      .scratch_size = simplex_scratch_size<T>,
      .project = simplex_project<T>,
      .project_backward = simplex_project_backward<T>,
      .weights = simplex_weights<T>,
  };
  return kTable;
}

template const SimplexKernels<float>& simplex_table<float>();
template const SimplexKernels<double>& simplex_table<double>();

}  // namespace PTD_ISA
}  // namespace ptd
