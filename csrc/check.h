// Checks of the operators' arguments, written once for every device.
#pragma once

#include "tensor.h"

namespace ptd {

struct Sizes {
  int64_t samples, classes, parts;
};

using OptionalTensor = std::optional<Tensor>;

// Raises unless `tensor` is on the device of `other`, the argument called `other_name`.
inline void check_device(const char* op, const char* name, const Tensor& tensor,
                         const Tensor& other, const char* other_name = "logits") {
  if (tensor.is_cpu() == other.is_cpu() && tensor.get_device_index() == other.get_device_index()) {
    return;
  }
  raise_error(std::string(op) + ": " + name + " must be on the device of " + other_name + ", " +
              device_text(other) + "; got " + device_text(tensor) + ".");
}

inline void check_dtype(const char* op, const char* name, const Tensor& tensor, ScalarType dtype) {
  if (tensor.scalar_type() == dtype) return;
  raise_error(std::string(op) + ": " + name + " must be " + dtype_text(dtype) +
              ", the accumulation type of these logits; got " + dtype_text(tensor.scalar_type()) +
              ".");
}

// logits [N, C], weights [N, R] or absent, parts [R, C, C] (or [C, C] without weights),
// slack [C, C] or absent.
inline Sizes check_batch(const char* op, const Tensor& logits, const OptionalTensor& weights,
                         const Tensor& parts, const OptionalTensor& slack) {
  const std::string here = std::string(op) + ": ";
  if (logits.dim() != 2)
    raise_error(here + "logits must be [N, C]; got " + shape_text(logits) + ".");
  const ScalarType dtype = logits.scalar_type();
  if (dtype != ScalarType::Float && dtype != ScalarType::Double && dtype != ScalarType::Half &&
      dtype != ScalarType::BFloat16) {
    raise_error(here + "logits must be float32, float64, float16 or bfloat16; got " +
                dtype_text(dtype) + ".");
  }
  const int64_t samples = logits.size(0), classes = logits.size(1);
  const std::string square = std::to_string(classes) + ", " + std::to_string(classes);
  if (classes < 1) raise_error(here + "logits must have at least one class; got [N, 0].");

  const bool stacked = parts.dim() == 3;
  if ((!stacked && (parts.dim() != 2 || weights)) || parts.size(-1) != classes ||
      parts.size(-2) != classes || (stacked && !weights && parts.size(0) != 1) ||
      (stacked && parts.size(0) < 1)) {
    raise_error(here + "parts must be " + (weights ? "[R, " + square + "]" : "[" + square + "]") +
                (weights ? "" : " when weights is None") + " for logits with " +
                std::to_string(classes) + " classes; got " + shape_text(parts) + ".");
  }
  const int64_t count = stacked ? parts.size(0) : 1;
  const ScalarType accumulation = accumulation_type(dtype);
  check_dtype(op, "parts", parts, accumulation);
  check_device(op, "parts", parts, logits);
  if (weights) {
    if (weights->dim() != 2 || weights->size(0) != samples || weights->size(1) != count) {
      raise_error(here + "weights must be [" + std::to_string(samples) + ", " +
                  std::to_string(count) +
                  "], a row for each of the logits and a column for each part; got " +
                  shape_text(*weights) + ".");
    }
    check_dtype(op, "weights", *weights, accumulation);
    check_device(op, "weights", *weights, logits);
  }
  if (slack) {
    if (slack->dim() != 2 || slack->size(0) != classes || slack->size(1) != classes) {
      raise_error(here + "slack must be [" + square + "]; got " + shape_text(*slack) + ".");
    }
    check_dtype(op, "slack", *slack, accumulation);
    check_device(op, "slack", *slack, logits);
  }
  return {samples, classes, count};
}

inline void check_labels(const char* op, const Tensor& labels, const Tensor& logits) {
  const std::string here = std::string(op) + ": ";
  if (labels.dim() != 1 || labels.size(0) != logits.size(0)) {
    raise_error(here + "noisy_labels must be [" + std::to_string(logits.size(0)) +
                "], one for each row of logits; got " + shape_text(labels) + ".");
  }
  if (labels.scalar_type() != ScalarType::Long && labels.scalar_type() != ScalarType::Int) {
    raise_error(here + "noisy_labels must be int64 or int32; got " +
                dtype_text(labels.scalar_type()) + ".");
  }
  check_device(op, "noisy_labels", labels, logits);
}

inline void check_class_weight(const char* op, const OptionalTensor& class_weight,
                               const Tensor& logits) {
  if (!class_weight) return;
  if (class_weight->dim() != 1 || class_weight->size(0) != logits.size(1)) {
    raise_error(std::string(op) + ": class_weight must be [" + std::to_string(logits.size(1)) +
                "], one for each class; got " + shape_text(*class_weight) + ".");
  }
  check_dtype(op, "class_weight", *class_weight, accumulation_type(logits.scalar_type()));
  check_device(op, "class_weight", *class_weight, logits);
}

// Checks an argument of a backward operator: a gradient, or numbers that the forward operator
// saved.
inline void check_backward(const char* op, const char* name, const Tensor& tensor,
                           std::initializer_list<int64_t> shape, ScalarType dtype,
                           const Tensor& logits) {
  check_device(op, name, tensor, logits);
  bool fits = tensor.dim() == int64_t(shape.size()) && tensor.scalar_type() == dtype;
  for (int64_t d = 0; fits && d < tensor.dim(); ++d) fits = tensor.size(d) == shape.begin()[d];
  if (fits) return;
  std::string expected = "[";
  for (const int64_t size : shape)
    expected += (expected.size() > 1 ? ", " : "") + std::to_string(size);
  raise_error(std::string(op) + ": " + name + " must be " + expected + "], " + dtype_text(dtype) +
              ", to match the other arguments; got " + shape_text(tensor) + ", " +
              dtype_text(tensor.scalar_type()) + ".");
}

}  // namespace ptd
