// The words of PTX that the parser knows; every other one is refused. nullptr: not known.
#pragma once
#include "tests/cuda/emu/ptx/module.h"

namespace ptx {

template <class E>
using Names = std::map<std::string, E>;

template <class E>
const E* lookup(const Names<E>& table, const std::string& key) {
  const auto it = table.find(key);
  return it == table.end() ? nullptr : &it->second;
}

extern const Names<Type> kTypes;
extern const Names<Op> kOps;
extern const Names<Compare> kCompares;
extern const Names<Mode> kModes;
extern const Names<Rounding> kRoundings;
extern const Names<Special> kSpecials;

// Modifiers without effect on the result of one thread where blocks run one after another.
bool is_neutral(const std::string& modifier);

}  // namespace ptx
