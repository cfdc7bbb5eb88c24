// What the kernels of simplex_weights take.
#pragma once

#include "launch.h"

namespace ptd {

// See csrc/simplex_weights.h.
template <class T>
struct WeightArgs {
  const T* contraction;  // [B, R, R]
  const T* step;         // [B]
  const T* shift;        // [B, R]
  const T* linear;       // [B, N, R]
  const T* start;        // [B, N, R] or nullptr
  T* weights;            // [B, N, R]
  int64_t batch, rows;   // B, N
  int parts;             // R
  int64_t steps;
  T tolerance;
};

}  // namespace ptd
