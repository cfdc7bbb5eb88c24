// A block of the kernels for 33 to 128 classes without slack (noisy_posterior_product_kernels.cuh),
// where all there is to do is a product of matrices:
//
//   out_c = sum_aj A_aj P^j_ac       A_aj = coefficient_a h_j
//
// Most warps multiply. `sharing` of them have a tile of 36 samples, six times six; five lanes of
// each have the same six, and five columns each. So a lane has 30 sums and nothing else, and reads
// 11 numbers for as many multiply-adds. The other warps load: parts and A of the next chunk of a
// row, while the first use this one.
#pragma once

#include "noisy_posterior_stage.cuh"

namespace ptd {

constexpr int kProductMostThreads = 512;
constexpr int kProductLanes = 5;  // of a warp that have the same samples
constexpr int kProductEach = 6;   // samples that these have
constexpr int kProductColumns = 5;
constexpr int kProductGroups = kWarp / kProductLanes;
constexpr int kProductSamples = kProductGroups * kProductEach;  // of a tile
constexpr int kMostClassesOfProduct = 128;
// Numbers from what there is of a part to the same of the next: A, and then its row.
constexpr int kProductRecord = 224;

// The dynamic shared memory of a block, set out by the launcher, in numbers. Samples have slots:
// of a tile, four of each group, then two of each, so that a lane's are two vectors.
struct ProductLayout {
  int tops, inverses;  // [slots]: largest logit, inverse sum of exponentials
  int weights;         // [R, slots]
  int coefficients;    // [2, slots]: of two rows in turn
  int records;         // [2, chunk, kProductRecord]: A and parts of two chunks in turn
  int slots, chunk;
  int quads, fours;                  // of a row, of slots: four neighbours each
  int inverse_quads, inverse_fours;  // 65536 divided by these, rounded up
  int numbers;                       // of all
};

struct ProductSums {
  float of[kProductEach][kProductColumns];
};

// A block's place in the batch, and its shared memory.
struct ProductBlock : LoadingBlock {
  const ProductLayout& layout;
  float* shared;

  __device__ __forceinline__ int64_t first() const {
    return int64_t(block_number()) * layout.slots;
  }
  __device__ __forceinline__ bool inside(int n) const { return first() + n < batch.samples; }
  // The slot of a sample, and the sample of a slot.
  static __device__ __forceinline__ int slot(int n) {
    const int tile = n / kProductSamples * kProductSamples, group = (n - tile) / kProductEach;
    const int s = n % kProductEach;
    return tile + (s < 4 ? 4 * group + s : 4 * kProductGroups + 2 * group + s - 4);
  }
  static __device__ __forceinline__ int sample(int slot) {
    const int tile = slot / kProductSamples * kProductSamples, at = slot - tile;
    const int rest = at - 4 * kProductGroups;
    return tile +
           (rest < 0 ? at / 4 * kProductEach + at % 4 : rest / 2 * kProductEach + 4 + rest % 2);
  }

  // Number of this lane, of all that have a row.
  __device__ __forceinline__ int lane_of_row() const {
    return warp_number() % batch.sharing * kProductLanes + lane_number() % kProductLanes;
  }
  // Lanes that are left over have a copy of the last samples.
  static __device__ __forceinline__ bool is_spare(int lane) {
    return lane >= kProductGroups * kProductLanes;
  }
  static __device__ __forceinline__ int group(int lane) {
    return is_spare(lane) ? kProductGroups - 1 : lane / kProductLanes;
  }
  // Where the slots of this warp's tile begin.
  __device__ __forceinline__ int tile() const {
    return warp_number() / batch.sharing * kProductSamples;
  }

  // What is known of each sample from the start; a warp has one.
  template <class Z>
  __device__ __forceinline__ void reduce(const Z* logits) const {
    constexpr int kEach = kMostClassesOfProduct / kWarp;
    const int classes = batch.classes;
#pragma unroll 1
    for (int n = warp_id(); n < layout.slots && inside(n); n += warps()) {
      const Z* const row = logits + (first() + n) * classes;
      float z[kEach], top = -infinity<float>(), sum = 0.0f;
#pragma unroll
      for (int v = 0; v < kEach; ++v) {
        const int c = lane_id() + v * kWarp;
        z[v] = c < classes ? load<float>(row + c) : -infinity<float>();
        top = max_of(top, z[v]);
      }
      top = lanes_max<kWarp>(top);
#pragma unroll
      for (int v = 0; v < kEach; ++v) sum += exp_of(z[v] - top);
      sum = lanes_sum<kWarp>(sum);
      if (lane_id() > 0) continue;
      shared[layout.tops + slot(n)] = top;
      shared[layout.inverses + slot(n)] = 1.0f / sum;
    }
  }
  // exp(z - top) / sum of exponentials.
  __device__ __forceinline__ float softmax(float z, int slot) const {
    return exp_of(z - shared[layout.tops + slot]) * shared[layout.inverses + slot];
  }

  // Weights, transposed, by the whole block. Zero beyond the last sample.
  __device__ __forceinline__ void stage_weights() const {
    const int parts = batch.parts;
#pragma unroll 1
    for (int n = warp_id(); n < layout.slots; n += warps()) {
      const float* const from = batch.weights ? batch.weights + (first() + n) * parts : nullptr;
      for (int j = lane_id(); j < parts; j += kWarp) {
        const float h = !inside(n) ? 0.0f : from ? from[j] : 1.0f;
        shared[layout.weights + j * layout.slots + slot(n)] = h;
      }
    }
  }
  // Zeros beyond the last quad of a row, which no chunk brings. By the whole block.
  __device__ __forceinline__ void pad_rows() const {
    for (int row = warp_id(); row < 2 * layout.chunk; row += warps()) {
      for (int c = layout.slots + kTile * layout.quads + lane_id(); c < kProductRecord;
           c += kWarp) {
        shared[layout.records + row * kProductRecord + c] = 0.0f;
      }
    }
  }

  __device__ __forceinline__ float* records(int buffer) const {
    return shared + layout.records + buffer * layout.chunk * kProductRecord;
  }
  // Parts of the chunk that starts with part j.
  __device__ __forceinline__ int left(int j) const {
    return batch.parts - j < layout.chunk ? batch.parts - j : layout.chunk;
  }
  __device__ __forceinline__ void put_rows(Turns turns, int a, int j, int buffer) const {
    const Way way(turns, layout.quads, layout.inverse_quads);
    copy_rows(batch, way, a, j, left(j), records(buffer) + layout.slots, kProductRecord);
  }
  // A, once the coefficients are there.
  __device__ __forceinline__ void put_factors(Turns turns, int a, int j, int buffer) const {
    const Way way(turns, layout.fours, layout.inverse_fours);
    const float* from = shared + layout.weights + (j + way.part) * layout.slots + way.c;
    float* to = records(buffer) + way.part * kProductRecord + way.c;
    const Four<float> coefficient =
        load_four(shared + layout.coefficients + (a & 1) * layout.slots + way.c);
#pragma unroll 2
    for (int part = way.part; part < left(j); part += way.step) {
      Four<float> factor = load_four(from);
#pragma unroll
      for (int s = 0; s < kTile; ++s) factor.of[s] *= coefficient.of[s];
      store_four(to, factor);
      from += way.step * layout.slots;
      to += way.step * kProductRecord;
    }
  }
  // Coefficients of row a: `finish(fetch(place in a [N, C]), slot)`.
  template <class Fetch, class Finish>
  __device__ __forceinline__ void put_coefficients(Turns turns, int a, const Fetch& fetch,
                                                   const Finish& finish) const {
    if (a >= batch.classes) return;
    for (int at = turns.first; at < layout.slots; at += turns.step) {
      const int n = sample(at);
      const float value = inside(n) ? finish(fetch((first() + n) * batch.classes + a), at) : 0.0f;
      shared[layout.coefficients + (a & 1) * layout.slots + at] = value;
    }
  }

  // Numbers at `bytes` of shared memory. Offsets of 32 bits, in bytes, are what loads take as they
  // are: pointers would cost as many instructions as the arithmetic.
  template <class S>
  __device__ __forceinline__ S at(int bytes) const {
    return *reinterpret_cast<const S*>(reinterpret_cast<const char*>(shared) + bytes);
  }
  // Where the numbers of a lane are in a record, in bytes; to begin with, in the first.
  struct Place {
    int four, two;  // its samples
    int row, last;  // its columns

    __device__ __forceinline__ explicit Place(const ProductBlock& block) {
      const int of_group = group(lane_number()), of_row = block.lane_of_row();
      const int samples = block.layout.records + block.tile();
      const int columns = block.layout.records + block.layout.slots;
      four = 4 * (samples + 4 * of_group);
      two = 4 * (samples + 4 * kProductGroups + 2 * of_group);
      row = 4 * (columns + 4 * of_row);
      last = 4 * (columns + 4 * kProductLanes * block.batch.sharing + of_row);
    }
    __device__ __forceinline__ void move(int records) {
      four += records * 4 * kProductRecord;
      two += records * 4 * kProductRecord;
      row += records * 4 * kProductRecord;
      last += records * 4 * kProductRecord;
    }
  };
  // What a lane has of a record.
  struct Operands {
    float factor[kProductEach], entry[kProductColumns];
  };
  __device__ __forceinline__ Operands operands(const Place& place) const {
    const Four<float> some = at<Four<float>>(place.four), columns = at<Four<float>>(place.row);
    const float2 others = at<float2>(place.two);
    Operands result;
#pragma unroll
    for (int v = 0; v < 4; ++v) {
      result.factor[v] = some.of[v];
      result.entry[v] = columns.of[v];
    }
    result.factor[4] = others.x;
    result.factor[5] = others.y;
    result.entry[4] = at<float>(place.last);
    return result;
  }
  // += sum over `count` parts. What the next one needs is on its way while one is added.
  __device__ __forceinline__ void add_chunk(ProductSums& sum, Place& place, int count) const {
    const auto add = [&](const Operands& now) {
#pragma unroll
      for (int s = 0; s < kProductEach; ++s) {
#pragma unroll
        for (int v = 0; v < kProductColumns; ++v) sum.of[s][v] += now.factor[s] * now.entry[v];
      }
    };
    Operands now = operands(place);
#pragma unroll 1
    for (; count > 2; count -= 2) {
      place.move(1);
      const Operands next = operands(place);
      add(now);
      place.move(1);
      now = operands(place);
      add(next);
    }
    if (count > 1) {
      place.move(1);
      const Operands next = operands(place);
      add(now);
      now = next;
    }
    add(now);
    place.move(1);
  }

  // Sums over all rows, in the lanes that multiply.
  template <class Fetch, class Finish>
  __device__ __forceinline__ void add_rows(ProductSums& sum, const Fetch& fetch,
                                           const Finish& finish) const {
#pragma unroll
    for (int s = 0; s < kProductEach; ++s) {
#pragma unroll
      for (int v = 0; v < kProductColumns; ++v) sum.of[s][v] = 0.0f;
    }
    put_rows(of_all(), 0, 0, 0);
    __syncthreads();  // what `finish` reads is there
    for (int a = 0; a < 2; ++a) put_coefficients(of_all(), a, fetch, finish);
    __syncthreads();
    put_factors(of_all(), 0, 0, 0);
    __syncthreads();
    Place place(*this);
    // The buffer, and whether this warp multiplies: one register has both.
    int state = multiplies() ? 2 : 0, a = 0, j = 0;
    do {
      const int buffer = state & 1;
      const int count = left(j);
      const int next_j = j + count < batch.parts ? j + count : 0, next_a = a + (next_j == 0);
      if (state & 2) {
        add_chunk(sum, place, count);
        place.move(buffer ? -layout.chunk - count : layout.chunk - count);
      } else {
        if (next_a < batch.classes) {
          put_rows(of_loading(), next_a, next_j, buffer ^ 1);
          put_factors(of_loading(), next_a, next_j, buffer ^ 1);
        }
        if (next_j == 0) put_coefficients(of_loading(), a + 2, fetch, finish);
      }
      j = next_j;
      a = next_a;
      state ^= 1;
      __syncthreads();
    } while (a < batch.classes);
  }

  // Sums over all lanes that have the same samples.
  __device__ __forceinline__ void sum_over_lanes(float (&value)[kProductEach]) const {
    const int lane = lane_number(), warp = warp_number();
    float* const at = shared + layout.records + kProductEach * group(lane);
#pragma unroll
    for (int s = 0; s < kProductEach; ++s) {
      float sum = value[s];
#pragma unroll
      for (int offset = 1; offset < kProductLanes; ++offset) {
        sum += __shfl_down_sync(0xffffffffu, value[s], offset);
      }
      const bool puts = multiplies() && lane % kProductLanes == 0 && !is_spare(lane);
      if (puts) at[warp * kProductSamples + s] = sum;
    }
    __syncthreads();
    if (!multiplies()) return;
#pragma unroll
    for (int s = 0; s < kProductEach; ++s) value[s] = 0.0f;
#pragma unroll 1
    for (int other = 0; other < batch.sharing; ++other) {
      const int from = warp - warp % batch.sharing + other;
#pragma unroll
      for (int s = 0; s < kProductEach; ++s) value[s] += at[from * kProductSamples + s];
    }
  }

  // visit(place in a [N, C], slot, s, v) for what this lane has of the results.
  template <class Visit>
  __device__ __forceinline__ void each(const Visit& visit) const {
    const int lane = lane_number(), of_row = lane_of_row();
    if (!multiplies() || is_spare(lane)) return;
#pragma unroll
    for (int s = 0; s < kProductEach; ++s) {
      const int n = tile() + group(lane) * kProductEach + s;
      if (!inside(n)) continue;
      const int64_t row = (first() + n) * batch.classes;
#pragma unroll
      for (int v = 0; v < kProductColumns; ++v) {
        const int c = v < 4 ? 4 * of_row + v : 4 * kProductLanes * batch.sharing + of_row;
        if (c < batch.classes) visit(row + c, slot(n), s, v);
      }
    }
  }
};

}  // namespace ptd
