#include "record.h"

#include <algorithm>

#include "block.h"
#include "report.h"

namespace cuda_emulator {

Record record;

namespace {

constexpr uint64_t kSector = 32;
// Half of the threads that run at once on a V100, 80 multiprocessors with 1024 each: blocks so
// close in the grid meet in time.
constexpr uint64_t kNearThreads = 80 * 1024 / 2;

}  // namespace

void Record::start_launch(const std::string& kernel, uint64_t blocks, uint32_t threads,
                          size_t shared_bytes) {
  text_ += "launch\t" + kernel + format("\t%zu\t%u\t%zu\n", size_t(blocks), threads, shared_bytes);
  near_ = kNearThreads / threads;
  arrays_.clear();
}

void Record::on_access(const Array& array, const void* address, size_t bytes, Touch touch,
                       const void* code) {
  const Thread& thread = block.current();
  if (passages_.size() <= thread.number) passages_.resize(thread.number + 1);
  const uint64_t passage = passages_[thread.number][code]++;
  const uint64_t access = (reinterpret_cast<uint64_t>(code) << 32 ^ passage) * 32 + thread.warp();
  const bool writes = touch != Touch::read;
  // Arrays start at sectors, as those of a GPU's allocator do, whatever their emulated address is;
  // borrowed ones may be views, whose address tells where in a sector they start.
  const uint64_t lead = array.borrowed() ? reinterpret_cast<uintptr_t>(array.begin()) % kSector : 0;
  const uint64_t begin = static_cast<const char*>(address) - array.begin() + lead;
  for (uint64_t at = begin / kSector; at <= (begin + bytes - 1) / kSector; ++at) {
    touched_.push_back({&array, writes, access, at});
  }
  arrays_[{array.name(), writes}].accessed += bytes;
}

void Record::end_block(uint64_t number) {
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  for (Touched& touched : touched_) {
    ++arrays_[{touched.array->name(), touched.writes}].requested;
    touched.access = 0;
  }
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  for (const Touched& touched : touched_) {
    arrays_[{touched.array->name(), touched.writes}].touches.push_back({touched.sector, number});
  }
  touched_.clear();
  passages_.clear();
}

void Record::end_launch() {
  for (auto& [key, sectors] : arrays_) {
    auto& touches = sectors.touches;
    std::sort(touches.begin(), touches.end());
    uint64_t all = 0, apart = 0;
    for (size_t t = 0; t < touches.size(); ++t) {
      const bool first = t == 0 || touches[t - 1].first != touches[t].first;
      all += first;
      apart += first || touches[t].second - touches[t - 1].second > near_;
    }
    text_ += "array\t" + key.first + "\t" + (key.second ? "write" : "read") +
             format("\t%zu\t%zu\t%zu\t%zu\t%zu\n", size_t(sectors.accessed),
                    size_t(kSector * sectors.requested), kSector * touches.size(),
                    size_t(kSector * apart), size_t(kSector * all));
  }
  arrays_.clear();
}

std::string Record::take() { return std::exchange(text_, ""); }

}  // namespace cuda_emulator

extern "C" {

void cuda_emulator_record(int mode) {
  cuda_emulator::record.mode = static_cast<cuda_emulator::Recording>(mode);
}

// Returns what was recorded since the last call; the caller owns nothing.
const char* cuda_emulator_take_record() {
  static std::string text;
  text = cuda_emulator::record.take();
  return text.c_str();
}
}
