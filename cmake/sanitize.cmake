# Builds for finding faults in the CPU operators; python_tests/sanitizers/run.py makes and runs them.
#   -DPTD_EXT_SANITIZE=address   AddressSanitizer and UndefinedBehaviorSanitizer
#   -DPTD_EXT_SANITIZE=thread    ThreadSanitizer, with threads that it can follow
set(PTD_EXT_SANITIZE "" CACHE STRING "Sanitizer of the CPU operators: address or thread")
set(sanitize_flags "")
set(sanitize_sources "")
set(sanitize_link_flags "")
if(PTD_EXT_SANITIZE STREQUAL address)
  set(sanitize_flags -fsanitize=address,undefined -fno-sanitize-recover=undefined)
elseif(PTD_EXT_SANITIZE STREQUAL thread)
  set(sanitize_flags -fsanitize=thread)
  set(sanitize_sources python_tests/sanitizers/parallel_for.cpp)
  set(sanitize_link_flags LINKER:-Bsymbolic-functions) # rather than torch's functions of that name
elseif(PTD_EXT_SANITIZE)
  message(FATAL_ERROR "PTD_EXT_SANITIZE is ${PTD_EXT_SANITIZE}; expected address or thread")
endif()

if(PTD_EXT_SANITIZE)
  # Only plain loads and stores are checked, not masked intrinsics: so no variant but the portable
  # one. Less optimisation keeps the compiler from taking minutes.
  set(PTD_CPU_VARIANTS portable)
  list(APPEND sanitize_flags -g1 -O1 -fno-omit-frame-pointer)
endif()
