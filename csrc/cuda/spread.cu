#include "spread.h"

#include "blocks.h"
#include "spread_kernels.cuh"
#include "weight_gradient_kernels.cuh"

namespace ptd {
namespace {

// How the sums over samples are divided.
template <class T>
struct SpreadPlan {
  int lanes;  // of a group
  int64_t tiles, part_tiles, chunk, chunks;
  int64_t slack_size, columns_size;  // numbers of a chunk

  SpreadPlan(const LabelBatch<T>& batch, const SpreadOutputs<T>& out) {
    constexpr int64_t kScratch = int64_t(1) << 22;  // numbers, if more than one chunk is
    constexpr int64_t kShortest = 128;              // samples worth a chunk
    constexpr int64_t kEnoughBlocks = 768;          // to keep a large GPU busy
    const int64_t square = int64_t(batch.classes) * batch.classes;
    lanes = 16;
    while (lanes < batch.classes && lanes < kSpreadThreads) lanes *= 2;
    tiles = ceil_div(batch.classes, lanes);
    part_tiles = out.columns ? ceil_div(batch.parts, kSpreadParts<T>) : 1;
    slack_size = out.slack ? square : 0;
    columns_size = out.columns ? square * batch.parts : 0;
    int64_t most = ceil_div(kEnoughBlocks, batch.classes * tiles * part_tiles);
    if (most > kScratch / (slack_size + columns_size + 1)) {
      most = kScratch / (slack_size + columns_size + 1);
    }
    if (most > ceil_div(batch.samples, kShortest)) most = ceil_div(batch.samples, kShortest);
    if (most < 1) most = 1;
    chunk = ceil_div(batch.samples, most);
    chunks = chunk ? ceil_div(batch.samples, chunk) : 1;
  }

  // A single chunk's sums of the parts are the result.
  int64_t scratch() const { return chunks * slack_size + (chunks > 1 ? chunks * columns_size : 0); }
};

template <class T>
void launch_sum(const T* partial, T* out, int64_t chunks, int64_t rows, int64_t columns,
                int64_t row_stride, int64_t stride, cudaStream_t stream) {
  constexpr int64_t kThreads = 256;
  PTD_LAUNCH(sum_chunks<T>, static_cast<unsigned>(ceil_div(rows * columns, kThreads)),
             static_cast<unsigned>(kThreads), 0, stream, partial, out, chunks, rows, columns,
             row_stride, stride);
}

template <class T>
void launch_weight_gradient(const LabelBatch<T>& batch, const ColumnGradient<T>& grad,
                            T* grad_weights, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(ceil_div(batch.samples, kWeightThreads / kWarp));
  if (batch.slack) {
    PTD_LAUNCH(weights_revised<T>, blocks, kWeightThreads, 0, stream, batch, grad, grad_weights);
  } else {
    PTD_LAUNCH(weights_plain<T>, blocks, kWeightThreads, 0, stream, batch, grad, grad_weights);
  }
}

}  // namespace

template <class T>
int64_t spread_scratch(const LabelBatch<T>& batch, const SpreadOutputs<T>& out) {
  return SpreadPlan<T>(batch, out).scratch();
}

template <class T>
cudaError_t launch_spread(const LabelBatch<T>& batch, const ColumnGradient<T>& grad,
                          const SpreadOutputs<T>& out, T* scratch, cudaStream_t stream) {
  if (out.weights && batch.samples) launch_weight_gradient(batch, grad, out.weights, stream);
  if (!out.columns && !out.slack) return cudaGetLastError();

  const SpreadPlan<T> plan(batch, out);
  SpreadSums<T> sums{};
  if (out.slack) sums.slack = scratch;
  if (out.columns) {
    sums.columns = plan.chunks > 1 ? scratch + plan.chunks * plan.slack_size : out.columns;
  }
  const dim3 grid(static_cast<unsigned>(batch.classes * plan.tiles),
                  static_cast<unsigned>(plan.chunks), static_cast<unsigned>(plan.part_tiles));
  if (!batch.slack) {
    PTD_LAUNCH(spread_plain<T>, grid, kSpreadThreads, 0, stream, batch, grad, sums, plan.lanes,
               plan.chunk);
  } else if (out.columns) {
    PTD_LAUNCH((spread_revised<T, true>), grid, kSpreadThreads, 0, stream, batch, grad, sums,
               plan.lanes, plan.chunk);
  } else {
    PTD_LAUNCH((spread_revised<T, false>), grid, kSpreadThreads, 0, stream, batch, grad, sums,
               plan.lanes, plan.chunk);
  }
  if (out.columns && plan.chunks > 1) {
    launch_sum(sums.columns, out.columns, plan.chunks, 1, plan.columns_size, 0, 1, stream);
  }
  if (out.slack) {  // rows of the sums are columns of the result
    launch_sum(sums.slack, out.slack, plan.chunks, batch.classes, batch.classes, out.slack_stride,
               out.slack_row_stride, stream);
  }
  return cudaGetLastError();
}

#define PTD_SPREAD(T)                                                                   \
  template int64_t spread_scratch<T>(const LabelBatch<T>&, const SpreadOutputs<T>&);    \
  template cudaError_t launch_spread<T>(const LabelBatch<T>&, const ColumnGradient<T>&, \
                                        const SpreadOutputs<T>&, T*, cudaStream_t);

PTD_SPREAD(float)
PTD_SPREAD(double)

#undef PTD_SPREAD

}  // namespace ptd
