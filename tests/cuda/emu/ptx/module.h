// What a parsed PTX module looks like. Knows nothing of execution or of CUDA's runtime.
//
// Scope: the PTX that nvcc emits for element-wise and reduction kernels: one-dimensional grids, static
// shared memory, integer, f32 and f64 arithmetic, 16-bit conversions, warp shuffles, barriers, branch
// tables. Anything else is refused while parsing and never ignored: a test that passes has executed
// every instruction.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace ptx {

enum class Type : uint8_t {
  none,
  pred,
  b8,  // integers and untyped bits from here to s64
  u8,
  s8,
  b16,
  u16,
  s16,
  b32,
  u32,
  s32,
  b64,
  u64,
  s64,
  f16,
  bf16,
  f16x2,
  bf16x2,
  f32,
  f64
};
unsigned size_of(Type t);
inline bool is_integer(Type t) { return t >= Type::b8 && t <= Type::s64; }
inline bool is_signed(Type t) {
  return t == Type::s8 || t == Type::s16 || t == Type::s32 || t == Type::s64;
}

// clang-format off
enum class Op : uint8_t {
  add, sub, mul, mad, fma, div, rem, sqrt, rsqrt, rcp, ex2, lg2, min, max, abs, neg, copysign,
  and_, or_, xor_, not_, shl, shr, shf, lop3, prmt, popc, clz, brev, bfi, bfe,
  setp, selp, mov, cvt, cvta, ld, st, atom, red,
  bra, brx, ret, bar, bar_warp, shfl, fence, trap
};

enum class Space : uint8_t { generic, global, shared, param };

// lt and its like are signed or unsigned by the type; lo and its like are unsigned; equ and its like
// hold when either side is NaN.
enum class Compare : uint8_t {
  none, eq, ne, lt, le, gt, ge, lo, ls, hi, hs, equ, neu, ltu, leu, gtu, geu, num, nan
};

// A modifier that depends on the opcode: boolean combination (setp), operation (atom, red), way
// (shfl, shf).
enum class Mode : uint8_t {
  none, and_, or_, xor_, add, min, max, exch, cas, down, up, bfly, idx, l, r
};

enum class Rounding : uint8_t { none, rn, rni, rzi, rmi, rpi, approx };

enum class Special : uint8_t { tid_x, ntid_x, ctaid_x, nctaid_x, laneid, warpid, zero };
// clang-format on

struct Operand {
  enum class Kind : uint8_t { none, reg, immediate, special, vector, memory };
  Kind kind = Kind::none;
  int reg = -1;                // index of a register; for memory: the base register, or -1
  uint64_t value = 0;          // bits of an immediate; for memory: byte offset; or a Special
  std::vector<Operand> items;  // of a vector
};

struct Instruction {
  Op op = Op::trap;
  Type type = Type::none;         // the first type suffix: of the destination
  Type source_type = Type::none;  // the second one, of cvt
  Space space = Space::generic;
  Compare compare = Compare::none;
  Mode mode = Mode::none;
  Rounding rounding = Rounding::none;
  bool wide = false, high = false, wrap = false;
  uint8_t vector = 1;  // elements of a vector access
  int guard = -1;      // predicate register, or -1
  bool guard_negated = false;
  int second_destination = -1;  // "%r1|%p1" of shfl
  std::vector<int> targets;     // indices of the instructions a branch goes to: one, or brx's table
  std::vector<Operand> operands;
  std::string label;  // of a branch, or of brx's table
  std::string text;   // for messages
};

struct Slot {
  uint64_t offset = 0, size = 0;
};

struct Kernel {
  std::string name;
  std::vector<Instruction> code;
  std::map<std::string, int> registers, labels;
  std::map<std::string, std::vector<std::string>> branch_tables;
  std::map<std::string, Slot> params, shared;
  std::vector<Slot> param_order;
  uint64_t param_bytes = 0, shared_bytes = 0;
  unsigned max_threads = 1024;  // of its launch bounds
};

struct ParseError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Kernels are parsed when they are first asked for, and kept.
class Module {
 public:
  explicit Module(const std::string& text);
  const std::vector<std::string>& names() const { return names_; }
  const Kernel& kernel(const std::string& name);  // throws ParseError

 private:
  std::string text_, file_scope_;
  std::vector<std::string> names_;
  std::map<std::string, size_t> entries_;
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
};

}  // namespace ptx
