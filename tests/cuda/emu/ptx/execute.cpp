// One instruction of one thread: operands, memory, arithmetic.
#include <cstring>

#include "tests/cuda/emu/ptx/arithmetic.h"
#include "tests/cuda/emu/ptx/machine.h"

namespace ptx {

namespace {
[[noreturn]] void bad(const std::string& message) { throw Fault(FaultKind::bad_program, message); }

// multiplications to twice the width
Type result_type(const Instruction& ins) {
  if (ins.op == Op::popc || ins.op == Op::clz) return Type::u32;
  if (!ins.wide) return ins.type;
  return size_of(ins.type) == 2 ? Type::u32 : Type::u64;
}
}  // namespace

void Machine::execute(Thread& t, const Instruction& ins) {
  switch (ins.op) {
    case Op::ld: return load(t, ins);
    case Op::st: return store(t, ins);
    case Op::atom:
    case Op::red: return atomic(t, ins);
    case Op::mov: return move(t, ins);
    case Op::setp: return set_predicate(t, ins);
    case Op::bfi:
    case Op::bfe: return bit_field(t, ins);
    case Op::lop3: return logic(t, ins);
    default: break;
  }
  const auto& o = ins.operands;
  const size_t sources = o.size() - 1;
  const uint64_t a = read(t, o.at(1)), b = sources > 1 ? read(t, o[2]) : 0;
  uint64_t value = 0;
  if (ins.op == Op::cvta) {
    if (ins.space != Space::global) bad("address of other than global memory: " + ins.text);
    value = a;
  } else if (ins.op == Op::cvt) {
    value = convert(ins, a, b);
  } else if (sources == 1) {
    value = unary(ins, a);
  } else if (sources == 2) {
    value = binary(ins, a, b);
  } else {
    value = ternary(ins, a, b, read(t, o[3]));
  }
  write(t, o[0], value, result_type(ins));
}

uint64_t Machine::read(const Thread& t, const Operand& o) const {
  if (o.kind == Operand::Kind::reg) return t.reg[size_t(o.reg)];
  if (o.kind == Operand::Kind::immediate) return o.value;
  if (o.kind != Operand::Kind::special) bad("operand");
  switch (Special(o.value)) {
    case Special::tid_x: return current_;
    case Special::ntid_x: return block_size_;
    case Special::ctaid_x: return block_index_;
    case Special::nctaid_x: return grid_size_;
    case Special::laneid: return current_ & 31;
    case Special::warpid: return current_ >> 5;
    case Special::zero: return 0;
  }
  bad("operand");
}

void Machine::write(Thread& t, const Operand& to, uint64_t value, Type type) {
  if (to.kind == Operand::Kind::none) return;  // "_"
  if (to.kind != Operand::Kind::reg) bad("destination");
  t.reg[size_t(to.reg)] = truncate(value, type);
}

uint8_t* Machine::address(const Thread& t, const Instruction& ins, const Operand& o,
                          unsigned bytes) {
  const uint64_t a = o.value + (o.reg >= 0 ? t.reg[size_t(o.reg)] : 0);
  if (ins.space == Space::param) {
    if (a + bytes > params_.size()) bad("parameter range: " + ins.text);
    return params_.data() + a;
  }
  if (ins.space == Space::generic) bad("generic address: " + ins.text);
  if (a % bytes)
    throw Fault(FaultKind::misaligned_address,
                "misaligned " + std::to_string(bytes) + "-byte access: " + ins.text);
  const Now now = {block_index_, current_, block_clock_, warp_clocks_[current_ / 32]};
  const bool writes = ins.op == Op::st;
  if (ins.space == Space::shared)
    return shared_.access(a & 0xffffffff, bytes, writes, now, ins.text);
  uint8_t* host = memory_.find(a, bytes);
  if (!host) throw Fault(FaultKind::illegal_address, "out-of-bounds global access: " + ins.text);
  const bool atomic = ins.op == Op::atom || ins.op == Op::red;  // those do not race
  for (uint64_t i = a / 2; checks_global_ && !atomic && i < (a + bytes + 1) / 2; ++i)
    if (!global_[i].note(writes, now))
      throw Fault(FaultKind::race, "race in global memory: " + ins.text);
  return host;
}

void Machine::load(Thread& t, const Instruction& ins) {
  const unsigned size = size_of(ins.type);
  const Operand& to = ins.operands[0];
  const uint8_t* p = address(t, ins, ins.operands[1], size * ins.vector);
  for (size_t i = 0; i < ins.vector; ++i) {
    uint64_t v = 0;
    std::memcpy(&v, p + i * size, size);
    // A register may be wider than what is loaded into it.
    write(t, ins.vector == 1 ? to : to.items[i], extend(v, ins.type), Type::b64);
  }
}

void Machine::store(Thread& t, const Instruction& ins) {
  const unsigned size = size_of(ins.type);
  const Operand& from = ins.operands[1];
  uint8_t* p = address(t, ins, ins.operands[0], size * ins.vector);
  for (size_t i = 0; i < ins.vector; ++i) {
    const uint64_t v = read(t, ins.vector == 1 ? from : from.items[i]);
    std::memcpy(p + i * size, &v, size);
  }
}

// Integers only: the order of a float atomic is not fixed.
void Machine::atomic(Thread& t, const Instruction& ins) {
  const size_t m = ins.op == Op::atom ? 1 : 0;  // atom has a destination, red has none
  if (ins.space != Space::global || !is_integer(ins.type)) bad("atomic: " + ins.text);
  const unsigned size = size_of(ins.type);
  uint8_t* p = address(t, ins, ins.operands[m], size);
  uint64_t old = 0;
  std::memcpy(&old, p, size);
  const uint64_t v = truncate(read(t, ins.operands[m + 1]), ins.type);
  uint64_t result = 0;
  switch (ins.mode) {
    case Mode::add: result = old + v; break;
    case Mode::max: result = less(ins.type, old, v) ? v : old; break;
    case Mode::min: result = less(ins.type, v, old) ? v : old; break;
    case Mode::or_: result = old | v; break;
    case Mode::and_: result = old & v; break;
    case Mode::exch: result = v; break;
    case Mode::cas: result = old == v ? read(t, ins.operands[m + 2]) : old; break;
    default: bad("atomic: " + ins.text);
  }
  std::memcpy(p, &result, size);
  if (m) write(t, ins.operands[0], old, ins.type);
}

// mov also packs and unpacks: mov.b64 %rd, {%r1, %r2};  mov.b32 {%h1, %h2}, %r;
void Machine::move(Thread& t, const Instruction& ins) {
  const Operand &to = ins.operands[0], &from = ins.operands[1];
  const bool unpack = to.kind == Operand::Kind::vector, pack = from.kind == Operand::Kind::vector;
  if (!unpack && !pack) return write(t, to, read(t, from), ins.type);
  const auto& items = unpack ? to.items : from.items;
  const unsigned width = unsigned(8 * size_of(ins.type) / items.size());
  const uint64_t field = (uint64_t(1) << width) - 1, whole = unpack ? read(t, from) : 0;
  uint64_t packed = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    if (unpack)
      write(t, items[i], (whole >> (width * i)) & field, Type::b64);
    else
      packed |= (read(t, items[i]) & field) << (width * i);
  }
  if (pack) write(t, to, packed, ins.type);
}

void Machine::set_predicate(Thread& t, const Instruction& ins) {
  if (ins.second_destination >= 0 || ins.compare == Compare::none) bad("setp: " + ins.text);
  bool result = compare(ins, read(t, ins.operands[1]), read(t, ins.operands[2]));
  if (ins.mode != Mode::none) {
    const bool other = read(t, ins.operands.at(3)) & 1;
    result = ins.mode == Mode::and_  ? result && other
             : ins.mode == Mode::or_ ? result || other
                                     : result != other;
  }
  write(t, ins.operands[0], result, Type::pred);
}

// bfi d, a, b, position, length: the low bits of a into b.  bfe d, a, position, length: bits of a.
void Machine::bit_field(Thread& t, const Instruction& ins) {
  if (is_signed(ins.type)) bad("bfe with sign: " + ins.text);
  const bool insert = ins.op == Op::bfi;
  const uint64_t position = read(t, ins.operands[insert ? 3 : 2]) & 0xff;
  const uint64_t length = read(t, ins.operands[insert ? 4 : 3]) & 0xff;
  const uint64_t field = length >= 64 ? ~uint64_t(0) : (uint64_t(1) << length) - 1;
  const uint64_t a = truncate(read(t, ins.operands[1]), ins.type);
  const uint64_t b = insert ? read(t, ins.operands[2]) : 0;
  uint64_t result = b;
  if (!insert)
    result = position >= 64 ? 0 : (a >> position) & field;
  else if (position < 64)
    result = (b & ~(field << position)) | (a & field) << position;
  write(t, ins.operands[0], result, ins.type);
}

// lop3 d, a, b, c, table: bit (4a + 2b + c) of the table, for each bit of the three.
void Machine::logic(Thread& t, const Instruction& ins) {
  const uint64_t a = read(t, ins.operands[1]), b = read(t, ins.operands[2]);
  const uint64_t c = read(t, ins.operands[3]), table = read(t, ins.operands.at(4));
  uint64_t out = 0;
  for (unsigned row = 0; row < 8; ++row)
    if ((table >> row) & 1) out |= (row & 4 ? a : ~a) & (row & 2 ? b : ~b) & (row & 1 ? c : ~c);
  write(t, ins.operands[0], out, ins.type);
}

}  // namespace ptx
