#include "report.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "block.h"
#include "launch.h"

namespace cuda_emulator {

namespace {

std::string first_error;
bool has_failed = false;

void keep(const std::string& text) {
  if (has_failed) return;
  has_failed = true;
  first_error = text;
}

}  // namespace

void fail_host(const std::string& what) { keep("host code: " + what); }

void fail_launch(const std::string& what) { keep("kernel " + current_launch.name() + ", " + what); }

void fail(const std::string& what) {
  fail_launch("block " + describe(block.index()) + ", thread " + describe(block.current().index) +
              ": " + what);
  block.leave();
}

bool failed() { return has_failed; }

std::string format(const char* pattern, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof(text), pattern, arguments);
  va_end(arguments);
  return text;
}

std::string describe(uint3 index) { return format("(%u, %u, %u)", index.x, index.y, index.z); }

std::string describe(const std::source_location& place) {
  const std::string file = place.file_name();
  return format("%s:%u", file.substr(file.rfind('/') + 1).c_str(), unsigned{place.line()});
}

std::string describe_code(const void* address) {
  Dl_info info;
  if (!dladdr(address, &info)) return "[unknown code]";
  const auto offset = static_cast<const char*>(address) - static_cast<const char*>(info.dli_fbase);
  return format("[%s+0x%lx]", info.dli_fname, static_cast<unsigned long>(offset));
}

std::string kernel_name(const char* as_written, const void* function) {
  Dl_info info;
  if (dladdr(function, &info) && info.dli_sname && info.dli_saddr == function) {
    int status = 0;
    char* demangled = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
    const std::string name = status == 0 ? demangled : info.dli_sname;
    std::free(demangled);
    return name;
  }
  return as_written;
}

}  // namespace cuda_emulator

// The error since the last call of this function, or null; the caller owns nothing.
extern "C" const char* cuda_emulator_take_error() {
  using namespace cuda_emulator;
  if (!has_failed) return nullptr;
  has_failed = false;
  return first_error.c_str();
}
