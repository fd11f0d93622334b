// The optimizer handle: checks what C can get wrong, converts, calls lib/optimizer. No logic.
#include <memory>
#include <string_view>

#include "capi/handle.h"
#include "lib/base/log.h"
#include "lib/device/devices.h"
#include "lib/device/plugin.h"

using namespace talus;
using namespace talus::capi;

namespace talus::capi {
Status unknown_algorithm(const char* function, const char* got);  // names.cpp

namespace {

using Int = long long;  // for %lld

Status find(const char* function, const char* algorithm, AlgorithmRef* out) {
  *out = find_algorithm(algorithm);
  return *out ? Status() : unknown_algorithm(function, algorithm);
}

Status check_list(const talus_optimizer* opt, int64_t count, const int64_t* params,
                  const char* function, std::span<const int64_t>* out) {
  TALUS_TRY(usable(opt, function));
  if (count < 0)
    return failure(TALUS_E_ARGUMENT, "%s: count is %lld, expected 0 or more", function, Int(count));
  if (count > 0) TALUS_TRY(need(params, function, "params"));
  for (int64_t i = 0; i < count; ++i) TALUS_TRY(check_param(opt, params[i], function));
  *out = {params, size_t(count)};
  return {};
}

// Bytes of the first version of each struct that has all it needs.
constexpr size_t kLeastRows = offsetof(talus_rows, values) + sizeof(void*);
constexpr size_t kLeastAllocator = offsetof(talus_allocator, release) + sizeof(void (*)());

// Element 0's struct_size is the stride of the whole array.
Status take_params(const talus_param* from, int64_t count, std::vector<talus_param>* out) {
  const uint32_t stride = from->struct_size;
  const auto* at = reinterpret_cast<const unsigned char*>(from);
  for (int64_t i = 0; i < count; ++i, at += stride) {
    const auto what = text("talus_add_params: params[%lld]", Int(i));
    talus_param p;
    TALUS_TRY(take(at, kLeastParam, what.c_str(), &p));
    if (p.struct_size != stride)
      return failure(TALUS_E_ARGUMENT, "%s.struct_size is %u, expected %u as in params[0]",
                     what.c_str(), p.struct_size, stride);
    if (i == 0) out->reserve(size_t(count));  // only once the first one makes sense
    out->push_back(p);
  }
  return {};
}

int32_t abi(Dtype dtype) { return info(dtype).abi; }

}  // namespace
}  // namespace talus::capi

extern "C" {

// ---- life, groups, values --------------------------------------------------------------------

talus_status talus_create(const char* algorithm, int32_t device_type, int32_t device_id,
                          talus_optimizer** out) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(out, "talus_create", "out"));
    TALUS_TRY(need(algorithm, "talus_create", "algorithm"));
    AlgorithmRef ref;
    TALUS_TRY(find("talus_create", algorithm, &ref));
    const Backend* backend = nullptr;
    TALUS_TRY(find_backend(device_type, device_id, &backend));
    std::unique_ptr<Optimizer> made;
    TALUS_TRY(Optimizer::create(ref, *backend, device_id, &made));
    *out = reinterpret_cast<talus_optimizer*>(made.release());
    return {};
  });
}

void talus_destroy(talus_optimizer* opt) { delete reinterpret_cast<Optimizer*>(opt); }

talus_status talus_add_group(talus_optimizer* opt, const char* algorithm, int32_t* group) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_add_group"));
    TALUS_TRY(need(group, "talus_add_group", "group"));
    AlgorithmRef ref;
    if (algorithm) TALUS_TRY(find("talus_add_group", algorithm, &ref));
    return get(opt).add_group(algorithm ? &ref : nullptr, group);
  });
}

int32_t talus_group_count(const talus_optimizer* opt) {
  return opt ? int32_t(get(opt).model().groups.size()) : -1;
}

const char* talus_group_algorithm(const talus_optimizer* opt, int32_t group) {
  if (!opt || group < 0 || group >= talus_group_count(opt)) return nullptr;
  return get(opt).model().groups[size_t(group)].algorithm();
}

talus_status talus_set(talus_optimizer* opt, int32_t group, const char* name, double value) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_group(opt, group, true, "talus_set"));
    TALUS_TRY(need(name, "talus_set", "name"));
    return get(opt).set(group, name, value);
  });
}

talus_status talus_get(const talus_optimizer* opt, int32_t group, const char* name, double* value) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_group(opt, group, false, "talus_get"));
    TALUS_TRY(need(name, "talus_get", "name"));
    TALUS_TRY(need(value, "talus_get", "value"));
    return get(opt).get(group, name, value);
  });
}

talus_status talus_set_setting(talus_optimizer* opt, const char* name, double value) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_set_setting"));
    TALUS_TRY(need(name, "talus_set_setting", "name"));
    return get(opt).set_setting(name, value);
  });
}

talus_status talus_get_setting(const talus_optimizer* opt, const char* name, double* value) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_get_setting"));
    TALUS_TRY(need(name, "talus_get_setting", "name"));
    TALUS_TRY(need(value, "talus_get_setting", "value"));
    return get(opt).get_setting(name, value);
  });
}

// ---- parameters and gradients ----------------------------------------------------------------

talus_status talus_add_params(talus_optimizer* opt, int32_t group, int64_t count,
                              const talus_param* params, int64_t* first) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_group(opt, group, false, "talus_add_params"));
    if (count < 0)
      return failure(TALUS_E_ARGUMENT, "talus_add_params: count is %lld, expected 0 or more",
                     Int(count));
    if (count > 0) TALUS_TRY(need(params, "talus_add_params", "params"));
    std::vector<talus_param> taken;
    if (count > 0) TALUS_TRY(take_params(params, count, &taken));
    return get(opt).add_params(group, taken, first);
  });
}

int64_t talus_param_count(const talus_optimizer* opt) {
  return opt ? get(opt).model().params.size() : -1;
}

talus_status talus_param_info(const talus_optimizer* opt, int64_t param, talus_param* out) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_param(opt, param, "talus_param_info"));
    TALUS_TRY(need(out, "talus_param_info", "out"));
    const Model& model = get(opt).model();
    const Parameter& p = model.params[param];
    talus_param made{};
    made.dtype = abi(p.dtype);
    made.data = model.table.data(kValue, param);
    made.grad = get(opt).dense_grad(param);
    made.name = p.name.c_str();
    made.shape = p.shape.empty() ? nullptr : p.shape.data();
    made.ndim = int32_t(p.shape.size());
    made.grad_dtype = abi(p.grad_dtype);
    made.state_dtype = abi(p.state_dtype);
    made.master = p.has_master ? TALUS_MASTER_F32 : TALUS_MASTER_NONE;
    return give(made, "talus_param", out);
  });
}

int32_t talus_param_group(const talus_optimizer* opt, int64_t param) {
  if (!opt || param < 0 || param >= talus_param_count(opt)) return -1;
  const Parameter& p = get(opt).model().params[param];
  return p.removed ? -1 : p.group;
}

int64_t talus_find_param(const talus_optimizer* opt, const char* name) {
  return opt && name ? get(opt).model().params.find(name) : -1;
}

talus_status talus_bind_data(talus_optimizer* opt, int64_t param, void* data) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_param(opt, param, "talus_bind_data"));
    return get(opt).bind_data(param, data);
  });
}

talus_status talus_bind_grads(talus_optimizer* opt, int64_t first, int64_t count,
                              void* const* grads) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_bind_grads"));
    const int64_t all = get(opt).model().params.size();
    if (first < 0 || count < 0 || first > all || count > all - first)
      return failure(TALUS_E_ARGUMENT,
                     "talus_bind_grads: first %lld and count %lld, there are %lld parameters",
                     Int(first), Int(count), Int(all));
    if (count > 0) TALUS_TRY(need(grads, "talus_bind_grads", "grads"));
    return get(opt).bind_grads(first, {grads, size_t(count)});
  });
}

talus_status talus_bind_rows(talus_optimizer* opt, int64_t param, const talus_rows* rows) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_param(opt, param, "talus_bind_rows"));
    talus_rows taken{};
    if (rows) TALUS_TRY(take(rows, kLeastRows, "talus_bind_rows: talus_rows", &taken));
    return get(opt).bind_rows(param, rows ? &taken : nullptr);
  });
}

talus_status talus_move_params(talus_optimizer* opt, int32_t group, int64_t count,
                               const int64_t* params) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_group(opt, group, false, "talus_move_params"));
    std::span<const int64_t> list;
    TALUS_TRY(check_list(opt, count, params, "talus_move_params", &list));
    return get(opt).move_params(group, list);
  });
}

talus_status talus_remove_params(talus_optimizer* opt, int64_t count, const int64_t* params) {
  return guarded(__func__, [&]() -> Status {
    std::span<const int64_t> list;
    TALUS_TRY(check_list(opt, count, params, "talus_remove_params", &list));
    return get(opt).remove_params(list);
  });
}

talus_status talus_zero_grad(talus_optimizer* opt, int32_t mode, void* stream) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_zero_grad"));
    if (mode != TALUS_ZERO_FILL && mode != TALUS_ZERO_UNBIND)
      return failure(TALUS_E_ARGUMENT,
                     "talus_zero_grad: mode is %d, expected TALUS_ZERO_FILL (0) or _UNBIND (1)",
                     mode);
    TALUS_TRY(check_stream(opt, stream, "talus_zero_grad"));
    return get(opt).zero_grad(mode == TALUS_ZERO_UNBIND, stream);
  });
}

// ---- state -----------------------------------------------------------------------------------

int64_t talus_state_count(const talus_optimizer* opt) { return opt ? get(opt).state_count() : -1; }

talus_status talus_state_info(const talus_optimizer* opt, int64_t i, talus_state* out) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_state_info"));
    TALUS_TRY(need(out, "talus_state_info", "out"));
    const int64_t count = get(opt).state_count();
    if (i < 0 || i >= count)
      return failure(TALUS_E_ARGUMENT, "talus_state_info: i is %lld, there are %lld state tensors",
                     Int(i), Int(count));
    talus_state made{};
    StateSlot slot{};
    get(opt).state_at(i, &made.param, &slot);
    made.dtype = abi(slot.dtype);
    made.slot = slot.name;
    made.data = get(opt).state_data(made.param, slot);
    made.count = slot.count;
    made.bytes = slot.bytes();
    made.alignment = uint64_t(size_of(slot.dtype));
    return give(made, "talus_state", out);
  });
}

talus_status talus_bind_state(talus_optimizer* opt, int64_t param, const char* slot, void* data,
                              uint64_t bytes) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_param(opt, param, "talus_bind_state"));
    TALUS_TRY(need(slot, "talus_bind_state", "slot"));
    return get(opt).bind_state(param, slot, data, bytes);
  });
}

talus_status talus_steps(const talus_optimizer* opt, int64_t param, int64_t* steps) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_param(opt, param, "talus_steps"));
    TALUS_TRY(need(steps, "talus_steps", "steps"));
    TALUS_TRY(get(const_cast<talus_optimizer*>(opt)).settle());  // a device may not have told yet
    *steps = get(opt).steps(param);
    return {};
  });
}

talus_status talus_set_steps(talus_optimizer* opt, int64_t param, int64_t steps) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_param(opt, param, "talus_set_steps"));
    if (steps < 0 || steps > int64_t{1} << 62)
      return failure(TALUS_E_RANGE, "talus_set_steps: steps is %lld, expected 0 .. 2^62",
                     Int(steps));
    return get(opt).set_steps(param, steps);
  });
}

// ---- the step --------------------------------------------------------------------------------

talus_status talus_prepare(talus_optimizer* opt, void* stream) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_prepare"));
    TALUS_TRY(check_stream(opt, stream, "talus_prepare"));
    return get(opt).prepare(stream);
  });
}

talus_status talus_step(talus_optimizer* opt, void* stream) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_step"));
    TALUS_TRY(check_stream(opt, stream, "talus_step"));
    return get(opt).step(stream);
  });
}

talus_status talus_advance(talus_optimizer* opt, void* stream) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_advance"));
    TALUS_TRY(check_stream(opt, stream, "talus_advance"));
    return get(opt).advance(stream);
  });
}

talus_status talus_step_closure(talus_optimizer* opt, talus_closure closure, void* user,
                                double* loss, void* stream) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_step_closure"));
    if (!closure)
      return failure(TALUS_E_ARGUMENT, "talus_step_closure: closure is NULL, expected a function");
    TALUS_TRY(check_stream(opt, stream, "talus_step_closure"));
    double value = 0;
    if (const int32_t answer = closure(user, &value); answer != 0)
      return Status(
          TALUS_E_CALLBACK,
          text("talus_step_closure: the closure returned %d, expected 0; no step was taken",
               answer),
          answer);
    TALUS_TRY(get(opt).step(stream));
    if (loss) *loss = value;
    return {};
  });
}

talus_status talus_get_stats(talus_optimizer* opt, int32_t wait, talus_stats* out) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_get_stats"));
    TALUS_TRY(need(out, "talus_get_stats", "out"));
    if (wait != 0 && wait != 1)
      return failure(TALUS_E_ARGUMENT, "talus_get_stats: wait is %d, expected 0 or 1", wait);
    talus_stats made{};
    StepStats stats;
    TALUS_TRY(get(opt).read_stats(wait == 1, &stats));
    made.steps = stats.steps;
    made.grad_norm = stats.grad_norm;
    made.found_inf = stats.found;
    made.skipped = stats.skipped;
    made.clip_factor = stats.clip_factor;
    made.loss_scale = stats.loss_scale;
    made.nonfinite_param = stats.found ? stats.nonfinite_param : -1;
    made.state_bytes = get(opt).state_bytes();
    made.workspace_bytes = get(opt).workspace_bytes();
    return give(made, "talus_stats", out);
  });
}

// ---- hooks -----------------------------------------------------------------------------------

talus_status talus_set_parallel_for(talus_optimizer* opt, talus_parallel_for run, void* user) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_set_parallel_for"));
    return get(opt).set_parallel_for(run, user);
  });
}

talus_status talus_set_allocator(talus_optimizer* opt, const talus_allocator* allocator) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_set_allocator"));
    talus_allocator taken{};
    if (allocator) {
      TALUS_TRY(take(allocator, kLeastAllocator, "talus_allocator", &taken));
      if (!taken.alloc || !taken.release)
        return failure(TALUS_E_ARGUMENT, "talus_set_allocator: %s is NULL, expected a function",
                       taken.alloc ? "release" : "alloc");
    }
    return get(opt).set_allocator(taken);
  });
}

talus_status talus_set_plugin_path(const char* folders) {
  return guarded(__func__, [&] { return set_plugin_path(folders); });
}

void talus_set_log(talus_log log, int32_t level, void* user) { set_log(log, level, user); }

}  // extern "C"
