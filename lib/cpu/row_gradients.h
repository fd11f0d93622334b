// Gradients of some rows of a tensor as the CPU takes them: checked, rows that repeat summed, then
// updated row by row through the kernels of dense tensors.
#pragma once
#include <bit>
#include <vector>

#include "lib/cpu/kernels.h"

namespace talus {

// Whether `count` of `rows` rows can be told apart, see CoalescedRows::entry_of.
inline bool can_coalesce(int64_t rows, int64_t count) {
  return std::bit_width(uint64_t(rows)) + std::bit_width(uint64_t(count)) <= 63;
}

// One row gradient with its rows told apart.
class CoalescedRows {
 public:
  // The index that is outside of the tensor's rows, by position, or -1. Nothing has changed then.
  // Throws std::bad_alloc.
  int64_t take(const RowGradient& from, Dtype grad_dtype, Dtype compute);

  const RowGradient& gradient() const { return from_; }
  int64_t count() const { return count_; }  // different rows, in ascending order
  int64_t row(int64_t j) const {
    return order_.empty() ? from_.index(j) : row_of(order_[size_t(j)]);
  }
  // Row j of them, `from_.row_length` values of dtype().
  const void* values(int64_t j) const {
    return value_row(order_.empty() ? j : position_of(order_[size_t(j)]));
  }
  // All of them, one after the other, in the order of first appearance.
  const void* all_values() const { return value_row(0); }
  Dtype dtype() const { return dtype_; }

 private:
  // A row above the position of its values: sorting eight bytes takes half the time of sixteen.
  int64_t row_of(uint64_t entry) const { return int64_t(entry >> position_bits_); }
  int64_t position_of(uint64_t entry) const {
    return int64_t(entry & ((uint64_t{1} << position_bits_) - 1));
  }
  uint64_t entry_of(int64_t row, int64_t position) const {
    return uint64_t(row) << position_bits_ | uint64_t(position);
  }
  const void* value_row(int64_t position) const;
  bool ascending() const;
  void sort();
  bool all_different() const;
  void rank();
  template <class T>
  void sum_rows(std::vector<T>& sums, Dtype grad_dtype);

  RowGradient from_{};
  int64_t count_ = 0;
  Dtype dtype_ = Dtype::f32;
  bool summed_ = false;
  int position_bits_ = 0;
  std::vector<uint64_t> order_, scratch_;  // order_ empty: the indices as they are
  std::vector<int64_t> rank_;              // of each given row that is a first one, among those
  std::vector<float> sums32_;
  std::vector<double> sums64_;
};

// Rows [first, last) through an element pass. `call` has the plan, its rows of scalars and factor.
void update_rows(const PassCall& call, const CoalescedRows& rows, SegmentsFn function,
                 int64_t first, int64_t last);

// Sums of squares by tile of the values, row after row, as if they were a tensor of their own.
void measure_rows(const PassCall& call, const CoalescedRows& rows, SegmentsFn function);
int64_t tiles_of(const CoalescedRows& rows);

}  // namespace talus
