// ptd_ext._C describes this build; it can be imported without loading any operator.
//
// Nothing here refers to torch, so the module imports under any torch and its answers can turn a
// mismatch into one clear ImportError.
#include <pybind11/pybind11.h>

#include <sstream>
#include <string>

#include "build_info.h"
#include "cpu/simd/isa.h"

namespace py = pybind11;

namespace {

py::list split(const std::string& words) {
  py::list list;
  std::istringstream stream(words);
  for (std::string word; stream >> word;) list.append(word);
  return list;
}

py::object text_or_none(const std::string& text) {
  if (text.empty()) return py::none();
  return py::str(text);
}

py::dict build_info() {
  py::dict info;
  info["version"] = PTD_EXT_VERSION;
  info["torch"] = PTD_EXT_TORCH_VERSION;
  info["torch_oldest"] = PTD_EXT_TORCH_OLDEST;
  info["compiler"] = PTD_EXT_COMPILER;
  info["build_type"] = PTD_EXT_BUILD_TYPE;
  info["cpu_variants"] = split(PTD_EXT_CPU_VARIANTS);
  info["cuda"] = !std::string(PTD_EXT_CUDA_VERSION).empty();
  info["cuda_version"] = text_or_none(PTD_EXT_CUDA_VERSION);
  info["cuda_archs"] = split(PTD_EXT_CUDA_ARCHS);
  return info;
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  module.doc() = "Describes this build of ptd_ext and the CPU kernels in use.";
  module.def("build_info", &build_info,
             "Returns a dict that describes the build: version, compiler, architectures, "
             "instruction sets.");
  module.def(
      "cpu_isa", [] { return ptd::isa_name(ptd::selected_isa()); },
      "Returns the instruction set that the CPU kernels use on this machine.");
}
