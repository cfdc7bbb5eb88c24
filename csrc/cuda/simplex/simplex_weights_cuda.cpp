#include "simplex_weights.h"

#include "common/torch_glue.h"
#include "common/tuning.h"
#include "simplex/simplex_launchers.h"

namespace ptd {
namespace {

static_assert(kMaxParts <= kWeightThreads);

struct SimplexWeightsCuda {
  template <class T>
  static void solve(const WeightProblems& problems, const Tensor& weights) {
    const WeightArgs<T> args = {
        .contraction = pointer<const T>(problems.contraction),
        .step = pointer<const T>(problems.step),
        .shift = pointer<const T>(problems.shift),
        .linear = pointer<const T>(problems.linear),
        .start = problems.start ? pointer<const T>(*problems.start) : nullptr,
        .weights = pointer<T>(weights),
        .batch = problems.sizes.batch,
        .rows = problems.sizes.rows,
        .parts = static_cast<int>(problems.sizes.parts),
        .max_iter = problems.max_iter,
        .tol = static_cast<T>(problems.tol),
    };
    const OnDevice device(weights);
    check_launch("simplex_weights", launch_simplex_weights(args, device.stream()));
  }
};

}  // namespace

PTD_CUDA_OPERATORS(m) {
  m.impl("simplex_weights", TORCH_BOX(&simplex_weights<SimplexWeightsCuda>));
}

}  // namespace ptd
