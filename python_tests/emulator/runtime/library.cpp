#include "library.h"

#include <link.h>

#include <algorithm>

namespace cuda_emulator {

namespace {

Library describe(const dl_phdr_info& info) {
  Library library;
  auto* base = reinterpret_cast<char*>(info.dlpi_addr);
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const auto& segment = info.dlpi_phdr[i];
    char* begin = base + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) {
      library.begin = library.begin ? std::min(library.begin, begin) : begin;
      library.end = std::max(library.end, begin + segment.p_memsz);
    } else if (segment.p_type == PT_TLS) {
      library.thread_local_begin = static_cast<char*>(info.dlpi_tls_data);
      library.thread_local_bytes = segment.p_memsz;
    }
  }
  return library;
}

}  // namespace

Library Library::of(const void* code) {
  struct Search {
    const void* code;
    Library found;
  } search{code, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* search = static_cast<Search*>(data);
        const Library library = describe(*info);
        if (!library.contains(search->code)) return 0;
        search->found = library;
        return 1;
      },
      &search);
  return search.found;
}

}  // namespace cuda_emulator
