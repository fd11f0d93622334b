// What a rule file is made of: hyperparameters, slots, operands, sums. No kernels, no pointers.
//
// A rule `struct X` has (adam.inl is the one to read first):
//   kAlgorithms          the names it answers to, with the presets of each
//   kHypers, kSlots      tables; enumerators beside them are the indices
//   Scalars<S>           the host scalars of one step: at most kMaxScalars values of type S
//   scalars(h, t)        computes them in double; t counts this parameter's steps from 1
//   conflict(h)          text if hyperparameters exclude each other, else NULL
//   variant(h)           which of Variants the hyperparameters choose
//   rows_conflict(h)     optional: NULL where the rule takes gradients of some rows of a tensor, which
//                        it updates alone; else why not. Such a rule has one element pass a variant
//   kRows, kRowsOnly     with it: when in words; true: it takes no dense gradients
//   needs_total(h)       optional: whether folds read the sum of squares of all gradients (TotalFold)
//   Variants             List of variants, each a List of 1 to 3 passes
// and a pass has
//   kUses, kUseCount     the operands, as update sees them in x[0], x[1], ...
//   kSums, kSumCount     what is summed over a tensor of the terms that update leaves
//   summand(s, a, b)     with Sum::own only: the summand in double of two terms
//   update(s, part, x, term)   plain + - * / sqrt select on lanes; knows no pointer and no dtype
//   kValueCount, fold(s, sums, slots, values)   after a pass with sums, once per tensor, in double:
//                        reads and writes the rule's tensor slots (indexed as kSlots) and leaves the
//                        part values of the next pass. TALUS_FN, as update: a device folds too
// or is a FoldPass: a fold alone, which reads no operand.
#pragma once
#include <talus.h>

#include <cstdint>
#include <span>

#include "lib/base/dtype.h"
#include "lib/base/hyper.h"

namespace talus {

inline constexpr int kMaxScalars = 30;
inline constexpr int kMaxHypers = 32;
inline constexpr int kMaxSlots = 6;
inline constexpr int kMaxPasses = 3;
inline constexpr int kMaxSums = 4;
inline constexpr int kMaxPartValues = 4;

// The extent of a slot: an element for each of the parameter's, or one f64 for the tensor.
enum class Shape : uint8_t { element, tensor };

// What a slot holds before the first step.
struct Initial {
  enum Kind : uint8_t { constant, hyper, param } kind = constant;
  double value = 0;
  int index = 0;  // of the hyperparameter
};

struct Slot {
  const char* name;
  Initial initial;
  bool non_negative;
  Shape shape;
  bool (*exists)(const double* h);  // NULL: always; asks for fixed hyperparameters only
  const char* doc;
};

struct Preset {
  int hyper;
  double value;
};

struct Algorithm {
  const char* name;
  const char* alias_of;  // NULL: an algorithm of its own; else another library's name for one
  const char* doc;       // one line
  std::span<const Preset> presets;
  // An alias may leave out what the algorithm behind it says.
  const char* paper = "";    // authors, year and where: "Kingma & Ba 2015, arXiv 1412.6980"
  const char* purpose = "";  // what it is for, at most 70 characters
};

// Columns of the tensor table that a pass may use. kValue is the master where there is one.
enum Column : uint8_t {
  kValue,
  kGradient,
  kHidden,
  kFirstSlot,
  kColumnCount = kFirstSlot + kMaxSlots
};

struct Use {
  uint8_t column;
  bool read, write;
};
constexpr Use in(int column) { return {uint8_t(column), true, false}; }
constexpr Use out(int column) { return {uint8_t(column), false, true}; }
constexpr Use inout(int column) { return {uint8_t(column), true, true}; }
constexpr int slot(int index) { return kFirstSlot + index; }

// How the terms of a pass are summed over a tensor: widened to double, the summand evaluated there.
// Other than plain sums: squares, magnitudes, the largest magnitude (a NaN wins), and what the pass's
// own summand makes of the sum's term and of the one behind the terms of all sums.
enum class Sum : uint8_t { plain, squares, magnitudes, largest, own };

// The weight of a lerp among a rule's scalars. Which end it starts from is decided in double, so that
// no lane sees a weight rounded across one half.
template <class S>
struct LerpWeight {
  S weight, rest, from_b;  // rest: 1 - weight; from_b: flag, weight is at least one half
};
inline LerpWeight<double> lerp_weight(double w) { return {w, 1 - w, w < 0.5 ? 0.0 : 1.0}; }

// A pass without sums; one that has them hides these members with its own.
struct ElementPass {
  static constexpr int kSumCount = 0, kValueCount = 0;
  static constexpr Sum kSums[1] = {};
  static constexpr bool kTotal = false;
};
// No operands and no update: what changes once a step and tensor.
struct FoldPass : ElementPass {
  static constexpr int kUseCount = 0;
  static constexpr Use kUses[1] = {};
};
// Its fold finds in sums[0] the sum of squares of all gradients of the optimizer, if needs_total(h).
struct TotalFold : FoldPass {
  static constexpr bool kTotal = true;
};

template <class Pass>
inline constexpr bool kFolds = Pass::kSumCount > 0 || Pass::kUseCount == 0;

template <int kCount>
constexpr bool has_own_sum(const Sum (&sums)[kCount], int count) {
  for (int k = 0; k < count; ++k)
    if (sums[k] == Sum::own) return true;
  return false;
}
template <class Pass>
inline constexpr bool kHasOwnSum = has_own_sum(Pass::kSums, Pass::kSumCount);
// What update leaves: a term for each sum, and the second one of Sum::own.
template <class Pass>
inline constexpr int kTermCount = Pass::kSumCount + kHasOwnSum<Pass>;

template <class... Items>
struct List {
  static constexpr int kSize = sizeof...(Items);
};

}  // namespace talus
