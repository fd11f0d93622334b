// Text in columns, for a terminal of 100, or of the width that it has.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace command {

inline constexpr size_t kLineWidth = 100;

// Lays rows out in columns as wide as their widest cell, two spaces apart; the last column takes
// the rest of the line and continues below itself. Cells are ASCII, or from printable.
std::string format_table(const std::vector<std::vector<std::string>>& rows,
                         size_t width = kLineWidth);

// The variable COLUMNS, else what the terminal on standard output says, else kLineWidth.
size_t terminal_width();

// For text of files that we do not trust: control characters as '?'. UTF-8 stays.
std::string printable(std::string_view text);
// Leaves out the middle of what is longer than `width` characters.
std::string cut_middle(std::string_view text, size_t width);
// Leaves out the end of it.
std::string cut_end(std::string_view text, size_t width);

// Every row one line of at most `width`: names in the first column are cut in the middle, and where
// that would leave too little of them they take a line of their own.
std::string fit_table(const std::vector<std::vector<std::string>>& rows, size_t width);

}  // namespace command
