// For everything that the CPU kernels call. They are compiled once per instruction set into their
// own namespace (PTD_ISA); always inlined, no helper leaves a shared symbol behind that would run
// on a machine without that instruction set.
#pragma once

#define PTD_INLINE inline __attribute__((always_inline))
