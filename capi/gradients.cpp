// Mixed precision of the C ABI: scalers, norms, masters. Checks what C can get wrong, converts, calls
// lib/optimizer. No logic.
#include <cmath>
#include <string_view>

#include "capi/handle.h"
#include "lib/device/devices.h"
#include "lib/optimizer/norms.h"

using namespace talus;
using namespace talus::capi;

namespace {

using ScalerPtr = std::shared_ptr<Scaler>;

// A handle is a reference of its own.
ScalerPtr& get(talus_scaler* scaler) { return *reinterpret_cast<ScalerPtr*>(scaler); }
const ScalerPtr& get(const talus_scaler* scaler) {
  return *reinterpret_cast<const ScalerPtr*>(scaler);
}

Status take_optimizers(const char* function, talus_optimizer* const* opts, int32_t count,
                       int32_t group, void* stream, std::vector<Optimizer*>* out) {
  TALUS_TRY(need(opts, function, "opts"));
  if (count < 1)
    return failure(TALUS_E_ARGUMENT, "%s: count is %d, expected 1 or more", function, count);
  if (count > 1 && group != TALUS_ALL)
    return failure(TALUS_E_ARGUMENT, "%s: group is %d of %d optimizers, expected TALUS_ALL",
                   function, group, count);
  for (int32_t i = 0; i < count; ++i) {
    TALUS_TRY(check_group(opts[i], group, true, function));
    TALUS_TRY(check_stream(opts[i], stream, function));
    for (int32_t j = 0; j < i; ++j)
      if (opts[j] == opts[i])
        return failure(TALUS_E_ARGUMENT, "%s: opts[%d] and opts[%d] are the same", function, j, i);
    out->push_back(&capi::get(opts[i]));
  }
  return {};
}

Status check_view(const char* function, const char* view) {
  TALUS_TRY(need(view, function, "view"));
  if (std::string_view(view) == "master") return {};
  return failure(TALUS_E_NAME, "%s: no view %s, expected: master", function, quoted(view).c_str());
}

}  // namespace

extern "C" {

// ---- the loss scaler -------------------------------------------------------------------------

talus_status talus_scaler_create(int32_t device_type, int32_t device_id, talus_scaler** out) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(out, "talus_scaler_create", "out"));
    if (device_type != TALUS_CPU && device_type != TALUS_CUDA)
      return failure(TALUS_E_ARGUMENT,
                     "talus_scaler_create: device_type is %d, expected TALUS_CPU or TALUS_CUDA",
                     device_type);
    if (device_type == TALUS_CPU && device_id != 0)
      return failure(TALUS_E_ARGUMENT, "talus_scaler_create: device_id is %d, the CPU has 0",
                     device_id);
    auto made = std::make_unique<ScalerPtr>();
    const Backend* backend = nullptr;
    TALUS_TRY(find_backend(device_type, device_id, &backend));
    if (device_type == TALUS_CPU)
      *made = std::make_shared<Scaler>(*backend);
    else
      TALUS_TRY(Scaler::create(*backend, device_id, made.get()));
    *out = reinterpret_cast<talus_scaler*>(made.release());
    return {};
  });
}

void talus_scaler_destroy(talus_scaler* scaler) { delete reinterpret_cast<ScalerPtr*>(scaler); }

talus_status talus_scaler_set(talus_scaler* scaler, const char* name, double value) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(scaler, "talus_scaler_set", "scaler"));
    TALUS_TRY(need(name, "talus_scaler_set", "name"));
    return get(scaler)->set(name, value);
  });
}

talus_status talus_scaler_get(const talus_scaler* scaler, const char* name, double* value) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(scaler, "talus_scaler_get", "scaler"));
    TALUS_TRY(need(name, "talus_scaler_get", "name"));
    TALUS_TRY(need(value, "talus_scaler_get", "value"));
    return get(scaler)->get(name, value);
  });
}

talus_status talus_scaler_scale(talus_scaler* scaler, double* scale) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(scaler, "talus_scaler_scale", "scaler"));
    TALUS_TRY(need(scale, "talus_scaler_scale", "scale"));
    return get(scaler)->read_scale(scale);
  });
}

talus_status talus_scaler_update(talus_scaler* scaler, void* stream) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(scaler, "talus_scaler_update", "scaler"));
    if (stream && !get(scaler)->memory())
      return failure(TALUS_E_ARGUMENT,
                     "talus_scaler_update: stream is %p, expected NULL on the CPU", stream);
    return get(scaler)->update(stream);
  });
}

talus_status talus_attach_scaler(talus_optimizer* opt, talus_scaler* scaler) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_attach_scaler"));
    return capi::get(opt).attach_scaler(scaler ? get(scaler) : nullptr);
  });
}

talus_status talus_bind_scale(talus_optimizer* opt, const float* scale, const float* found) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(usable(opt, "talus_bind_scale"));
    if (!scale && found)
      return failure(TALUS_E_ARGUMENT, "talus_bind_scale: a flag without a scale");
    return capi::get(opt).bind_scale(scale, found);
  });
}

// ---- norms -----------------------------------------------------------------------------------

talus_status talus_grad_norm(talus_optimizer* const* opts, int32_t count, int32_t group,
                             double norm_type, double* norm, void* stream) {
  return guarded(__func__, [&]() -> Status {
    std::vector<Optimizer*> of;
    TALUS_TRY(take_optimizers("talus_grad_norm", opts, count, group, stream, &of));
    TALUS_TRY(need(norm, "talus_grad_norm", "norm"));
    TALUS_TRY(check_norm_type(norm_type, "talus_grad_norm: norm_type"));
    double found = 0;
    TALUS_TRY(grad_norm(of, {group, norm_type}, stream, &found));
    *norm = found;
    return {};
  });
}

talus_status talus_clip_grad_norm(talus_optimizer* const* opts, int32_t count, int32_t group,
                                  double max_norm, double norm_type, double* norm, void* stream) {
  return guarded(__func__, [&]() -> Status {
    std::vector<Optimizer*> of;
    TALUS_TRY(take_optimizers("talus_clip_grad_norm", opts, count, group, stream, &of));
    TALUS_TRY(check_norm_type(norm_type, "talus_clip_grad_norm: norm_type"));
    double found = 0;
    TALUS_TRY(clip_grad_norm(of, {group, norm_type}, max_norm, stream, &found));
    if (norm) *norm = found;
    return {};
  });
}

// ---- masters, bytes --------------------------------------------------------------------------

talus_status talus_export_param(talus_optimizer* opt, const char* view, int64_t param, void* data,
                                int32_t dtype, void* stream) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_param(opt, param, "talus_export_param"));
    TALUS_TRY(check_view("talus_export_param", view));
    TALUS_TRY(check_stream(opt, stream, "talus_export_param"));
    return capi::get(opt).export_master(param, data, dtype, stream);
  });
}

talus_status talus_import_param(talus_optimizer* opt, const char* view, int64_t param,
                                const void* data, int32_t dtype, void* stream) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_param(opt, param, "talus_import_param"));
    TALUS_TRY(check_view("talus_import_param", view));
    TALUS_TRY(check_stream(opt, stream, "talus_import_param"));
    return capi::get(opt).import_master(param, data, dtype, stream);
  });
}

talus_status talus_bytes_per_param(const talus_optimizer* opt, int32_t group,
                                   const talus_param* param, talus_bytes* out) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_group(opt, group, false, "talus_bytes_per_param"));
    TALUS_TRY(need(param, "talus_bytes_per_param", "param"));
    TALUS_TRY(need(out, "talus_bytes_per_param", "out"));
    talus_param taken;
    TALUS_TRY(take(param, kLeastParam, "talus_bytes_per_param: talus_param", &taken));
    talus_bytes made{};
    TALUS_TRY(capi::get(opt).bytes_per_param(group, taken, &made));
    return give(made, "talus_bytes", out);
  });
}

}  // extern "C"
