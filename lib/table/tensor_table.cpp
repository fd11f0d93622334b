#include "lib/table/tensor_table.h"

#include <algorithm>

namespace talus {
namespace {

// Applies f to every column, so that none can be forgotten.
template <class F>
void for_each_vector(TensorTable& t, F f) {
  f(t.count), f(t.scalar_class), f(t.path), f(t.hidden_given);
  for (TensorTable::ColumnData& c : t.column) f(c.data), f(c.dtype);
}

}  // namespace

// At least doubles, so that adding parameters one by one stays linear.
void TensorTable::reserve(size_t rows) {
  for_each_vector(*this, [rows](auto& v) {
    if (rows > v.capacity()) v.reserve(std::max(rows, 2 * v.capacity()));
  });
}

void TensorTable::truncate(size_t rows) {
  for_each_vector(*this, [rows](auto& v) {
    if (rows < v.size()) v.erase(v.begin() + std::ptrdiff_t(rows), v.end());
  });
}

void TensorTable::add_row(int64_t elements) {
  count.push_back(elements);
  scalar_class.push_back(kIdle);
  path.push_back(Path::staged);
  hidden_given.push_back(0);
  for (ColumnData& c : column) {
    c.data.push_back(nullptr);
    c.dtype.push_back(Dtype::f32);
  }
}

void TensorTable::clear_row(int64_t row) {
  count[size_t(row)] = 0;
  hidden_given[size_t(row)] = 0;
  for (int c = 0; c < kColumnCount; ++c) set_data(c, row, nullptr);
}

void TensorTable::seal(int64_t row, uint32_t no_operands) {
  const Dtype compute = compute_type(dtype(kValue, row));
  bool direct = data(kHidden, row) == nullptr;
  for (int c = 0; c < kColumnCount; ++c)
    if (!(no_operands >> c & 1) && (c == kValue || c == kGradient || data(c, row)))
      direct = direct && dtype(c, row) == compute;
  path[size_t(row)] = direct ? Path::direct : Path::staged;
}

TableView TensorTable::view() const {
  TableView out{size(), count.data(), scalar_class.data(), path.data(), hidden_given.data(), {}};
  for (size_t c = 0; c < column.size(); ++c)
    out.column[c] = {column[c].data.data(), column[c].dtype.data()};
  return out;
}

}  // namespace talus
