// Gradients of some rows of a tensor as the CPU takes them: checked, rows that repeat summed, then
// updated row by row through the kernels of dense tensors.
#pragma once
#include <vector>

#include "lib/cpu/kernels.h"

namespace talus {

// One row gradient with its rows told apart.
class CoalescedRows {
 public:
  // The index that is outside of the tensor's rows, by position, or -1. Nothing has changed then.
  // Throws std::bad_alloc.
  int64_t take(const RowGradient& from, Dtype grad_dtype, Dtype compute);

  const RowGradient& gradient() const { return from_; }
  int64_t count() const { return count_; }  // different rows, in the order of first appearance
  int64_t row(int64_t j) const { return rows_.empty() ? from_.index(j) : rows_[size_t(j)]; }
  // Row j of them, `from_.row_length` values of dtype().
  const void* values(int64_t j) const;
  Dtype dtype() const { return dtype_; }

 private:
  bool ascending() const;
  void find_rows();
  template <class T>
  void sum_rows(std::vector<T>& sums, Dtype grad_dtype);

  RowGradient from_{};
  int64_t count_ = 0;
  Dtype dtype_ = Dtype::f32;
  bool summed_ = false;
  std::vector<int64_t> rows_;      // empty: the indices as they are
  std::vector<int64_t> position_;  // of each given row, among the different ones
  std::vector<int64_t> table_;     // open addressing: position + 1, 0 is free
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
