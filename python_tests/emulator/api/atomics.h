// Atomic operations; each returns the old value. Defined in the runtime, which is not instrumented,
// so that their accesses are not taken for plain ones.
#pragma once

using cuda_emulator_u64 = unsigned long long;

int atomicAdd(int* address, int value);
unsigned atomicAdd(unsigned* address, unsigned value);
cuda_emulator_u64 atomicAdd(cuda_emulator_u64* address, cuda_emulator_u64 value);
float atomicAdd(float* address, float value);
double atomicAdd(double* address, double value);

int atomicMin(int* address, int value);
unsigned atomicMin(unsigned* address, unsigned value);
cuda_emulator_u64 atomicMin(cuda_emulator_u64* address, cuda_emulator_u64 value);

int atomicMax(int* address, int value);
unsigned atomicMax(unsigned* address, unsigned value);
cuda_emulator_u64 atomicMax(cuda_emulator_u64* address, cuda_emulator_u64 value);

int atomicOr(int* address, int value);
unsigned atomicOr(unsigned* address, unsigned value);

// (old >= limit) ? 0 : old + 1
unsigned atomicInc(unsigned* address, unsigned limit);

int atomicExch(int* address, int value);
unsigned atomicExch(unsigned* address, unsigned value);
cuda_emulator_u64 atomicExch(cuda_emulator_u64* address, cuda_emulator_u64 value);
float atomicExch(float* address, float value);

int atomicCAS(int* address, int compare, int value);
unsigned atomicCAS(unsigned* address, unsigned compare, unsigned value);
cuda_emulator_u64 atomicCAS(cuda_emulator_u64* address, cuda_emulator_u64 compare,
                            cuda_emulator_u64 value);
