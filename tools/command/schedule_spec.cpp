#include "schedule_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string_view>

namespace command {
namespace {

constexpr int kMostLevels = 16;  // more than the library takes: what is refused here is depth alone

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// One pass over a text, a level of parentheses at a time.
class PieceParser {
 public:
  explicit PieceParser(const std::string& text) : text_(text) {}

  ScheduleSpec read_all() {
    ScheduleSpec spec = read_spec(1);
    if (at_ < text_.size()) throw WrongUsage(place("a ')' that closes nothing"));
    return spec;
  }

 private:
  ScheduleSpec read_spec(int level) {
    if (level > kMostLevels)
      throw WrongUsage(fmt::format("more than {} levels of parentheses", kMostLevels));
    ScheduleSpec spec;
    spec.kind = read_word();
    if (spec.kind.empty()) throw WrongUsage(place("no kind of schedule"));
    for (skip_spaces(); at_ < text_.size() && text_[at_] != ')'; skip_spaces()) {
      if (text_[at_] == '(')
        spec.pieces.push_back(read_parentheses(level));
      else
        spec.settings.push_back(read_word());
    }
    return spec;
  }

  ScheduleSpec read_parentheses(int level) {
    ++at_;
    ScheduleSpec spec = read_spec(level + 1);
    if (at_ == text_.size()) throw WrongUsage(place("a ')' is missing"));
    ++at_;
    return spec;
  }

  std::string read_word() {
    skip_spaces();
    const size_t start = at_;
    while (at_ < text_.size() && !is_space(text_[at_]) && text_[at_] != '(' && text_[at_] != ')')
      ++at_;
    return text_.substr(start, at_ - start);
  }

  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  std::string place(const char* what) const {
    return at_ == text_.size() ? fmt::format("{} at the end", what)
                               : fmt::format("{} at character {}", what, at_ + 1);
  }

  const std::string& text_;
  size_t at_ = 0;
};

void refuse_function(const std::string& kind) {
  if (kind == "lambda" || kind == "multiplicative")
    throw WrongUsage(fmt::format(
        "{} calls a function of the program that trains, and a command line has none", kind));
}

std::vector<int64_t> read_milestones(const std::string& text) {
  std::vector<int64_t> list;
  if (text.empty()) return list;
  for (size_t start = 0; start <= text.size();) {
    const size_t comma = std::min(text.find(',', start), text.size());
    const std::string item = text.substr(start, comma - start);
    if (!read_integer(item, &list.emplace_back()))
      throw WrongUsage(
          fmt::format("milestones: \"{}\" is not an integer, expected such as 30,80", item));
    start = comma + 1;
  }
  return list;
}

void set_one(talus::Schedule& schedule, const std::string& name, const std::string& value) {
  if (name == "milestones") return schedule.set_milestones(read_milestones(value));
  double number = 0;
  if (!read_number(value, &number))
    throw WrongUsage(fmt::format("{}: \"{}\" is not a number", name, value));
  schedule.set(name.c_str(), number);
}

void set_all(talus::Schedule& schedule, const std::vector<std::string>& settings) {
  std::vector<std::string> names;
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    if (equals == std::string::npos)
      throw WrongUsage(fmt::format("\"{}\", expected NAME=VALUE", setting));
    const std::string name = setting.substr(0, equals);
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw WrongUsage(fmt::format("\"{}\" is set twice", name));
    set_one(schedule, name, setting.substr(equals + 1));
    names.push_back(name);
  }
}

}  // namespace

ScheduleSpec parse_piece(const std::string& text) { return PieceParser(text).read_all(); }

std::string spec_text(const ScheduleSpec& spec) {
  std::string out = spec.kind;
  for (const std::string& setting : spec.settings) out += " " + setting;
  for (const ScheduleSpec& piece : spec.pieces) out += " (" + spec_text(piece) + ")";
  return out;
}

talus::Schedule make_schedule(const ScheduleSpec& spec) {
  refuse_function(spec.kind);
  talus::Schedule schedule(spec.kind);
  set_all(schedule, spec.settings);
  for (const ScheduleSpec& piece : spec.pieces) schedule.add(make_schedule(piece));
  return schedule;
}

bool has_plateau(const ScheduleSpec& spec) {
  return spec.kind == "plateau" || std::any_of(spec.pieces.begin(), spec.pieces.end(), has_plateau);
}

bool read_number(const std::string& text, double* out) {
  if (text.empty() || is_space(text[0])) return false;
  char* end = nullptr;
  errno = 0;
  *out = std::strtod(text.c_str(), &end);
  const bool overflow = errno == ERANGE && std::isinf(*out);
  return end == text.c_str() + text.size() && !overflow;
}

bool read_integer(const std::string& text, int64_t* out) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *out);
  return error == std::errc() && stop == end;
}

}  // namespace command
