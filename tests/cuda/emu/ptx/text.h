// Cutting PTX text into words; declarations of parameters and of shared memory.
#pragma once
#include <cctype>

#include "tests/cuda/emu/ptx/names.h"

namespace ptx {

[[noreturn]] inline void fail(const std::string& message) { throw ParseError("ptx: " + message); }

inline bool starts_with(const std::string& s, const char* start) { return s.rfind(start, 0) == 0; }

inline std::string trim(const std::string& s) {
  const size_t a = s.find_first_not_of(" \t\r\n"), b = s.find_last_not_of(" \t\r\n");
  return a == std::string::npos ? "" : s.substr(a, b - a + 1);
}

// At `separator`, outside of {} and [].
inline std::vector<std::string> split(const std::string& s, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : s) {
    depth += (c == '{' || c == '[') - (c == '}' || c == ']');
    if (c == separator && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

inline std::string without_comments(const std::string& s) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s.compare(i, 2, "//") == 0) {
      while (i < s.size() && s[i] != '\n') ++i;
      out += '\n';
    } else {
      out += s[i];
    }
  }
  return out;
}

inline uint64_t integer(const std::string& s, const std::string& where) {
  try {
    return s[0] == '-' ? static_cast<uint64_t>(std::stoll(s, nullptr, 0))
                       : std::stoull(s, nullptr, 0);
  } catch (const std::exception&) {
    fail("unknown symbol or number '" + s + "' in: " + where);
  }
}

// ".param .align 8 .b8 name[40]", ".param .u64 .ptr .global .align 16 name", ".shared .b8 name[4]".
struct Declaration {
  std::string name;
  uint64_t align = 1, bytes = 0;
};

inline Declaration declaration(const std::string& text) {
  Declaration d;
  const Type* type = nullptr;
  uint64_t count = 1;
  const size_t bracket = text.find('[');
  for (const std::string& word : split(text.substr(0, bracket), ' ')) {
    const std::string w = trim(word);
    if (w.size() > 1 && w[0] == '.' && lookup(kTypes, w.substr(1)))
      type = lookup(kTypes, w.substr(1));
    if (!w.empty()) d.name = w;
  }
  if (!type) fail("declaration " + text);
  if (bracket != std::string::npos) {
    if (!std::isdigit(static_cast<unsigned char>(text[bracket + 1])))
      fail("unsized array (dynamic shared memory): " + text);
    count = std::stoull(text.substr(bracket + 1));
  }
  const size_t align = text.find(".align");
  d.align = align == std::string::npos ? size_of(*type) : std::stoull(text.substr(align + 6));
  d.bytes = count * size_of(*type);
  return d;
}

inline Slot place(uint64_t& total, const Declaration& d) {
  total = (total + d.align - 1) / d.align * d.align;
  const Slot slot{total, d.bytes};
  total += d.bytes;
  return slot;
}

}  // namespace ptx
