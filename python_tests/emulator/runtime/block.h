// The threads of the running block, each a fiber, and the order in which they take turns.
#pragma once

#include <array>
#include <cstdint>
#include <source_location>
#include <string>
#include <vector>

#include "../api/vectors.h"
#include "fiber.h"
#include "random.h"
#include "stacks.h"

namespace cuda_emulator {

using Place = std::source_location;

enum class State : uint8_t { ready, at_barrier, in_collective, exited };

// A lane in a collective: what it brings to a shuffle, vote or __syncwarp, and what it takes away.
struct Collective {
  const char* intrinsic;
  unsigned mask;
  uint64_t value;
  int source;  // the lane whose value it takes, or kBallot
  uint64_t result;
};
constexpr int kBallot = -1;

struct Thread {
  uint3 index;
  uint32_t number;  // in the block, x fastest
  State state;
  Place place;  // of the barrier or collective at which it waits
  Collective collective;
  Fiber fiber;
  char* stack = nullptr;

  uint32_t warp() const { return number / 32; }
  uint32_t lane() const { return number % 32; }
};

// Each block of the grid has its own copy of these.
class BlockState {
 protected:
  uint3 index_{};
  uint32_t order_ = 0;
  std::vector<Thread> threads_;
  std::vector<Thread*> ready_;
  Thread* current_ = nullptr;
  uint32_t at_barrier_ = 0;
  const Thread* first_at_barrier_ = nullptr;
};

class Block : private BlockState {
 public:
  void seed(uint64_t seed, double switch_probability);
  void raise_switch_probability(double least);

  // Runs all threads of one block to their end, or to the first error.
  void run(uint3 index, dim3 size);

  // These do the same in pieces. A block goes on where it was left when its state is put back.
  void start(uint3 index, dim3 size);
  bool can_step() const { return !ready_.empty(); }
  void step();    // runs a thread until it waits, gives way or exits
  void finish();  // reports the threads that wait for ever
  void exchange(BlockState& other);
  // Gives up the threads of all blocks, after an error.
  void abandon() { stacks_.give_back_all(); }

  // The rest is called by the running thread.
  bool running() const { return running_; }
  uint3 index() const { return index_; }
  uint32_t order() const { return order_; }  // among the blocks of the launch, as they began
  Thread& current() { return *current_; }
  bool on_stack_of_current(const void* address) const {
    return stacks_.contains(current_->stack, address);
  }

  void barrier(Place place);
  // Waits until make_ready is called for the current thread.
  void wait(State state, Place place);
  void make_ready(Thread& thread);
  // Lets another thread run, now and then.
  void maybe_switch() {
    if (switch_below_ && random_.next() < switch_below_) switch_away();
  }
  // Leaves the current thread for good.
  [[noreturn]] void leave();

  // The thread at a lane of a warp, or null where the block has no such thread.
  Thread* lane(uint32_t warp, uint32_t lane);
  bool overflows_stack(const void* address) const { return stacks_.is_guard(address); }

 private:
  void prepare(dim3 size);
  void run_thread(Thread& thread);
  void switch_away();
  void explain_deadlock();
  static void thread_main();

  bool running_ = false;
  Fiber host_;
  Stacks stacks_;
  Random random_;
  uint64_t switch_below_ = 0;
};

extern Block block;

// The index of a thread, from its number in a block of the given size.
uint3 thread_index(uint32_t number, dim3 size);

// Says what a thread does while another cannot go on: "has exited", "waits at ... (file:line)".
std::string whereabouts(const Thread& thread);

}  // namespace cuda_emulator
