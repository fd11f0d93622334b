#include "lib/checkpoint/state_tensors.h"

#include <iterator>

namespace talus {
namespace {

constexpr const char* kFileNames[] = {"F32", "BF16", "F16", "F64"};  // as kDtypes
static_assert(std::size(kFileNames) == std::size(kDtypes));

constexpr size_t kMostExtents = 16;  // readers of the format take no more

// With parameters, their names are keys beside ours.
Status check_name(const std::string& name, int64_t param) {
  if (!is_own_key(name) && name != "__metadata__") return {};
  return failure(TALUS_E_ARGUMENT,
                 "%s cannot be saved with TALUS_SAVE_PARAMS: names that start with \"talus.\" or "
                 "\"state.\" are keys of the file",
                 where(param, name).c_str());
}

}  // namespace

const char* file_dtype(Dtype dtype) { return kFileNames[static_cast<int>(dtype)]; }

bool parse_dtype(std::string_view name, Dtype* out) {
  for (const DtypeInfo& d : kDtypes)
    if (name == file_dtype(d.dtype)) return *out = d.dtype, true;
  return false;
}

bool is_own_key(std::string_view key) {
  return key.starts_with("talus.") || key.starts_with("state.");
}

std::vector<uint64_t> param_shape(const Parameter& p) { return {p.shape.begin(), p.shape.end()}; }

std::vector<uint64_t> slot_shape(const Parameter& p, const StateSlot& slot) {
  if (slot.shape == Shape::element) return param_shape(p);
  if (p.count == 0) return {0};
  return {};
}

Status state_tensors(const Optimizer& from, bool params, std::vector<StateTensor>* out) {
  const Model& model = from.model();
  for (int64_t i = 0; i < model.params.size(); ++i) {
    const Parameter& p = model.params[i];
    if (p.removed) continue;
    if (p.shape.size() > kMostExtents)
      return failure(TALUS_E_UNSUPPORTED, "%s has %zu extents, a checkpoint takes at most %zu",
                     where(i, p.name).c_str(), p.shape.size(), kMostExtents);
    if (params) TALUS_TRY(check_name(p.name, i));
    out->push_back({{state_key(p.name, kStepSlot), kStepDtype, {}}, nullptr, from.steps(i), true});
    for_each_slot(model, i, [&](const StateSlot& slot) {
      if (from.has_begun(i, slot))
        out->push_back({{state_key(p.name, slot.name), file_dtype(slot.dtype), slot_shape(p, slot)},
                        from.state_data(i, slot)});
    });
    if (params)
      out->push_back({{p.name, file_dtype(p.dtype), param_shape(p)}, model.table.data(kValue, i)});
  }
  return {};
}

}  // namespace talus
