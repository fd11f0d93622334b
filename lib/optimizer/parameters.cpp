#include "lib/optimizer/parameters.h"

namespace talus {
namespace {

using Int = long long;  // for %lld

const DtypeInfo* find_dtype(int32_t abi) {
  for (const DtypeInfo& d : kDtypes)
    if (d.abi == abi) return &d;
  return nullptr;
}

Status read_dtype(int32_t abi, Dtype fallback, const std::string& at, const char* field,
                  Dtype* out) {
  if (abi == 0) return *out = fallback, Status();
  const DtypeInfo* found = find_dtype(abi);
  if (!found)
    return failure(TALUS_E_UNSUPPORTED,
                   "%s: %s is 0x%x, expected one of f32 0x%x, bf16 0x%x, f16 0x%x, f64 0x%x",
                   at.c_str(), field, unsigned(abi), TALUS_F32, TALUS_BF16, TALUS_F16, TALUS_F64);
  *out = found->dtype;
  return {};
}

Status read_shape(const talus_param& from, const std::string& at, Parameter* out) {
  if (from.ndim < 0 || from.ndim > 64)
    return failure(TALUS_E_ARGUMENT, "%s: ndim is %d, expected 0 .. 64", at.c_str(), from.ndim);
  if (from.ndim > 0 && !from.shape)
    return failure(TALUS_E_ARGUMENT, "%s: shape is NULL, expected %d extents", at.c_str(),
                   from.ndim);
  out->shape.assign(from.shape, from.shape + from.ndim);
  out->count = 1;
  for (size_t d = 0; d < out->shape.size(); ++d)
    if (out->shape[d] < 0)
      return failure(TALUS_E_ARGUMENT, "%s: shape[%zu] is %lld, expected 0 or more", at.c_str(), d,
                     Int(out->shape[d]));
  for (const int64_t extent : out->shape)
    if (extent == 0) return out->count = 0, Status();
  for (const int64_t extent : out->shape)  // bytes must fit too
    if (__builtin_mul_overflow(out->count, extent, &out->count) || out->count > INT64_MAX / 8)
      return failure(TALUS_E_ARGUMENT, "%s: shape has more elements than memory can hold",
                     at.c_str());
  return {};
}

Status check_mix(const talus_param& from, const std::string& at, const Parameter& p) {
  const auto refuse = [&](const char* what, Dtype got, const char* expected) {
    return failure(TALUS_E_UNSUPPORTED, "%s is %s: %s is %s, expected %s", at.c_str(),
                   info(p.dtype).name, what, info(got).name, expected);
  };
  const bool wide = p.dtype == Dtype::f64;
  if (wide && p.grad_dtype != Dtype::f64 && p.grad_dtype != Dtype::f32)
    return refuse("gradient", p.grad_dtype, "f64 or f32");
  if (!wide && p.grad_dtype == Dtype::f64)
    return refuse("gradient", p.grad_dtype, "f32, f16 or bf16");
  if (p.state_dtype != compute_type(p.dtype))
    return refuse("state", p.state_dtype, info(compute_type(p.dtype)).name);
  if (from.master == TALUS_MASTER_F32 && !is_16_bit(p.dtype))
    return failure(TALUS_E_UNSUPPORTED,
                   "%s is %s: master is TALUS_MASTER_F32, expected AUTO or NONE", at.c_str(),
                   info(p.dtype).name);
  return {};
}

}  // namespace

std::string where(int64_t param, const std::string& name) {
  return text("parameter %lld %s", Int(param), quoted(name).c_str());
}

Status describe(const talus_param& from, int64_t param, Parameter* out) {
  out->name = from.name ? from.name : text("param.%lld", Int(param));
  const std::string at = where(param, out->name);
  if (out->name.empty())
    return failure(TALUS_E_ARGUMENT, "parameter %lld: name is empty, expected text or NULL",
                   Int(param));
  if (!is_utf8(out->name))
    return failure(TALUS_E_ARGUMENT, "parameter %lld: name is not UTF-8, expected UTF-8",
                   Int(param));
  if (from.dtype == 0)
    return failure(TALUS_E_ARGUMENT, "%s: dtype is 0, expected TALUS_F32, _BF16, _F16 or _F64",
                   at.c_str());
  TALUS_TRY(read_dtype(from.dtype, Dtype::f32, at, "dtype", &out->dtype));
  TALUS_TRY(read_dtype(from.grad_dtype, out->dtype, at, "grad_dtype", &out->grad_dtype));
  TALUS_TRY(
      read_dtype(from.state_dtype, compute_type(out->dtype), at, "state_dtype", &out->state_dtype));
  TALUS_TRY(read_shape(from, at, out));
  if (from.master < TALUS_MASTER_AUTO || from.master > TALUS_MASTER_F32)
    return failure(TALUS_E_UNSUPPORTED,
                   "%s: master is %d, expected TALUS_MASTER_AUTO, _NONE or _F32", at.c_str(),
                   from.master);
  if (from.flags != 0)
    return failure(TALUS_E_UNSUPPORTED, "%s: flags is 0x%llx, expected 0", at.c_str(),
                   (unsigned long long)from.flags);
  TALUS_TRY(check_mix(from, at, *out));
  out->has_master = is_16_bit(out->dtype) && from.master != TALUS_MASTER_NONE;
  TALUS_TRY(check_pointer(from.data, *out, out->dtype, param, "data"));
  if (from.grad) TALUS_TRY(check_pointer(from.grad, *out, out->grad_dtype, param, "grad"));
  return {};
}

Status check_pointer(const void* data, const Parameter& p, Dtype dtype, int64_t param,
                     const char* what) {
  if (is_memory(data, p.count, dtype)) return {};
  if (!data && p.count > 0)
    return failure(TALUS_E_ARGUMENT, "%s: %s is NULL, expected memory of %lld elements",
                   where(param, p.name).c_str(), what, Int(p.count));
  if (uintptr_t(data) % uintptr_t(size_of(dtype)) != 0)
    return failure(TALUS_E_ARGUMENT, "%s: %s is at %p, expected a multiple of %d bytes (%s)",
                   where(param, p.name).c_str(), what, data, int(size_of(dtype)), info(dtype).name);
  return failure(TALUS_E_ARGUMENT, "%s: %s of %lld elements at %p passes the end of memory",
                 where(param, p.name).c_str(), what, Int(p.count), data);
}

int64_t Parameters::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? -1 : found->second;
}

std::string Parameters::owner_text(const MemoryMap::Owner& owner) const {
  return text("%s of %s", owner.slot == kDataRange ? "data" : "bound state",
              where(owner.param, (*this)[owner.param].name).c_str());
}

Status Parameters::check_overlap(const void* data, uint64_t bytes, int64_t param,
                                 const char* what) const {
  const MemoryMap::Range* hit = memory_.find(data, bytes);
  if (!hit) return {};
  const std::string name = param < size() ? (*this)[param].name : "";
  return failure(TALUS_E_ARGUMENT, "%s: %s at %p overlaps %s, expected memory of its own",
                 where(param, name).c_str(), what, data, owner_text(hit->owner).c_str());
}

Status Parameters::add(Parameter p, const void* data) {
  const int64_t param = size();
  const uint64_t bytes = uint64_t(p.count * size_of(p.dtype));
  if (const int64_t twin = find(p.name); twin >= 0)
    return failure(TALUS_E_ARGUMENT,
                   "%s: name is that of parameter %lld already, expected a unique one",
                   where(param, p.name).c_str(), Int(twin));
  if (const MemoryMap::Range* hit = memory_.find(data, bytes))
    return failure(TALUS_E_ARGUMENT, "%s: data at %p overlaps %s, expected memory of its own",
                   where(param, p.name).c_str(), data, owner_text(hit->owner).c_str());
  list_.push_back(std::move(p));
  try {
    by_name_.emplace(list_.back().name, param);
    memory_.add(data, bytes, {param, kDataRange});
  } catch (...) {
    by_name_.erase(list_.back().name);
    list_.pop_back();
    throw;
  }
  return {};
}

void Parameters::remove(int64_t param, const void* data) {
  Parameter& p = list_[size_t(param)];
  if (p.count > 0) memory_.remove(data, {param, kDataRange});
  by_name_.erase(p.name);
  p.count = 0;
  p.removed = true;
}

// Takes back the parameters from n on; their rows are still in the table where they got that far.
void Parameters::truncate(int64_t n, const TensorTable& table) {
  while (size() > n) {
    const int64_t last = size() - 1;
    if (last < table.size() && list_.back().count > 0)
      memory_.remove(table.data(kValue, last), {last, kDataRange});
    by_name_.erase(list_.back().name);
    list_.pop_back();
  }
}

}  // namespace talus
