// Tensors that operators allocate: the gradients that a backward operator returns, empty if they
// are not asked for, and the tensors that a forward operator saves for it.
#pragma once

#include <tuple>

#include "check.h"
#include "layout.h"

namespace ptd {

// The tensor [N, C] that a forward operator saves for its backward operator, or an empty one.
inline Tensor empty_saved(const Sizes& sizes, const Tensor& logits, ScalarType dtype, bool saves) {
  return saves ? empty({sizes.samples, sizes.classes}, dtype, logits) : empty({0}, dtype, logits);
}

using FourTensors = std::tuple<Tensor, Tensor, Tensor, Tensor>;

struct Needs {
  bool logits, weights, parts, slack;

  bool transition() const { return weights || parts || slack; }
};

struct GradientTensors {
  Tensor logits, weights, parts, slack;

  GradientTensors(const Sizes& sizes, const Tensor& of_logits, const Tensor& of_parts,
                  const OptionalTensor& of_slack, const Needs& needs) {
    if (needs.slack && !of_slack) raise_error("need_slack must be False without slack; got True.");
    const int64_t n = sizes.samples, c = sizes.classes, r = sizes.parts;
    const ScalarType dtype = of_parts.scalar_type();
    const auto none = [&] { return empty({0}, dtype, of_logits); };
    logits = needs.logits ? empty({n, c}, of_logits.scalar_type(), of_logits) : none();
    weights = needs.weights ? empty({n, r}, dtype, of_logits) : none();
    // The kernels write the gradient of the parts by column, whatever the layout of the parts.
    parts = !needs.parts          ? none()
            : of_parts.dim() == 3 ? empty_strided({r, c, c}, {c, 1, r * c}, dtype, of_logits)
                                  : empty_strided({c, c}, {1, c}, dtype, of_logits);
    slack = !needs.slack                  ? none()
            : is_column_layout(*of_slack) ? empty_strided({c, c}, {1, c}, dtype, of_logits)
                                          : empty({c, c}, dtype, of_logits);
  }

  FourTensors tuple() const { return {logits, weights, parts, slack}; }
};

}  // namespace ptd
