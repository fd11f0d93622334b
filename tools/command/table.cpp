// Text in columns; knows nothing of what is in them.
#include "table.hpp"

#include <algorithm>
#include <sstream>

namespace command {
namespace {

constexpr size_t kGap = 2;
constexpr size_t kNarrowest = 20;  // a last column narrower than this would be a list of words

std::vector<std::string> wrap(const std::string& text, size_t width) {
  std::vector<std::string> lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    if (line.empty())
      line = word;
    else if (line.size() + 1 + word.size() <= width)
      line += " " + word;
    else
      lines.push_back(word);
  }
  return lines;
}

std::vector<size_t> column_widths(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    if (widths.size() < row.size()) widths.resize(row.size());
    for (size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  return widths;
}

}  // namespace

std::string format_table(const std::vector<std::vector<std::string>>& rows) {
  const std::vector<size_t> widths = column_widths(rows);
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i + 1 < row.size(); ++i)
      line += row[i] + std::string(widths[i] + kGap - row[i].size(), ' ');
    const size_t indent = line.size();
    const size_t rest = indent + kNarrowest < kLineWidth ? kLineWidth - indent : kNarrowest;
    for (const std::string& part : wrap(row.back(), rest)) {
      line += part;
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
      line.assign(indent, ' ');
    }
  }
  return text;
}

}  // namespace command
