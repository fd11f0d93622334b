#include "lib/optimizer/group.h"

namespace talus {

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

const char* Group::spelling(std::string_view name) const {
  const Hyper& hyper = rule().hypers[size_t(find_hyper(rule(), name))];
  return name == hyper.name ? hyper.name : hyper.alias;
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

bool Group::may_be_fixed(std::string_view name) const {
  const int i = find_hyper(rule(), name);
  return !started_ && i >= 0 && (rule().hypers[size_t(i)].flags & TALUS_HYPER_FIXED);
}

void Group::set(std::string_view name, double value) {
  values_[size_t(find_hyper(rule(), name))] = value;
}

Status Group::check_conflict(int32_t index, const double* h) const {
  const char* conflict = rule().conflict(h);
  if (!conflict) return {};
  std::string got;
  for (size_t i = 0; i < rule().hypers.size(); ++i)
    got += text("%s%s = %g", i ? ", " : "", rule().hypers[i].name, h[i]);
  return failure(TALUS_E_RANGE, "%s: %s; got %s", where(index).c_str(), conflict, got.c_str());
}

// The bases decide what exists; a schedule may pass through 0, but not bring in what they left out.
Status Group::check_now(int32_t index) const {
  std::array<double, kMaxHypers> h = now_;
  for (size_t i = 0; i < rule().hypers.size(); ++i) {
    const Hyper& hyper = rule().hypers[i];
    if (!(hyper.flags & TALUS_HYPER_FIXED)) continue;
    if (values_[i] == 0 && now_[i] != 0)
      return failure(
          TALUS_E_RANGE,
          "%s: a schedule gives %s = %g, and its base 0 has left its state out, expected "
          "another base",
          where(index).c_str(), hyper.name, now_[i]);
    h[i] = values_[i];
  }
  if (rule().needs_total && rule().needs_total(now()) && !needs_total())
    return failure(TALUS_E_RANGE,
                   "%s: a schedule asks for the norm of all gradients, which the bases leave out, "
                   "expected other bases",
                   where(index).c_str());
  return check_conflict(index, h.data());
}

}  // namespace talus
