#include "collective.h"

#include <bit>
#include <cstring>

#include "../api/synchronisation.h"
#include "global_race.h"
#include "limits.h"
#include "race.h"
#include "report.h"

namespace cuda_emulator {

namespace {

constexpr const char* kSyncWarp = "__syncwarp";

bool is_sync(const Collective& collective) { return collective.intrinsic == kSyncWarp; }

// Calls `visit(lane, thread)` for each lane of the mask; thread is null where there is none.
template <typename Visit>
void for_each_lane(uint32_t warp, unsigned mask, Visit visit) {
  for (; mask; mask &= mask - 1) {
    const uint32_t lane = std::countr_zero(mask);
    visit(lane, block.lane(warp, lane));
  }
}

bool has_exited(const Thread* thread) { return !thread || thread->state == State::exited; }

bool takes_part(const Thread& thread, const Collective& collective) {
  return thread.state == State::in_collective && thread.collective.mask == collective.mask &&
         std::strcmp(thread.collective.intrinsic, collective.intrinsic) == 0;
}

// Hands out the results if all lanes of the mask have arrived.
bool complete(uint32_t warp, const Collective& collective) {
  uint64_t values[32];
  unsigned ballot = 0;
  unsigned arrived = 0;
  for (unsigned rest = collective.mask; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    const Thread* thread = block.lane(warp, lane);
    if (is_sync(collective) && has_exited(thread)) continue;
    if (!thread || !takes_part(*thread, collective)) return false;
    values[lane] = thread->collective.value;
    arrived |= 1u << lane;
    if (values[lane]) ballot |= 1u << lane;
  }
  if (is_sync(collective)) races.warp_barrier(warp, arrived);
  for_each_lane(warp, arrived, [&](uint32_t, Thread* thread) {
    Collective& own = thread->collective;
    own.result = own.source == kBallot ? ballot : values[own.source];
    if (thread == &block.current()) {
      thread->state = State::ready;
    } else {
      block.make_ready(*thread);
    }
  });
  return true;
}

std::string call(const Collective& collective, const Place& place) {
  return format("%s with mask 0x%08x (%s)", collective.intrinsic, collective.mask,
                describe(place).c_str());
}

uint64_t meet(const Collective& collective, const Place& place) {
  count_work(place);
  Thread& self = block.current();
  if (!(collective.mask >> self.lane() & 1)) {
    fail(format("lane %u calls ", self.lane()) + call(collective, place) +
         ", which does not name the lane itself");
  }
  if (!is_sync(collective)) {
    for_each_lane(self.warp(), collective.mask, [&](uint32_t lane, const Thread* thread) {
      if (!has_exited(thread)) return;
      fail(call(collective, place) + format(" names lane %u, which ", lane) +
           (thread ? "has exited" : "the block does not have"));
    });
  }
  self.collective = collective;
  self.place = place;
  self.state = State::in_collective;
  if (!complete(self.warp(), collective)) block.wait(State::in_collective, place);
  return self.collective.result;
}

// The lane a shuffle reads; its own where the selected lane is outside the segment.
int source_lane(Shuffle kind, int lane, unsigned operand, int width) {
  const int first = lane & ~(width - 1);
  const int last = first + width - 1;
  const auto delta = static_cast<int64_t>(operand);
  switch (kind) {
    case Shuffle::index:
      return first | static_cast<int>(operand & (width - 1));
    case Shuffle::up:
      return lane - delta < first ? lane : static_cast<int>(lane - delta);
    case Shuffle::down:
      return lane + delta > last ? lane : static_cast<int>(lane + delta);
    case Shuffle::exclusive_or:
      // Lanes of earlier segments can be read, as on the device.
      return (lane ^ delta) > last ? lane : static_cast<int>(lane ^ delta);
  }
  return lane;
}

const char* name(Shuffle kind) {
  switch (kind) {
    case Shuffle::index:
      return "__shfl_sync";
    case Shuffle::up:
      return "__shfl_up_sync";
    case Shuffle::down:
      return "__shfl_down_sync";
    case Shuffle::exclusive_or:
      return "__shfl_xor_sync";
  }
  return "";
}

}  // namespace

uint64_t shuffle(Shuffle kind, unsigned mask, uint64_t value, unsigned operand, int width,
                 Place place) {
  Collective collective{name(kind), mask, value, 0, 0};
  if (width < 1 || width > 32 || !std::has_single_bit(static_cast<unsigned>(width))) {
    fail(call(collective, place) + format(" has width %d, not a power of two up to 32", width));
  }
  const auto lane = static_cast<int>(block.current().lane());
  collective.source = source_lane(kind, lane, operand, width);
  if (!(mask >> collective.source & 1)) {
    fail(format("lane %d calls ", lane) + call(collective, place) +
         format(" and reads lane %d, which the mask does not name", collective.source));
  }
  return meet(collective, place);
}

unsigned ballot(const char* intrinsic, unsigned mask, bool predicate, Place place) {
  return static_cast<unsigned>(meet({intrinsic, mask, predicate, kBallot, 0}, place));
}

void sync_block(Place place) { block.barrier(place); }

void sync_warp(unsigned mask, Place place) { meet({kSyncWarp, mask, 0, kBallot, 0}, place); }

// The least that hardware promises: threads of a warp need not run together unless they are made
// to, so code that takes its mask from here is caught reading lanes outside it.
unsigned active_mask() { return 1u << block.current().lane(); }

void fence(Place place) {
  count_work(place);
  block.maybe_switch();
  if (global_races.watching()) global_races.fence();
}

void block_fence(Place place) {
  count_work(place);
  block.maybe_switch();
}

void complete_warp_syncs(uint32_t warp) {
  for_each_lane(warp, 0xffffffff, [&](uint32_t, const Thread* thread) {
    if (thread && thread->state == State::in_collective && is_sync(thread->collective)) {
      complete(warp, thread->collective);
    }
  });
}

std::string explain_collective(const Thread& waiting) {
  std::string missing;
  for_each_lane(waiting.warp(), waiting.collective.mask, [&](uint32_t lane, const Thread* thread) {
    if (!thread || !missing.empty() || takes_part(*thread, waiting.collective)) return;
    missing = format("lane %u ", lane) + whereabouts(*thread);
  });
  return "block " + describe(block.index()) + ", thread " + describe(waiting.index) + ": " +
         call(waiting.collective, waiting.place) + " waits for lanes that do not come: " + missing;
}

}  // namespace cuda_emulator
