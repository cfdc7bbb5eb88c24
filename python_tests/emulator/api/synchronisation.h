// Barriers, warp shuffles, votes and fences.
//
// Every function takes the place it is called from as a defaulted argument: reports name it, and
// two __syncthreads of different places are different barriers.
#pragma once

#include <bit>
#include <cstdint>
#include <source_location>
#include <type_traits>

namespace cuda_emulator {

using Place = std::source_location;

enum class Shuffle { index, up, down, exclusive_or };

// Meets the lanes of `mask` and returns the value that the selected lane brought.
uint64_t shuffle(Shuffle kind, unsigned mask, uint64_t value, unsigned operand, int width, Place);
// Meets the lanes of `mask` and returns the set of those whose predicate holds.
unsigned ballot(const char* intrinsic, unsigned mask, bool predicate, Place);
void sync_block(Place);
void sync_warp(unsigned mask, Place);
unsigned active_mask();
// Points at which another thread may run. Fibers take turns, so that fences change no value; the
// first tells the search for races between blocks what has been published.
void fence(Place);
void block_fence(Place);

template <typename T>
T shuffle_as(Shuffle kind, unsigned mask, T value, unsigned operand, int width, Place place) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move values of 4 or 8 bytes");
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const uint64_t bits = std::bit_cast<Bits>(value);
  return std::bit_cast<T>(static_cast<Bits>(shuffle(kind, mask, bits, operand, width, place)));
}

}  // namespace cuda_emulator

inline void __syncthreads(cuda_emulator::Place place = cuda_emulator::Place::current()) {
  cuda_emulator::sync_block(place);
}

inline void __syncwarp(unsigned mask = 0xffffffff,
                       cuda_emulator::Place place = cuda_emulator::Place::current()) {
  cuda_emulator::sync_warp(mask, place);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32,
              cuda_emulator::Place place = cuda_emulator::Place::current()) {
  using enum cuda_emulator::Shuffle;
  return cuda_emulator::shuffle_as(index, mask, value, lane, width, place);
}

template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 cuda_emulator::Place place = cuda_emulator::Place::current()) {
  using enum cuda_emulator::Shuffle;
  return cuda_emulator::shuffle_as(up, mask, value, delta, width, place);
}

template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   cuda_emulator::Place place = cuda_emulator::Place::current()) {
  using enum cuda_emulator::Shuffle;
  return cuda_emulator::shuffle_as(down, mask, value, delta, width, place);
}

template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  cuda_emulator::Place place = cuda_emulator::Place::current()) {
  using enum cuda_emulator::Shuffle;
  return cuda_emulator::shuffle_as(exclusive_or, mask, value, lane_mask, width, place);
}

inline int __any_sync(unsigned mask, int predicate,
                      cuda_emulator::Place place = cuda_emulator::Place::current()) {
  return cuda_emulator::ballot("__any_sync", mask, predicate, place) != 0;
}

inline int __all_sync(unsigned mask, int predicate,
                      cuda_emulator::Place place = cuda_emulator::Place::current()) {
  return cuda_emulator::ballot("__all_sync", mask, predicate, place) == mask;
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              cuda_emulator::Place place = cuda_emulator::Place::current()) {
  return cuda_emulator::ballot("__ballot_sync", mask, predicate, place);
}

inline unsigned __activemask() { return cuda_emulator::active_mask(); }

inline void __threadfence(cuda_emulator::Place place = cuda_emulator::Place::current()) {
  cuda_emulator::fence(place);
}

inline void __threadfence_block(cuda_emulator::Place place = cuda_emulator::Place::current()) {
  cuda_emulator::block_fence(place);
}
