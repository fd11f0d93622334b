// The flat tensor table: one row per parameter, struct of arrays. A backend reads it through
// TableView, which is plain data, so that a device can mirror it column by column.
#pragma once
#include <array>
#include <vector>

#include "lib/rules/rule.h"

namespace talus {

inline constexpr int32_t kIdle = -1;  // scalar class of a parameter that has no gradient

// How the loop may reach the operands of one tensor.
enum class Path : uint8_t {
  staged,  // some operand is not of the compute type, or there is a master
  direct   // every operand is of the compute type
};

struct ColumnView {
  void* const* data;  // by tensor; NULL: absent
  const Dtype* dtype;
};

struct TableView {
  int64_t tensor_count;
  const int64_t* count;  // elements of each tensor
  const int32_t* scalar_class;
  const Path* path;
  const uint8_t* hidden_given;  // 1: the first step takes the master as it is
  ColumnView column[kColumnCount];
};

class TensorTable {
 public:
  struct ColumnData {
    std::vector<void*> data;
    std::vector<Dtype> dtype;
  };

  int64_t size() const { return int64_t(count.size()); }
  void reserve(size_t rows);
  void add_row(int64_t elements);  // idle, no operands; reserve first: does not throw then
  void truncate(size_t rows);
  void clear_row(int64_t row);  // an empty tensor without operands

  void* data(int c, int64_t row) const { return column[size_t(c)].data[size_t(row)]; }
  Dtype dtype(int c, int64_t row) const { return column[size_t(c)].dtype[size_t(row)]; }
  void set(int c, int64_t row, void* data, Dtype dtype) {
    column[size_t(c)].data[size_t(row)] = data;
    column[size_t(c)].dtype[size_t(row)] = dtype;
  }
  void set_data(int c, int64_t row, void* data) { column[size_t(c)].data[size_t(row)] = data; }
  // Decides `path` of a row, after its operands are known; bit c: column c is none (a tensor slot).
  void seal(int64_t row, uint32_t no_operands = 0);
  TableView view() const;

  std::vector<int64_t> count;
  std::vector<int32_t> scalar_class;
  std::vector<Path> path;
  std::vector<uint8_t> hidden_given;
  std::array<ColumnData, kColumnCount> column;
};

}  // namespace talus
