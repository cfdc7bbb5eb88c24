#include "global_race.h"

#include <algorithm>
#include <string>

#include "block.h"
#include "launch.h"
#include "report.h"

namespace cuda_emulator {

GlobalRaces global_races;

namespace {

void join(std::vector<uint64_t>& into, const std::vector<uint64_t>& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

std::string describe_touch(Touch touch, bool strong) {
  const bool is_volatile = strong && touch != Touch::atomic;
  return verb(touch) + std::string(is_volatile ? " (volatile)" : "");
}

}  // namespace

void GlobalRaces::start_launch() {
  end_launch();
  watching_ = true;
}

void GlobalRaces::end_launch() { *this = GlobalRaces(); }

uint32_t GlobalRaces::start_block(uint3 index) {
  blocks_.push_back({index, {}, 0, {}});
  return static_cast<uint32_t>(blocks_.size() - 1);
}

bool GlobalRaces::Fence::publishes(const Access& access) const {
  return thread.thread == access.thread || thread.epoch > access.epoch ||
         (thread.thread / 32 == access.thread / 32 && known[access.thread % 32] >= access.clock);
}

void GlobalRaces::fence() {
  std::vector<Fence>& fences = blocks_[block.order()].fences;
  const Fence fence{time_ + 1, races.now(nullptr), races.known_clocks()};
  // A fence in a loop that waits publishes nothing new, and would be one of millions.
  if (!fences.empty() && fences.back().time > blocks_[block.order()].last_weak &&
      fences.back().thread.same_moment(fence.thread)) {
    return;
  }
  ++time_;
  fences.push_back(fence);
}

GlobalCell& GlobalRaces::cell(const char* address) {
  const auto number = reinterpret_cast<uintptr_t>(address) / kPage;
  if (!recent_ || number != recent_number_) {
    std::unique_ptr<Page>& page = pages_[number];
    if (!page) page = std::make_unique<Page>();
    recent_ = page.get();
    recent_number_ = number;
  }
  return (*recent_)[reinterpret_cast<uintptr_t>(address) % kPage];
}

// A strong access of the running thread: a read learns what earlier writes left, a write leaves
// what its block has published and knows.
void GlobalRaces::pass_on(const void* address, Touch touch) {
  BlockHistory& self = blocks_[block.order()];
  if (touch == Touch::write) left_.erase(address);
  if (const auto found = left_.find(address); found != left_.end()) join(self.seen, found->second);
  if (touch == Touch::read || self.fences.empty()) return;
  if (self.seen.size() <= block.order()) self.seen.resize(block.order() + 1);
  self.seen[block.order()] = time_;
  join(left_[address], self.seen);
}

uint64_t GlobalRaces::published(const GlobalAccess& access) const {
  const auto& fences = blocks_[access.block].fences;
  const auto later = [](uint64_t time, const Fence& fence) { return time < fence.time; };
  auto fence = std::upper_bound(fences.begin(), fences.end(), access.time, later);
  while (fence != fences.end() && !fence->publishes(access.thread)) ++fence;
  return fence == fences.end() ? kNever : fence->time;
}

// The earlier access, if the two race.
const GlobalAccess* GlobalRaces::conflict(const GlobalAccess& earlier,
                                          const GlobalAccess& access) const {
  if (earlier.block == GlobalAccess::kNobody || earlier.block == access.block) return nullptr;
  if (earlier.strong && access.strong) return nullptr;
  const Times& seen = blocks_[access.block].seen;
  const uint64_t known = earlier.block < seen.size() ? seen[earlier.block] : 0;
  const uint64_t since = earlier.strong ? earlier.time : published(earlier);
  return since <= known ? nullptr : &earlier;
}

void GlobalRaces::on_access(const Array& array, const void* address, size_t bytes, Touch touch,
                            const void* code, bool strong) {
  if (strong) {
    ++time_;
    pass_on(address, touch);
  } else {
    blocks_[block.order()].last_weak = time_;
  }
  const GlobalAccess access{time_, races.now(code), block.order(), touch, strong};
  const auto* begin = static_cast<const char*>(address);
  const auto fail_race = [&](const GlobalAccess& earlier) {
    const bool fenced = earlier.strong || published(earlier) != kNever;
    const uint3 thread = thread_index(earlier.thread.thread, current_launch.block());
    fail("race between blocks: " + describe_touch(touch, strong) + format(" %zu bytes ", bytes) +
         array.describe(address) + " " + describe_code(code) + ", which block " +
         describe(blocks_[earlier.block].index) + ", thread " + describe(thread) + " " +
         describe_touch(earlier.touch, earlier.strong) + " " + describe_code(earlier.thread.code) +
         (fenced ? " with no atomic or volatile access that orders the two"
                 : " with no __threadfence after it"));
  };
  for (size_t i = 0; i < bytes; ++i) {
    GlobalCell& known = cell(begin + i);
    if (const GlobalAccess* earlier = conflict(known.write, access)) fail_race(*earlier);
    if (touch == Touch::read) {
      if (known.read.block != access.block) known.other_read = known.read;
      known.read = access;
      continue;
    }
    for (const GlobalAccess* read : {&known.read, &known.other_read}) {
      if (const GlobalAccess* earlier = conflict(*read, access)) fail_race(*earlier);
    }
    known = {access, {}, {}};
  }
}

}  // namespace cuda_emulator
