// dim3 and the built-in vector types, with the alignment they have on the device.
#pragma once

struct uint3 {
  unsigned x, y, z;
};

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
};

#define CUDA_EMULATOR_VECTORS(type, name)                             \
  struct alignas(2 * sizeof(type)) name##2 { type x, y; };            \
  struct alignas(16) name##4 { type x, y, z, w; };                    \
  constexpr name##2 make_##name##2(type x, type y) { return {x, y}; } \
  constexpr name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }

CUDA_EMULATOR_VECTORS(int, int)
CUDA_EMULATOR_VECTORS(unsigned, uint)
CUDA_EMULATOR_VECTORS(float, float)
CUDA_EMULATOR_VECTORS(long long, longlong)
CUDA_EMULATOR_VECTORS(double, double)

#undef CUDA_EMULATOR_VECTORS
