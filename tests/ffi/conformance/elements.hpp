// Words of a conformance script as numbers and arrays, and back as bits, for conformance.cpp.
#ifndef TALUS_TESTS_FFI_CONFORMANCE_ELEMENTS_HPP
#define TALUS_TESTS_FFI_CONFORMANCE_ELEMENTS_HPP
#include <talus.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

// What is wrong with the script, or with an answer that is no status.
struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Array = std::variant<std::vector<float>, std::vector<double>, std::vector<talus::Float16>,
                           std::vector<talus::BFloat16>>;

// An unsigned integer of the size of T.
template <class T>
using Bits = std::conditional_t<sizeof(T) == 2, uint16_t,
                                std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;

template <class T>
T parse(const std::string& word, int base) {
  T value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  if (error != std::errc() || end != word.data() + word.size())
    throw Fault("\"" + word + "\" is no number");
  return value;
}

inline int64_t to_int(const std::string& word) { return parse<int64_t>(word, 10); }
inline int32_t to_index(const std::string& word) { return parse<int32_t>(word, 10); }

template <class T>
T to_element(const std::string& word) {
  if (word.size() != 2 * sizeof(T)) throw Fault("\"" + word + "\" has another count of digits");
  return std::bit_cast<T>(parse<Bits<T>>(word, 16));
}

inline double to_double(const std::string& word) { return to_element<double>(word); }

template <class T>
std::string bits_of(std::span<T> elements) {
  std::string text;
  for (const T& element : elements) {
    char digits[24];
    const auto bits = std::bit_cast<Bits<T>>(element);
    std::snprintf(digits, sizeof digits, "%s%0*llx", text.empty() ? "" : " ", int(2 * sizeof(T)),
                  static_cast<unsigned long long>(bits));
    text += digits;
  }
  return text;
}

inline std::string bits_of(double value) { return bits_of(std::span(&value, 1)); }

// Returns 0 for "-".
inline int32_t dtype_of(const std::string& word) {
  if (word == "-") return 0;
  if (word == "f64") return TALUS_F64;
  if (word == "f32") return TALUS_F32;
  if (word == "f16") return TALUS_F16;
  if (word == "bf16") return TALUS_BF16;
  throw Fault("\"" + word + "\" is no dtype");
}

// Calls f with a value of the element type of this dtype.
template <class F>
auto with_element(int32_t dtype, F f) {
  switch (dtype) {
    case TALUS_F64: return f(double{});
    case TALUS_F32: return f(float{});
    case TALUS_F16: return f(talus::Float16{});
    case TALUS_BF16: return f(talus::BFloat16{});
    default: throw Fault("no element type for dtype " + std::to_string(dtype));
  }
}

inline void set_elements(Array& array, std::span<const std::string> words) {
  std::visit(
      [&]<class T>(std::vector<T>& elements) {
        if (words.size() != elements.size()) throw Fault("another count of elements");
        for (size_t i = 0; i < words.size(); ++i) elements[i] = to_element<T>(words[i]);
      },
      array);
}

inline Array make_array(const std::string& dtype, std::span<const std::string> words) {
  Array array = with_element(dtype_of(dtype),
                             [&]<class T>(T) { return Array(std::vector<T>(words.size())); });
  set_elements(array, words);
  return array;
}

// Reads "2x3"; "-" is empty.
inline std::vector<int64_t> shape_of(const std::string& word) {
  std::vector<int64_t> shape;
  for (size_t at = 0; word != "-" && at <= word.size();) {
    const size_t end = std::min(word.find('x', at), word.size());
    shape.push_back(to_int(word.substr(at, end - at)));
    at = end + 1;
  }
  return shape;
}
#endif
