// The launch that runs, or ran last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "../api/host.h"
#include "library.h"
#include "race.h"

namespace cuda_emulator {

class Launch {
 public:
  Launch() = default;
  Launch(const Call& call, dim3 block);

  std::string name() const;
  dim3 block() const { return block_; }
  uint32_t threads() const { return block_.x * block_.y * block_.z; }
  void invoke() const { call_.invoke(call_.params); }
  // `resident` tells blocks that run at once apart.
  void place_shared(size_t dynamic_bytes, size_t resident) const;
  void poison_shared() const;

  // Memory that is neither an array nor shared: the parameters, and the library's constants.
  bool owns(const void* address) const {
    const auto* at = static_cast<const char*>(address);
    return static_cast<size_t>(at - static_cast<char*>(call_.params)) < call_.params_bytes ||
           library_.contains(address);
  }

 private:
  Call call_{};
  dim3 block_;
  Library library_;
};

extern Launch current_launch;
extern SharedRegion static_shared;
extern SharedRegion dynamic_shared_region;

}  // namespace cuda_emulator
