// Versions, lists of names, descriptions of hyperparameters. Static text only.
#include <cstring>
#include <string_view>

#include "capi/boundary.h"
#include "capi/build_info.h"
#include "lib/cpu/kernels.h"
#include "lib/device/devices.h"
#include "lib/optimizer/optimizer.h"
#include "lib/rules/registry.h"
#include "lib/schedule/kinds.h"

namespace talus::capi {
namespace {

struct Named {
  const char* name = nullptr;
  const char* doc = nullptr;
};

// One list of names: at(i) is empty past the end. `of` is what follows the slash, "" without one.
struct NameList {
  const char* name;
  const char* doc;
  Named (*at)(std::string_view of, int32_t i);
};

Named algorithm(bool alias, int32_t i) {
  for (int k = 0; const AlgorithmRef ref = algorithm_at(k); ++k)
    if ((ref.algorithm->alias_of != nullptr) == alias && i-- == 0)
      return {ref.algorithm->name, ref.algorithm->doc};
  return {};
}

// Aliases are their rule's.
Named row_gradient(std::string_view, int32_t i) {
  for (const RuleInfo& rule : rules())
    for (const Algorithm& algorithm : rule.algorithms)
      if (rule.rows.doc && !algorithm.alias_of && i-- == 0) return {algorithm.name, rule.rows.doc};
  return {};
}

// What an algorithm says of itself, or for an alias the algorithm behind it.
Named said_by(const char* Algorithm::*what, int32_t i) {
  const AlgorithmRef ref = algorithm_at(i);
  if (!ref) return {};
  const Algorithm* told = ref.algorithm;
  if (!*(told->*what) && told->alias_of) told = find_algorithm(told->alias_of).algorithm;
  return {ref.algorithm->name, told->*what};
}

Named slot_of(std::string_view of, int32_t i) {
  const AlgorithmRef ref = find_algorithm(of);
  if (!ref || i >= int32_t(ref.rule->slots.size())) return {};
  const Slot& slot = ref.rule->slots[size_t(i)];
  return {slot.name, slot.doc};
}

Named setting(std::string_view, int32_t i) {
  if (i >= kSettingCount) return {};
  return {settings()[size_t(i)].name, settings()[size_t(i)].doc};
}

Named schedule(std::string_view, int32_t i) {
  if (i >= int32_t(schedule_kinds().size())) return {};
  return {schedule_kinds()[size_t(i)].name, schedule_kinds()[size_t(i)].doc};
}

Named feature(std::string_view, int32_t i) {
  constexpr Named kFeatures[] = {{"cpu", "tensors in the memory of the process"},
                                 {"cuda", "tensors in the memory of a CUDA device"}};
  return i < int32_t(std::size(kFeatures)) ? kFeatures[i] : Named{};
}

Named plugin(std::string_view, int32_t i) {
  Line line{};
  return plugin_line(i, &line) ? Named{line.name, line.doc} : Named{};
}

Named device(std::string_view, int32_t i) {
  Line line{};
  return device_line(i, &line) ? Named{line.name, line.doc} : Named{};
}

Named usable_target(std::string_view, int32_t i) {
  if (i >= int32_t(cpu_targets().size())) return {};
  const TargetInfo& target = cpu_targets()[size_t(i)];
  return {target.kernels->target, target.doc};
}

Named target_in_use(std::string_view, int32_t i) {
  const TargetInfo* target = nullptr;
  const char* why = nullptr;
  if (i > 0 || !choose_cpu_target(&target, &why).ok()) return {};
  return {target->kernels->target, why};
}

Named list_name(std::string_view, int32_t i);

constexpr NameList kLists[] = {
    {"algorithms", "optimizers by their own names",
     [](std::string_view, int32_t i) { return algorithm(false, i); }},
    {"aliases", "other libraries' names with their defaults",
     [](std::string_view, int32_t i) { return algorithm(true, i); }},
    {"row_gradients", "algorithms that take gradients of rows, and when", row_gradient},
    {"papers", "where each algorithm and alias comes from",
     [](std::string_view, int32_t i) { return said_by(&Algorithm::paper, i); }},
    {"purposes", "what each algorithm and alias is for",
     [](std::string_view, int32_t i) { return said_by(&Algorithm::purpose, i); }},
    {"slots/", "state of an algorithm, which follows the slash", slot_of},
    {"settings", "of a whole optimizer", setting},
    {"schedules", "kinds of schedules of hyperparameters", schedule},
    {"features", "of this build", feature},
    {"cpu_targets", "instruction sets usable here, strongest first", usable_target},
    {"cpu_target", "the one in use", target_in_use},
    {"plugins", "files of those in use", plugin},
    {"devices", "usable here, but for the CPU", device},
    {"lists", "of names", list_name},
};

// Those that are names as they stand.
Named list_name(std::string_view, int32_t i) {
  for (const NameList& list : kLists)
    if (std::string_view(list.name).back() != '/' && i-- == 0) return {list.name, list.doc};
  return {};
}

const NameList* find_list(const char* list, std::string_view* of) {
  const std::string_view wanted = list ? list : "";
  for (const NameList& known : kLists) {
    const std::string_view name = known.name;
    const bool has_owner = name.back() == '/';
    if (has_owner ? wanted.substr(0, name.size()) != name : wanted != name) continue;
    *of = has_owner ? wanted.substr(name.size()) : "";
    return has_owner && !find_algorithm(*of) ? nullptr : &known;
  }
  return nullptr;
}

Named name_at(const char* list, int32_t i) {
  std::string_view of;
  const NameList* found = i < 0 ? nullptr : find_list(list, &of);
  return found ? found->at(of, i) : Named{};
}

struct Owner {
  std::span<const Hyper> hypers;
  AlgorithmRef ref;  // empty: settings, the scaler, or a schedule
};

bool find_owner(const char* name, Owner* out) {
  if (!name) return false;
  if (std::strcmp(name, "settings") == 0) return *out = {settings(), {}}, true;
  if (std::strcmp(name, "scaler") == 0) return *out = {scaler_params(), {}}, true;
  constexpr std::string_view kSchedule = "schedule/";
  if (std::string_view(name).starts_with(kSchedule)) {
    const ScheduleKind* const kind = find_schedule_kind(name + kSchedule.size());
    if (kind) *out = {kind->params, {}};
    return kind != nullptr;
  }
  const AlgorithmRef ref = find_algorithm(name);
  if (ref) *out = {ref.rule->hypers, ref};
  return bool(ref);
}

talus_hyper describe(const Owner& owner, int32_t i) {
  const Hyper& h = owner.hypers[size_t(i)];
  const bool alias = owner.ref && owner.ref.algorithm->alias_of && h.alias;
  talus_hyper out{};
  out.kind = h.kind;
  out.name = alias ? h.alias : h.name;
  out.doc = h.doc;
  out.def = owner.ref ? default_value(owner.ref, i) : h.def;
  out.min = h.range.min;
  out.max = h.range.max;
  out.flags = h.range.open | h.flags;
  return out;
}

std::string known_algorithms() {
  std::string out;
  for (int k = 0; const AlgorithmRef ref = algorithm_at(k); ++k)
    out += (k ? ", " : "") + std::string(ref.algorithm->name);
  return out;
}

}  // namespace

Status unknown_algorithm(const char* function, const char* got) {
  return failure(TALUS_E_NAME, "%s: no algorithm %s, expected one of: %s", function,
                 quoted(got).c_str(), known_algorithms().c_str());
}

}  // namespace talus::capi

using namespace talus;
using namespace talus::capi;

extern "C" {

uint32_t talus_version(void) { return TALUS_VERSION; }
uint32_t talus_abi_version(void) { return TALUS_ABI_MAJOR << 16 | TALUS_ABI_ADDITIONS; }
const char* talus_build_info(void) { return TALUS_BUILD_INFO; }

int32_t talus_name_count(const char* list) {
  std::string_view of;
  const NameList* found = find_list(list, &of);
  if (!found) return -1;
  int32_t count = 0;
  while (found->at(of, count).name) ++count;
  return count;
}

const char* talus_name_at(const char* list, int32_t i) { return name_at(list, i).name; }

const char* talus_name_doc(const char* list, const char* name) {
  for (int32_t i = 0; name; ++i) {
    const Named found = name_at(list, i);
    if (!found.name) return nullptr;
    if (std::strcmp(found.name, name) == 0) return found.doc;
  }
  return nullptr;
}

int32_t talus_has_feature(const char* name) {
  const talus_status status = guarded(__func__, [&] {
    const Backend* backend = nullptr;
    const std::string_view wanted = name ? name : "NULL";
    if (wanted == "cpu") return find_backend(TALUS_CPU, 0, &backend);
    if (wanted == "cuda") return find_backend(TALUS_CUDA, 0, &backend);
    return failure(TALUS_E_NAME, "talus_has_feature: no feature %s, expected: cpu, cuda",
                   quoted(wanted).c_str());
  });
  return status == TALUS_OK;
}

int32_t talus_hyper_count(const char* owner) {
  Owner found;
  return find_owner(owner, &found) ? int32_t(found.hypers.size()) : -1;
}

talus_status talus_hyper_info(const char* owner, int32_t i, talus_hyper* out) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(owner, "talus_hyper_info", "owner"));
    TALUS_TRY(need(out, "talus_hyper_info", "out"));
    Owner found;
    if (!find_owner(owner, &found))
      return failure(
          TALUS_E_NAME,
          "talus_hyper_info: no owner %s, expected settings, scaler, schedule/NAME or one of: %s",
          quoted(owner).c_str(), known_algorithms().c_str());
    if (i < 0 || i >= int32_t(found.hypers.size()))
      return failure(TALUS_E_ARGUMENT, "talus_hyper_info: i is %d, %s has %zu", i, owner,
                     found.hypers.size());
    return give(describe(found, i), "talus_hyper", out);
  });
}

}  // extern "C"
