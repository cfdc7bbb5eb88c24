// Calls by which torch glue tells the emulator of its memory: see api/host.h.
#include "common/launch.h"

extern "C" void allocate(void* begin, int64_t bytes) { cuda_emulator::allocated(begin, bytes); }

extern "C" void hand_over(void* begin, int64_t bytes) { cuda_emulator::watch(begin, bytes); }
