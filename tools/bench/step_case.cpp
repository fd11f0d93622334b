#include "tools/bench/step_case.h"

#include <cmath>
#include <random>
#include <stdexcept>

#include "lib/base/rounding.h"
#include "lib/cpu/backend.h"
#include "lib/optimizer/group.h"

namespace bench {

using namespace talus;

namespace {

constexpr uint64_t kLine = 64;

uint64_t lines(uint64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

uint64_t bytes_as(const Preset& preset, Dtype dtype) {
  uint64_t bytes = 0;
  for (const PresetTensor& t : preset.tensors) bytes += lines(uint64_t(t.count * size_of(dtype)));
  return bytes;
}

void check(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.text());
}

// Between -1 and 1, anything but regular.
float scattered(int64_t i) { return float(uint32_t(i) * 2654435761u >> 8) * 0x1p-23f - 1; }

float param_value(int64_t i) { return scattered(i); }
// Away from zero by much: its square, and moments of it, must stay normal in f32.
float grad_value(int64_t i) {
  const float x = scattered(i + 1);
  return std::copysign(0.001f + 0.009f * std::fabs(x), x);
}

void store(float x, float* p) { *p = x; }
void store(float x, double* p) { *p = x; }
void store(float x, Bf16* p) { *p = to_bf16(x); }
void store(float x, F16* p) { *p = to_f16(x); }

template <class E>
void fill_elements(void* data, int64_t n, float (*value)(int64_t)) {
  for (int64_t i = 0; i < n; ++i) store(value(i), static_cast<E*>(data) + i);
}

void fill(void* data, Dtype dtype, int64_t n, float (*value)(int64_t)) {
  switch (dtype) {
    case Dtype::f32: return fill_elements<float>(data, n, value);
    case Dtype::f64: return fill_elements<double>(data, n, value);
    case Dtype::bf16: return fill_elements<Bf16>(data, n, value);
    case Dtype::f16: return fill_elements<F16>(data, n, value);
  }
}

const VariantInfo& variant_of(const Group& group) {
  return group.rule().variants[size_t(group.variant())];
}

PassBytes bytes_of(const PassInfo& pass, const Subject& subject) {
  const int64_t state = size_of(compute_type(subject.param)), visible = size_of(subject.param);
  PassBytes bytes;
  for (const Use& use : pass.uses) {
    int64_t size = state;
    if (use.column == kGradient) size = size_of(subject.grad);
    if (use.column == kValue && !subject.has_master()) size = visible;
    bytes.add(size, use.read, use.write);
    if (use.column == kValue && use.write && subject.has_master()) bytes.add(visible, false, true);
  }
  return bytes;
}

talus_allocator huge_allocator() {
  talus_allocator allocator{};
  allocator.struct_size = sizeof allocator;
  allocator.alloc = [](void*, uint64_t bytes, uint64_t, void*) { return allocate_huge(bytes); };
  allocator.release = [](void*, void* data, uint64_t, void*) { std::free(data); };
  return allocator;
}

}  // namespace

void PassBytes::add(int64_t size, bool read, bool write) {
  counted += double(size * (read + write));
  if (write && !read) fetched += double(size);
}

bool Subject::by_rows() const { return !norm && algorithm.rule->rows.only; }

Subject Subject::dense() const {
  Subject other = *this;
  other.algorithm = find_algorithm("adam");
  return other;
}

bool Subject::has_master() const { return is_16_bit(param) && master != TALUS_MASTER_NONE; }

uint64_t operand_bytes(const Preset& preset, const Subject& subject) {
  uint64_t bytes = bytes_as(preset, subject.grad);
  if (subject.norm) return bytes;
  if (subject.by_rows()) bytes += operand_bytes(preset, subject.dense());
  bytes += bytes_as(preset, subject.param);
  const Group group(subject.algorithm);
  const uint64_t state = bytes_as(preset, compute_type(subject.param));
  for (size_t k = 0; k < group.rule().slots.size(); ++k) {
    if (!group.has_slot(int(k))) continue;
    const bool per_element = group.rule().slots[k].shape == Shape::element;
    bytes += per_element ? state : preset.tensors.size() * kLine;
  }
  return subject.has_master() ? bytes + state : bytes;
}

const RoofTable& roof_of_target() {
  const TargetInfo* target = nullptr;
  check(choose_cpu_target(&target));
  const std::string_view name = target->kernels->target;
  if (name == scalar_roof().target) return scalar_roof();
  const RoofTable* roof = simd_roof(name);
  if (!roof) throw std::runtime_error("no roof is compiled for this CPU target");
  return *roof;
}

StepCase::StepCase(const Preset& preset, const Subject& subject)
    : subject_(subject), param_count_(preset.param_count) {
  params_ = huge_memory(bytes_as(preset, subject.param));
  grads_ = huge_memory(bytes_as(preset, subject.grad));
  check(Optimizer::create(subject.algorithm, &optimizer_));
  check(optimizer_->set_setting("threads", subject.threads));
  check(optimizer_->set_allocator(huge_allocator()));
  set_up_check();
  add_params(preset);
  if (subject.by_rows()) draw_rows(preset);
  check(optimizer_->prepare(nullptr));
  if (!subject.norm) work();
  find_roofs();
  if (subject.by_rows()) dense_ = std::make_unique<StepCase>(preset, subject.dense());
}

// A scale that never moves: every step has the same work.
void StepCase::set_up_check() {
  check(optimizer_->set_setting("max_grad_norm", subject_.max_grad_norm));
  if (!subject_.check_finite) return;
  scaler_ = std::make_shared<Scaler>(cpu_backend());
  check(scaler_->set("dynamic", 0));
  check(optimizer_->attach_scaler(scaler_));
}

void StepCase::add_params(const Preset& preset) {
  std::vector<talus_param> list;
  char *param = params_.get(), *grad = grads_.get();
  for (const PresetTensor& t : preset.tensors) {
    talus_param p{};
    p.struct_size = sizeof p;
    p.dtype = info(subject_.param).abi;
    p.grad_dtype = info(subject_.grad).abi;
    p.master = subject_.master;
    p.data = param;
    p.grad = subject_.by_rows() ? nullptr : grad;
    p.name = t.name.c_str();
    p.shape = t.shape.data();
    p.ndim = int32_t(t.shape.size());
    list.push_back(p);
    if (!subject_.norm) fill(param, subject_.param, t.count, param_value);
    fill(grad, subject_.grad, t.count, grad_value);
    param += lines(uint64_t(t.count * size_of(subject_.param)));
    grad += lines(uint64_t(t.count * size_of(subject_.grad)));
  }
  check(optimizer_->add_params(0, list, nullptr));
}

// Different rows of each tensor, in no order; values as a dense gradient would have them.
void StepCase::draw_rows(const Preset& preset) {
  constexpr int64_t kDraws = 8;
  std::mt19937_64 random(1);
  const char* values = grads_.get();
  for (size_t t = 0; t < preset.tensors.size(); ++t) {
    const PresetTensor& tensor = preset.tensors[t];
    const int64_t rows = tensor.shape.empty() || tensor.count == 0 ? 0 : tensor.shape[0];
    Table table{int64_t(t), (rows + kRowShare - 1) / kRowShare, values, {}};
    values += lines(uint64_t(tensor.count * size_of(subject_.grad)));
    if (rows == 0) continue;
    for (int64_t draw = 0; draw < kDraws; ++draw) {
      std::vector<bool> taken(size_t(rows), false);
      for (int64_t j = 0; j < table.count;) {
        const size_t row = size_t(random() % uint64_t(rows));
        if (taken[row]) continue;
        taken[row] = true;
        table.draws.push_back(int64_t(row));
        ++j;
      }
    }
    elements_given_ += table.count * (tensor.count / rows);
    tables_.push_back(std::move(table));
  }
}

void StepCase::bind_rows() {
  for (const Table& table : tables_) {
    const int64_t draws = int64_t(table.draws.size()) / table.count;
    talus_rows rows{};
    rows.index_dtype = TALUS_I64;
    rows.count = table.count;
    rows.indices = table.draws.data() + draw_ % draws * table.count;
    rows.values = table.values;
    check(optimizer_->bind_rows(table.param, &rows));
  }
  ++draw_;
}

void StepCase::find_roofs() {
  const RoofTable& table = roof_of_target();
  if (subject_.norm) {
    add_roof(table.read_gradients, {double(size_of(subject_.grad)), 0});
    return;
  }
  const Group& group = optimizer_->model().group_of(0);
  if (group.needs_total() || subject_.reads_gradients_first())
    add_roof(table.read_gradients, {double(size_of(subject_.grad)), 0});
  const VariantRoof passes = table.step[rule_index(group.rule())][group.variant()];
  const int mix = mix_of(subject_.param, subject_.grad, subject_.has_master());
  size_t pass = 0;
  for (const PassInfo& each : variant_of(group).passes) {
    if (!each.uses.empty()) add_roof(passes[pass][mix], bytes_of(each, subject_));
    ++pass;
  }
  if (subject_.by_rows()) bytes_per_param_ *= double(elements_given_) / double(param_count_);
}

void StepCase::add_roof(SegmentsFn function, const PassBytes& bytes) {
  roofs_.push_back(function);
  bytes_per_param_ += bytes.counted;
  traffic_per_param_ += bytes.counted + bytes.fetched;
}

void StepCase::work() {
  if (subject_.norm) return measure();
  if (subject_.by_rows()) bind_rows();
  step();
}

void StepCase::step() {
  check(optimizer_->step(nullptr));
  if (scaler_) check(scaler_->update(nullptr));
}

void StepCase::measure() {
  Measure what{};
  if (scaler_) what.entry.factor = 1 / double(scaler_->state().scale);
  if (cpu_backend().measure(optimizer_->backend_context(), &what, nullptr) != TALUS_OK)
    throw std::runtime_error("the norm could not be measured");
}

// One group and one dtype of parameters: the plan has one launch.
void StepCase::roof() {
  if (dense_) return dense_->work();
  for (const SegmentsFn function : roofs_)
    cpu_run_region(optimizer_->backend_context(), 0, function);
}

int StepCase::busy_threads() const {
  if (subject_.by_rows()) return 1;  // rows are told apart by the caller alone
  return param_count_ <= (kSerialBelow - 1) * kChunk ? 1 : subject_.threads;
}

}  // namespace bench
