// The tensor arguments of the kernels that work on T(x) + slack.
#pragma once

#include "check.h"
#include "common/torch_glue.h"
#include "common/transition.h"
#include "layout.h"

namespace ptd {

// A transition with the memory its views refer to.
template <class T>
struct TransitionInputs {
  Tensor columns;  // the parts in column layout: themselves if they have it, else a copy
  Transition<T> view;

  TransitionInputs(const Sizes& sizes, const OptionalTensor& weights, const Tensor& parts,
                   const OptionalTensor& slack)
      : columns(parts_by_column(parts)), view{} {
    if (weights) view.weights = rows_of<T>(*weights);
    view.columns = pointer<T>(columns);
    if (slack) view.slack = rows_of<T>(*slack);
    view.samples = sizes.samples;
    view.classes = int(sizes.classes);
    view.parts = int(sizes.parts);
  }
};

inline Labels labels_of(const Tensor& labels, int64_t ignore_index) {
  return {pointer<const void>(labels), labels.stride(0), labels.scalar_type() == ScalarType::Long,
          ignore_index};
}

}  // namespace ptd
