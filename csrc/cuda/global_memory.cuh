// How global memory is read: asked for ahead, once, or again and again.
#pragma once

#include "scalar.cuh"

namespace ptd {

// Asks for what is at an address, so that it is in L2 when it is read.
__device__ __forceinline__ void prefetch(const void* address, bool wanted = true) {
#if defined(__CUDA_ARCH__)
  asm volatile("{ .reg .pred wanted; setp.ne.s32 wanted, %1, 0; @wanted prefetch.global.L2 [%0]; }"
               :
               : "l"(address), "r"(int(wanted)));
#else
  static_cast<void>(address);
  static_cast<void>(wanted);
#endif
}

// The same, so that it is in this multiprocessor's first-level cache.
__device__ __forceinline__ void prefetch_near(const void* address) {
#if defined(__CUDA_ARCH__)
  asm volatile("prefetch.global.L1 [%0];" : : "l"(address));
#else
  static_cast<void>(address);
#endif
}

#if defined(__CUDA_ARCH__)
template <int kBytes>
struct Bits;
template <>
struct Bits<2> {
  using type = unsigned short;
};
template <>
struct Bits<4> {
  using type = unsigned;
};
template <>
struct Bits<8> {
  using type = uint2;
};
template <>
struct Bits<16> {
  using type = uint4;
};
template <class X>
__device__ __forceinline__ auto bits_at(const X* from) {
  return reinterpret_cast<const typename Bits<sizeof(X)>::type*>(from);
}
template <class X, class Word>
__device__ __forceinline__ X of_bits(const Word& bits) {
  X x;
  memcpy(&x, &bits, sizeof(X));
  return x;
}
#endif

// What is at an address of global memory, and is not read again: it takes no room in the
// first-level cache.
template <class X>
__device__ __forceinline__ X read_once(const X* from) {
#if defined(__CUDA_ARCH__)
  return of_bits<X>(__ldcg(bits_at(from)));
#else
  return *from;
#endif
}
template <class T, class S>
__device__ __forceinline__ T load_once(const S* from) {
  const S x = read_once(from);
  return load<T>(&x);
}
// What is read again and again, and written by nobody.
template <class X>
__device__ __forceinline__ X read_often(const X* from) {
#if defined(__CUDA_ARCH__)
  return of_bits<X>(__ldg(bits_at(from)));
#else
  return *from;
#endif
}

// What is some bytes further on. As sums of 32 bits: compilers take a multiply-add of 64 for it,
// which is as dear as two products.
template <class T>
__device__ __forceinline__ const T* bytes_on(const T* from, unsigned bytes) {
#if defined(__CUDA_ARCH__)
  asm("{ .reg .u32 low, high; mov.b64 {low, high}, %0; add.cc.u32 low, low, %1;"
      "  addc.u32 high, high, 0; mov.b64 %0, {low, high}; }"
      : "+l"(from)
      : "r"(bytes));
  return from;
#else
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(from) + bytes);
#endif
}

}  // namespace ptd
