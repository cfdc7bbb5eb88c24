// Meetings of the lanes of a warp: shuffles, votes and __syncwarp. See api/synchronisation.h.
#pragma once

#include <cstdint>
#include <string>

#include "block.h"

namespace cuda_emulator {

// Lets waiting lanes go on that waited only for a lane that has now exited: __syncwarp, alone,
// does not wait for the dead.
void complete_warp_syncs(uint32_t warp);

// Why a lane that waits in a collective will wait for ever.
std::string explain_collective(const Thread& waiting);

}  // namespace cuda_emulator
