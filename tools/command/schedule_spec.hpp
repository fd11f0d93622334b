// A schedule as text of the command line: KIND NAME=VALUE ... (KIND ...) ..., and what the library
// makes of it. Knows no options.
#pragma once
#include <talus.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace command {

// The command line is not one of ours; what() says what of it.
struct WrongUsage : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ScheduleSpec {
  std::string kind;
  std::vector<std::string> settings;  // "T_max=100", "milestones=30,80"
  std::vector<ScheduleSpec> pieces;
};

// Reads the text of a piece, whose own pieces stand in parentheses. Throws WrongUsage.
ScheduleSpec parse_piece(const std::string& text);

// As parse_piece reads it, with single spaces.
std::string spec_text(const ScheduleSpec& spec);

// Throws WrongUsage, or the library's own text where it knows no such kind or parameter.
talus::Schedule make_schedule(const ScheduleSpec& spec);

// Whether it or a piece of it follows reported metrics.
bool has_plateau(const ScheduleSpec& spec);

// The whole text, or false: "nan" and "inf" are numbers, 1e999 is none.
bool read_number(const std::string& text, double* out);
// A decimal integer of 64 bits.
bool read_integer(const std::string& text, int64_t* out);

}  // namespace command
