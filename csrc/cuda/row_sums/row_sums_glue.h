// Sign tables and row sums of T(x) + slack, in tensors.
#pragma once

#include "common/torch_glue.h"
#include "row_sums/row_sum_launchers.h"

namespace ptd {

// A sign table with its memory.
template <class T>
struct SignTableMemory {
  Tensor scratch;
  SignTable<T> table;

  // `positive` is a tensor [R + 1, C, C] in column layout for the entries known to be positive, or
  // nullptr.
  SignTableMemory(const char* op, const Transition<T>& transition, ScalarType dtype,
                  const Tensor& beside, const Tensor* positive, cudaStream_t stream)
      : scratch(empty({SignTable<T>::size(transition.classes, transition.parts)}, dtype, beside)),
        table(pointer<T>(scratch), transition.classes, transition.parts,
              positive ? pointer<T>(*positive) : nullptr) {
    check_launch(op, launch_sign_table(transition, table, stream));
  }
};

template <class T>
void write_row_sums(const char* op, const Transition<T>& transition,
                    const Tensor& out,  // [N, C]
                    cudaStream_t stream) {
  if (transition.samples == 0) return;
  const SignTableMemory<T> signs(op, transition, out.scalar_type(), out, nullptr, stream);
  const ClampedRows<T> rows{nullptr, nullptr, pointer<T>(out)};
  check_launch(op, launch_row_sums(transition, signs.table, rows, stream));
}

}  // namespace ptd
