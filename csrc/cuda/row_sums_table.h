// What row sums are formed from (row_sums_kernels.cuh), in scratch memory: the entries of T(x) +
// slack in the order that is decided for them, and the weights by part.
#pragma once

#include "blocks.h"

namespace ptd {

constexpr int kRowSumRows = 4;       // whose numbers are loaded together
constexpr int kRowSumSamples = 128;  // of a warp: four neighbours a lane
template <class T>
constexpr int kRowSumTile = sizeof(T) == 4 ? 8 : 2;  // entries, in registers at a time

template <class T>
struct RowSumTable {
  // [C, tiles, 1 + R, kRowSumTile]: of each entry of a row its slack, then its parts. First come
  // the undecided ones, last the decided ones, and zeros after the end.
  T* entries;
  // [1 + R, fours, kRowSumRows]: slack and parts, added up over a row's entries that are never
  // clamped.
  T* linear;
  int* undecided;  // [fours, kRowSumRows], how many a row has
  T* weights;      // [chunks, R, kRowSumSamples], zeros after the last sample
  unsigned* off;   // [chunks, 4], a bit for each sample with weights off the simplex
  int tiles, fours;
  int64_t chunks;
};

#ifndef __CUDACC_RTC__

// Numbers of scratch: `table` does not depend on the samples, and `weights` not on the classes.
struct RowSumSizes {
  int64_t table, weights;
};

template <class T>
struct RowSumScratch {
  T *table, *weights;
};

template <class T>
RowSumTable<T> row_sum_table(int64_t samples, int classes, int parts,
                             const RowSumScratch<T>& scratch) {
  RowSumTable<T> table;
  table.tiles = int(ceil_div(classes, kRowSumTile<T>));
  table.fours = int(ceil_div(classes, kRowSumRows));
  table.chunks = ceil_div(samples, kRowSumSamples);
  const int64_t entries = int64_t(classes) * table.tiles * kRowSumTile<T> * (parts + 1);
  table.entries = scratch.table;
  table.linear = table.entries + entries;
  table.undecided =
      reinterpret_cast<int*>(table.linear + int64_t(table.fours) * kRowSumRows * (parts + 1));
  table.weights = scratch.weights;
  table.off = reinterpret_cast<unsigned*>(table.weights + table.chunks * parts * kRowSumSamples);
  return table;
}

template <class T>
RowSumSizes row_sum_sizes(int64_t samples, int classes, int parts) {
  const RowSumTable<T> table = row_sum_table<T>(samples, classes, parts, {});
  const int64_t rows = int64_t(table.fours) * kRowSumRows;
  const int64_t entries = int64_t(table.tiles) * kRowSumTile<T> * classes;
  return {(entries + rows) * (parts + 1) + rows, table.chunks * (parts * kRowSumSamples + 4)};
}

#endif

}  // namespace ptd
