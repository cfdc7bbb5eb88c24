// The loaded library that a kernel is part of.
#pragma once

#include <cstddef>

namespace cuda_emulator {

struct Library {
  char* begin = nullptr;
  char* end = nullptr;
  char* thread_local_begin = nullptr;  // its __shared__ variables, see api/language.h
  size_t thread_local_bytes = 0;

  bool contains(const void* address) const { return begin <= address && address < end; }
  static Library of(const void* code);
};

}  // namespace cuda_emulator
