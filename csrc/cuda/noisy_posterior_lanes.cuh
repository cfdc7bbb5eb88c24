// A warp of the kernels for up to sixteen classes (noisy_posterior_lanes_kernels.cuh). Warps of a
// block share the parts, and nothing else: a warp has samples of its own, and once the parts are
// there it waits for no other.
//
// A lane has K columns of T(x), of half of its rows, for two samples: 2 Q lanes all of T(x). Rows
// are formed one after another, in registers, and used at once:
//
//   m_c = slack_ac + sum_j h_j P^j_ac       for one a, all c
//   sum_c += coefficient_a m_c              over all a
//
// Forward a is the row i of T(x), c the column k, the coefficient g_i / r_i; backward a is the
// column k, c the row i, the coefficient G_k. At the end the two halves are added up, and the lanes
// of a half go on with one of the two samples.
//
// The parts are in shared memory in the order in which lanes read them. A record has entries of one
// row of each half, of two parts: [2, 2 Q, 4], and [2 Q, 2] of the fifth columns, so that those of
// a lane are two vectors of four numbers, two columns of two parts each, and one of two. For each
// row there is a record of the slack, if there is any, then those of the parts, with zeros up to a
// multiple of four. Weights [samples, pitch] are as in memory: those of four parts are one vector.
// So 40 multiply-adds take eight loads.
//
// With two samples to a lane, warps are many enough to divide evenly among schedulers; with four
// there would be fewer loads, which are not what takes the time.
#pragma once

#include "noisy_posterior_lanes_stage.cuh"

namespace ptd {

template <int Q, int K>
struct LanesWarp : LanesMemory<Q, K> {
  using Memory = LanesMemory<Q, K>;
  using Memory::batch, Memory::group, Memory::kGroups, Memory::layout;
  using Memory::of_group, Memory::upper;
  static constexpr unsigned kAll = 0xffffffffu;

  // Over the lanes that have columns of the same row.
  template <class Both>
  static __device__ __forceinline__ float over_columns(float value, const Both& both) {
    value = both(value, __shfl_xor_sync(kAll, value, 1));
    if constexpr (Q == 4) value = both(value, __shfl_xor_sync(kAll, value, 2 * kGroups));
    return value;
  }
  static __device__ __forceinline__ float sum_columns(float value) {
    return over_columns(value, [](float a, float b) { return a + b; });
  }

  // softmax(z); zero beyond the last class.
  static __device__ __forceinline__ void softmax(float (&z)[K]) {
    float top = -infinity<float>(), sum = 0.0f;
#pragma unroll
    for (int v = 0; v < K; ++v) top = max_of(top, z[v]);
    top = over_columns(top, [](float a, float b) { return max_of(a, b); });
#pragma unroll
    for (int v = 0; v < K; ++v) sum += z[v] = exp_of(z[v] - top);
    const float inverse = 1.0f / sum_columns(sum);
#pragma unroll
    for (int v = 0; v < K; ++v) z[v] *= inverse;
  }

  // This lane's entries of a record, of two parts and K columns. `four` and `last` are bytes.
  __device__ __forceinline__ void load_record(int four, int last, float (&entry)[2][K]) const {
#pragma unroll
    for (int v = 0; v < 4; v += 2) {
      const Four<float> some = this->template at<Four<float>>(four + v * 16 * Q);
      entry[0][v] = some.of[0];
      entry[1][v] = some.of[1];
      entry[0][v + 1] = some.of[2];
      entry[1][v + 1] = some.of[3];
    }
    if constexpr (K == 5) {
      const float2 two = this->template at<float2>(last);
      entry[0][4] = two.x;
      entry[1][4] = two.y;
    }
  }

  // use(coefficients of a, m, sum, whether a is a class) for this lane's rows a, with m complete.
  // Coefficients are in `rows`.
  template <bool kSlack, class Use>
  __device__ __forceinline__ void add_rows(float (&sum)[2][K], const Use& use) const {
    constexpr int kBytes = 4 * Memory::kRecord;
    int four = 16 * of_group(), last = 64 * Q + 8 * of_group();
    int h = this->weights() + 4 * group() * layout.pitch;
    const int end = h + layout.of_sample;
#pragma unroll
    for (int v = 0; v < K; ++v) sum[0][v] = sum[1][v] = 0.0f;
    int coefficient = this->rows() + 4 * (group() * batch.classes + upper() * layout.half);
    int classes = upper() ? batch.classes - layout.half : layout.half;
#pragma unroll 1
    for (int left = layout.half; left > 0; --left) {
      float m[2][K];
      if (kSlack) {
        float slack[2][K];
        load_record(four, last, slack);
        four += kBytes;
        last += kBytes;
#pragma unroll
        for (int v = 0; v < K; ++v) m[0][v] = m[1][v] = slack[0][v];
      }
      const auto add_four = [&](bool fresh) {
        const Four<float> weight[2] = {this->template at<Four<float>>(h),
                                       this->template at<Four<float>>(h + layout.weights_apart)};
        h += 16;
#pragma unroll
        for (int pair = 0; pair < 2; ++pair) {
          float entry[2][K];
          load_record(four + pair * kBytes, last + pair * kBytes, entry);
#pragma unroll
          for (int j = 0; j < 2; ++j) {
#pragma unroll
            for (int s = 0; s < 2; ++s) {
#pragma unroll
              for (int v = 0; v < K; ++v) {
                const float product = weight[s].of[2 * pair + j] * entry[j][v];
                m[s][v] = fresh && pair + j == 0 ? product : m[s][v] + product;
              }
            }
          }
        }
        four += 2 * kBytes;
        last += 2 * kBytes;
      };
      add_four(!kSlack);
#pragma unroll 1
      while (h < end) add_four(false);
      h -= layout.of_sample;
      use(coefficient, m, sum, classes > 0);
      coefficient += 4;
      --classes;
    }
  }
  // Sums over both halves of the rows, of the sample that this lane goes on with.
  static __device__ __forceinline__ void add_halves(const float (&sum)[2][K], float (&own)[K]) {
#pragma unroll
    for (int v = 0; v < K; ++v) {
      const float given = upper() ? sum[0][v] : sum[1][v];
      own[v] = (upper() ? sum[1][v] : sum[0][v]) + __shfl_xor_sync(kAll, given, kWarp / 2);
    }
  }
  // Of the two samples.
  __device__ __forceinline__ float& of_sample(int coefficient, int s) const {
    return this->at(coefficient + s * layout.rows_apart);
  }
  // += coefficient m.
  __device__ __forceinline__ void add(int coefficient, const float (&m)[2][K],
                                      float (&sum)[2][K]) const {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const float by = of_sample(coefficient, s);
#pragma unroll
      for (int v = 0; v < K; ++v) sum[s][v] += by * m[s][v];
    }
  }
  // += g / r m, where r are the sums of the rows m; a row without a positive entry is uniform.
  __device__ __forceinline__ void add_normalised(int g, const float (&r)[2], const float (&m)[2][K],
                                                 float (&sum)[2][K]) const {
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const bool uniform = r[s] == 0.0f;
      const float by = of_sample(g, s) / (uniform ? static_cast<float>(batch.classes) : r[s]);
#pragma unroll
      for (int v = 0; v < K; ++v) sum[s][v] += by * (uniform ? 1.0f : m[s][v]);
    }
  }
};

}  // namespace ptd
