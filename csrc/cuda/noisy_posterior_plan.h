// Launches of the tiled mappings of noisy_posterior (noisy_posterior_tile.cuh).
#pragma once

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
  int tiles, sharing;
  LanesLayout layout;

  explicit LanesPlan(const TransitionBatch<float>& batch) {
    // Fewer samples to a block where they are few, so that more multiprocessors have work.
    constexpr int64_t kManySamples = 32768;
    for (const int warps : {8, 16}) {
      for (const int sharing : {4, 8}) {
        if (sharing == 4 && batch.samples < kManySamples) continue;
        *this = LanesPlan(batch, sharing, warps);
        if (grid) return;
      }
    }
  }

  LanesPlan(const TransitionBatch<float>& batch, int sharing, int warps)
      : threads(static_cast<unsigned>(warps * kWarp)), tiles(warps / sharing), sharing(sharing) {
    if (batch.classes <= 10) {
      fit<LaneTile<2, 5>>(batch, warps);
    } else if (batch.classes <= kGroupLanes) {
      fit<LaneTile<4, 4>>(batch, warps);
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
    TiledBatch tiled = tiled_batch(batch, tiles, sharing);
    tiled.matrix.parts = batch.rows;
    tiled.matrix.slack = batch.slack_rows;
    tiled.matrix.vectors = is_aligned(batch.rows, 16) && is_aligned(batch.slack_rows, 16);
    tiled.aligned = (is_aligned(arrays, 16) && ...);
    return tiled;
  }
  size_t shared() const { return sizeof(float) * size_t(layout.numbers); }

 private:
  template <class Tile>
  void fit(const TransitionBatch<float>& batch, int warps) {
    const int c = batch.classes, groups = tiles * Tile::kSamples / kTile;
    layout.values = groups * kTile * c + ((groups - 1) & ~3);
    layout.weights = layout.values;
    layout.sharing_shift = sharing == 4 ? 2 : 3;
    layout.parts = layout.weights + tiles * batch.parts * Tile::kPitch;
    layout.padding = Tile::kColumns - c;
    layout.tile_bytes = 4 * batch.parts * Tile::kPitch;
    layout.part_bytes = 4 * c * Tile::kColumns;
    layout.slack_bytes = batch.parts * layout.part_bytes;
    const int rows = (batch.parts + has_slack(batch)) * c + layout.padding;
    // What takes their place: sums of all warps but the first of a tile, three times the values.
    const int sums = tiles * (sharing - 1) * kTile * kWarp * Tile::kEach;
    layout.numbers = layout.parts + rows * Tile::kColumns;
    for (const int later : {sums, 3 * layout.values}) {
      if (layout.numbers < layout.weights + later) layout.numbers = layout.weights + later;
    }
    if (layout.numbers > tiled_room(warps)) return;
    grid = static_cast<unsigned>(ceil_div(batch.samples, tiles * Tile::kSamples));
  }
};

// A launch of the kernels of noisy_posterior_warps_kernels.cuh; of no blocks where it does not fit.
struct WarpsPlan {
  unsigned grid = 0, threads;
  int each, tiles, sharing;
  WarpsLayout layout;

  // With fewer samples some multiprocessors would have little to do; the wide kernels divide a
  // tile's columns among blocks.
  static constexpr int64_t kFewestSamples = 5120;

  explicit WarpsPlan(const TransitionBatch<float>& batch) {
    using Tile = LaneTile<kWarpsLanes, 4>;
    const int c = batch.classes;
    if (c <= 32 || c > kMostClassesOfWarps) return;
    // Two, four or eight warps, with four or five columns a lane, whichever has less padding.
    sharing = c <= 50 ? 2 : c <= 100 ? 4 : 8;
    each = c <= 4 * kWarpsLanes * sharing ? 4 : 5;
    layout.sharing_shift = sharing == 2 ? 1 : sharing == 4 ? 2 : 3;
    layout.pitch = (sharing * kWarpsLanes * each + 3) / 4 * 4;
    layout.tile_bytes = 4 * batch.parts * Tile::kPitch;
    layout.pitch_bytes = 4 * layout.pitch;
    layout.started = has_slack(batch) ? layout.pitch_bytes : 0;
    // More tiles to a block where they do not fit otherwise: a row is there once for all of them.
    for (int warps = sharing > 4 ? sharing : 4; warps <= kWarpsMostWarps && !grid; warps *= 2) {
      threads = static_cast<unsigned>(warps * kWarp);
      tiles = warps / sharing;
      layout.samples = tiles * Tile::kSamples;
      layout.coefficients = tiles * batch.parts * Tile::kPitch;
      layout.tops = layout.coefficients + layout.samples;
      layout.inverses = layout.tops + layout.samples;
      layout.uniforms = layout.inverses + layout.samples;
      layout.sums = layout.uniforms + layout.samples;
      layout.places = layout.sums + sharing * layout.samples;
      layout.rows = layout.places + warps * kWarp;
      layout.numbers = layout.rows + (batch.parts + has_slack(batch)) * layout.pitch;
      if (layout.numbers > tiled_room(warps)) continue;
      grid = static_cast<unsigned>(ceil_div(batch.samples, layout.samples));
    }
  }

  // run.template operator()<K>()
  template <class Run>
  void run_with(const Run& run) const {
    if (each == 4) return run.template operator()<4>();
    run.template operator()<5>();
  }

  // The batch. Forward rows of T(x) are wanted, backward columns.
  TiledBatch apply(const TransitionBatch<float>& batch, bool forward) const {
    TiledBatch tiled = tiled_batch(batch, tiles, sharing);
    const int c = batch.classes, r = batch.parts;
    const bool rows = batch.rows && (forward || !batch.columns);
    MatrixView& matrix = tiled.matrix;
    matrix.parts = rows ? batch.rows : batch.columns;
    matrix.slack = rows ? batch.slack_rows : batch.slack;
    matrix.inner = rows ? c * c : c;
    // Between neighbours in a row of T(x), and in a column.
    const int in_row = rows ? 1 : r * c, in_column = rows ? c : 1;
    matrix.outer = forward ? in_column : in_row;
    matrix.step = forward ? in_row : in_column;
    matrix.slack_outer = forward == rows ? c : 1;
    matrix.slack_step = forward == rows ? 1 : c;
    matrix.vectors = matrix.step == 1 && c % 4 == 0 && is_aligned(matrix.parts, 16) &&
                     is_aligned(matrix.slack, 16);
    return tiled;
  }
  size_t shared() const { return sizeof(float) * size_t(layout.numbers); }
};

// A launch of the kernels of noisy_posterior_product_kernels.cuh; of no blocks where it does not
// fit.
struct ProductPlan {
  unsigned grid = 0, threads;
  int tiles, sharing;
  ProductLayout layout;

  explicit ProductPlan(const TransitionBatch<float>& batch) {
    // Large blocks read the parts less often; small ones divide samples more evenly among the
    // multiprocessors of a V100. Where both take as long, large ones.
    constexpr int64_t kMultiprocessors = 80;
    const ProductPlan large(batch, 16, 12), small(batch, 8, 4);
    const auto longest = [&](const ProductPlan& plan) {
      return ceil_div(plan.grid, kMultiprocessors) * plan.layout.slots;
    };
    *this = !small.grid || (large.grid && longest(large) <= longest(small)) ? large : small;
  }

  // With so many warps, of which `multiplying` do so, or more where a tile takes more.
  ProductPlan(const TransitionBatch<float>& batch, int warps, int multiplying)
      : threads(static_cast<unsigned>(warps * kWarp)) {
    const int c = batch.classes;
    if (c <= 32 || c > kMostClassesOfProduct || has_slack(batch)) return;
    sharing = c <= 50 ? 2 : c <= 75 ? 3 : c <= 100 ? 4 : 6;
    tiles = sharing == 2 && multiplying > 8 ? 4 : multiplying > sharing ? multiplying / sharing : 1;
    layout.slots = tiles * kProductSamples;
    layout.quads = static_cast<int>(ceil_div(c, kTile));
    layout.inverse_quads = static_cast<int>(ceil_div(1 << 16, layout.quads));
    layout.fours = layout.slots / kTile;
    layout.inverse_fours = static_cast<int>(ceil_div(1 << 16, layout.fours));
    // The fewest chunks that fit, as even as can be.
    for (int64_t chunks = ceil_div(batch.parts, 40); chunks <= batch.parts && !grid; ++chunks) {
      layout.chunk = static_cast<int>(ceil_div(batch.parts, chunks));
      layout.tops = 0;
      layout.inverses = layout.tops + layout.slots;
      layout.weights = layout.inverses + layout.slots;
      layout.coefficients = layout.weights + batch.parts * layout.slots;
      layout.records = layout.coefficients + 2 * layout.slots;
      layout.numbers = layout.records + 2 * layout.chunk * kProductRecord;
      // Sums of warps take the place of records.
      const int sums = layout.records + tiles * sharing * kProductSamples;
      if (layout.numbers < sums) layout.numbers = sums;
      if (layout.numbers > tiled_room(warps)) continue;
      grid = static_cast<unsigned>(ceil_div(batch.samples, layout.slots));
    }
  }

  // The batch: forward rows of T(x) are wanted, backward columns.
  TiledBatch apply(const TransitionBatch<float>& batch, bool forward) const {
    TiledBatch tiled = tiled_batch(batch, tiles, sharing);
    const int c = batch.classes, r = batch.parts;
    MatrixView& matrix = tiled.matrix;
    matrix.parts = forward ? batch.rows : batch.columns;
    matrix.outer = forward ? c : r * c;
    matrix.inner = forward ? c * c : c;
    matrix.vectors = c % 4 == 0 && is_aligned(matrix.parts, 16);
    return tiled;
  }
  size_t shared() const { return sizeof(float) * size_t(layout.numbers); }
};

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
  const TiledBatch tiled = plan.apply(batch, true);
  plan.run_with([&]<int K>() {
    PTD_LAUNCH((noisy_posterior_warps<K, Z>), plan.grid, plan.threads, plan.shared(), stream, tiled,
               plan.layout, logits, posterior, row_sums);
  });
}

template <class Z>
void launch_warps_backward(const WarpsPlan& plan, const TransitionBatch<float>& batch,
                           const Z* logits, const float* grad, const float* row_sums,
                           Z* grad_logits, float* entries, float* rows, cudaStream_t stream) {
  const TiledBatch tiled = plan.apply(batch, false);
  plan.run_with([&]<int K>() {
    PTD_LAUNCH((noisy_posterior_backward_warps<K, Z>), plan.grid, plan.threads, plan.shared(),
               stream, tiled, plan.layout, logits, grad, row_sums, grad_logits, entries, rows);
  });
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
