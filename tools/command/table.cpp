// Text in columns; knows nothing of what is in them.
#include "table.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>

namespace command {
namespace {

constexpr size_t kGap = 2;
constexpr std::string_view kCut = "...";
constexpr size_t kLeastName = 20;  // characters of a name that still tell one from another
constexpr size_t kNarrowest = 20;  // a last column narrower than this would be a list of words

// Characters, taken as one column each.
size_t length_of(std::string_view text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// The byte at which character `index` begins.
size_t byte_of(std::string_view text, size_t index) {
  size_t at = 0;
  for (; at < text.size(); ++at)
    if ((text[at] & 0xc0) != 0x80 && index-- == 0) break;
  return at;
}

std::string padded(const std::string& cell, size_t width) {
  const size_t length = length_of(cell);
  return cell + std::string(width > length ? width - length : 0, ' ');
}

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
    for (size_t i = 0; i + 1 < row.size(); ++i) widths[i] = std::max(widths[i], length_of(row[i]));
  }
  return widths;
}

size_t sum_behind_first(const std::vector<size_t>& widths) {
  size_t sum = 0;
  for (size_t i = 1; i < widths.size(); ++i) sum += kGap + widths[i];
  return sum;
}

// Takes from the widest column but the first until all but the first have room.
void narrow(std::vector<size_t>* widths, size_t width) {
  while (sum_behind_first(*widths) > width) {
    size_t& widest = *std::max_element(widths->begin() + 1, widths->end());
    if (widest <= 1) return;
    --widest;
  }
}

}  // namespace

std::string format_table(const std::vector<std::vector<std::string>>& rows, size_t width) {
  const std::vector<size_t> widths = column_widths(rows);
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i + 1 < row.size(); ++i) line += padded(row[i], widths[i] + kGap);
    const size_t indent = length_of(line);
    const size_t rest = indent + kNarrowest < width ? width - indent : kNarrowest;
    for (const std::string& part : wrap(row.back(), rest)) {
      line += part;
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
      line.assign(indent, ' ');
    }
  }
  return text;
}

size_t terminal_width() {
  constexpr long kLeast = 20, kMost = 1000;
  if (const char* columns = std::getenv("COLUMNS"))
    if (const long width = std::strtol(columns, nullptr, 10); width >= kLeast && width <= kMost)
      return size_t(width);
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= kLeast) return size.ws_col;
  return kLineWidth;
}

std::string printable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    const bool c1 = c == 0xc2 && i + 1 < text.size() && (text[i + 1] & 0xe0) == 0x80;  // U+0080 on
    if (c1) ++i;
    out += c < 0x20 || c == 0x7f || c1 ? '?' : text[i];
  }
  return out;
}

std::string cut_end(std::string_view text, size_t width) {
  if (length_of(text) <= width || width <= kCut.size()) return cut_middle(text, width);
  return std::string(text.substr(0, byte_of(text, width - kCut.size()))).append(kCut);
}

std::string cut_middle(std::string_view text, size_t width) {
  const size_t length = length_of(text);
  if (length <= width) return std::string(text);
  if (width <= kCut.size()) return std::string(text.substr(0, byte_of(text, width)));
  const size_t left = (width - kCut.size() + 1) / 2, right = width - kCut.size() - left;
  std::string out(text.substr(0, byte_of(text, left)));
  out.append(kCut).append(text.substr(byte_of(text, length - right)));
  return out;
}

std::string fit_table(const std::vector<std::vector<std::string>>& rows, size_t width) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    if (widths.size() < row.size()) widths.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], length_of(row[i]));
  }
  const size_t others = sum_behind_first(widths);
  const bool own_line = others + std::min(widths.at(0), kLeastName) > width;
  if (own_line) narrow(&widths, width);
  const size_t name = own_line ? 0 : std::min(widths[0], width - others);
  std::string text;
  for (const auto& row : rows) {
    std::string line = padded(cut_middle(row[0], own_line ? width : name), name);
    if (own_line) text += std::exchange(line, "") + "\n";
    for (size_t i = 1; i < row.size(); ++i)
      line += std::string(kGap, ' ') + padded(cut_middle(row[i], widths[i]), widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace command
