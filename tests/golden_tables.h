// The tables of tests/golden/amp*.json: rows of numbers, texts and named values. No library here.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace talus::test {

class GoldenRow {
 public:
  struct Cell {
    std::string text;  // or texts, or numbers, each of which has its name where it has one
    std::vector<std::string> texts;
    std::vector<std::pair<std::string, double>> numbers;
  };

  explicit GoldenRow(std::map<std::string, Cell> cells) : cells_(std::move(cells)) {}

  bool has(const std::string& key) const { return cells_.count(key) > 0; }
  const std::string& text(const std::string& key) const { return cells_.at(key).text; }
  // Also of a text that is one: "inf", "0x1.8p+3".
  double number(const std::string& key) const;
  // Of a text of hexadecimal digits.
  uint32_t bits(const std::string& key) const;
  std::vector<double> numbers(const std::string& key) const;
  const std::vector<std::string>& texts(const std::string& key) const {
    return cells_.at(key).texts;
  }
  const std::vector<std::pair<std::string, double>>& values(const std::string& key) const {
    return cells_.at(key).numbers;
  }

 private:
  std::map<std::string, Cell> cells_;
};

// Table `table` of tests/golden/<file>.json. Throws where there is none, or it has no rows.
std::vector<GoldenRow> golden_table(const std::string& file, const std::string& table);

}  // namespace talus::test
