// Operators, on any device, that map each row of one tensor to a row of the result, and their
// gradients. An operator Op gives
//   kName, kInput        the name of the operator and of its argument
//   kSaved               the argument of the backward operator: the input, or the result
//   kShape, fits(x)      the shapes it accepts, in words and as a predicate
// and a Device runs the kernels, on contiguous tensors that are not empty:
//   Device::forward<T>(x, out)   Device::backward<T>(grad, saved, out)
#pragma once

#include "check.h"
#include "map_rows.h"

namespace ptd {

template <class Op>
void check_rows(const Tensor& x) {
  const std::string argument = std::string(Op::kName) + ": " + Op::kInput + " must be ";
  if (!Op::fits(x)) raise_error(argument + Op::kShape + "; got " + shape_text(x) + ".");
  if (x.scalar_type() != ScalarType::Float && x.scalar_type() != ScalarType::Double) {
    raise_error(argument + "float32 or float64; got " + dtype_text(x.scalar_type()) + ".");
  }
}

template <class Op>
void check_rows_backward(const Tensor& grad, const Tensor& saved) {
  check_rows<Op>(saved);
  const std::string op = std::string(Op::kName) + "_backward";
  check_device(op.c_str(), "grad", grad, saved, Op::kSaved);
  if (shape_text(grad) == shape_text(saved) && grad.scalar_type() == saved.scalar_type()) return;
  raise_error(op + ": grad must have the shape and type of " + Op::kSaved + ", " +
              shape_text(saved) + ", " + dtype_text(saved.scalar_type()) + "; got " +
              shape_text(grad) + ", " + dtype_text(grad.scalar_type()) + ".");
}

template <class Op, class Device>
Tensor row_operator(Tensor x) {
  check_rows<Op>(x);
  return map_rows(x, []<class T>(const Tensor& rows, const Tensor& out) {
    Device::template forward<T>(rows, out);
  });
}

template <class Op, class Device>
Tensor row_operator_backward(Tensor grad, Tensor saved) {
  check_rows_backward<Op>(grad, saved);
  const Tensor grads = torch::stable::contiguous(grad);
  return map_rows(saved, [&]<class T>(const Tensor& rows, const Tensor& out) {
    Device::template backward<T>(grads, rows, out);
  });
}

}  // namespace ptd
