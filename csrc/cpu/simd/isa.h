// Selects the compiled variant of the CPU kernels that runs on this machine.
//
// The kernels are compiled once per instruction set and the choice is made here, at run time, so
// that one wheel serves every machine of its architecture. PTD_HAVE_AVX2 and PTD_HAVE_AVX512
// define which variants the build contains; `portable` is always among them.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace ptd {

enum class Isa { portable, avx2, avx512 };

inline const char* isa_name(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return "avx512";
    case Isa::avx2:
      return "avx2";
    case Isa::portable:
      break;
  }
  return "portable";
}

inline bool isa_is_built(Isa isa) {
  switch (isa) {
    case Isa::avx512:
#if defined(PTD_HAVE_AVX512)
      return true;
#else
      return false;
#endif
    case Isa::avx2:
#if defined(PTD_HAVE_AVX2)
      return true;
#else
      return false;
#endif
    case Isa::portable:
      break;
  }
  return true;
}

#if defined(__x86_64__)
// Calls cpuid directly, because not every compiler's __builtin_cpu_supports knows "f16c".
inline bool cpu_has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

// __builtin_cpu_supports also checks that the operating system saves the wide registers.
inline bool cpu_has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && cpu_has_f16c();
}

inline bool cpu_has_avx512() {
  return cpu_has_avx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl");
}
#else
inline bool cpu_has_avx2() { return false; }
inline bool cpu_has_avx512() { return false; }
#endif

inline bool cpu_has(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return cpu_has_avx512();
    case Isa::avx2:
      return cpu_has_avx2();
    case Isa::portable:
      break;
  }
  return true;
}

inline Isa choose_isa() {
  const char* const requested = std::getenv("PTD_EXT_CPU_ISA");
  const bool is_requested = requested != nullptr && *requested != '\0';
  for (const Isa isa : {Isa::avx512, Isa::avx2, Isa::portable}) {
    const bool runs = isa_is_built(isa) && cpu_has(isa);
    if (!is_requested && runs) return isa;
    if (!is_requested || std::string(requested) != isa_name(isa)) continue;
    if (runs) return isa;
    throw std::runtime_error(std::string("PTD_EXT_CPU_ISA=") + requested + " is not supported by " +
                             (isa_is_built(isa) ? "this CPU." : "this build of ptd_ext."));
  }
  throw std::runtime_error(std::string("PTD_EXT_CPU_ISA must be portable, avx2 or avx512, not '") +
                           requested + "'.");
}

// The variant is selected at the first call; later changes of the environment have no effect.
inline Isa selected_isa() {
  static const Isa isa = choose_isa();
  return isa;
}

}  // namespace ptd
