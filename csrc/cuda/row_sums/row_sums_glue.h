// Writes the row sums of T(x) + slack to a tensor.
#pragma once

#include "common/torch_glue.h"
#include "row_sums/row_sum_launchers.h"

namespace ptd {

template <class T>
void write_row_sums(const char* op, const Transition<T>& transition,
                    const Tensor& out,  // [N, C]
                    cudaStream_t stream) {
  const int64_t classes = transition.classes, parts = transition.parts;
  const Tensor scratch = empty({SignTable<T>::size(classes, parts)}, out.scalar_type(), out);
  const SignTable<T> table(pointer<T>(scratch), classes, parts);
  check_launch(op, launch_row_sums(transition, table, pointer<T>(out), stream));
}

}  // namespace ptd
