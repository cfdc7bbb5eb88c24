// The table of kernels on the simplex for this machine.
#include "simd/isa.h"
#include "simplex/simplex_table.h"

namespace ptd {

#define PTD_DECLARE_TABLE(isa)              \
  namespace isa {                           \
  template <class T>                        \
  const SimplexKernels<T>& simplex_table(); \
  }
PTD_DECLARE_TABLE(portable)
PTD_DECLARE_TABLE(avx2)
PTD_DECLARE_TABLE(avx512)
#undef PTD_DECLARE_TABLE

template <class T>
const SimplexKernels<T>& simplex_kernels() {
  switch (selected_isa()) {
#if defined(PTD_HAVE_AVX512)
    case Isa::avx512:
      return avx512::simplex_table<T>();
#endif
#if defined(PTD_HAVE_AVX2)
    case Isa::avx2:
      return avx2::simplex_table<T>();
#endif
    default:
      return portable::simplex_table<T>();
  }
}

template const SimplexKernels<float>& simplex_kernels<float>();
template const SimplexKernels<double>& simplex_kernels<double>();

}  // namespace ptd
