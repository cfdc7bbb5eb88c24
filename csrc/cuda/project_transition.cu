#include "project_transition.h"

#include "blocks.h"
#include "project_transition_kernels.cuh"

namespace ptd {
namespace {

// Calls run.template operator()<Lanes, Items, Rows>() with the narrowest mapping that holds a row.
template <class Run>
void with_short_mapping(int64_t classes, const Run& run) {
  if (classes <= 2) return run.template operator()<2, 1, 4>();
  if (classes <= 4) return run.template operator()<4, 1, 4>();
  if (classes <= 8) return run.template operator()<8, 1, 4>();
  if (classes <= 16) return run.template operator()<16, 1, 4>();
  if (classes <= 32) return run.template operator()<32, 1, 4>();
  if (classes <= 64) return run.template operator()<32, 2, 2>();
  return run.template operator()<32, 4, 1>();
}

constexpr int64_t kLongestShortRow = 128;

template <int Lanes, int Rows>
unsigned short_row_blocks(int64_t rows) {
  constexpr int64_t per_block = ShortRows<Lanes, Rows>::kPerBlock;
  return static_cast<unsigned>((rows + per_block - 1) / per_block);
}

// So many that they hold the row, if kLongRowBlock can.
unsigned long_row_threads(int64_t classes) {
  static_assert(kLongRowBlock == 32 * 32);
  return 32 * whole_warps((classes + kItems - 1) / kItems);
}

}  // namespace

template <class T>
cudaError_t launch_project_transition(const T* matrix, T* projected, int64_t rows, int64_t classes,
                                      cudaStream_t stream) {
  const int width = static_cast<int>(classes);
  if (classes <= kLongestShortRow) {
    with_short_mapping(classes, [&]<int Lanes, int Items, int Rows>() {
      PTD_LAUNCH((project_short_rows<T, Lanes, Items, Rows>), (short_row_blocks<Lanes, Rows>(rows)),
                 kShortRowBlock, 0, stream, matrix, projected, rows, width);
    });
  } else {
    PTD_LAUNCH(project_long_rows<T>, static_cast<unsigned>(rows), long_row_threads(classes), 0,
               stream, matrix, projected, width);
  }
  return cudaGetLastError();
}

template <class T>
cudaError_t launch_project_transition_backward(const T* matrix, const T* grad, T* grad_matrix,
                                               int64_t rows, int64_t classes, cudaStream_t stream) {
  const int width = static_cast<int>(classes);
  if (classes <= kLongestShortRow) {
    with_short_mapping(classes, [&]<int Lanes, int Items, int Rows>() {
      PTD_LAUNCH((project_short_rows_backward<T, Lanes, Items, Rows>),
                 (short_row_blocks<Lanes, Rows>(rows)), kShortRowBlock, 0, stream, matrix, grad,
                 grad_matrix, rows, width);
    });
  } else {
    PTD_LAUNCH(project_long_rows_backward<T>, static_cast<unsigned>(rows),
               long_row_threads(classes), 0, stream, matrix, grad, grad_matrix, width);
  }
  return cudaGetLastError();
}

template cudaError_t launch_project_transition<float>(const float*, float*, int64_t, int64_t,
                                                      cudaStream_t);
template cudaError_t launch_project_transition<double>(const double*, double*, int64_t, int64_t,
                                                       cudaStream_t);
template cudaError_t launch_project_transition_backward<float>(const float*, const float*, float*,
                                                               int64_t, int64_t, cudaStream_t);
template cudaError_t launch_project_transition_backward<double>(const double*, const double*,
                                                                double*, int64_t, int64_t,
                                                                cudaStream_t);

}  // namespace ptd
