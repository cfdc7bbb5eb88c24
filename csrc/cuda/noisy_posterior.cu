#include "noisy_posterior.h"

#include "blocks.h"
#include "noisy_posterior_kernels.cuh"
#include "noisy_posterior_plan.h"
#include "noisy_posterior_spread_kernels.cuh"
#include "noisy_posterior_wide_kernels.cuh"

namespace ptd {
namespace {

constexpr int kStagedTiles = 4;  // of spread_parts, at most

// Of a block of four warps, all kinds together.
constexpr size_t kRoom = 4 * kSharedOfWarp;
static_assert(kPosteriorBlock == 128 && kWideBlock == 128 && kSpreadBlock == 128);

unsigned blocks(int64_t count, int64_t per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

template <class T>
size_t weights_bytes(const TransitionBatch<T>& batch, int tiles) {
  return sizeof(Four<T>) * tiles * batch.parts;
}

// A launch of the narrow kernels: `lanes` for a tile of samples. No lanes where another mapping has
// to serve.
struct NarrowPlan {
  int lanes = 0;
  size_t shared;
  unsigned grid;

  template <class T>
  explicit NarrowPlan(const TransitionBatch<T>& batch) {
    if (batch.classes > 32) return;
    const size_t results = sizeof(T) * kPosteriorBlock * kTile;
    for (int wanted = batch.classes <= 16 ? 16 : 32; wanted <= 32 && !lanes; wanted *= 2) {
      const int tiles = kPosteriorBlock / wanted;
      shared = weights_bytes(batch, tiles);
      grid = blocks(batch.samples, tiles * kTile);
      if (shared + results <= kRoom) lanes = wanted;
    }
  }

  // run.template operator()<Lanes>()
  template <class Run>
  void run_with(const Run& run) const {
    if (lanes == 16) return run.template operator()<16>();
    run.template operator()<32>();
  }
};

// run(plan) with the tiled mapping that serves; false if none does.
template <class T, class Lanes, class Product, class Warps>
bool with_tiled(const TransitionBatch<T>& batch, const Lanes& lanes, const Product& product,
                const Warps& warps) {
  if constexpr (sizeof(T) == 4) {
    if (const LanesPlan plan(batch); plan.grid) return lanes(plan), true;
    if (batch.samples < WarpsPlan::kFewestSamples) return false;
    if (const ProductPlan plan(batch); plan.grid) return product(plan), true;
    if (const WarpsPlan plan(batch); plan.grid) return warps(plan), true;
  }
  return false;
}

// Tiles of a block, a power of two, whose weights have room.
template <class T>
int tiles_with_room(const TransitionBatch<T>& batch, int most) {
  while (most > 1 && weights_bytes(batch, most) > kRoom) most /= 2;
  return most;
}

// A launch of pull_rows or push_columns, whose warps have `each` classes or columns of a tile.
struct WidePlan {
  int tiles;
  size_t shared;
  dim3 grid;

  template <class T>
  WidePlan(const TransitionBatch<T>& batch, int each)
      : tiles(tiles_with_room(batch, kWideTiles)),
        shared(weights_bytes(batch, tiles)),
        grid(blocks(batch.samples, tiles * kTile),
             blocks(batch.classes, each * (kWideTiles / tiles))) {}
};

// Ranges of samples with sums of their own: enough to fill a large GPU where the entries (i, k) of
// the matrix alone do not. It depends on the sizes alone, and so do the results.
struct SampleRanges {
  int64_t count, size;

  template <class T>
  explicit SampleRanges(const TransitionBatch<T>& batch) {
    constexpr int64_t kEnoughBlocks = 640, kStep = kStagedTiles * kTile;
    const int held = batch.slack ? kHeldParts<true, T> : kHeldParts<false, T>;
    const int64_t square = int64_t(batch.classes) * batch.classes;
    const int64_t each = int64_t(blocks(square, kSpreadBlock)) * blocks(batch.parts, held);
    const int64_t steps = batch.samples ? (batch.samples + kStep - 1) / kStep : 1;
    const int64_t wanted = each < kEnoughBlocks ? kEnoughBlocks / each : 1;
    size = (steps + wanted - 1) / wanted * kStep;
    count = batch.samples ? (batch.samples + size - 1) / size : 1;
  }
};

template <bool Revised, class Z, class T>
void launch_spread(const TransitionBatch<T>& batch, const Pull<T>& pull,
                   const PosteriorGradients<Z, T>& grads, T* scratch, cudaStream_t stream) {
  if (grads.weights && batch.samples) {
    constexpr unsigned kMostBlocks = 1 << 15;  // of a grid's second extent
    const unsigned tiles = blocks(batch.samples, kTile);
    const dim3 grid(blocks(batch.parts, kHeldWeights<T>), tiles < kMostBlocks ? tiles : kMostBlocks,
                    blocks(tiles, kMostBlocks));
    PTD_LAUNCH((spread_weights<Revised, T>), grid, kSpreadBlock, weights_bytes(batch, 1), stream,
               batch, pull, grads.weights);
  }
  if (!grads.columns && !grads.slack) return;
  const SampleRanges ranges(batch);
  const int64_t square = int64_t(batch.classes) * batch.classes;
  const bool direct = ranges.count == 1;
  T* columns = !grads.columns || direct ? grads.columns : scratch;
  T* slack = grads.slack ? scratch + (direct ? 0 : ranges.count * square * batch.parts) : nullptr;
  const unsigned part_blocks = grads.columns ? blocks(batch.parts, kHeldParts<Revised, T>) : 1;
  const dim3 grid(blocks(square, kSpreadBlock), part_blocks, static_cast<unsigned>(ranges.count));
  const int tiles = tiles_with_room(batch, kStagedTiles);
  PTD_LAUNCH((spread_parts<Revised, T>), grid, kSpreadBlock, weights_bytes(batch, tiles), stream,
             batch, pull, tiles, ranges.size, columns, slack);
  if (grads.columns && !direct) {
    const int64_t size = square * batch.parts;
    PTD_LAUNCH(sum_ranges<T>, blocks(size, kSpreadBlock), kSpreadBlock, 0, stream, columns,
               grads.columns, ranges.count, size, int64_t(0), int64_t(0), int64_t(0));
  }
  if (grads.slack) {
    PTD_LAUNCH(sum_ranges<T>, blocks(square, kSpreadBlock), kSpreadBlock, 0, stream, slack,
               grads.slack, ranges.count, square, int64_t(batch.classes), grads.slack_row_stride,
               grads.slack_column_stride);
  }
}

// Numbers of an [N, C] in scratch memory, so that what follows it begins at 16 bytes too.
template <class T>
int64_t scratch_rows(const TransitionBatch<T>& batch) {
  return ceil_div(batch.samples * batch.classes, 4) * 4;
}

}  // namespace

template <class T>
PartsLayout noisy_posterior_layout(const TransitionBatch<T>& batch, bool forward, bool transition) {
  PartsLayout layout{false, false};
  const auto one = [&](const auto&) { (forward ? layout.rows : layout.columns) = true; };
  const bool tiled = with_tiled(batch, [&](const auto&) { layout.rows = true; }, one, one);
  if (!tiled || transition) layout.columns = true;
  return layout;
}

template <class T>
int64_t noisy_posterior_scratch(const TransitionBatch<T>& batch) {
  const auto none = [](const auto&) {};
  if (NarrowPlan(batch).lanes || with_tiled(batch, none, none, none)) return 0;
  return batch.samples * (batch.classes + 1);  // entries, uniform shares
}

template <class Z, class T>
cudaError_t launch_noisy_posterior(const TransitionBatch<T>& batch, const Z* logits, T* posterior,
                                   T* row_sums, T* scratch, cudaStream_t stream) {
  const bool tiled = with_tiled(
      batch,
      [&](const auto& plan) { launch_lanes(plan, batch, logits, posterior, row_sums, stream); },
      [&](const auto& plan) { launch_product(plan, batch, logits, posterior, stream); },
      [&](const auto& plan) { launch_warps(plan, batch, logits, posterior, row_sums, stream); });
  if (tiled) return cudaGetLastError();
  if (const NarrowPlan narrow(batch); narrow.lanes) {
    narrow.run_with([&]<int Lanes>() {
      PTD_LAUNCH((noisy_posterior_narrow<Lanes, T, Z>), narrow.grid, kPosteriorBlock, narrow.shared,
                 stream, batch, logits, posterior, row_sums);
    });
    return cudaGetLastError();
  }
  T* entries = scratch;
  T* uniform_share = scratch + batch.samples * batch.classes;
  if (batch.slack) {
    const WidePlan plan(batch, kWarp);
    PTD_LAUNCH(pull_rows<T>, plan.grid, kWideBlock, plan.shared, stream, batch,
               static_cast<const T*>(nullptr), row_sums, plan.tiles);
  }
  PTD_LAUNCH((softmax_entries<T, Z>), blocks(batch.samples, kWideTiles), kWideBlock, 0, stream,
             logits, batch.slack ? row_sums : nullptr, entries, uniform_share, batch.samples,
             batch.classes);
  const WidePlan plan(batch, kColumnsPerBlock);
  PTD_LAUNCH(push_columns<T>, plan.grid, kWideBlock, plan.shared, stream, batch, entries,
             uniform_share, posterior, plan.tiles);
  return cudaGetLastError();
}

template <class T>
int64_t noisy_posterior_backward_scratch(const TransitionBatch<T>& batch) {
  const int64_t square = int64_t(batch.classes) * batch.classes;
  const int64_t ranges = SampleRanges(batch).count;
  const int64_t sums = ranges * square * (ranges == 1 ? 1 : batch.parts + 1);
  return 2 * scratch_rows(batch) + sums;  // entries, rows, sums of ranges
}

template <class Z, class T>
cudaError_t launch_noisy_posterior_backward(const TransitionBatch<T>& batch, const Z* logits,
                                            const T* grad, const T* row_sums,
                                            const PosteriorGradients<Z, T>& grads, T* scratch,
                                            cudaStream_t stream) {
  const int64_t size = scratch_rows(batch);
  const bool transition = grads.weights || grads.columns || grads.slack;
  T* rows = scratch;
  T* entries = transition ? scratch + size : nullptr;
  const NarrowPlan narrow(batch);
  const bool done =
      batch.samples == 0 ||
      with_tiled(
          batch,
          [&](const auto& plan) {
            launch_lanes_backward(plan, batch, logits, grad, row_sums, grads.logits, entries, rows,
                                  stream);
          },
          [&](const auto& plan) {
            launch_product_backward(plan, batch, logits, grad, grads.logits, entries, stream);
          },
          [&](const auto& plan) {
            launch_warps_backward(plan, batch, logits, grad, row_sums, grads.logits, entries, rows,
                                  stream);
          });
  if (!done && narrow.lanes) {
    narrow.run_with([&]<int Lanes>() {
      PTD_LAUNCH((noisy_posterior_narrow_backward<Lanes, T, Z>), narrow.grid, kPosteriorBlock,
                 narrow.shared, stream, batch, logits, grad, row_sums, grads.logits, entries, rows);
    });
  } else if (!done) {
    const WidePlan plan(batch, kWarp);
    PTD_LAUNCH(pull_rows<T>, plan.grid, kWideBlock, plan.shared, stream, batch, grad, rows,
               plan.tiles);
    PTD_LAUNCH((posterior_gradients<T, Z>), blocks(batch.samples, kWideTiles), kWideBlock, 0,
               stream, logits, grad, batch.slack ? row_sums : nullptr, grads.logits, entries, rows,
               batch.samples, batch.classes);
  }
  if (transition) {
    const Pull<T> pull{entries, grad, rows};
    T* sums = scratch + 2 * size;
    batch.slack ? launch_spread<true>(batch, pull, grads, sums, stream)
                : launch_spread<false>(batch, pull, grads, sums, stream);
  }
  return cudaGetLastError();
}

#define PTD_INSTANTIATE(Z, T)                                                                    \
  template cudaError_t launch_noisy_posterior<Z, T>(const TransitionBatch<T>&, const Z*, T*, T*, \
                                                    T*, cudaStream_t);                           \
  template cudaError_t launch_noisy_posterior_backward<Z, T>(                                    \
      const TransitionBatch<T>&, const Z*, const T*, const T*, const PosteriorGradients<Z, T>&,  \
      T*, cudaStream_t);
PTD_INSTANTIATE(float, float)
PTD_INSTANTIATE(double, double)
PTD_INSTANTIATE(Half, float)
PTD_INSTANTIATE(BFloat16, float)
template PartsLayout noisy_posterior_layout<float>(const TransitionBatch<float>&, bool, bool);
template PartsLayout noisy_posterior_layout<double>(const TransitionBatch<double>&, bool, bool);
template int64_t noisy_posterior_scratch<float>(const TransitionBatch<float>&);
template int64_t noisy_posterior_scratch<double>(const TransitionBatch<double>&);
template int64_t noisy_posterior_backward_scratch<float>(const TransitionBatch<float>&);
template int64_t noisy_posterior_backward_scratch<double>(const TransitionBatch<double>&);

}  // namespace ptd
