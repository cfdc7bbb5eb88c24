#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <new>
#include <utility>

#include "access.h"
#include "report.h"

namespace cuda_emulator {

Memory memory;

namespace {

constexpr size_t kPage = 64 * 1024;    // a whole number of pages on every system
constexpr size_t kGuard = 16 * kPage;  // wide enough to tell which array was overrun
constexpr char kMargin = '\xa5';
constexpr char kPoison = '\xff';  // a NaN in every floating type, -1 in every integer
constexpr size_t kMaxDynamicShared = 4 * kPage;

size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

}  // namespace

GuardedPages::GuardedPages(size_t bytes) : bytes_(round_up(std::max<size_t>(bytes, 1), kPage)) {
  void* mapping = mmap(nullptr, bytes_ + 2 * kGuard, PROT_NONE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  begin_ = static_cast<char*>(mapping) + kGuard;
  mprotect(begin_, bytes_, PROT_READ | PROT_WRITE);
}

GuardedPages::~GuardedPages() { munmap(begin_ - kGuard, bytes_ + 2 * kGuard); }

void GuardedPages::make_read_only() { mprotect(begin_, bytes_, PROT_READ); }

Array::Array(std::string name, size_t bytes, size_t alignment)
    : name_(std::move(name)),
      pages_(std::in_place, round_up(bytes, alignment)),
      begin_(pages_->end() - round_up(bytes, alignment)),
      bytes_(bytes) {
  std::memset(pages_->begin(), kMargin, begin_ - pages_->begin());
  std::memset(begin_, kPoison, bytes_);
  std::memset(begin_ + bytes_, kMargin, pages_->end() - begin_ - bytes_);
}

Array::Array(std::string name, char* borrowed, size_t bytes, bool writable)
    : name_(std::move(name)), begin_(borrowed), bytes_(bytes), writable_(writable) {}

size_t Array::distance(const void* address) const {
  const auto* at = static_cast<const char*>(address);
  return at < begin_ ? begin_ - at : at >= begin_ + bytes_ ? at - begin_ - bytes_ + 1 : 0;
}

std::string Array::describe(const void* address) const {
  const auto* at = static_cast<const char*>(address);
  const size_t far = distance(address);
  const std::string place = far == 0      ? format("at byte %zu", size_t(at - begin_))
                            : at < begin_ ? format("%zu bytes before the start", far)
                                          : format("%zu bytes past the end", far - 1);
  return place + " of array " + name_ + format(" (%zu bytes)", bytes_);
}

void Array::make_read_only() {
  writable_ = false;
  pages_->make_read_only();
}

bool Array::margins_intact() const {
  const auto intact = [](char byte) { return byte == kMargin; };
  return borrowed() || (std::all_of(pages_->begin(), begin_, intact) &&
                        std::all_of(begin_ + bytes_, pages_->end(), intact));
}

Array& Memory::allocate(std::string name, size_t bytes, size_t alignment) {
  return arrays_.emplace_back(std::move(name), bytes, alignment);
}

void Memory::borrow(std::string name, char* begin, size_t bytes, bool writable) {
  arrays_.emplace_back(std::move(name), begin, bytes, writable);
}

void Memory::forget(const char* begin, size_t bytes) {
  recent_ = nullptr;
  arrays_.remove_if([&](const Array& array) {
    return array.borrowed() && array.begin() < begin + bytes &&
           begin < array.begin() + array.bytes();
  });
}

void Memory::forget_borrowed() {
  recent_ = nullptr;
  arrays_.remove_if([](const Array& array) { return array.borrowed(); });
}

void Memory::free_all() {
  arrays_.clear();
  recent_ = nullptr;
}

Array* Memory::find(const void* address, size_t bytes) {
  if (recent_ && recent_->contains(address, bytes)) return recent_;
  for (Array& array : arrays_) {
    if (array.contains(address, bytes)) return recent_ = &array;
  }
  return nullptr;
}

Array* Memory::find(const void* begin) {
  for (Array& array : arrays_) {
    if (array.begin() == begin) return &array;
  }
  return nullptr;
}

std::string Memory::describe_stray(const void* address) const {
  if (address == nullptr) return "at a null pointer";
  const Array* nearest = nullptr;
  for (const Array& array : arrays_) {
    if (!nearest || array.distance(address) < nearest->distance(address)) nearest = &array;
  }
  if (nearest && nearest->distance(address) < kGuard) return nearest->describe(address);
  return format("at %p, which is in no array handed to the emulator", address);
}

void Memory::check_margins() const {
  for (const Array& array : arrays_) {
    if (!array.margins_intact()) {
      fail_launch("some thread: wrote outside array " + array.name() +
                  "; compile with check=True to see which");
    }
  }
}

char* Memory::place_dynamic_shared(size_t bytes, size_t resident) {
  static std::deque<GuardedPages> pages;
  while (pages.size() <= resident) pages.emplace_back(kMaxDynamicShared);
  return pages[resident].end() - round_up(bytes, 16);
}

}  // namespace cuda_emulator

extern "C" {

void* cuda_emulator_allocate(const char* name, size_t bytes, size_t alignment) {
  return cuda_emulator::memory.allocate(name, bytes, alignment).begin();
}

void cuda_emulator_make_read_only(const void* begin) {
  cuda_emulator::memory.find(begin)->make_read_only();
}

void cuda_emulator_free_all() { cuda_emulator::memory.free_all(); }
}
