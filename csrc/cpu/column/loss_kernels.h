// The transition losses, and what they share with the clean posterior: one column of T(x) per
// sample. Training runs loss_with_gradients, at the end of the file; loss_alone is for inference.
#pragma once

#include "column/softmax.h"
#include "gradients/scatter.h"
#include "kernels.h"

namespace ptd {
namespace PTD_ISA {

// The scratch of one range, in one allocation; the arrays that only gradients need come last, and
// of those `dm`, which scatter_revised alone uses.
template <class T>
struct LossScratch {
  T *weights, *column, *logits, *entry, *row, *sums, *dm, *out;
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
    sums = take(kBlock * batch.classes);
    out = take(kBlock * batch.classes);
    dm = take(0);
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

template <class T>
PTD_INLINE T label_weight(const LossArgs<T>& args, int64_t y) {
  return args.class_weight ? args.class_weight[y] : T(1);
}

// column_sums for a loss. Only reweighting reads the sums without the label.
template <class T>
PTD_INLINE ColumnSums<T> sums_of_loss(const LossArgs<T>& args, int64_t y, const T* z, const T* u,
                                      T* exps) {
  return column_sums(z, u, args.importance == kForward ? -1 : y, args.batch.classes,
                     args.smoothing > T(0), exps);
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

// Writes factor * dloss/dz, from e_i in `exps`, and factor * dloss/du. `grad_z` may be the same
// memory as `exps`.
template <class T>
PTD_INLINE void loss_gradient(const LossArgs<T>& args, const ColumnSums<T>& sums,
                              const LossTerms<T>& terms, int64_t y, const T* z, const T* u,
                              T factor, const T* exps, T* grad_z, T* grad_u) {
  for_lanes<T>(args.batch.classes, [&](int64_t i, int64_t left) {
    const Vec<T> column = load(u + i, left), e = load(exps + i, left);
    const Vec<T> column_e = column_exp(sums, z + i, e, left);
    const Vec<T> of_softmax = terms.softmax * (terms.softmax_of_column ? column_e : e);
    const Vec<T> q = terms.inverse_column_sum * joint_exp<T>(column_e, column);
    store(grad_z + i, factor * (of_softmax + terms.posterior * q), left);
    store(grad_u + i, ((factor * terms.posterior) * column_e) * terms.inverse_column_sum, left);
  });
  if (args.importance == kForward) return;
  const T joint = u[y] == T(0) ? T(0) : exp_of(z[y] - sums.column_shift) * u[y];
  grad_z[y] = factor * (terms.label + terms.posterior * (terms.inverse_column_sum * joint));
}

template <class T>
void loss_alone(const LossArgs<T>& args, int64_t begin, int64_t end, T* scratch, T* losses,
                T* saved, LossPartial* partial) {
  const auto finish = [&](int64_t n, int64_t y, const T* z, const T* u) {
    const ColumnSums<T> sums = sums_of_loss<T>(args, y, z, u, nullptr);
    const LossTerms<T> terms = loss_terms(sums, z[y], args.importance, args.max_importance);
    const T weight = label_weight(args, y);
    if (losses) losses[n] = weight * terms.loss;
    partial->loss += double(weight) * double(terms.loss);
    partial->weight += double(weight);
  };
  const auto skip = [&](int64_t n, const T*) {
    if (losses) losses[n] = T(0);
  };
  for_each_column_of_label(args, begin, end, scratch, saved, partial, finish, skip);
}

// Adds entry_i column_k of dL/dM, which is non-zero only in column y of each sample.
template <class T>
PTD_INLINE void add_label_columns(const Batch<T>& batch, int64_t count, const Vjp<T>& vjp,
                                  T* grad_slack) {  // [C, C] by column
  const int64_t classes = batch.classes;
  for (int64_t s = 0; s < count; ++s) {
    if (vjp.labels[s] < 0) continue;
    // row_i = entry_i u_i, so it is zero where entry (i, y) was clamped.
    T* grad = grad_slack + vjp.labels[s] * classes;
    for_lanes<T>(classes, [&](int64_t i, int64_t n) {
      const int64_t at = s * classes + i;
      const Vec<T> d = load(vjp.row + at, n) == Vec<T>{} ? Vec<T>{} : load(vjp.entry + at, n);
      store(grad + i, load(grad + i, n) + d, n);
    });
  }
}

// The backward pass of a range. `saved` are the range's rows of the forward pass: columns, or with
// slack the row sums; without them they are computed here. For a counted sample measure(y, z, u,
// exps) computes sums over its classes, and vjp(n, y, z, u, measured, grad_z, grad_u) writes the
// gradients of its logits, in the memory of `exps`, and of its smoothed column; skip(n, z, grad_z)
// writes the gradient of any other sample's logits. The rest, from the column to slack, parts and
// weights, is done here.
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
    const T* rows = saved ? saved + (first - begin) * classes : nullptr;
    const T* sums = rows ? rows : at.sums;
    const T* columns = batch.slack || !rows ? at.column : rows;
    if (batch.slack && !rows) row_sums(batch, h, count, at.sums);
    const auto grad_row = [&](int64_t s) {
      T* buffer = at.out + s * classes;
      return grads.logits.data ? output_row(grads.logits, first + s, buffer) : buffer;
    };
    // Three passes over the samples, so that a row is not read right after it is written.
    for (int64_t s = 0; s < count; ++s) {
      const int64_t y = label_at(args.labels, first + s);
      labels[s] = label_kind(args, y) == LabelKind::counted ? y : -1;
      if (columns == rows || labels[s] < 0) continue;
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
void loss_with_gradients(const LossArgs<T>& args, int64_t begin, int64_t end, T* scratch,
                         const T* grad_loss, int64_t grad_stride, T scale, const T* saved,
                         const Gradients<T>& grads, T* losses, double* loss) {
  const int64_t classes = args.batch.classes;
  *loss = 0.0;
  const auto measure = [&](int64_t y, const T* z, const T* u, T* exps) {
    return sums_of_loss(args, y, z, u, exps);
  };
  const auto vjp = [&](int64_t n, int64_t y, const T* z, const T* u, const ColumnSums<T>& sums,
                       T* grad_z, T* grad_u) {
    const T weight = label_weight(args, y);
    const T factor = grad_loss[n * grad_stride] * scale * weight;
    const LossTerms<T> terms = loss_terms(sums, z[y], args.importance, args.max_importance);
    if (losses) losses[n] = weight * terms.loss;
    *loss += double(weight) * double(terms.loss);
    loss_gradient(args, sums, terms, y, z, u, factor, grad_z, grad_z, grad_u);
  };
  const auto skip = [&](int64_t n, const T*, T* grad_z) {
    if (losses) losses[n] = T(0);
    memset(grad_z, 0, sizeof(T) * classes);
  };
  backward_through_column(args, begin, end, scratch, saved, grads, measure, vjp, skip);
}

}  // namespace PTD_ISA
}  // namespace ptd
