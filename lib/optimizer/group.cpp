#include "lib/optimizer/group.h"

#include <cmath>

namespace talus {

std::string range_text(const Range& r) {
  return text("%c%g, %g%c", r.open & TALUS_HYPER_MIN_OPEN ? '(' : '[', r.min, r.max,
              r.open & TALUS_HYPER_MAX_OPEN ? ')' : ']');
}

bool accepts(const Hyper& hyper, double value) {
  const Range& r = hyper.range;
  const bool above = r.open & TALUS_HYPER_MIN_OPEN ? value > r.min : value >= r.min;
  const bool below = r.open & TALUS_HYPER_MAX_OPEN ? value < r.max : value <= r.max;
  const bool whole = hyper.kind == TALUS_REAL || value == std::floor(value);
  return above && below && whole;  // NaN is neither above nor below
}

Status refuse_value(const Hyper& hyper, double value, const char* where) {
  if (hyper.kind == TALUS_FLAG)
    return failure(TALUS_E_RANGE, "%s: %s is %g, expected %s", where, hyper.name, value,
                   hyper.range.max == 0 ? "0: it has no such form" : "a flag, 0 or 1");
  const char* kind = hyper.kind == TALUS_INTEGER ? "an integer" : "a value";
  return failure(TALUS_E_RANGE, "%s: %s is %g, expected %s in %s", where, hyper.name, value, kind,
                 range_text(hyper.range).c_str());
}

Group::Group(const AlgorithmRef& ref) : ref_(ref), maximize_(find_hyper(*ref.rule, "maximize")) {
  for (size_t i = 0; i < rule().hypers.size(); ++i) values_[i] = default_value(ref_, int(i));
}

const char* Group::algorithm() const {
  return ref_.algorithm->alias_of ? ref_.algorithm->alias_of : ref_.algorithm->name;
}

const double* Group::find(std::string_view name) const {
  const int i = find_hyper(rule(), name);
  return i < 0 ? nullptr : &values_[size_t(i)];
}

std::string Group::where(int32_t index) const {
  return text("group %d \"%s\"", index, algorithm());
}

Status Group::check(std::string_view name, double value, int32_t index) const {
  const int i = find_hyper(rule(), name);
  if (i < 0)
    return failure(TALUS_E_NAME, "%s has no hyperparameter %s, expected one of: %s",
                   where(index).c_str(), quoted(name).c_str(),
                   join_names(rule().hypers, [](const Hyper& h) { return h.name; }).c_str());
  const Hyper& hyper = rule().hypers[size_t(i)];
  if (!accepts(hyper, value)) return refuse_value(hyper, value, where(index).c_str());
  const bool switches = (value != 0) != (values_[size_t(i)] != 0);
  if ((hyper.flags & TALUS_HYPER_FIXED) && started_ && switches)
    return failure(TALUS_E_STATE,
                   "%s: %s decides which state exists and is fixed after the first step: it is %g, "
                   "got %g",
                   where(index).c_str(), hyper.name, values_[size_t(i)], value);
  return {};
}

void Group::set(std::string_view name, double value) {
  values_[size_t(find_hyper(rule(), name))] = value;
}

Status Group::check_conflict(int32_t index) const {
  const char* conflict = rule().conflict(values());
  if (!conflict) return {};
  std::string got;
  for (size_t i = 0; i < rule().hypers.size(); ++i)
    got += text("%s%s = %g", i ? ", " : "", rule().hypers[i].name, values_[i]);
  return failure(TALUS_E_RANGE, "%s: %s; got %s", where(index).c_str(), conflict, got.c_str());
}

}  // namespace talus
