#include "simplex_projection.h"

#include "blocks.h"
#include "simplex_projection_kernels.cuh"

namespace ptd {
namespace {

constexpr int64_t kMostShort = 8 * kRowLanes;  // entries of a row

// Calls run.template operator()<V>() with the fewest entries of a lane that hold a row.
template <class Run>
void with_fewest(int64_t parts, const Run& run) {
  if (parts <= 2 * kRowLanes) return run.template operator()<2>();
  if (parts <= 4 * kRowLanes) return run.template operator()<4>();
  if (parts <= 6 * kRowLanes) return run.template operator()<6>();
  return run.template operator()<8>();
}

unsigned short_blocks(int64_t rows) { return static_cast<unsigned>(ceil_div(rows, kShortRows)); }

unsigned row_threads(int64_t parts) {
  static_assert(kLongProjection == 32 * 32);
  return 32 * whole_warps(parts);
}

}  // namespace

template <class T>
cudaError_t launch_simplex_projection(const T* x, T* projected, int64_t rows, int64_t parts,
                                      cudaStream_t stream) {
  const int width = static_cast<int>(parts);
  if (parts <= kMostShort) {
    with_fewest(parts, [&]<int V>() {
      PTD_LAUNCH((simplex_project_short<T, V>), short_blocks(rows), kShortThreads, 0, stream, x,
                 projected, rows, width);
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
  if (parts <= kMostShort) {
    with_fewest(parts, [&]<int V>() {
      PTD_LAUNCH((simplex_project_short_backward<T, V>), short_blocks(rows), kShortThreads, 0,
                 stream, grad, projected, grad_x, rows, width);
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
