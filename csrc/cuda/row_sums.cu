#include "row_sums.h"

#include "row_sums_kernels.cuh"
#include "row_sums_table_kernels.cuh"

namespace ptd {
namespace {

template <class T>
void launch_table(const LabelBatch<T>& batch, const RowSumTable<T>& table, cudaStream_t stream) {
  // Of few classes several blocks decide the same rows, and write a share of them each: as many as
  // there are multiprocessors for, and no more than have something to write.
  int64_t shares = ceil_div(batch.parts + 1, kTableWarps);
  if (shares > kProcessors / table.fours) shares = kProcessors / table.fours;
  if (shares < 1) shares = 1;
  const int64_t turning = ceil_div(table.chunks * kRowSumSamples, kTableThreads);
  const auto blocks = static_cast<unsigned>(table.fours * shares + turning);
  if (batch.classes % kRowSumRows == 0 && is_aligned(batch.columns, 16)) {
    PTD_LAUNCH((tabulate_rows<T, true>), blocks, kTableThreads, 0, stream, batch, table,
               static_cast<int>(shares));
  } else {
    PTD_LAUNCH((tabulate_rows<T, false>), blocks, kTableThreads, 0, stream, batch, table,
               static_cast<int>(shares));
  }
}

// The fewer, if L1 holds the weights of all blocks at once with them.
template <class T>
int row_sum_warps(int parts) {
  constexpr int64_t kCache = 96 * 1024, kBlocks = 32 / kRowSumWarps;
  const int64_t weights = kBlocks * parts * kRowSumSamples * int64_t(sizeof(T));
  return weights <= kCache ? kRowSumWarps : kRowSumMostWarps;
}

}  // namespace

template <class T>
cudaError_t launch_row_sums(const LabelBatch<T>& batch, const RowSumScratch<T>& scratch,
                            cudaStream_t stream) {
  if (batch.samples == 0) return cudaSuccess;
  const auto table = row_sum_table(batch.samples, batch.classes, batch.parts, scratch);
  launch_table(batch, table, stream);
  const int warps = row_sum_warps<T>(batch.parts);
  // A round of the multiprocessors has as many chunks, and the next round the same ones, of which
  // L1 then has the weights.
  const int64_t round = table.chunks < kProcessors ? table.chunks : kProcessors;
  const dim3 grid(static_cast<unsigned>(round),
                  static_cast<unsigned>(ceil_div(batch.classes, warps)),
                  static_cast<unsigned>(ceil_div(table.chunks, round)));
  const bool vectors = batch.classes % kRowSumRows == 0 && is_aligned(batch.row_sums, 16);
  PTD_LAUNCH(row_sums<T>, grid, static_cast<unsigned>(warps * kWarp),
             warps * kRowSumPitch * sizeof(T), stream, table, batch.row_sums, batch.samples,
             batch.classes, batch.parts, vectors);
  return cudaGetLastError();
}

template cudaError_t launch_row_sums<float>(const LabelBatch<float>&, const RowSumScratch<float>&,
                                            cudaStream_t);
template cudaError_t launch_row_sums<double>(const LabelBatch<double>&,
                                             const RowSumScratch<double>&, cudaStream_t);

}  // namespace ptd
