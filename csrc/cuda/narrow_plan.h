// Launches of the narrow mappings (narrow.cuh).
#pragma once

#include "mapping.h"
#include "narrow_layout.h"

namespace ptd {

// A narrow launch; where it does not fit, there are no blocks.
struct NarrowPlan {
  unsigned blocks = 0, threads;
  bool pairs;  // of lanes
  NarrowLayout layout;

  template <class S>
  static NarrowPlan forward(const LabelBatch<S>& batch) {
    return {batch, in_pairs(batch.classes, batch.parts, batch.slack != nullptr, false)};
  }
  template <class S>
  static NarrowPlan backward(const LabelBatch<S>& batch) {
    return {batch, in_pairs(batch.classes, batch.parts, batch.slack != nullptr, true)};
  }

  template <class S>
  NarrowPlan(const LabelBatch<S>& batch, bool pairs) : pairs(pairs) {
    const bool has_slack = batch.slack != nullptr;
    if (sizeof(Accumulation<S>) != 4) return;
    const int warps = narrow_warps(batch.classes, batch.parts, has_slack, pairs);
    if (warps == 0) return;
    layout = narrow_layout(batch.classes, batch.parts, has_slack, pairs, warps);
    threads = static_cast<unsigned>(warps * kWarp);
    const int64_t each = warps * (pairs ? kPairSamples : kLoneSamples);
    int64_t wanted = ceil_div(batch.samples, each);
    // As many for each multiprocessor: of a few blocks, one more than others have takes long.
    if (has_slack && !pairs && wanted > kProcessors)
      wanted = ceil_div(wanted, kProcessors) * kProcessors;
    blocks = static_cast<unsigned>(wanted > 1 ? wanted : 1);
  }
};

// run.template operator()<V, kSlack>(), for two lanes per sample.
template <class S, class Run>
void with_pairs(const LabelBatch<S>& batch, const Run& run) {
  if (batch.classes <= kLoneClasses) return run.template operator()<5, true>();
  return batch.slack ? run.template operator()<7, true>() : run.template operator()<7, false>();
}

}  // namespace ptd
