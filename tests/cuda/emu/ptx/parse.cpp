// PTX text to Kernel. Refuses every opcode, modifier and directive that it does not know.
#include "tests/cuda/emu/ptx/names.h"
#include "tests/cuda/emu/ptx/text.h"

namespace ptx {

unsigned size_of(Type t) {
  switch (t) {
    case Type::pred:
    case Type::b8:
    case Type::u8:
    case Type::s8: return 1;
    case Type::b16:
    case Type::u16:
    case Type::s16:
    case Type::f16:
    case Type::bf16: return 2;
    case Type::b64:
    case Type::u64:
    case Type::s64:
    case Type::f64: return 8;
    default: return 4;
  }
}

namespace {

class KernelParser {
 public:
  Kernel run(const std::string& s, size_t entry, const std::string& file_scope);

 private:
  Kernel kernel_;
  std::string last_label_;

  int reg(const std::string& name) {
    return kernel_.registers.emplace(name, int(kernel_.registers.size())).first->second;
  }
  void header(const std::string& s);
  void body(const std::string& s, size_t open);
  void label(const std::string& name);
  void statement(std::string s);
  void directive(const std::string& s);
  void modifier(Instruction& ins, const std::string& m);
  void operands(Instruction& ins, const std::string& text);
  Operand operand(const std::string& text, const std::string& where);
  Operand memory(const std::string& inside, const std::string& where);
  void resolve(Instruction& ins);
};

Operand KernelParser::memory(const std::string& inside, const std::string& where) {
  Operand o;
  o.kind = Operand::Kind::memory;
  std::string base = inside;
  if (const size_t plus = inside.find('+'); plus != std::string::npos) {
    o.value = integer(trim(inside.substr(plus + 1)), where);
    base = inside.substr(0, plus);
  }
  base = trim(base);
  if (base[0] == '%') {
    o.reg = reg(base);
  } else if (const Slot* param = lookup(kernel_.params, base)) {
    o.value += param->offset;
  } else if (const Slot* shared = lookup(kernel_.shared, base)) {
    o.value += shared->offset;
  } else {
    o.value += integer(base, where);
  }
  return o;
}

Operand KernelParser::operand(const std::string& text, const std::string& where) {
  const std::string s = trim(text);
  Operand o;
  if (s.empty()) fail("empty operand in: " + where);
  if (s == "_") return o;  // a part that is not wanted
  if (s[0] == '{') {
    o.kind = Operand::Kind::vector;
    for (const auto& item : split(s.substr(1, s.size() - 2), ','))
      o.items.push_back(operand(item, where));
    return o;
  }
  if (s[0] == '[') return memory(s.substr(1, s.size() - 2), where);
  if (s[0] == '%') {
    if (const Special* special = lookup(kSpecials, s)) {
      o.kind = Operand::Kind::special;
      o.value = uint64_t(*special);
      return o;
    }
    if (s.find('.') != std::string::npos) fail("special register " + s);
    o.kind = Operand::Kind::reg;
    o.reg = reg(s);
    return o;
  }
  o.kind = Operand::Kind::immediate;
  const bool float_bits = s.size() > 2 && s[0] == '0' && std::string("fFdD").find(s[1]) < 4;
  if (float_bits) {
    o.value = std::stoull(s.substr(2), nullptr, 16);
  } else if (const Slot* shared = lookup(kernel_.shared, s)) {
    o.value = shared->offset;
  } else if (const Slot* param = lookup(kernel_.params, s)) {
    o.value = param->offset;
  } else {
    o.value = integer(s, where);
  }
  return o;
}

void KernelParser::modifier(Instruction& ins, const std::string& m) {
  const Op op = ins.op;
  if (const Type* t = lookup(kTypes, m)) {
    (ins.type == Type::none ? ins.type : ins.source_type) = *t;
  } else if (m == "global") {
    ins.space = Space::global;
  } else if (m == "shared") {
    ins.space = Space::shared;
  } else if (m == "param") {
    ins.space = Space::param;
  } else if (m == "wide" && (op == Op::mul || op == Op::mad)) {
    ins.wide = true;
  } else if (m == "hi" && (op == Op::mul || op == Op::mad)) {
    ins.high = true;
  } else if (m == "warp" && op == Op::bar) {
    ins.op = Op::bar_warp;
  } else if (m == "idx" && op == Op::brx) {
    return;
  } else if (op == Op::shf && (m == "wrap" || m == "clamp")) {
    ins.wrap = m == "wrap";
  } else if (m == "v2" || m == "v4") {
    ins.vector = uint8_t(m[1] - '0');
  } else if (const Compare* c = lookup(kCompares, m); c && op == Op::setp) {
    ins.compare = *c;
  } else if (const Mode* mode = lookup(kModes, m);
             mode && (op == Op::setp || op == Op::atom || op == Op::red || op == Op::shfl ||
                      op == Op::shf)) {
    ins.mode = *mode;
  } else if (const Rounding* r = lookup(kRoundings, m)) {
    ins.rounding = *r;
  } else if (!is_neutral(m)) {  // .ftz for example: refused, not ignored
    fail("modifier ." + m + " in: " + ins.text);
  }
}

void KernelParser::operands(Instruction& ins, const std::string& text) {
  const std::vector<std::string> parts = split(text, ',');
  for (size_t i = 0; i < parts.size(); ++i) {
    std::string part = parts[i];
    if (ins.op == Op::bra || (ins.op == Op::brx && i == 1)) {
      ins.label = trim(part);
      continue;
    }
    if (const size_t bar = part.find('|'); bar != std::string::npos) {
      ins.second_destination = reg(trim(part.substr(bar + 1)));
      part.resize(bar);
    }
    ins.operands.push_back(operand(part, ins.text));
  }
}

void KernelParser::directive(const std::string& s) {
  if (starts_with(s, ".reg") || starts_with(s, ".pragma")) return;
  if (starts_with(s, ".branchtargets")) {
    for (const auto& name : split(s.substr(14), ','))
      kernel_.branch_tables[last_label_].push_back(trim(name));
    return;
  }
  if (!starts_with(s, ".shared")) fail("directive " + s);
  const Declaration d = declaration(s);
  kernel_.shared[d.name] = place(kernel_.shared_bytes, d);
}

void KernelParser::statement(std::string s) {
  s = trim(s);
  if (s.empty()) return;
  if (s[0] == '.') return directive(s);
  Instruction ins;
  ins.text = s;
  if (s[0] == '@') {
    const size_t space = s.find_first_of(" \t");
    ins.guard_negated = s[1] == '!';
    ins.guard = reg(s.substr(1 + ins.guard_negated, space - 1 - ins.guard_negated));
    s = trim(s.substr(space));
  }
  const size_t space = s.find_first_of(" \t");
  const auto mnemonic = split(s.substr(0, space), '.');
  const Op* op = lookup(kOps, mnemonic[0]);
  if (!op) fail("unknown opcode in: " + ins.text);
  ins.op = *op;
  for (size_t i = 1; i < mnemonic.size(); ++i) modifier(ins, mnemonic[i]);
  if (space != std::string::npos) operands(ins, trim(s.substr(space)));
  if (ins.op == Op::bar &&
      (ins.operands.size() != 1 || ins.operands[0].kind != Operand::Kind::immediate ||
       ins.operands[0].value != 0))
    fail("barrier other than 0 of the whole block: " + ins.text);
  kernel_.code.push_back(std::move(ins));
}

// Between the parameters and the body: launch bounds.
void KernelParser::header(const std::string& s) {
  for (const auto& line : split(s, '\n')) {
    const std::string t = trim(line);
    if (starts_with(t, ".maxntid"))
      kernel_.max_threads = unsigned(integer(trim(t.substr(8)), t));
    else if (!t.empty() && !starts_with(t, ".minnctapersm"))
      fail("directive " + t);
  }
}

void KernelParser::label(const std::string& name) {
  kernel_.labels[name] = int(kernel_.code.size());
  last_label_ = name;
}

void KernelParser::body(const std::string& s, size_t open) {
  std::string current;
  int depth = 0;
  for (size_t i = open; i < s.size(); ++i) {
    const char c = s[i];
    const std::string t = trim(current);
    // Line numbers end with the line, not with ';'.
    if (c == '\n' && (starts_with(t, ".loc") || starts_with(t, ".file"))) {
      current.clear();
    } else if (t.empty() && (c == '{' || c == '}')) {
      depth += c == '{' ? 1 : -1;
      if (depth == 0) return;
    } else if (c == ';') {
      statement(current);
      current.clear();
    } else if (c == ':' && s[i + 1] != ':' && s[i - 1] != ':' && !t.empty() &&
               t.find_first_of(".% \t@") == std::string::npos) {
      label(t);
      current.clear();
    } else {
      current += c;
    }
  }
  fail("no end of kernel " + kernel_.name);
}

void KernelParser::resolve(Instruction& ins) {
  if (ins.op != Op::bra && ins.op != Op::brx) return;
  std::vector<std::string> names = {ins.label};
  if (ins.op == Op::brx) {
    const auto* table = lookup(kernel_.branch_tables, ins.label);
    if (!table) fail("branch table " + ins.label);
    names = *table;
  }
  for (const auto& name : names) {
    const int* target = lookup(kernel_.labels, name);
    if (!target) fail("label " + name);
    ins.targets.push_back(*target);
  }
}

// The declarations of shared memory outside of kernels.
std::vector<Declaration> file_scope_shared(const std::string& s) {
  std::vector<Declaration> out;
  for (const auto& part : split(s, ';'))
    if (const size_t at = part.find(".shared"); at != std::string::npos)
      out.push_back(declaration(trim(part.substr(at))));
  return out;
}

Kernel KernelParser::run(const std::string& s, size_t entry, const std::string& file_scope) {
  const size_t open = s.find('(', entry), close = s.find(')', open), brace = s.find('{', close);
  if (brace == std::string::npos) fail("no body of a kernel");
  kernel_.name = trim(s.substr(entry + 6, open - entry - 6));
  for (const auto& text : split(s.substr(open + 1, close - open - 1), ',')) {
    if (trim(text).empty()) continue;
    const Declaration d = declaration(trim(text));
    kernel_.param_order.push_back(kernel_.params[d.name] = place(kernel_.param_bytes, d));
  }
  for (const auto& d : file_scope_shared(file_scope))
    kernel_.shared[d.name] = place(kernel_.shared_bytes, d);
  header(s.substr(close + 1, brace - close - 1));
  body(s, brace);
  for (Instruction& ins : kernel_.code) resolve(ins);
  return std::move(kernel_);
}

}  // namespace

Module::Module(const std::string& text) : text_(without_comments(text)) {
  int depth = 0;
  for (size_t i = 0; i < text_.size(); ++i) {
    if (depth == 0 && text_.compare(i, 7, ".entry ") == 0) {
      names_.push_back(trim(text_.substr(i + 7, text_.find('(', i) - i - 7)));
      entries_[names_.back()] = i;
    }
    depth += (text_[i] == '{') - (text_[i] == '}');
    if (depth == 0) file_scope_ += text_[i] == '}' ? ';' : text_[i];
  }
}

const Kernel& Module::kernel(const std::string& name) {
  auto& kernel = kernels_[name];
  if (!kernel) {
    const size_t* entry = lookup(entries_, name);
    if (!entry) fail("no kernel " + name);
    kernel = std::make_unique<Kernel>(KernelParser().run(text_, *entry, file_scope_));
  }
  return *kernel;
}

}  // namespace ptx
