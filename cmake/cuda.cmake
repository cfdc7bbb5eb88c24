# The CUDA operators: *.cu under csrc/cuda are kernels and launchers that include no torch header,
# *.cpp hand them torch's tensors. Headers are named from csrc/cuda or from csrc.
set(PTD_CUDA_VERSION "")
if(NOT PTD_NVCC)
  message(STATUS "CUDA kernels: off")
  return()
endif()
if(NOT cuda_kernel_sources)
  message(FATAL_ERROR "PTD_EXT_CUDA=on, but csrc/cuda holds no kernels.")
endif()

# Machine code for every architecture, and PTX of the newest for GPUs that come after it.
list(TRANSFORM PTD_CUDA_ARCHS APPEND -real OUTPUT_VARIABLE CMAKE_CUDA_ARCHITECTURES)
list(POP_BACK CMAKE_CUDA_ARCHITECTURES)
list(GET PTD_CUDA_ARCHS -1 newest_arch)
list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest_arch})
message(STATUS "CUDA kernels: ${PTD_NVCC} for ${CMAKE_CUDA_ARCHITECTURES}")

set(CMAKE_CUDA_COMPILER ${PTD_NVCC})
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION) # CMake before 3.26 does not know that nvcc 12 has it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
find_package(CUDAToolkit REQUIRED)
set(PTD_CUDA_VERSION ${CUDAToolkit_VERSION_MAJOR}.${CUDAToolkit_VERSION_MINOR})

# A CPU torch lacks libtorch_cuda. Of it only one function is used, so that a library of that name
# with that function is enough to link; at run time torch's own takes its place.
if(NOT TARGET torch_cuda)
  add_library(torch_cuda SHARED cmake/torch_cuda_stand_in.cpp)
endif()

file(GLOB_RECURSE cuda_glue_sources CONFIGURE_DEPENDS csrc/cuda/*.cpp)
ptd_ops_library(_ops_cuda ${cuda_kernel_sources} ${cuda_glue_sources})
target_include_directories(_ops_cuda PRIVATE csrc/cuda)
target_compile_definitions(_ops_cuda PRIVATE USE_CUDA)
target_compile_options(_ops_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall>)
target_link_libraries(_ops_cuda PRIVATE torch_cuda CUDA::cudart_static)
