// What strict readers of JSON share: they are told of one token after the other, build no document
// of their own accord, do not recurse, and say where the text is wrong.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "lib/base/status.h"

namespace talus {

// A name of a file we do not trust, quoted and cut; control characters are question marks.
std::string shown(std::string_view name);

// All values are refused but those that a reader overrides; equal keys are its own business.
class JsonReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  // Reads a whole document; what is open at its end is the parser's to see. where: for texts;
  // first: the byte of the file at which the text begins.
  Status read(std::string_view text, const std::string& where, uint64_t first);

  bool null() override { return fail("null is not expected here"); }
  bool boolean(bool) override { return fail("a boolean is not expected here"); }
  bool binary(binary_t&) override { return fail("binary is not expected here"); }
  bool number_integer(number_integer_t) override { return fail("a number below 0"); }  // and -0
  bool number_unsigned(number_unsigned_t) override { return fail("a number is not expected here"); }
  bool number_float(number_float_t, const string_t&) override {  // 1.0, 1e3, 2^64
    return fail("not an unsigned 64-bit integer");
  }
  bool string(string_t&) override { return fail("a string is not expected here"); }
  bool start_object(size_t) override { return fail("an object is not expected here"); }
  bool start_array(size_t) override { return fail("a list is not expected here"); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& e) override;

 protected:
  // False, which ends the parser.
  bool fail(std::string_view why);
  // What is being read, as "tensor \"a\": ", or nothing.
  virtual std::string at() const { return ""; }

 private:
  std::string why_;
};

}  // namespace talus
