// The forward loss as it is first written: a thread per sample, which reads its rows straight from
// memory and has the parts in shared memory as they lie. For v100_model.py to compare with.
#pragma once

namespace ptd {

template <int C>
__global__ void __launch_bounds__(256)
    plain_forward_loss(const float* __restrict__ logits,      // [N, C]
                       const long long* __restrict__ labels,  // [N]
                       const float* __restrict__ weights,     // [N, R]
                       const float* __restrict__ columns,     // [C, R, C]
                       float* __restrict__ losses,            // [N]
                       int samples, int parts) {
  extern __shared__ float shared[];  // [C, R, C]
  for (int at = threadIdx.x; at < C * parts * C; at += blockDim.x) shared[at] = columns[at];
  __syncthreads();
  const int n = blockIdx.x * blockDim.x + threadIdx.x;
  if (n >= samples) return;
  const float* column = shared + int(labels[n]) * parts * C;
  float entry[C] = {};
  for (int j = 0; j < parts; ++j) {
    const float weight = weights[n * parts + j];
    for (int i = 0; i < C; ++i) entry[i] += weight * column[j * C + i];
  }
  float most = logits[n * C];
  for (int i = 1; i < C; ++i) most = fmaxf(most, logits[n * C + i]);
  float all = 0, noisy = 0;
  for (int i = 0; i < C; ++i) {
    const float share = expf(logits[n * C + i] - most);
    all += share;
    noisy += share * entry[i];
  }
  losses[n] = logf(all) - logf(noisy);
}

template __global__ void plain_forward_loss<10>(const float*, const long long*, const float*,
                                                const float*, float*, int, int);

}  // namespace ptd
