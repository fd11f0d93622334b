// Reads the tables. Apart from the tests that use them, for JSON is slow to compile.
#include "tests/golden_tables.h"

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace talus::test {
namespace {

using Json = nlohmann::ordered_json;

GoldenRow::Cell cell_of(const Json& json) {
  GoldenRow::Cell cell;
  if (json.is_string()) {
    cell.text = json.get<std::string>();
  } else if (json.is_object()) {
    for (const auto& [name, value] : json.items()) cell.numbers.emplace_back(name, value);
  } else if (json.is_array()) {
    for (const Json& value : json)
      if (value.is_string())
        cell.texts.push_back(value.get<std::string>());
      else
        cell.numbers.emplace_back("", value.get<double>());
  } else {
    cell.numbers.emplace_back("", json.get<double>());
  }
  return cell;
}

}  // namespace

double GoldenRow::number(const std::string& key) const {
  const Cell& cell = cells_.at(key);
  if (cell.text.empty()) return cell.numbers.at(0).second;
  char* end = nullptr;
  const double value = std::strtod(cell.text.c_str(), &end);
  if (*end != '\0') throw std::runtime_error(key + ": no number: " + cell.text);
  return value;
}

uint32_t GoldenRow::bits(const std::string& key) const {
  size_t used = 0;
  const std::string& digits = text(key);
  const unsigned long value = std::stoul(digits, &used, 16);
  if (used != digits.size()) throw std::runtime_error(key + ": no bits: " + digits);
  return uint32_t(value);
}

std::vector<double> GoldenRow::numbers(const std::string& key) const {
  std::vector<double> list;
  for (const auto& [name, value] : cells_.at(key).numbers) list.push_back(value);
  return list;
}

std::vector<GoldenRow> golden_table(const std::string& file, const std::string& table) {
  const std::string path = TALUS_GOLDEN_FOLDER "/" + file + ".json";
  try {
    std::ifstream stream(path);
    const Json json = Json::parse(stream);
    std::vector<GoldenRow> rows;
    for (const Json& row : json.at(table)) {
      std::map<std::string, GoldenRow::Cell> cells;
      for (const auto& [key, value] : row.items()) cells[key] = cell_of(value);
      rows.emplace_back(std::move(cells));
    }
    if (rows.empty()) throw std::runtime_error("it has no rows");
    return rows;
  } catch (const std::exception& error) {
    throw std::runtime_error(path + ", table " + table + ": " + error.what());
  }
}

}  // namespace talus::test
