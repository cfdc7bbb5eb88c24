// T(x) of a batch, as the kernels that go through whole matrices take it.
#pragma once

#include "launch.h"

namespace ptd {

template <class T>
struct TransitionBatch {
  const T* weights;  // [N, R], or nullptr where the one part is T
  const T* columns;  // [C, R, C]: the parts, a column contiguous
  const T* slack;    // [C, C], a column contiguous; or nullptr
  int64_t samples;
  int classes, parts;
  // The same with a row contiguous. Not all launchers follow all of these pointers.
  const T* rows = nullptr;        // [R, C, C]
  const T* slack_rows = nullptr;  // [C, C]; or nullptr
};

}  // namespace ptd
