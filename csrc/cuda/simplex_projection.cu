#include "simplex_projection.h"

#include "blocks.h"
#include "simplex_projection_kernels.cuh"

namespace ptd {
namespace {

constexpr int64_t kShortProjection = kWarp;  // entries of a row

// Calls run.template operator()<V>() with the fewest of 8, 16 and kMost lanes, or entries of a
// lane, that hold a row.
template <int kMost, class Run>
void with_fewest(int64_t parts, const Run& run) {
  if (parts <= 8) return run.template operator()<8>();
  if (parts <= 16) return run.template operator()<16>();
  return run.template operator()<kMost>();
}

template <int Lanes>
unsigned lane_blocks(int64_t rows) {
  constexpr int64_t per_block = LaneGroup<Lanes>::kPerBlock;
  return static_cast<unsigned>(ceil_div(rows, per_block));
}

unsigned row_threads(int64_t parts) {
  static_assert(kLongProjection == 32 * 32);
  return 32 * whole_warps(parts);
}

}  // namespace

template <class T>
cudaError_t launch_simplex_projection(const T* x, T* projected, int64_t rows, int64_t parts,
                                      cudaStream_t stream) {
  const int width = static_cast<int>(parts);
  if constexpr (sizeof(T) == sizeof(float)) {
    if (parts <= kMostLoneEntries) {
      const auto blocks = static_cast<unsigned>(ceil_div(rows, kLoneBlock));
      const size_t shared = kLoneBlock * static_cast<size_t>(parts) * sizeof(float);
      with_fewest<kMostLoneEntries>(parts, [&]<int V>() {
        PTD_LAUNCH(simplex_project_lone<V>, blocks, kLoneBlock, shared, stream, x, projected, rows,
                   width);
      });
      return cudaGetLastError();
    }
  }
  if (parts <= kShortProjection) {
    with_fewest<kWarp>(parts, [&]<int Lanes>() {
      PTD_LAUNCH((simplex_project_short<T, Lanes>), lane_blocks<Lanes>(rows), kLaneBlock, 0, stream,
                 x, projected, rows, width);
    });
  } else {
    PTD_LAUNCH(simplex_project_long<T>, static_cast<unsigned>(rows), row_threads(parts), 0, stream,
               x, projected, width);
  }
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_simplex_projection_backward(const T* grad, const T* projected, T* grad_x,
                                               int64_t rows, int64_t parts, cudaStream_t stream) {
  const int width = static_cast<int>(parts);
  if (parts <= kShortProjection) {
    with_fewest<kWarp>(parts, [&]<int Lanes>() {
      PTD_LAUNCH((simplex_project_short_backward<T, Lanes>), lane_blocks<Lanes>(rows), kLaneBlock,
                 0, stream, grad, projected, grad_x, rows, width);
    });
  } else {
    PTD_LAUNCH(simplex_project_long_backward<T>, static_cast<unsigned>(rows), row_threads(parts), 0,
               stream, grad, projected, grad_x, width);
  }
  return cudaGetLastError();
}

#define PTD_INSTANTIATE(T)                                                                         \
  template cudaError_t launch_simplex_projection<T>(const T*, T*, int64_t, int64_t, cudaStream_t); \
  template cudaError_t launch_simplex_projection_backward<T>(const T*, const T*, T*, int64_t,      \
                                                             int64_t, cudaStream_t);
PTD_INSTANTIATE(float)
PTD_INSTANTIATE(double)
#undef PTD_INSTANTIATE

}  // namespace ptd
