#include "tests/cuda/emu/ptx/names.h"

#include <set>

namespace ptx {

// clang-format off
const Names<Type> kTypes = {
    {"pred", Type::pred}, {"b8", Type::b8}, {"u8", Type::u8}, {"s8", Type::s8},
    {"b16", Type::b16}, {"u16", Type::u16}, {"s16", Type::s16}, {"b32", Type::b32},
    {"u32", Type::u32}, {"s32", Type::s32}, {"b64", Type::b64}, {"u64", Type::u64},
    {"s64", Type::s64}, {"f16", Type::f16}, {"bf16", Type::bf16}, {"f16x2", Type::f16x2},
    {"bf16x2", Type::bf16x2}, {"f32", Type::f32}, {"f64", Type::f64}};

const Names<Op> kOps = {
    {"add", Op::add}, {"sub", Op::sub}, {"mul", Op::mul}, {"mad", Op::mad}, {"fma", Op::fma},
    {"div", Op::div}, {"rem", Op::rem}, {"sqrt", Op::sqrt}, {"rsqrt", Op::rsqrt},
    {"rcp", Op::rcp}, {"ex2", Op::ex2}, {"lg2", Op::lg2}, {"min", Op::min}, {"max", Op::max},
    {"abs", Op::abs}, {"neg", Op::neg}, {"copysign", Op::copysign},
    {"and", Op::and_}, {"or", Op::or_}, {"xor", Op::xor_}, {"not", Op::not_},
    {"shl", Op::shl}, {"shr", Op::shr}, {"shf", Op::shf}, {"lop3", Op::lop3},
    {"prmt", Op::prmt}, {"popc", Op::popc}, {"clz", Op::clz}, {"brev", Op::brev},
    {"bfi", Op::bfi}, {"bfe", Op::bfe}, {"setp", Op::setp}, {"selp", Op::selp},
    {"mov", Op::mov}, {"cvt", Op::cvt}, {"cvta", Op::cvta}, {"ld", Op::ld}, {"st", Op::st},
    {"atom", Op::atom}, {"red", Op::red}, {"bra", Op::bra}, {"brx", Op::brx},
    {"ret", Op::ret}, {"exit", Op::ret}, {"bar", Op::bar}, {"barrier", Op::bar},
    {"shfl", Op::shfl}, {"membar", Op::fence}, {"fence", Op::fence}, {"trap", Op::trap}};

const Names<Compare> kCompares = {
    {"eq", Compare::eq}, {"ne", Compare::ne}, {"lt", Compare::lt}, {"le", Compare::le},
    {"gt", Compare::gt}, {"ge", Compare::ge}, {"lo", Compare::lo}, {"ls", Compare::ls},
    {"hi", Compare::hi}, {"hs", Compare::hs}, {"equ", Compare::equ}, {"neu", Compare::neu},
    {"ltu", Compare::ltu}, {"leu", Compare::leu}, {"gtu", Compare::gtu}, {"geu", Compare::geu},
    {"num", Compare::num}, {"nan", Compare::nan}};

const Names<Mode> kModes = {
    {"and", Mode::and_}, {"or", Mode::or_}, {"xor", Mode::xor_}, {"add", Mode::add},
    {"min", Mode::min}, {"max", Mode::max}, {"exch", Mode::exch}, {"cas", Mode::cas},
    {"down", Mode::down}, {"up", Mode::up}, {"bfly", Mode::bfly}, {"idx", Mode::idx},
    {"l", Mode::l}, {"r", Mode::r}};

const Names<Rounding> kRoundings = {
    {"rn", Rounding::rn}, {"rni", Rounding::rni}, {"rzi", Rounding::rzi},
    {"rmi", Rounding::rmi}, {"rpi", Rounding::rpi}, {"approx", Rounding::approx}};

const Names<Special> kSpecials = {
    {"%tid.x", Special::tid_x}, {"%ntid.x", Special::ntid_x}, {"%ctaid.x", Special::ctaid_x},
    {"%nctaid.x", Special::nctaid_x}, {"%laneid", Special::laneid},
    {"%warpid", Special::warpid}, {"%tid.y", Special::zero}, {"%tid.z", Special::zero}};

bool is_neutral(const std::string& m) {
  static const std::set<std::string> names = {
      "lo", "nc", "sync", "uni", "aligned", "cta", "gl", "gpu", "sys", "relaxed", "weak",
      "volatile", "cs", "cg", "ca", "sc", "acq_rel", "to"};
  return names.count(m) != 0 || m.rfind("L1::", 0) == 0 || m.rfind("L2::", 0) == 0;
}
// clang-format on

}  // namespace ptx
