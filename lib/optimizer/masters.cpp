// The hidden f32 value behind a 16-bit parameter, as the host reads and writes it. The step keeps both
// in one pass; these are for what happens between steps.
#include <algorithm>
#include <vector>

#include "lib/base/convert.h"
#include "lib/base/float_environment.h"
#include "lib/optimizer/optimizer.h"

namespace talus {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 18;  // 1 MiB of f32 at once

}  // namespace

Status Optimizer::check_master(int64_t param, int32_t dtype, const char* function) const {
  const Parameter& p = model_.params[param];
  const auto at = [&] { return std::string(function) + ": " + where(param, p.name); };
  if (!p.has_master)
    return failure(TALUS_E_UNSUPPORTED, "%s has no master: it is %s", at().c_str(),
                   info(p.dtype).name);
  if (dtype != TALUS_F32)
    return failure(TALUS_E_UNSUPPORTED, "%s: dtype is 0x%x, expected TALUS_F32", at().c_str(),
                   unsigned(dtype));
  return {};
}

// Goes over a tensor piece by piece: copies elements from `from`, converts and copies them on. Memory
// comes first, so that a failure for want of it leaves all as it was.
Status Optimizer::convert_memory(const void* from, Dtype from_dtype,
                                 std::span<const Converted> targets, int64_t count, void* stream) {
  const FloatEnvironment ieee;
  const int64_t most = std::min(count, kPieceElements);
  std::vector<char> taken(size_t(most * size_of(from_dtype)));
  std::vector<char> made(size_t(most) * sizeof(double));
  for (int64_t i = 0; i < count; i += most) {
    const int64_t n = std::min(most, count - i);
    const auto* source = static_cast<const char*>(from) + i * size_of(from_dtype);
    TALUS_TRY(from_backend(
        backend_->copy(context_, taken.data(), source, uint64_t(n * size_of(from_dtype)), stream),
        "copy a parameter"));
    for (const Converted& to : targets) {
      convert(taken.data(), from_dtype, made.data(), to.dtype, uint64_t(n));
      auto* target = static_cast<char*>(to.data) + i * size_of(to.dtype);
      TALUS_TRY(from_backend(
          backend_->copy(context_, target, made.data(), uint64_t(n * size_of(to.dtype)), stream),
          "copy a parameter"));
    }
  }
  return {};
}

Status Optimizer::export_master(int64_t param, void* data, int32_t dtype, void* stream) {
  TALUS_TRY(check_master(param, dtype, "talus_export_param"));
  TALUS_TRY(check_idle(stream));
  const Parameter& p = model_.params[param];
  const void* const master = model_.table.data(kHidden, param);
  const bool begun = steps(param) > 0 || model_.table.hidden_given[size_t(param)] != 0;
  if (p.count > 0 && (!master || !begun))
    return failure(TALUS_E_STATE,
                   "talus_export_param: %s has no master before its first step or "
                   "talus_import_param",
                   where(param, p.name).c_str());
  const Converted to =
      data ? Converted{data, Dtype::f32} : Converted{model_.table.data(kValue, param), p.dtype};
  return convert_memory(master, Dtype::f32, {&to, 1}, p.count, stream);
}

Status Optimizer::import_master(int64_t param, const void* data, int32_t dtype, void* stream) {
  TALUS_TRY(check_master(param, dtype, "talus_import_param"));
  TALUS_TRY(check_idle(stream));
  const Parameter& p = model_.params[param];
  void* const value = model_.table.data(kValue, param);
  const bool begun = steps(param) > 0 || model_.table.hidden_given[size_t(param)] != 0;
  if (!data && !begun) return {};  // the first step starts from the parameter anyway
  bool allocated = false;
  if (!model_.table.data(kHidden, param) && p.count > 0)
    TALUS_TRY(give_memory({&param, 1}, stream, &allocated));
  const Converted to[] = {{model_.table.data(kHidden, param), Dtype::f32}, {value, p.dtype}};
  if (!data) return convert_memory(value, p.dtype, {to, 1}, p.count, stream);
  TALUS_TRY(convert_memory(data, Dtype::f32, to, p.count, stream));
  if (!begun) model_.table.hidden_given[size_t(param)] = 1;
  columns_changed_ |= 1u << kHidden | 1u << kFlagColumn;
  return {};
}

// Who writes a parameter from outside has to say so: else the step undoes it.
Status Optimizer::check_masters(void* stream) {
  if (settings_[kCheckMasters] == 0) return {};
  TALUS_TRY(settle());
  for (int64_t p = 0; p < model_.params.size(); ++p) {
    const bool begun = steps(p) > 0 || model_.table.hidden_given[size_t(p)] != 0;
    if (begun && model_.params[p].has_master && model_.table.scalar_class[size_t(p)] != kIdle)
      TALUS_TRY(compare_master(p, stream));
  }
  return {};
}

Status Optimizer::compare_master(int64_t param, void* stream) {
  const FloatEnvironment ieee;
  const Parameter& p = model_.params[param];
  const auto* master = static_cast<const float*>(model_.table.data(kHidden, param));
  const auto* value = static_cast<const uint16_t*>(model_.table.data(kValue, param));
  const int64_t most = std::min(p.count, kPieceElements);
  std::vector<float> hidden(static_cast<size_t>(most));
  std::vector<uint16_t> seen(static_cast<size_t>(most)), expected(static_cast<size_t>(most));
  for (int64_t i = 0; i < p.count; i += most) {
    const int64_t n = std::min(most, p.count - i);
    TALUS_TRY(from_backend(
        backend_->copy(context_, hidden.data(), master + i, uint64_t(n) * sizeof(float), stream),
        "copy a master"));
    TALUS_TRY(from_backend(
        backend_->copy(context_, seen.data(), value + i, uint64_t(n) * sizeof(uint16_t), stream),
        "copy a parameter"));
    convert(hidden.data(), Dtype::f32, expected.data(), p.dtype, uint64_t(n));
    const auto [found, want] = std::mismatch(seen.begin(), seen.begin() + n, expected.begin());
    if (found == seen.begin() + n) continue;
    return Status(
        TALUS_E_STATE,
        text("talus_step: %s was written from outside: element %lld has the bits 0x%04x and its "
             "master rounds to 0x%04x, expected talus_import_param with NULL (check_masters)",
             where(param, p.name).c_str(), static_cast<long long>(i + (found - seen.begin())),
             unsigned(*found), unsigned(*want)),
        param);
  }
  return {};
}

// ---- bytes --------------------------------------------------------------------------------------

namespace {

struct Bytes {
  double read = 0, written = 0;
};

// One pass over one element.
void add_pass(const Parameter& p, const PassInfo& pass, Bytes* out) {
  for (const Use& use : pass.uses) {
    const bool is_value = use.column == kValue;
    const Dtype dtype = is_value                  ? (p.has_master ? Dtype::f32 : p.dtype)
                        : use.column == kGradient ? p.grad_dtype
                                                  : p.state_dtype;
    const double bytes = double(size_of(dtype));
    if (use.read) out->read += bytes;
    if (use.write)
      out->written += bytes + (is_value && p.has_master ? double(size_of(p.dtype)) : 0);
  }
}

}  // namespace

Status Optimizer::bytes_per_param(int32_t group, const talus_param& param, talus_bytes* out) const {
  talus_param one = param;
  const int64_t extent = 1;
  double memory = 0;
  one.shape = &extent;
  one.ndim = 1;
  one.data = &memory;
  one.grad = nullptr;
  one.name = nullptr;
  Parameter p;
  TALUS_TRY(describe(one, model_.params.size(), &p));
  const Group& g = model_.groups[size_t(group)];
  out->param = double(size_of(p.dtype));
  out->grad = double(size_of(p.grad_dtype));
  out->master = p.has_master ? 4 : 0;
  for (size_t k = 0; k < g.rule().slots.size(); ++k)
    if (g.has_slot(int(k)) && g.rule().slots[k].shape == Shape::element)
      out->state += double(size_of(p.state_dtype));
  Bytes moved;
  for (const PassInfo& pass : g.rule().variants[size_t(g.variant())].passes)
    add_pass(p, pass, &moved);
  out->read = moved.read;
  out->written = moved.written;
  return {};
}

}  // namespace talus
