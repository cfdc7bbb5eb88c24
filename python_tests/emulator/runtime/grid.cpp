#include "grid.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <numeric>
#include <utility>
#include <vector>

#include "block.h"
#include "global_race.h"
#include "launch.h"
#include "random.h"
#include "record.h"
#include "report.h"

namespace cuda_emulator {

GridSettings grid_settings;

namespace {

// A thread that waits for another block must give way to it, so that with interleaved blocks
// threads do so at every so many accesses, whatever the settings say.
constexpr double kMinSwitchProbability = 1.0 / 32;
// Each has a stack, which is two mappings; the system allows 65,530.
constexpr uint32_t kMaxResidentThreads = 16 * 1024;

// Visits the blocks of the grid in an order that depends on the seed: steps of a size that shares
// no factor with their number reach each of them once.
class BlockOrder {
 public:
  BlockOrder(dim3 grid, Random& random) : grid_(grid), left_(uint64_t{grid.x} * grid.y * grid.z) {
    count_ = left_;
    step_ = random.next() % count_;
    while (std::gcd(step_, count_) != 1) ++step_;
    number_ = random.next() % count_;
  }

  uint64_t left() const { return left_; }
  uint64_t number() const { return number_; }
  uint3 index() const {
    const uint64_t row = number_ / grid_.x;
    return {static_cast<unsigned>(number_ % grid_.x), static_cast<unsigned>(row % grid_.y),
            static_cast<unsigned>(row / grid_.y)};
  }
  void advance() {
    --left_;
    number_ = (number_ + step_) % count_;
  }

 private:
  dim3 grid_;
  uint64_t left_, count_, step_, number_;
};

// A block that has begun, or room for one. While another block runs it holds the block's threads,
// order of accesses and static shared memory; while it runs itself, what they displaced. Static
// shared memory is copied, because kernels know its address; dynamic shared memory stays in place.
struct Resident {
  size_t number = 0;
  BlockState state;
  Races races;
  SharedRegion static_shared, dynamic_shared;
  std::vector<char> static_bytes;

  void exchange() {
    block.exchange(state);
    std::swap(cuda_emulator::races, races);
    std::swap(cuda_emulator::static_shared, static_shared);
    std::swap(dynamic_shared_region, dynamic_shared);
  }
};

class Residents {
 public:
  Residents(size_t count, dim3 block_size, size_t shared_bytes)
      : block_size_(block_size), shared_bytes_(shared_bytes) {
    if (pool().size() < count) pool().resize(count);
    for (size_t i = 0; i < count; ++i) {
      pool()[i].number = i;
      active_.push_back(&pool()[i]);
    }
  }
  ~Residents() { make_current(nullptr); }

  size_t count() const { return active_.size(); }

  void begin(size_t at, uint3 index) {
    make_current(active_[at]);
    current_launch.place_shared(shared_bytes_, active_[at]->number);
    current_launch.poison_shared();
    block.start(index, block_size_);
  }

  void go_on(size_t at) {
    if (current_ == active_[at]) return;
    make_current(active_[at]);
    std::memcpy(static_shared.begin, current_->static_bytes.data(), static_shared.bytes);
  }

  void remove(size_t at) {
    std::swap(active_[at], active_.back());
    active_.pop_back();
  }

 private:
  // Kept between launches, for the memory they hold is large.
  static std::deque<Resident>& pool() {
    static std::deque<Resident> residents;
    return residents;
  }

  void make_current(Resident* next) {
    if (next == current_) return;
    if (current_) {
      current_->static_bytes.assign(static_shared.begin, static_shared.begin + static_shared.bytes);
      current_->exchange();
    }
    current_ = next;
    if (current_) current_->exchange();
  }

  dim3 block_size_;
  size_t shared_bytes_;
  std::vector<Resident*> active_;
  Resident* current_ = nullptr;
};

void run_one_by_one(BlockOrder order, dim3 block_size, size_t shared_bytes) {
  current_launch.place_shared(shared_bytes, 0);
  for (; order.left() && !failed(); order.advance()) {
    current_launch.poison_shared();
    block.run(order.index(), block_size);
    if (record.mode == Recording::traffic) record.end_block(order.number());
  }
}

void run_interleaved(BlockOrder order, Random& random, dim3 block_size, size_t shared_bytes) {
  const auto count = std::min<uint64_t>(grid_settings.interleave, order.left());
  if (count * current_launch.threads() > kMaxResidentThreads) {
    return fail_launch(format("interleave=%zu blocks of %u threads are more than %u threads",
                              size_t(count), current_launch.threads(), kMaxResidentThreads));
  }
  Residents residents(count, block_size, shared_bytes);
  const auto begin_next = [&](size_t at) {
    residents.begin(at, order.index());
    order.advance();
  };
  for (size_t i = 0; i < count; ++i) begin_next(i);
  // Blocks cannot wake each other's threads: one whose threads all wait has ended, or hangs.
  while (residents.count() && !failed()) {
    const size_t at = random.below(residents.count());
    residents.go_on(at);
    block.step();
    if (failed() || block.can_step()) continue;
    block.finish();
    if (order.left()) {
      begin_next(at);
    } else {
      residents.remove(at);
    }
  }
  if (failed()) block.abandon();
}

}  // namespace

void run_grid(dim3 grid, dim3 block_size, size_t shared_bytes) {
  Random random(grid_settings.seed);
  const BlockOrder order(grid, random);
  // Traffic is counted block by block.
  if (grid_settings.interleave == 1 || record.mode == Recording::traffic) {
    return run_one_by_one(order, block_size, shared_bytes);
  }
  global_races.start_launch();
  run_interleaved(order, random, block_size, shared_bytes);
  global_races.end_launch();
}

}  // namespace cuda_emulator

// For launches until the next cuda_emulator_configure.
extern "C" void cuda_emulator_set_interleave(int blocks) {
  using namespace cuda_emulator;
  grid_settings.interleave = std::max(blocks, 1);
  if (blocks > 1) block.raise_switch_probability(kMinSwitchProbability);
}
