#include "record.h"

#include <algorithm>

#include "block.h"
#include "report.h"

namespace cuda_emulator {

Record record;

namespace {

constexpr uint64_t kSector = 32;

}  // namespace

void Record::start_launch(const std::string& kernel, const std::string& sizes) {
  text_ += "launch\t" + kernel + "\t" + sizes + "\n";
  arrays_.clear();
}

void Record::on_access(const Array& array, const void* address, size_t bytes, Touch touch,
                       const void* code) {
  const Thread& thread = block.current();
  if (passages_.size() <= thread.number) passages_.resize(thread.number + 1);
  const uint64_t passage = passages_[thread.number][code]++;
  const uint64_t access = (reinterpret_cast<uint64_t>(code) << 32 ^ passage) * 32 + thread.warp();
  const bool writes = touch != Touch::read;
  // Arrays start at sectors, as those of a GPU's allocator do, whatever their emulated address is.
  const uint64_t begin = static_cast<const char*>(address) - array.begin();
  for (uint64_t at = begin / kSector; at <= (begin + bytes - 1) / kSector; ++at) {
    touched_.push_back({&array, writes, access, at});
  }
  arrays_[{array.name(), writes}].accessed += bytes;
}

void Record::end_block() {
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  for (Touched& touched : touched_) {
    Sectors& sectors = arrays_[{touched.array->name(), touched.writes}];
    ++sectors.requested;
    if (sectors.launch.size() <= touched.sector) sectors.launch.resize(touched.sector + 1);
    sectors.launch[touched.sector] = true;
    touched.access = 0;
  }
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  for (const Touched& touched : touched_) {
    ++arrays_[{touched.array->name(), touched.writes}].block;
  }
  touched_.clear();
  passages_.clear();
}

void Record::end_launch() {
  for (const auto& [key, sectors] : arrays_) {
    const auto all = std::count(sectors.launch.begin(), sectors.launch.end(), true);
    text_ += "array\t" + key.first + "\t" + (key.second ? "write" : "read") +
             format("\t%zu\t%zu\t%zu\t%zu\n", size_t(sectors.accessed),
                    size_t(kSector * sectors.requested), size_t(kSector * sectors.block),
                    size_t(kSector * all));
  }
  arrays_.clear();
}

std::string Record::take() { return std::exchange(text_, ""); }

}  // namespace cuda_emulator

extern "C" {

void cuda_emulator_record(int mode) {
  cuda_emulator::record.mode = static_cast<cuda_emulator::Recording>(mode);
}

// What was recorded since the last call; the caller owns nothing.
const char* cuda_emulator_take_record() {
  static std::string text;
  text = cuda_emulator::record.take();
  return text.c_str();
}
}
