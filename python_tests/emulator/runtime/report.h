// Reports of errors, in words. The first error of a launch is kept; it ends the launch.
#pragma once

#include <cstdint>
#include <source_location>
#include <string>

#include "../api/vectors.h"

namespace cuda_emulator {

// Ends the launch from inside a thread: names kernel, block and thread, and leaves its fiber.
[[noreturn]] void fail(const std::string& what);

// An error of the launch that no running thread found, and one of the code around it.
void fail_launch(const std::string& what);
void fail_host(const std::string& what);

bool failed();

std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
std::string describe(uint3 index);
std::string describe(const std::source_location& place);

// "[library+0x1234]", which the harness turns into file and line.
std::string describe_code(const void* address);

// The kernel's full name with its template arguments, where the linker knows it.
std::string kernel_name(const char* as_written, const void* function);

}  // namespace cuda_emulator
