# The torch to build against, and what every operator library has in common.
foreach(library cpu cuda)
  set(file "${PTD_TORCH_DIR}/lib/libtorch_${library}${CMAKE_SHARED_LIBRARY_SUFFIX}")
  if(EXISTS ${file})
    add_library(torch_${library} SHARED IMPORTED)
    set_target_properties(torch_${library} PROPERTIES IMPORTED_LOCATION ${file})
  endif()
endforeach()

# Usage requirements of code that includes torch's stable headers.
add_library(torch_stable INTERFACE)
target_include_directories(torch_stable SYSTEM INTERFACE ${PTD_TORCH_DIR}/include)
# Restricts the headers to what torch 2.10 exports, whichever torch they come from.
target_compile_definitions(torch_stable INTERFACE TORCH_TARGET_VERSION=0x020a000000000000ULL)

# The package folder lies beside torch's. Where it does not (an editable install, --target), the
# library that `import torch` has loaded serves, since it has the same name.
set(torch_rpath "$<IF:$<PLATFORM_ID:Darwin>,@loader_path,$ORIGIN>/../torch/lib")

# ptd_ops_library(<name> <source>...): a library for torch.ops.load_library, not for `import`.
function(ptd_ops_library name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(
    ${name} PROPERTIES PREFIX "" SUFFIX ".so" INSTALL_RPATH "${torch_rpath}"
                       BUILD_WITH_INSTALL_RPATH ON)
  target_include_directories(${name} PRIVATE csrc)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra>)
  target_link_libraries(${name} PRIVATE torch_stable torch_cpu)
  if(NOT APPLE) # where the linker refuses undefined symbols by itself
    target_link_options(${name} PRIVATE LINKER:-z,defs)
  endif()
  install(TARGETS ${name} LIBRARY DESTINATION ptd_ext)
endfunction()
