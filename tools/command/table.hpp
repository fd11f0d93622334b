// Text in columns, for a terminal of 100.
#pragma once
#include <string>
#include <vector>

namespace command {

inline constexpr size_t kLineWidth = 100;

// Lays rows out in columns as wide as their widest cell, two spaces apart; the last column takes
// the rest of the line and continues below itself. Cells are ASCII.
std::string format_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace command
