// CUDA C++ for g++: enough of the language and of its libraries to compile torch-free kernel
// files and run them on the CPU, one fiber per CUDA thread. Included by csrc/cuda/common/launch.h.
#pragma once

#include "api/arithmetic.h"
#include "api/atomics.h"
#include "api/host.h"
#include "api/language.h"
#include "api/synchronisation.h"
#include "api/vectors.h"
