// What launchers work out for themselves and hand to kernels, for v100_model.py.
#include "mapping.h"
#include "narrow_layout.h"
#include "noisy_posterior_plan.h"

using namespace ptd;

extern "C" void narrow(int64_t classes, int64_t parts, int64_t has_slack, int64_t pairs,
                       NarrowLayout* layout) {
  const int warps = narrow_warps(int(classes), int(parts), has_slack != 0, pairs != 0);
  *layout = narrow_layout(int(classes), int(parts), has_slack != 0, pairs != 0, warps);
}

extern "C" void grouped(int64_t samples, int64_t classes, int64_t parts, int64_t of_warp,
                        int64_t is_loss, GroupedLayout* layout) {
  *layout =
      grouped_layout(samples, int(classes), int(parts), int(of_warp), sizeof(float), is_loss != 0);
}

extern "C" void lanes(const TransitionBatch<float>* batch, TiledBatch* result,
                      LanesLayout* layout) {
  const LanesPlan plan(*batch);
  *result = plan.apply(*batch, batch->weights);  // aligned as all arrays are
  *layout = plan.layout;
}

extern "C" void warps(const TransitionBatch<float>* batch, TiledBatch* result, WarpsLayout* layout,
                      int64_t forward) {
  const WarpsPlan plan(*batch);
  *result = plan.apply(*batch, forward != 0);
  *layout = plan.layout;
}

extern "C" void product(const TransitionBatch<float>* batch, TiledBatch* result,
                        ProductLayout* layout, int64_t forward) {
  const ProductPlan plan(*batch);
  *result = plan.apply(*batch, forward != 0);
  *layout = plan.layout;
}
