#include "block.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "collective.h"
#include "global_race.h"
#include "launch.h"
#include "limits.h"
#include "race.h"
#include "report.h"

// Declared const to kernels, see api/language.h.
uint3 threadIdx;
uint3 blockIdx;

namespace cuda_emulator {

Block block;

namespace {

uint64_t threshold(double probability) {
  constexpr double kTwoTo64 = 18446744073709551616.0;
  return probability >= 1 ? ~uint64_t{0} : static_cast<uint64_t>(probability * kTwoTo64);
}

bool same(const Place& a, const Place& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         std::strcmp(a.file_name(), b.file_name()) == 0;
}

}  // namespace

uint3 thread_index(uint32_t number, dim3 size) {
  return {number % size.x, number / size.x % size.y, number / (size.x * size.y)};
}

std::string whereabouts(const Thread& thread) {
  switch (thread.state) {
    case State::exited:
      return "has exited";
    case State::at_barrier:
      return "waits at __syncthreads (" + describe(thread.place) + ")";
    case State::in_collective:
      return format("waits at %s with mask 0x%08x (", thread.collective.intrinsic,
                    thread.collective.mask) +
             describe(thread.place) + ")";
    case State::ready:
      break;
  }
  return "is running";
}

void Block::seed(uint64_t seed, double switch_probability) {
  random_ = Random(seed);
  switch_below_ = threshold(switch_probability);
}

void Block::raise_switch_probability(double least) {
  switch_below_ = std::max(switch_below_, threshold(least));
}

void Block::prepare(dim3 size) {
  const uint32_t count = size.x * size.y * size.z;
  threads_.resize(count);
  ready_.clear();
  at_barrier_ = 0;
  for (uint32_t i = 0; i < count; ++i) {
    Thread& thread = threads_[i];
    thread.index = thread_index(i, size);
    thread.number = i;
    thread.stack = nullptr;
    make_ready(thread);
  }
}

void Block::run(uint3 index, dim3 size) {
  start(index, size);
  while (can_step() && !failed()) step();
  finish();
  if (failed()) abandon();
}

void Block::start(uint3 index, dim3 size) {
  index_ = blockIdx = index;
  order_ = global_races.watching() ? global_races.start_block(index) : 0;
  prepare(size);
  races.start_block();
}

void Block::step() {
  std::swap(ready_[random_.below(ready_.size())], ready_.back());
  Thread& thread = *ready_.back();
  ready_.pop_back();
  run_thread(thread);
}

void Block::finish() {
  if (!failed()) explain_deadlock();
}

void Block::exchange(BlockState& other) {
  std::swap(static_cast<BlockState&>(*this), other);
  blockIdx = index_;
}

void Block::run_thread(Thread& thread) {
  if (!thread.stack) {
    thread.stack = stacks_.take();
    thread.fiber.prepare(thread.stack, Stacks::kBytes, thread_main);
  }
  current_ = &thread;
  threadIdx = thread.index;
  running_ = true;
  Fiber::switch_between(host_, thread.fiber);
  running_ = false;
  if (thread.state == State::exited) stacks_.give_back(thread.stack);
}

void Block::thread_main() {
  current_launch.invoke();
  block.current().state = State::exited;
  complete_warp_syncs(block.current().warp());
  block.leave();
}

void Block::leave() {
  Fiber::switch_between(current_->fiber, host_);
  __builtin_unreachable();
}

void Block::make_ready(Thread& thread) {
  thread.state = State::ready;
  ready_.push_back(&thread);
}

void Block::switch_away() {
  make_ready(*current_);
  Fiber::switch_between(current_->fiber, host_);
}

void Block::wait(State state, Place place) {
  current_->state = state;
  current_->place = place;
  Fiber::switch_between(current_->fiber, host_);
}

Thread* Block::lane(uint32_t warp, uint32_t lane) {
  const size_t number = warp * 32 + lane;
  return number < threads_.size() ? &threads_[number] : nullptr;
}

void Block::barrier(Place place) {
  count_work(place);
  if (at_barrier_ == 0) {
    first_at_barrier_ = current_;
  } else if (!same(place, first_at_barrier_->place)) {
    fail("divergent barrier: arrives at __syncthreads (" + describe(place) + ") while thread " +
         describe(first_at_barrier_->index) + " " + whereabouts(*first_at_barrier_));
  }
  if (++at_barrier_ < threads_.size()) return wait(State::at_barrier, place);
  at_barrier_ = 0;
  races.block_barrier();
  for (Thread& thread : threads_) {
    if (&thread != current_) make_ready(thread);
  }
}

// Called when no thread can run: either all have exited, or those that have not wait for something
// that cannot happen any more.
void Block::explain_deadlock() {
  const Thread* waiting = nullptr;
  const Thread* elsewhere = nullptr;
  for (const Thread& thread : threads_) {
    if (thread.state == State::in_collective) return fail_launch(explain_collective(thread));
    if (thread.state == State::at_barrier) waiting = &thread;
    if (thread.state == State::exited) elsewhere = &thread;
  }
  if (!waiting) return;
  fail_launch("block " + describe(index_) + ", thread " + describe(waiting->index) +
              ": divergent barrier: " + whereabouts(*waiting) + " while thread " +
              describe(elsewhere->index) + " " + whereabouts(*elsewhere));
}

}  // namespace cuda_emulator
