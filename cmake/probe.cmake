# Asks backend/ptd_ext_probe.py which torch and which CUDA toolkit to build with. Its answers are
# the same ones that the build backend checks, so plain cmake gives the same error messages.
#
# find_package(Torch) is not used: under build isolation it can find another environment's torch,
# and with a CUDA torch it imposes its own list of architectures.
set(PTD_EXT_CUDA "$ENV{PTD_EXT_CUDA}" CACHE STRING "Build the CUDA kernels: auto, on or off")
set(PTD_EXT_CUDA_ARCHS "$ENV{PTD_EXT_CUDA_ARCHS}"
    CACHE STRING "GPU architectures, such as 75;80;90; empty for all usual ones")

set(cuda_choice "${PTD_EXT_CUDA}")
if(NOT cuda_kernel_sources AND cuda_choice MATCHES "^(auto)?$")
  set(cuda_choice off)
endif()

set(probe_script ${CMAKE_CURRENT_SOURCE_DIR}/backend/ptd_ext_probe.py)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${probe_script})
execute_process(
  COMMAND ${Python_EXECUTABLE} ${probe_script} "--cuda=${cuda_choice}"
          "--archs=${PTD_EXT_CUDA_ARCHS}"
  OUTPUT_VARIABLE probe_answers
  ERROR_VARIABLE probe_error
  RESULT_VARIABLE probe_status
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
if(NOT probe_status EQUAL 0)
  message(FATAL_ERROR "${probe_error}")
endif()

# Each line is NAME=value and becomes the variable PTD_NAME; a list is separated by spaces.
string(REPLACE "\n" ";" probe_answers "${probe_answers}")
foreach(answer IN LISTS probe_answers)
  string(REGEX MATCH "^([A-Z_]+)=(.*)$" _ "${answer}")
  set(PTD_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
endforeach()
string(REPLACE " " ";" PTD_CUDA_ARCHS "${PTD_CUDA_ARCHS}")

message(STATUS "torch ${PTD_TORCH_VERSION} in ${PTD_TORCH_DIR}")
