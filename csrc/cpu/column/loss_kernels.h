// The transition losses and the clean posterior, which read one column of T(x) per sample.
#pragma once

#include "column/softmax.h"
#include "gradients/scatter.h"
#include "kernels.h"
#include "row_sums/sign_table_kernels.h"

namespace ptd {
namespace PTD_ISA {

// The scratch of one range, in one allocation; the arrays that only gradients need come last.
template <class T>
struct LossScratch {
  T *weights, *column, *logits, *entry, *row, *dm, *out;
  LossScratch(T* scratch, const Batch<T>& batch) {
    const auto take = [&](int64_t size) {
      T* at = scratch;
      scratch += size;
      return at;
    };
    weights = take(kBlock * batch.parts);
    column = take(kBlock * batch.classes);
    logits = take(batch.classes);
    entry = take(kBlock * batch.classes);
    row = take(kBlock * batch.classes);
    dm = take(batch.classes);
    out = take(kBlock * batch.classes);
  }
};

// `saturated` of math/host_device.h, for a vector.
template <class T>
PTD_INLINE Vec<T> saturated_lanes(Vec<T> x) {
  const Vec<T> most = splat(largest_number<T>()), cut = x > most ? most : x;
  return cut < -most ? -most : cut;
}

enum class LabelKind { counted, ignored, bad };

template <class T>
PTD_INLINE LabelKind label_kind(const LossArgs<T>& args, int64_t y) {
  if (y == args.ignore_index) return LabelKind::ignored;
  return y >= 0 && y < args.batch.classes ? LabelKind::counted : LabelKind::bad;
}

// The forward pass of a range: finish(n, y, z, u) for a counted sample, skip(n, z) for any other.
template <class T, class Finish, class Skip>
PTD_INLINE void for_each_column_of_label(const LossArgs<T>& args, int64_t begin, int64_t end,
                                         T* scratch, T* saved, LossPartial* partial,
                                         const Finish& finish, const Skip& skip) {
  const Batch<T>& batch = args.batch;
  const int64_t classes = batch.classes;
  LossScratch<T> at(scratch, batch);
  *partial = {0.0, 0.0, -1};
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = end - first < kBlock ? end - first : kBlock;
    const T* h = block_weights(batch, first, count, at.weights);
    T* sums = saved + first * classes;
    if (batch.slack && !batch.has_row_sums) {
      row_sums(batch, h, count, sums);
    }
    // Two passes over the samples, so that a column is not read right after it is written.
    const auto column_of = [&](int64_t s) {
      // With slack the row sums are saved; from them the column is cheap to compute again.
      return (batch.slack ? at.column : sums) + s * classes;
    };
    for (int64_t s = 0; s < count; ++s) {
      const int64_t y = label_at(args.labels, first + s);
      if (label_kind(args, y) == LabelKind::counted) {
        transition_column(batch, h + s * batch.parts, y, args.smoothing, sums + s * classes,
                          static_cast<T*>(nullptr), column_of(s));
      } else if (!batch.slack) {
        memset(column_of(s), 0, sizeof(T) * classes);
      }
    }
    for (int64_t s = 0; s < count; ++s) {
      const int64_t n = first + s, y = label_at(args.labels, n);
      const LabelKind kind = label_kind(args, y);
      if (kind == LabelKind::bad && partial->bad_sample < 0) partial->bad_sample = n;
      const T* z = read_row(args.logits, n, classes, at.logits);
      kind == LabelKind::counted ? finish(n, y, z, column_of(s)) : skip(n, z);
    }
  }
}

// Writes factor * dloss/dz, from e_i in `exps`, and factor * dloss/du unless grad_u is nullptr.
// `grad_z` may be the same memory as u or as `exps`.
template <class T>
PTD_INLINE void loss_gradient(const LossArgs<T>& args, const ColumnSums<T>& sums,
                              const LossTerms<T>& terms, int64_t y, const T* z, const T* u,
                              T factor, const T* exps, T* grad_z, T* grad_u) {
  const T joint = u[y] == T(0) ? T(0) : exp_of(z[y] - sums.column_shift) * u[y];
  for_lanes<T>(args.batch.classes, [&](int64_t i, int64_t left) {
    const Vec<T> column = load(u + i, left), e = load(exps + i, left);
    const Vec<T> column_e = column_exp(sums, z + i, e, left);
    const Vec<T> of_softmax = terms.softmax * (terms.softmax_of_column ? column_e : e);
    const Vec<T> d = of_softmax + terms.posterior * joint_exp<T>(column_e, column);
    store(grad_z + i, factor * d, left);
    if (grad_u) store(grad_u + i, (factor * terms.posterior) * column_e, left);
  });
  if (args.importance != kForward) grad_z[y] = factor * (terms.label + terms.posterior * joint);
}

template <class T>
void loss_forward(const LossArgs<T>& args, int64_t begin, int64_t end, T* scratch, T* losses,
                  T* saved, bool save_gradient, LossPartial* partial) {
  const int64_t classes = args.batch.classes;
  // The scratch has the arrays for gradients if save_gradient is set.
  T* exps = save_gradient ? LossScratch<T>(scratch, args.batch).entry : nullptr;
  const auto finish = [&](int64_t n, int64_t y, const T* z, const T* u) {
    const ColumnSums<T> sums = column_sums<T>(z, u, y, classes, args.smoothing > T(0), exps);
    const LossTerms<T> terms = loss_terms(sums, z[y], args.importance, args.max_importance);
    const T weight = args.class_weight ? args.class_weight[y] : T(1);
    if (losses) losses[n] = weight * terms.loss;
    partial->loss += double(weight) * double(terms.loss);
    partial->weight += double(weight);
    if (!save_gradient) return;
    loss_gradient(args, sums, terms, y, z, u, weight, exps, saved + n * classes,
                  static_cast<T*>(nullptr));
  };
  const auto skip = [&](int64_t n, const T*) {
    if (losses) losses[n] = T(0);
    if (save_gradient) memset(saved + n * classes, 0, sizeof(T) * classes);
  };
  for_each_column_of_label(args, begin, end, scratch, saved, partial, finish, skip);
}

// Multiplies the saved gradient of each sample's loss by the gradient with respect to that loss.
template <class T>
void scale_rows(const T* rows, int64_t classes, int64_t begin, int64_t end, const T* grad_loss,
                int64_t grad_stride, T scale, T* row, const Matrix& out) {
  for (int64_t n = begin; n < end; ++n) {
    const T factor = grad_loss[n * grad_stride] * scale;
    T* grad = output_row(out, n, row);
    for_lanes<T>(classes, [&](int64_t i, int64_t left) {
      store(grad + i, factor * load(rows + n * classes + i, left), left);
    });
    write_row(out, n, classes, grad);
  }
}

// q = softmax(z + log u); a sample whose label is ignored keeps its softmax.
template <class T>
void clean_posterior(const LossArgs<T>& args, int64_t begin, int64_t end, T* scratch, T* posterior,
                     T* saved, LossPartial* partial) {
  const int64_t classes = args.batch.classes;
  const auto finish = [&](int64_t n, int64_t, const T* z, const T* u) {
    T* q = posterior + n * classes;
    const ColumnSums<T> sums = column_sums<T>(z, u, -1, classes, args.smoothing > T(0), q);
    const T divisor = posterior_divisor(sums);
    for (int64_t i = 0; i < classes; i += kLanes<T>) {
      const int64_t n_left = classes - i;
      const Vec<T> column = load(u + i, n_left);
      const Vec<T> e = column_exp(sums, z + i, load(q + i, n_left), n_left);
      store(q + i, joint_exp<T>(e, column) / divisor, n_left);
    }
  };
  const auto skip = [&](int64_t n, const T* z) {
    softmax_row(z, classes, posterior + n * classes);
  };
  for_each_column_of_label(args, begin, end, scratch, saved, partial, finish, skip);
}

// The backward pass of a range. For a counted sample measure(y, z, u, exps) computes sums over its
// classes, and vjp(n, y, z, u, measured, grad_z, grad_u) writes the gradients of its logits, in
// the memory of `exps`, and of its smoothed column; skip(n, z, grad_z) writes the gradient of any
// other sample's logits. The rest, from the column to slack, parts and weights, is done here.
template <class T, class Measure, class VjpSample, class Skip>
PTD_INLINE void backward_through_column(const LossArgs<T>& args, int64_t begin, int64_t end,
                                        T* scratch, const T* saved, const Gradients<T>& grads,
                                        const Measure& measure, const VjpSample& vjp,
                                        const Skip& skip) {
  const Batch<T>& batch = args.batch;
  const int64_t classes = batch.classes;
  const bool transition = wants_transition(grads);
  LossScratch<T> at(scratch, batch);
  int64_t labels[kBlock];
  ColumnSums<T> measured[kBlock];
  for (int64_t first = begin; first < end; first += kBlock) {
    const int64_t count = end - first < kBlock ? end - first : kBlock;
    const T* h = block_weights(batch, first, count, at.weights);
    const T* sums = saved + first * classes;
    const T* columns = batch.slack ? at.column : sums;
    const auto grad_row = [&](int64_t s) {
      T* buffer = at.out + s * classes;
      return grads.logits.data ? output_row(grads.logits, first + s, buffer) : buffer;
    };
    // Three passes over the samples, so that a row is not read right after it is written.
    for (int64_t s = 0; s < count; ++s) {
      const int64_t y = label_at(args.labels, first + s);
      labels[s] = label_kind(args, y) == LabelKind::counted ? y : -1;
      if (!batch.slack || labels[s] < 0) continue;
      transition_column(batch, h + s * batch.parts, y, args.smoothing, sums + s * classes,
                        at.row + s * classes, at.column + s * classes);
    }
    for (int64_t s = 0; s < count; ++s) {
      if (labels[s] < 0) continue;
      const T* z = read_row(args.logits, first + s, classes, at.logits);
      measured[s] = measure(labels[s], z, columns + s * classes, grad_row(s));
    }
    for (int64_t s = 0; s < count; ++s) {
      const int64_t n = first + s;
      T* entry = at.entry + s * classes;
      T* row = at.row + s * classes;
      const T* z = read_row(args.logits, n, classes, at.logits);
      if (labels[s] < 0) {
        memset(entry, 0, sizeof(T) * classes);
        memset(row, 0, sizeof(T) * classes);
        skip(n, z, grad_row(s));
      } else {
        vjp(n, labels[s], z, columns + s * classes, measured[s], grad_row(s), entry);
      }
      if (grads.logits.data) write_row(grads.logits, n, classes, grad_row(s));
    }
    if (!transition) continue;
    for (int64_t s = 0; s < count; ++s) {
      if (labels[s] < 0) continue;  // the zeros of its entry and row stay
      // du'/dM = [M > 0] ([k = y] - u') / r, for u' the column before smoothing.
      for_lanes<T>(classes, [&](int64_t i, int64_t left) {
        T* entry = at.entry + s * classes + i;
        T* row = at.row + s * classes + i;
        Vec<T> d = (T(1) - args.smoothing) * load(entry, left);
        if (batch.slack) d *= inverse_row_sums<T>(load(sums + s * classes + i, left));
        const Vec<T> column = load(batch.slack ? row : columns + s * classes + i, left);
        d = column == Vec<T>{} ? saturated_lanes<T>(d) : d;
        if (batch.slack) store(row, d * column, left);
        store(entry, d, left);
      });
    }
    const Vjp<T> block{at.entry, at.row, labels, nullptr};
    if (grads.row_grad) {
      memcpy(grads.row_grad + (first - begin) * classes, at.row, sizeof(T) * count * classes);
      add_label_columns(batch, count, block, grads.slack);
    } else {
      scatter(batch, h, first, count, block, grads, at.dm);
    }
  }
}

template <class T>
void loss_backward(const LossArgs<T>& args, int64_t begin, int64_t end, T* scratch,
                   const T* grad_loss, int64_t grad_stride, T scale, const T* saved,
                   const Gradients<T>& grads) {
  const int64_t classes = args.batch.classes;
  const auto measure = [&](int64_t y, const T* z, const T* u, T* exps) {
    return column_sums(z, u, y, classes, args.smoothing > T(0), exps);
  };
  const auto vjp = [&](int64_t n, int64_t y, const T* z, const T* u, const ColumnSums<T>& sums,
                       T* grad_z, T* grad_u) {
    const T weight = args.class_weight ? args.class_weight[y] : T(1);
    const T factor = grad_loss[n * grad_stride] * scale * weight;
    const LossTerms<T> terms = loss_terms(sums, z[y], args.importance, args.max_importance);
    loss_gradient(args, sums, terms, y, z, u, factor, grad_z, grad_z, grad_u);
  };
  const auto skip = [&](int64_t, const T*, T* grad_z) { memset(grad_z, 0, sizeof(T) * classes); };
  backward_through_column(args, begin, end, scratch, saved, grads, measure, vjp, skip);
}

// G at the largest q. Each lane keeps the largest that it has seen.
template <class T>
struct Pivot {
  Vec<T> most = splat(T(-1)), grad = {};

  PTD_INLINE void see(Vec<T> q, Vec<T> g) {
    grad = q > most ? g : grad;
    most = maximum<T>(q, most);
  }
  PTD_INLINE T of_all_lanes() const {
    int best = 0;
    for (int lane = 1; lane < kLanes<T>; ++lane) best = most[lane] > most[best] ? lane : best;
    return grad[best];
  }
};

// dz_i = q_i (G_i - <G, q>),  du_i = dz_i / u_i, by the differences of loss_terms.h.
template <class T>
void clean_posterior_backward(const LossArgs<T>& args, int64_t begin, int64_t end, T* scratch,
                              const T* grad, const T* saved, const Gradients<T>& grads) {
  const int64_t classes = args.batch.classes;
  const auto measure = [&](int64_t, const T* z, const T* u, T* exps) {
    return column_sums(z, u, int64_t(-1), classes, args.smoothing > T(0), exps);
  };
  const auto vjp = [&](int64_t n, int64_t, const T* z, const T* u, const ColumnSums<T>& sums,
                       T* grad_z, T* grad_u) {
    const T* g = grad + n * classes;
    const T divisor = posterior_divisor(sums);
    Pivot<T> lanes_pivot;
    for_lanes<T>(classes, [&](int64_t i, int64_t left) {
      const Vec<T> column = load(u + i, left);
      const Vec<T> e = column_exp(sums, z + i, load(grad_z + i, left), left);
      const Vec<T> q = joint_exp<T>(e, column) / divisor;
      lanes_pivot.see(q, load(g + i, left));
      store(grad_u + i, e, left);
      store(grad_z + i, q, left);
    });
    const T pivot = lanes_pivot.of_all_lanes();
    Vec<T> dot{};
    for_lanes<T>(classes, [&](int64_t i, int64_t left) {
      dot += load(grad_z + i, left) * (load(g + i, left) - pivot);
    });
    const T mean = sum_lanes(dot);
    for (int64_t i = 0; i < classes; ++i) {
      const T centred = (g[i] - pivot) - mean;
      grad_u[i] = grad_u[i] * (centred / divisor);
      grad_z[i] *= centred;
    }
  };
  const auto skip = [&](int64_t n, const T* z, T* grad_z) {
    const T* g = grad + n * classes;
    softmax_row(z, classes, grad_z);
    T mean = T(0);
    for (int64_t i = 0; i < classes; ++i) mean += grad_z[i] * g[i];
    for (int64_t i = 0; i < classes; ++i) grad_z[i] *= g[i] - mean;
  };
  backward_through_column(args, begin, end, scratch, saved, grads, measure, vjp, skip);
}

}  // namespace PTD_ISA
}  // namespace ptd
