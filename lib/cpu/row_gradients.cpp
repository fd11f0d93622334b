#include "lib/cpu/row_gradients.h"

#include <algorithm>
#include <type_traits>

#include "lib/base/rounding.h"

namespace talus {
namespace {

// Rows handed to the kernels at once. Asking for all of them first keeps as many loads under way:
// each row is a cache line or few, anywhere in the tensor. Asking for later ones between updates took
// a third longer (10M x 16 f32, 1 % of the rows, 2-core Intel Xeon with AVX-512, 2026-12-01).
constexpr int64_t kRowBatch = 64;

template <class T>
T load_as(const void* data, Dtype dtype, int64_t i) {
  switch (dtype) {
    case Dtype::f32: return T(static_cast<const float*>(data)[i]);
    case Dtype::bf16: return T(widen(static_cast<const Bf16*>(data)[i]));
    case Dtype::f16: return T(widen(static_cast<const F16*>(data)[i]));
    case Dtype::f64: return T(static_cast<const double*>(data)[i]);
  }
  return 0;
}

// A table whose tensors are single rows of one tensor.
struct RowTable {
  void* data[kColumnCount][kRowBatch];
  Dtype dtype[kColumnCount][kRowBatch];
  int64_t count[kRowBatch];
  int32_t scalar_class[kRowBatch];
  Path path[kRowBatch];
  uint8_t hidden_given[kRowBatch];
  Segment segment[kRowBatch];
  PlanView plan{};

  RowTable(const PassCall& call, const CoalescedRows& rows) {
    const TableView& table = call.plan->table;
    const int64_t tensor = rows.gradient().tensor;
    for (int c = 0; c < kColumnCount; ++c) {
      const Dtype type = c == kGradient ? rows.dtype() : table.column[c].dtype[tensor];
      std::fill_n(data[c], kRowBatch, nullptr);
      std::fill_n(dtype[c], kRowBatch, type);
      plan.table.column[c] = {data[c], dtype[c]};
    }
    std::fill_n(count, kRowBatch, rows.gradient().row_length);
    std::fill_n(scalar_class, kRowBatch, table.scalar_class[tensor]);
    std::fill_n(path, kRowBatch, table.path[tensor]);
    std::fill_n(hidden_given, kRowBatch, uint8_t(1));
    for (int64_t k = 0; k < kRowBatch; ++k) segment[k] = {0, rows.gradient().row_length, k};
    plan.table.count = count;
    plan.table.scalar_class = scalar_class;
    plan.table.path = path;
    plan.table.hidden_given = hidden_given;
  }

  // Points tensors 0 .. n - 1 at rows first .. first + n - 1 and asks for their memory.
  void point(const TableView& table, const CoalescedRows& rows, int64_t first, int64_t n) {
    const RowGradient& from = rows.gradient();
    for (int c = 0; c < kColumnCount; ++c) {
      char* const base = static_cast<char*>(table.column[c].data[from.tensor]);
      if (c == kGradient || !base) continue;
      const int64_t bytes = from.row_length * size_of(table.column[c].dtype[from.tensor]);
      for (int64_t k = 0; k < n; ++k) {
        char* const at = base + rows.row(first + k) * bytes;
        data[c][k] = at;
        for (int64_t line = 0; line < bytes && line < 512; line += 64)
          __builtin_prefetch(at + line, 1, 3);
      }
    }
    for (int64_t k = 0; k < n; ++k) {
      data[kGradient][k] = const_cast<void*>(rows.values(first + k));
      __builtin_prefetch(data[kGradient][k]);
    }
  }
};

}  // namespace

int64_t CoalescedRows::take(const RowGradient& from, Dtype grad_dtype, Dtype compute) {
  for (int64_t j = 0; j < from.count; ++j)
    if (from.index(j) < 0 || from.index(j) >= from.rows) return j;
  from_ = from;
  count_ = from.count;
  dtype_ = grad_dtype;
  order_.clear();
  summed_ = false;
  if (ascending()) return -1;
  sort();
  if (all_different()) return -1;
  summed_ = true;
  dtype_ = compute;
  rank();
  if (compute == Dtype::f64)
    sum_rows(sums64_, grad_dtype);
  else
    sum_rows(sums32_, grad_dtype);
  return -1;
}

bool CoalescedRows::ascending() const {
  for (int64_t j = 1; j < from_.count; ++j)
    if (from_.index(j) <= from_.index(j - 1)) return false;
  return true;
}

// By row, those of one row in order of appearance: a radix sort. A tensor's memory that is reached in
// ascending order takes two thirds of the time.
void CoalescedRows::sort() {
  constexpr int kMostBits = 12;
  const int digit_bits = from_.count < 4096 ? 8 : kMostBits;
  position_bits_ = int(std::bit_width(uint64_t(from_.count)));
  const int end = position_bits_ + int(std::bit_width(uint64_t(from_.rows)));
  order_.resize(size_t(from_.count));
  scratch_.resize(order_.size());
  for (int64_t j = 0; j < from_.count; ++j) order_[size_t(j)] = entry_of(from_.index(j), j);
  for (int shift = position_bits_; shift < end; shift += digit_bits) {
    const size_t digits = size_t{1} << digit_bits;
    const auto digit = [&](uint64_t entry) { return size_t(entry >> shift) & (digits - 1); };
    size_t next[(1 << kMostBits) + 1];
    std::fill_n(next, digits + 1, size_t{0});
    for (const uint64_t entry : order_) ++next[digit(entry) + 1];
    for (size_t d = 1; d <= digits; ++d) next[d] += next[d - 1];
    for (const uint64_t entry : order_) scratch_[next[digit(entry)]++] = entry;
    order_.swap(scratch_);
  }
}

bool CoalescedRows::all_different() const {
  for (size_t k = 1; k < order_.size(); ++k)
    if (row_of(order_[k]) == row_of(order_[k - 1])) return false;
  return true;
}

void CoalescedRows::rank() {
  rank_.assign(order_.size(), 0);
  for (size_t k = 0; k < order_.size(); ++k)
    rank_[size_t(position_of(order_[k]))] = k == 0 || row_of(order_[k]) != row_of(order_[k - 1]);
  count_ = 0;
  for (int64_t& r : rank_) count_ += r, r = count_ - r;
}

// In the order of appearance; the first one is copied, so that a sign of zero is kept. Leaves one
// entry for each row.
template <class T>
void CoalescedRows::sum_rows(std::vector<T>& sums, Dtype grad_dtype) {
  const int64_t length = from_.row_length;
  sums.resize(size_t(count_ * length));
  size_t kept = 0;
  for (size_t k = 0; k < order_.size(); ++k) {
    const int64_t row = row_of(order_[k]), position = position_of(order_[k]);
    const bool is_first = k == 0 || row != row_of(order_[kept - 1]);
    if (is_first) order_[kept++] = entry_of(row, rank_[size_t(position)]);
    T* const to = sums.data() + position_of(order_[kept - 1]) * length;
    for (int64_t i = 0; i < length; ++i) {
      const T x = load_as<T>(from_.values, grad_dtype, position * length + i);
      to[i] = is_first ? x : to[i] + x;
    }
  }
  order_.resize(kept);
}

const void* CoalescedRows::value_row(int64_t position) const {
  const int64_t i = position * from_.row_length;
  if (!summed_) return static_cast<const char*>(from_.values) + i * size_of(dtype_);
  if (dtype_ == Dtype::f64) return sums64_.data() + i;
  return sums32_.data() + i;
}

void update_rows(const PassCall& from, const CoalescedRows& rows, SegmentsFn function,
                 int64_t first, int64_t last) {
  RowTable table(from, rows);
  PassCall call = from;
  call.plan = &table.plan;
  for (int64_t j = first; j < last; j += kRowBatch) {
    const int64_t n = std::min(kRowBatch, last - j);
    table.point(from.plan->table, rows, j, n);
    function(call, table.segment, table.segment + n);
  }
}

int64_t tiles_of(const CoalescedRows& rows) {
  return (rows.count() * rows.gradient().row_length + kTile - 1) / kTile;
}

void measure_rows(const PassCall& from, const CoalescedRows& rows, SegmentsFn function) {
  const int64_t tensor = rows.gradient().tensor, n = rows.count() * rows.gradient().row_length;
  if (n == 0) return;
  void* data = const_cast<void*>(rows.all_values());
  const Dtype dtype = rows.dtype();
  PlanView plan{};
  plan.table.count = &n;
  plan.table.scalar_class = from.plan->table.scalar_class + tensor;
  plan.table.column[kGradient] = {&data, &dtype};
  plan.tile_first = from.plan->tile_first + tensor;
  PassCall call = from;
  call.plan = &plan;
  const Segment whole{0, n, 0};
  function(call, &whole, &whole + 1);
}

}  // namespace talus
