// The kernel table for this machine.
#include "kernels.h"
#include "simd/isa.h"

namespace ptd {

#define PTD_DECLARE_TABLE(isa) \
  namespace isa {              \
  template <class T>           \
  const Kernels<T>& table();   \
  }
PTD_DECLARE_TABLE(portable)
PTD_DECLARE_TABLE(avx2)
PTD_DECLARE_TABLE(avx512)
#undef PTD_DECLARE_TABLE

template <class T>
const Kernels<T>& kernels() {
  switch (selected_isa()) {
#if defined(PTD_HAVE_AVX512)
    case Isa::avx512:
      return avx512::table<T>();
#endif
#if defined(PTD_HAVE_AVX2)
    case Isa::avx2:
      return avx2::table<T>();
#endif
    default:
      return portable::table<T>();
  }
}

template const Kernels<float>& kernels<float>();
template const Kernels<double>& kernels<double>();

}  // namespace ptd
