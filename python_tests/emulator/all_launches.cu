// Every launcher of csrc/cuda at one size: with and without slack, in every type. For
// all_launches.py, which records the launches and runs none, so that pointers are never followed.
#include "clean_posterior.h"
#include "noisy_posterior.h"
#include "project_transition.h"
#include "simplex_projection.h"
#include "simplex_weights.h"
#include "spread.h"
#include "transition_loss.h"

using namespace ptd;

namespace {

alignas(16) char somewhere[32];

template <class T>
T* at() {
  return reinterpret_cast<T*>(somewhere);
}

template <class S>
void losses(int64_t n, int64_t c, int64_t r, bool has_slack, bool aligned) {
  using T = Accumulation<S>;
  const S* logits = at<S>() + !aligned;
  LabelBatch<S> batch{};
  batch.logits = rows_of(logits, c, 1, c);
  batch.labels = {at<int64_t>(), 1, true};
  batch.weights = rows_of<const T>(at<T>(), r, 1, r);
  batch.columns = at<T>();
  batch.slack = has_slack ? at<T>() : nullptr;
  batch.row_sums = at<T>();
  batch.samples = n;
  batch.classes = int(c);
  batch.parts = int(r);
  const ColumnGradient<T> column{at<T>(), at<T>()};
  const LossOutputs<T> out{nullptr, at<T>(), at<T>(), true, nullptr, nullptr};
  launch_transition_loss(batch, LossRule<T>{}, out, at<void>(), {at<T>(), at<T>()}, nullptr);
  launch_transition_loss_backward(batch, LossRule<T>{}, LossGradients<S>{}, nullptr);
  launch_clean_posterior(batch, at<T>(), {at<T>(), at<T>()}, nullptr);
  launch_clean_posterior_backward(batch, CleanPosteriorGradients<S>{}, nullptr);
  for (const bool parts : {false, true}) {
    const SpreadOutputs<T> to{at<T>(), parts ? at<T>() : nullptr, has_slack ? at<T>() : nullptr, c,
                              1};
    launch_spread(without_logits(batch), column, to, at<T>(), nullptr);
  }
}

template <class Z, class T>
void noisy(int64_t n, int64_t c, int64_t r, bool has_slack) {
  const TransitionBatch<T> batch{at<T>(), at<T>(), has_slack ? at<T>() : nullptr,
                                 n,       int(c),  int(r)};
  const PosteriorGradients<Z, T> grads{at<Z>(), at<T>(), at<T>(), has_slack ? at<T>() : nullptr,
                                       c,       1};
  launch_noisy_posterior<Z, T>(batch, at<Z>(), at<T>(), at<T>(), at<T>(), nullptr);
  launch_noisy_posterior_backward<Z, T>(batch, at<Z>(), at<T>(), at<T>(), grads, at<T>(), nullptr);
}

template <class T>
void rows(int64_t n, int64_t c, int64_t r) {
  launch_project_transition(at<T>(), at<T>(), n, c, nullptr);
  launch_project_transition_backward(at<T>(), at<T>(), at<T>(), n, c, nullptr);
  launch_simplex_projection(at<T>(), at<T>(), n, r, nullptr);
  launch_simplex_projection_backward(at<T>(), at<T>(), at<T>(), n, r, nullptr);
  if (r > 256) return;  // the most of simplex_weights
  launch_simplex_weights(
      WeightArgs<T>{at<T>(), at<T>(), at<T>(), at<T>(), nullptr, at<T>(), 1, n, int(r), 1, T(0)},
      nullptr);
}

}  // namespace

extern "C" void launch_all(int64_t n, int64_t c, int64_t r) {
  rows<float>(n, c, r);
  rows<double>(n, c, r);
  for (const bool slack : {false, true}) {
    for (const bool aligned : {false, true}) {
      if (c > kMostLossClasses) break;
      losses<float>(n, c, r, slack, aligned);
      losses<Half>(n, c, r, slack, aligned);
      losses<BFloat16>(n, c, r, slack, aligned);
      if (c <= kMostLossClassesDouble) losses<double>(n, c, r, slack, aligned);
    }
    if (r > kMostPosteriorParts) continue;
    noisy<float, float>(n, c, r, slack);
    noisy<Half, float>(n, c, r, slack);
    noisy<BFloat16, float>(n, c, r, slack);
    noisy<double, double>(n, c, r, slack);
  }
}
