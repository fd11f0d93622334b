// Compiled without contraction, as the whole project is: fma happens only where PTX says fma.
#include "tests/cuda/emu/ptx/arithmetic.h"

#include <bit>
#include <cmath>

#include "tests/cuda/emu/ptx/fault.h"

namespace ptx {

float as_f32(uint64_t bits) { return std::bit_cast<float>(uint32_t(bits)); }
double as_f64(uint64_t bits) { return std::bit_cast<double>(bits); }
uint64_t bits_of(float f) { return std::bit_cast<uint32_t>(f); }
uint64_t bits_of(double d) { return std::bit_cast<uint64_t>(d); }

void unsupported(const Instruction& ins) {
  throw Fault(FaultKind::bad_program, "not supported: " + ins.text);
}

namespace {

template <class F>
bool compare_floats(Compare c, F x, F y) {
  const bool unordered = x != x || y != y;
  switch (c) {
    case Compare::eq: return x == y;
    case Compare::ne: return !unordered && x != y;
    case Compare::lt: return x < y;
    case Compare::le: return x <= y;
    case Compare::gt: return x > y;
    case Compare::ge: return x >= y;
    case Compare::equ: return unordered || x == y;
    case Compare::neu: return unordered || x != y;
    case Compare::ltu: return unordered || x < y;
    case Compare::leu: return unordered || x <= y;
    case Compare::gtu: return unordered || x > y;
    case Compare::geu: return unordered || x >= y;
    case Compare::num: return !unordered;
    case Compare::nan: return unordered;
    default: return false;
  }
}

bool compare_integers(Compare c, Type t, uint64_t a, uint64_t b) {
  a = extend(a, t);
  b = extend(b, t);
  const bool below = is_signed(t) ? int64_t(a) < int64_t(b) : a < b;
  switch (c) {
    case Compare::eq: return a == b;
    case Compare::ne: return a != b;
    case Compare::lt: return below;
    case Compare::le: return below || a == b;
    case Compare::gt: return !below && a != b;
    case Compare::ge: return !below;
    case Compare::lo: return a < b;
    case Compare::ls: return a <= b;
    case Compare::hi: return a > b;
    case Compare::hs: return a >= b;
    default: return false;
  }
}

// The other one where one is NaN; +0 is above -0.
template <class F>
F smaller(F a, F b) {
  if (a != a) return b;
  if (a == b) return std::signbit(a) ? a : b;
  return b < a ? b : a;
}
template <class F>
F larger(F a, F b) {
  if (a != a) return b;
  if (a == b) return std::signbit(a) ? b : a;
  return b > a ? b : a;
}

template <class F>
F float_binary(const Instruction& ins, F a, F b) {
  switch (ins.op) {
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return a * b;
    case Op::div: return a / b;
    case Op::min: return smaller(a, b);
    case Op::max: return larger(a, b);
    case Op::copysign: return std::copysign(b, a);
    default: unsupported(ins);
  }
}

template <class F>
F float_unary(const Instruction& ins, F a) {
  switch (ins.op) {
    case Op::sqrt: return std::sqrt(a);
    case Op::rsqrt: return F(1) / std::sqrt(a);
    case Op::rcp: return F(1) / a;
    case Op::ex2: return std::exp2(a);
    case Op::lg2: return std::log2(a);
    default: unsupported(ins);
  }
}

uint64_t divide(const Instruction& ins, uint64_t a, uint64_t b) {
  a = extend(a, ins.type);
  b = extend(b, ins.type);
  if (b == 0) throw Fault(FaultKind::bad_program, "integer division by zero: " + ins.text);
  const bool remainder = ins.op == Op::rem;
  if (!is_signed(ins.type)) return remainder ? a % b : a / b;
  const int64_t x = int64_t(a), y = int64_t(b);
  return y == -1 ? (remainder ? 0 : 0 - a) : uint64_t(remainder ? x % y : x / y);
}

uint64_t shift(const Instruction& ins, uint64_t a, uint64_t amount) {
  const unsigned width = 8 * size_of(ins.type);
  amount &= 0xffffffff;
  if (ins.op == Op::shl) return amount >= width ? 0 : a << amount;
  if (!is_signed(ins.type)) return amount >= width ? 0 : truncate(a, ins.type) >> amount;
  return uint64_t(int64_t(extend(a, ins.type)) >> (amount >= width ? width - 1 : amount));
}

// wide: all bits of the product; high: the upper half.
uint64_t multiply(const Instruction& ins, uint64_t a, uint64_t b) {
  if (!ins.wide && !ins.high) return a * b;
  a = extend(a, ins.type);
  b = extend(b, ins.type);
  if (ins.wide) return a * b;
  __extension__ using Signed = __int128;
  __extension__ using Wide = unsigned __int128;
  const Wide product =
      is_signed(ins.type) ? Wide(Signed(int64_t(a)) * Signed(int64_t(b))) : Wide(a) * Wide(b);
  return uint64_t(product >> (8 * size_of(ins.type)));
}

uint64_t integer_binary(const Instruction& ins, uint64_t a, uint64_t b) {
  switch (ins.op) {
    case Op::add: return a + b;
    case Op::sub: return a - b;
    case Op::mul: return multiply(ins, a, b);
    case Op::div:
    case Op::rem: return divide(ins, a, b);
    case Op::min: return less(ins.type, a, b) ? a : b;
    case Op::max: return less(ins.type, a, b) ? b : a;
    case Op::and_: return a & b;
    case Op::or_: return a | b;
    case Op::xor_: return a ^ b;
    case Op::shl:
    case Op::shr: return shift(ins, a, b);
    default: unsupported(ins);
  }
}

// Bytes of the eight in b:a, each chosen by four bits; the top one of the four repeats the sign.
uint64_t permute(uint64_t a, uint64_t b, uint64_t selector) {
  const uint64_t from = (b << 32) | (a & 0xffffffff);
  uint64_t out = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const uint64_t nibble = (selector >> (4 * i)) & 15;
    uint64_t byte = (from >> (8 * (nibble & 7))) & 0xff;
    if (nibble & 8) byte = byte & 0x80 ? 0xff : 0;
    out |= byte << (8 * i);
  }
  return out;
}

// 32 bits of the 64 in b:a, from the left or from the right end.
uint64_t funnel(const Instruction& ins, uint64_t a, uint64_t b, uint64_t amount) {
  const uint64_t n = ins.wrap ? amount & 31 : std::min<uint64_t>(amount & 0xffffffff, 32);
  const uint64_t from = (b << 32) | (a & 0xffffffff);
  return ins.mode == Mode::l ? (from << n) >> 32 : from >> n;
}

}  // namespace

uint64_t truncate(uint64_t value, Type t) {
  if (t == Type::pred) return value & 1;
  const unsigned bytes = size_of(t);
  return bytes == 8 ? value : value & ((uint64_t(1) << (8 * bytes)) - 1);
}

uint64_t extend(uint64_t value, Type t) {
  switch (t) {
    case Type::s8: return uint64_t(int64_t(int8_t(value)));
    case Type::s16: return uint64_t(int64_t(int16_t(value)));
    case Type::s32: return uint64_t(int64_t(int32_t(value)));
    default: return truncate(value, t);
  }
}

bool less(Type t, uint64_t a, uint64_t b) { return compare_integers(Compare::lt, t, a, b); }

bool compare(const Instruction& ins, uint64_t a, uint64_t b) {
  if (ins.type == Type::f32) return compare_floats(ins.compare, as_f32(a), as_f32(b));
  if (ins.type == Type::f64) return compare_floats(ins.compare, as_f64(a), as_f64(b));
  if (!is_integer(ins.type)) unsupported(ins);
  return compare_integers(ins.compare, ins.type, a, b);
}

uint64_t unary(const Instruction& ins, uint64_t a) {
  const Type t = ins.type;
  const uint64_t top = uint64_t(1) << (8 * size_of(t) - 1);
  if (t == Type::f32 || t == Type::f64) {
    if (ins.op == Op::neg) return a ^ top;
    if (ins.op == Op::abs) return a & ~top;
    return t == Type::f32 ? bits_of(float_unary(ins, as_f32(a)))
                          : bits_of(float_unary(ins, as_f64(a)));
  }
  if (t != Type::pred && !is_integer(t)) unsupported(ins);
  switch (ins.op) {
    case Op::not_: return ~a;
    case Op::neg: return 0 - a;
    case Op::abs: return int64_t(extend(a, t)) < 0 ? 0 - a : a;
    case Op::popc: return uint64_t(std::popcount(truncate(a, t)));
    case Op::clz: return uint64_t(std::countl_zero(truncate(a, t))) - (64 - 8 * size_of(t));
    case Op::brev: {
      uint64_t out = 0;
      for (unsigned i = 0; i < 8 * size_of(t); ++i) out = out << 1 | ((a >> i) & 1);
      return out;
    }
    default: unsupported(ins);
  }
}

uint64_t binary(const Instruction& ins, uint64_t a, uint64_t b) {
  if (ins.type == Type::f32) return bits_of(float_binary(ins, as_f32(a), as_f32(b)));
  if (ins.type == Type::f64) return bits_of(float_binary(ins, as_f64(a), as_f64(b)));
  if (ins.type != Type::pred && !is_integer(ins.type)) unsupported(ins);  // 16-bit arithmetic
  return integer_binary(ins, a, b);
}

uint64_t ternary(const Instruction& ins, uint64_t a, uint64_t b, uint64_t c) {
  switch (ins.op) {
    case Op::selp: return c & 1 ? a : b;
    case Op::prmt: return permute(a, b, c);
    case Op::shf: return funnel(ins, a, b, c);
    case Op::fma:
      if (ins.type == Type::f32) return bits_of(std::fma(as_f32(a), as_f32(b), as_f32(c)));
      if (ins.type == Type::f64) return bits_of(std::fma(as_f64(a), as_f64(b), as_f64(c)));
      unsupported(ins);
    case Op::mad:
      if (!is_integer(ins.type)) unsupported(ins);
      return multiply(ins, a, b) + c;
    default: unsupported(ins);
  }
}

}  // namespace ptx
