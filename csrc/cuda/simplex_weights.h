// Launcher of simplex_weights. T is float or double; `batch`, `rows` and `parts` are positive.
#pragma once

#include "simplex_weights_args.h"

namespace ptd {

template <class T>
cudaError_t launch_simplex_weights(const WeightArgs<T>& args, cudaStream_t stream);

}  // namespace ptd
