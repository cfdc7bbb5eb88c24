// Device arrays, and the block's dynamic shared memory. Each lies between unmapped pages, flush
// with the upper ones up to its alignment, so that even code that is not instrumented faults when
// it strays; the few bytes left between array and pages hold a pattern that is checked after the
// launch. A borrowed array is memory of somebody else's, around which nothing is known.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
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
  Array(std::string name, char* borrowed, size_t bytes, bool writable);

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
  size_t bytes() const { return bytes_; }
  bool writable() const { return writable_; }
  bool borrowed() const { return !pages_; }
  void make_read_only();
  bool margins_intact() const;

 private:
  std::string name_;
  std::optional<GuardedPages> pages_;
  char* begin_;
  size_t bytes_;
  bool writable_ = true;
};

class Memory {
 public:
  Array& allocate(std::string name, size_t bytes, size_t alignment);
  void borrow(std::string name, char* begin, size_t bytes, bool writable);
  // Forgets the borrowed arrays that have a byte of these, or all of them.
  void forget(const char* begin, size_t bytes);
  void forget_borrowed();
  void free_all();
  // The array that holds the access, or null.
  Array* find(const void* address, size_t bytes);
  bool empty() const { return arrays_.empty(); }
  const std::list<Array>& arrays() const { return arrays_; }
  Array* find(const void* begin);
  // The place of an address outside all arrays, such as "4 bytes past the end of array x (400
  // bytes)".
  std::string describe_stray(const void* address) const;
  void check_margins() const;

  // The block's dynamic shared memory, of exactly that many bytes. Blocks that run at once have
  // different numbers.
  char* place_dynamic_shared(size_t bytes, size_t resident);

 private:
  // The array touched last is the likeliest to be touched next.
  Array* recent_ = nullptr;
  std::list<Array> arrays_;
};

extern Memory memory;

}  // namespace cuda_emulator
