#include "race.h"

#include <algorithm>
#include <bit>
#include <string>

#include "block.h"
#include "launch.h"
#include "report.h"

namespace cuda_emulator {

Races races;

const char* verb(Touch touch) {
  switch (touch) {
    case Touch::read:
      return "reads";
    case Touch::write:
      return "writes";
    case Touch::atomic:
      return "atomically updates";
  }
  return "";
}

namespace {

uint32_t warp_of(const Access& access) { return access.thread / 32; }
uint32_t lane_of(const Access& access) { return access.thread % 32; }

}  // namespace

void SharedRegion::set(const char* new_kind, char* new_begin, size_t new_bytes) {
  kind = new_kind;
  begin = new_begin;
  bytes = new_bytes;
  if (cells.size() < bytes) cells.resize(bytes);
}

void Races::start_block() {
  ++block_;
  block_barrier();
  const size_t warps = (current_launch.threads() + 31) / 32;
  while (clocks_.size() < warps) {
    Clocks& clocks = clocks_.emplace_back();
    for (size_t lane = 0; lane < 32; ++lane) clocks[lane][lane] = 1;
  }
}

void Races::block_barrier() {
  ++epoch_;
  pool_.resize(1);
}

void Races::warp_barrier(uint32_t warp, unsigned mask) {
  Clocks& clocks = clocks_[warp];
  std::array<uint32_t, 32> joined{};
  for (unsigned rest = mask; rest; rest &= rest - 1) {
    const auto& known = clocks[std::countr_zero(rest)];
    for (size_t i = 0; i < 32; ++i) joined[i] = std::max(joined[i], known[i]);
  }
  for (unsigned rest = mask; rest; rest &= rest - 1) {
    const int lane = std::countr_zero(rest);
    clocks[lane] = joined;
    ++clocks[lane][lane];
  }
}

Access Races::now(const void* code) const {
  const Thread& self = block.current();
  return {epoch_, clocks_[self.warp()][self.lane()][self.lane()], self.number, code};
}

const std::array<uint32_t, 32>& Races::known_clocks() const {
  const Thread& self = block.current();
  return clocks_[self.warp()][self.lane()];
}

bool Races::ordered(const Access& earlier) const {
  const Thread& self = block.current();
  if (earlier.epoch < epoch_ || earlier.thread == self.number) return true;
  return warp_of(earlier) == self.warp() &&
         clocks_[self.warp()][self.lane()][lane_of(earlier)] >= earlier.clock;
}

const Access* Races::unordered(const Access& access) const {
  return ordered(access) ? nullptr : &access;
}

const Access* Races::unordered(const AccessSet& set) const {
  if (!ordered(set.other_warp)) return &set.other_warp;
  if (set.latest.epoch < epoch_) return nullptr;
  if (!set.lanes) return unordered(set.latest);
  for (const Access& access : pool_[set.lanes]) {
    if (!ordered(access)) return &access;
  }
  return nullptr;
}

void Races::add(AccessSet& set, const Access& access) {
  if (set.latest.epoch < epoch_) {
    set = {access, {}, 0};
  } else if (warp_of(set.latest) != warp_of(access)) {
    set.other_warp = access;
  } else if (set.lanes) {
    pool_[set.lanes][lane_of(access)] = access;
  } else if (ordered(set.latest)) {
    set.latest = access;
  } else {
    set.lanes = static_cast<uint32_t>(pool_.size());
    Lanes& lanes = pool_.emplace_back();
    lanes[lane_of(set.latest)] = set.latest;
    lanes[lane_of(access)] = access;
  }
}

void Races::on_access(SharedRegion& region, const void* address, size_t bytes, Touch touch,
                      const void* code) {
  const Access access = now(code);
  const size_t first = static_cast<const char*>(address) - region.begin;
  const auto fail_here = [&](const std::string& why) {
    fail(why +
         format("%s %zu bytes at byte %zu of %s shared memory ", verb(touch), bytes, first,
                region.kind) +
         describe_code(code));
  };
  const auto fail_race = [&](const Access& earlier, Touch earlier_touch) {
    const Thread& other = *block.lane(warp_of(earlier), lane_of(earlier));
    fail(format("race on %s shared memory: %s %zu bytes at byte %zu ", region.kind, verb(touch),
                bytes, first) +
         describe_code(code) + ", which thread " + describe(other.index) + " " +
         verb(earlier_touch) + " " + describe_code(earlier.code) + " with no barrier between");
  };
  for (size_t i = first; i < first + bytes; ++i) {
    Cell& cell = region.cells[i];
    if (const Access* earlier = unordered(cell.write)) fail_race(*earlier, Touch::write);
    if (touch != Touch::read) {
      if (const Access* earlier = unordered(cell.reads)) fail_race(*earlier, Touch::read);
    }
    if (touch != Touch::atomic) {
      if (const Access* earlier = unordered(cell.atomics)) fail_race(*earlier, Touch::atomic);
    }
    if (touch == Touch::write) {
      cell = {access, {}, {}, block_};
      continue;
    }
    if (check_initialised && cell.written_in_block != block_) {
      fail_here("uninitialised: ");
    }
    add(touch == Touch::read ? cell.reads : cell.atomics, access);
  }
}

}  // namespace cuda_emulator
