// Marks every function that the CPU kernels call. The kernels are compiled once per instruction
// set, each time in a namespace of its own (PTD_ISA). Because helpers are always inlined, none
// leaves a shared symbol that could run on a machine without that instruction set.
#pragma once

#define PTD_INLINE inline __attribute__((always_inline))
// The same for a lambda, after its parameters.
#define PTD_INLINE_LAMBDA __attribute__((always_inline))
