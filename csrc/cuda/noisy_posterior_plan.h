// Launches of the tiled mappings of noisy_posterior (noisy_posterior_tile.cuh).
#pragma once

#include <type_traits>

#include "blocks.h"
#include "noisy_posterior_lanes_kernels.cuh"
#include "noisy_posterior_product_kernels.cuh"
#include "noisy_posterior_warps_kernels.cuh"

namespace ptd {

// Numbers of shared memory that a block of so many warps has.
constexpr int tiled_room(int warps) { return warps * kSharedOfWarp / int(sizeof(float)); }

inline bool has_slack(const TransitionBatch<float>& batch) {
  return batch.slack || batch.slack_rows;
}

inline TiledBatch tiled_batch(const TransitionBatch<float>& batch, int tiles, int sharing) {
  TiledBatch tiled{};
  tiled.weights = batch.weights;
  tiled.matrix.slacks = has_slack(batch);
  tiled.samples = batch.samples;
  tiled.classes = batch.classes;
  tiled.parts = batch.parts;
  tiled.tiles = tiles;
  tiled.sharing = sharing;
  tiled.whole_weights = batch.weights && batch.parts % 4 == 0 && is_aligned(batch.weights, 16);
  return tiled;
}

// A launch of the kernels of noisy_posterior_lanes_kernels.cuh; of no blocks where it does not fit.
struct LanesPlan {
  unsigned grid = 0, threads;
  int tiles;  // warps that have samples
  LanesLayout layout;

  explicit LanesPlan(const TransitionBatch<float>& batch) {
    // Small blocks divide samples more evenly among multiprocessors.
    for (const int warps : {4, 8, 16}) {
      const LanesPlan plan(batch, warps);
      if (plan.grid && (!grid || plan.tiles * threads > tiles * plan.threads)) *this = plan;
    }
  }

  // With so many warps. Where shared memory has no room for samples of all, some have none.
  LanesPlan(const TransitionBatch<float>& batch, int warps)
      : threads(static_cast<unsigned>(warps * kWarp)) {
    if (batch.classes <= 10) {
      fit<LanesWarp<2, 5>>(batch, warps);
    } else if (batch.classes <= 16) {
      fit<LanesWarp<4, 4>>(batch, warps);
    }
  }

  // run.template operator()<Q, K>()
  template <class Run>
  static void run_with(const TransitionBatch<float>& batch, const Run& run) {
    if (batch.classes <= 10) return run.template operator()<2, 5>();
    run.template operator()<4, 4>();
  }

  // The batch, with `arrays` that the kernel reads or writes.
  template <class... Arrays>
  TiledBatch apply(const TransitionBatch<float>& batch, const Arrays*... arrays) const {
    TiledBatch tiled = tiled_batch(batch, tiles, 1);
    tiled.matrix.parts = batch.rows;
    tiled.matrix.slack = batch.slack_rows;
    tiled.aligned = (is_aligned(arrays, 16) && ...);
    return tiled;
  }
  size_t shared() const { return size_t(layout.bytes); }

 private:
  template <class Warp>
  void fit(const TransitionBatch<float>& batch, int warps) {
    const int fours = static_cast<int>(ceil_div(batch.parts, kTile));
    const int room = warps * kSharedOfWarp, turns = warps * kWarp / Warp::kSquare;
    layout.half = (batch.classes + 1) / 2;
    layout.pairs = 2 * fours;
    layout.share = turns ? static_cast<int>(ceil_div(layout.pairs, turns)) : layout.pairs;
    layout.pitch = kTile * (fours | 1);
    layout.of_sample = 8 * layout.pairs;
    layout.weights_apart = 4 * Warp::kGroups * layout.pitch;
    layout.rows_apart = 4 * Warp::kGroups * batch.classes;
    layout.weights = 4 * Warp::kRecord * layout.half * (layout.pairs + has_slack(batch));
    layout.rows = layout.weights + 4 * Warp::kSamples * layout.pitch;
    layout.of_warp = 4 * Warp::kSamples * (layout.pitch + batch.classes);
    layout.inverse_quarter = static_cast<int>(ceil_div(1 << 16, fours));
    layout.whole = static_cast<int>(batch.samples / Warp::kSamples);
    layout.rest = static_cast<int>(batch.samples % Warp::kSamples);
    tiles = room > layout.weights ? (room - layout.weights) / layout.of_warp : 0;
    if (tiles > warps) tiles = warps;
    if (4 * tiles < warps) return;
    layout.bytes = layout.weights + tiles * layout.of_warp;
    grid = static_cast<unsigned>(ceil_div(batch.samples, tiles * Warp::kSamples));
  }
};

// A launch of the kernels of noisy_posterior_product_kernels.cuh, or of
// noisy_posterior_warps_kernels.cuh where there is slack; of no blocks where it does not fit.
template <class Layout>
struct LoadingPlan {
  unsigned grid = 0, threads;
  int tiles, sharing;
  Layout layout;

  // With fewer samples some multiprocessors would have little to do; the wide kernels divide a
  // tile's columns among blocks.
  static constexpr int64_t kFewestSamples = 5120;

  explicit LoadingPlan(const TransitionBatch<float>& batch) {
    // Large blocks read the parts less often; small ones divide samples more evenly among the
    // multiprocessors of a V100. Where both take as long, large ones.
    const LoadingPlan large(batch, 16, 12), small(batch, 8, 4);
    const auto longest = [&](const LoadingPlan& plan) {
      return ceil_div(plan.grid, kProcessors) * plan.tiles;
    };
    *this = !small.grid || (large.grid && longest(large) <= longest(small)) ? large : small;
  }

  // With so many warps, of which `multiplying` do so, or more where a tile takes more.
  LoadingPlan(const TransitionBatch<float>& batch, int warps, int multiplying)
      : threads(static_cast<unsigned>(warps * kWarp)) {
    constexpr bool kSlack = std::is_same_v<Layout, WarpsLayout>;
    const int c = batch.classes;
    if (c <= 32 || c > 128 || has_slack(batch) != kSlack) return;
    sharing = c <= 50 ? 2 : c <= 75 ? 3 : c <= 100 ? 4 : 6;
    tiles = multiplying > sharing ? multiplying / sharing : 1;
    // So that a record has room for their samples.
    if (tiles > 4) tiles = 4;
    layout.quads = static_cast<int>(ceil_div(c, kTile));
    layout.inverse_quads = static_cast<int>(ceil_div(1 << 16, layout.quads));
    // The fewest chunks that fit, as even as can be.
    for (int64_t chunks = ceil_div(batch.parts, 40); chunks <= batch.parts && !grid; ++chunks) {
      layout.chunk = static_cast<int>(ceil_div(batch.parts, chunks));
      set_out(layout, batch.parts, warps);
      if (layout.numbers > tiled_room(warps)) continue;
      const int samples = kSlack ? WarpsTile::kSamples : kProductSamples;
      grid = static_cast<unsigned>(ceil_div(batch.samples, tiles * samples));
    }
  }

  // The batch: forward rows of T(x) are wanted, backward columns.
  TiledBatch apply(const TransitionBatch<float>& batch, bool forward) const {
    TiledBatch tiled = tiled_batch(batch, tiles, sharing);
    const int c = batch.classes, r = batch.parts;
    MatrixView& matrix = tiled.matrix;
    matrix.parts = forward ? batch.rows : batch.columns;
    matrix.slack = forward ? batch.slack_rows : batch.slack;
    matrix.outer = forward ? c : r * c;
    matrix.inner = forward ? c * c : c;
    matrix.vectors = c % 4 == 0 && is_aligned(matrix.parts, 16) && is_aligned(matrix.slack, 16);
    return tiled;
  }
  size_t shared() const { return sizeof(float) * size_t(layout.numbers); }

 private:
  void set_out(ProductLayout& to, int parts, int) const {
    to.slots = tiles * kProductSamples;
    to.fours = to.slots / kTile;
    to.inverse_fours = static_cast<int>(ceil_div(1 << 16, to.fours));
    to.tops = 0;
    to.inverses = to.tops + to.slots;
    to.weights = to.inverses + to.slots;
    to.coefficients = to.weights + parts * to.slots;
    to.records = to.coefficients + 2 * to.slots;
    to.numbers = to.records + 2 * to.chunk * kProductRecord;
    // Sums of warps take the place of records.
    const int sums = to.records + tiles * sharing * kProductSamples;
    if (to.numbers < sums) to.numbers = sums;
  }
  void set_out(WarpsLayout& to, int parts, int warps) const {
    to.slots = tiles * WarpsTile::kSlots;
    to.coefficients = tiles * parts * WarpsTile::kPitch;
    to.slack = to.coefficients + 2 * to.slots;
    to.rows = to.slack + 2 * kWarpsRowPitch;
    to.sums = to.rows + 2 * to.chunk * kWarpsRowPitch;
    to.tops = to.sums + 2 * warps * WarpsTile::kSlots;
    to.inverses = to.tops + to.slots;
    to.uniforms = to.inverses + to.slots;
    to.numbers = to.uniforms + to.slots;
  }
};
using ProductPlan = LoadingPlan<ProductLayout>;
using WarpsPlan = LoadingPlan<WarpsLayout>;

template <class Z>
void launch_lanes(const LanesPlan& plan, const TransitionBatch<float>& batch, const Z* logits,
                  float* posterior, float* row_sums, cudaStream_t stream) {
  const TiledBatch tiled = plan.apply(batch, logits, posterior, row_sums);
  plan.run_with(batch, [&]<int Q, int K>() {
    PTD_LAUNCH((noisy_posterior_lanes<Q, K, Z>), plan.grid, plan.threads, plan.shared(), stream,
               tiled, plan.layout, logits, posterior, row_sums);
  });
}

template <class Z>
void launch_lanes_backward(const LanesPlan& plan, const TransitionBatch<float>& batch,
                           const Z* logits, const float* grad, const float* row_sums,
                           Z* grad_logits, float* entries, float* rows, cudaStream_t stream) {
  const TiledBatch tiled = plan.apply(batch, logits, grad, row_sums, grad_logits, entries, rows);
  plan.run_with(batch, [&]<int Q, int K>() {
    PTD_LAUNCH((noisy_posterior_backward_lanes<Q, K, Z>), plan.grid, plan.threads, plan.shared(),
               stream, tiled, plan.layout, logits, grad, row_sums, grad_logits, entries, rows);
  });
}

template <class Z>
void launch_warps(const WarpsPlan& plan, const TransitionBatch<float>& batch, const Z* logits,
                  float* posterior, float* row_sums, cudaStream_t stream) {
  PTD_LAUNCH(noisy_posterior_warps<Z>, plan.grid, plan.threads, plan.shared(), stream,
             plan.apply(batch, true), plan.layout, logits, posterior, row_sums);
}

template <class Z>
void launch_warps_backward(const WarpsPlan& plan, const TransitionBatch<float>& batch,
                           const Z* logits, const float* grad, const float* row_sums,
                           Z* grad_logits, float* entries, float* rows, cudaStream_t stream) {
  PTD_LAUNCH(noisy_posterior_backward_warps<Z>, plan.grid, plan.threads, plan.shared(), stream,
             plan.apply(batch, false), plan.layout, logits, grad, row_sums, grad_logits, entries,
             rows);
}

template <class Z>
void launch_product(const ProductPlan& plan, const TransitionBatch<float>& batch, const Z* logits,
                    float* posterior, cudaStream_t stream) {
  PTD_LAUNCH(noisy_posterior_product<Z>, plan.grid, plan.threads, plan.shared(), stream,
             plan.apply(batch, true), plan.layout, logits, posterior);
}

template <class Z>
void launch_product_backward(const ProductPlan& plan, const TransitionBatch<float>& batch,
                             const Z* logits, const float* grad, Z* grad_logits, float* entries,
                             cudaStream_t stream) {
  PTD_LAUNCH(noisy_posterior_backward_product<Z>, plan.grid, plan.threads, plan.shared(), stream,
             plan.apply(batch, false), plan.layout, logits, grad, grad_logits, entries);
}

}  // namespace ptd
