// Device arrays, and the block's dynamic shared memory. Each lies between unmapped pages, flush
// with the upper ones up to its alignment, so that even code that is not instrumented faults when
// it strays; the few bytes left between array and pages hold a pattern that is checked after the
// launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace cuda_emulator {

class GuardedPages {
 public:
  GuardedPages(size_t bytes);
  ~GuardedPages();
  GuardedPages(const GuardedPages&) = delete;

  char* begin() const { return begin_; }
  char* end() const { return begin_ + bytes_; }
  void make_read_only();

 private:
  char* begin_;
  size_t bytes_;  // whole pages
};

class Array {
 public:
  Array(std::string name, size_t bytes, size_t alignment);

  // The last byte counts too: an access that starts inside may end outside.
  bool contains(const void* address, size_t bytes) const {
    const size_t offset = static_cast<const char*>(address) - begin_;
    return offset <= bytes_ && bytes <= bytes_ - offset;
  }
  // How far outside the array an address is.
  size_t distance(const void* address) const;
  std::string describe(const void* address) const;

  const std::string& name() const { return name_; }
  char* begin() const { return begin_; }
  bool writable() const { return writable_; }
  void make_read_only();
  bool margins_intact() const;

 private:
  std::string name_;
  GuardedPages pages_;
  char* begin_;
  size_t bytes_;
  bool writable_ = true;
};

class Memory {
 public:
  Array& allocate(std::string name, size_t bytes, size_t alignment);
  void free_all();
  // The array that holds the access, or null.
  Array* find(const void* address, size_t bytes);
  bool empty() const { return arrays_.empty(); }
  Array* find(const void* begin);
  // Where an address outside all arrays lies: "4 bytes past the end of array x (400 bytes)".
  std::string describe_stray(const void* address) const;
  void check_margins() const;

  // The block's dynamic shared memory, of exactly that many bytes. Blocks that run at once have
  // different numbers.
  char* place_dynamic_shared(size_t bytes, size_t resident);

 private:
  // The array touched last is the likeliest to be touched next.
  Array* recent_ = nullptr;
  std::deque<Array> arrays_;
};

extern Memory memory;

}  // namespace cuda_emulator
