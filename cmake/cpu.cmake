# The CPU operators. Files under csrc/cpu named *kernels.cpp are compiled once per instruction set,
# with PTD_ISA naming it; the rest once, for any machine. csrc/cpu/simd/isa.h chooses at run time.
# Headers are named from csrc/cpu or from csrc.
set(processor "${CMAKE_OSX_ARCHITECTURES}")
if(NOT processor)
  set(processor "${CMAKE_SYSTEM_PROCESSOR}")
endif()

set(PTD_CPU_VARIANTS portable)
set(flags_portable "")
if(processor MATCHES "^(x86_64|amd64|AMD64)$")
  list(APPEND PTD_CPU_VARIANTS avx2 avx512)
  set(flags_avx2 -mavx2 -mfma -mf16c)
  set(flags_avx512 ${flags_avx2} -mavx512f -mavx512dq -mavx512bw -mavx512vl
                   -mprefer-vector-width=512)
endif()

set(PTD_EXT_CPU_VARIANTS "" CACHE STRING "Instruction sets to build for; empty for all")
if(PTD_EXT_CPU_VARIANTS)
  set(PTD_CPU_VARIANTS ${PTD_EXT_CPU_VARIANTS})
endif()
include(cmake/sanitize.cmake)

file(GLOB cpu_sources CONFIGURE_DEPENDS csrc/*.cpp)
file(GLOB_RECURSE cpu_folder_sources CONFIGURE_DEPENDS csrc/cpu/*.cpp)
list(APPEND cpu_sources ${cpu_folder_sources})
list(REMOVE_ITEM cpu_sources ${CMAKE_CURRENT_SOURCE_DIR}/csrc/module.cpp)
set(cpu_kernel_sources ${cpu_sources})
list(FILTER cpu_kernel_sources INCLUDE REGEX "/csrc/cpu/.*kernels\\.cpp$")
if(cpu_kernel_sources)
  list(REMOVE_ITEM cpu_sources ${cpu_kernel_sources})
endif()

# Contraction lets a*b+c be one rounding instead of two. Flags that change what infinities and NaN
# mean (-ffast-math) are out: masked classes have logits of minus infinity.
set(kernel_flags -O3 -ffp-contract=fast -fno-math-errno -Wall -Wextra)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # g++ 12 warns of its own AVX-512 header
  list(APPEND kernel_flags -Wno-maybe-uninitialized -Wno-uninitialized)
endif()

# The order of variants matters. An inline function that two variants share is kept once, from the
# first object that holds it: with the widest instruction set last, never one the CPU may lack.
set(PTD_CPU_DEFINITIONS "")
set(kernel_objects "")
foreach(variant IN LISTS PTD_CPU_VARIANTS)
  string(TOUPPER ${variant} VARIANT)
  list(APPEND PTD_CPU_DEFINITIONS PTD_HAVE_${VARIANT})
  if(cpu_kernel_sources)
    add_library(kernels_${variant} OBJECT ${cpu_kernel_sources})
    target_include_directories(kernels_${variant} PRIVATE csrc/cpu csrc)
    target_compile_definitions(kernels_${variant} PRIVATE PTD_ISA=${variant})
    target_compile_options(kernels_${variant} PRIVATE ${kernel_flags} ${flags_${variant}}
                                                      ${sanitize_flags})
    target_link_libraries(kernels_${variant} PRIVATE torch_stable)
    list(APPEND kernel_objects $<TARGET_OBJECTS:kernels_${variant}>)
  endif()
endforeach()

ptd_ops_library(_ops_cpu ${cpu_sources} ${kernel_objects} ${sanitize_sources})
target_include_directories(_ops_cpu PRIVATE csrc/cpu)
target_compile_definitions(_ops_cpu PRIVATE ${PTD_CPU_DEFINITIONS})
target_compile_options(_ops_cpu PRIVATE ${sanitize_flags})
target_link_options(_ops_cpu PRIVATE ${sanitize_flags} ${sanitize_link_flags})
