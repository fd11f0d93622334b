#include "tools/bench/bench.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "tools/bench/memory.h"
#include "tools/bench/paired.h"
#include "tools/bench/preset.h"
#include "tools/bench/step_case.h"
#include "tools/bench/stream.h"

namespace bench {

using namespace talus;

namespace {

constexpr uint64_t kSlack = uint64_t{32} << 20;  // page rounding, workspace, this program
constexpr int64_t kTinyParams = 100'000;         // all operands lie in L2
constexpr int kTinyRepeats = 300;

Dtype parse_dtype(const std::string& name) {
  for (const DtypeInfo& each : kDtypes)
    if (each.name == name) return each.dtype;
  throw std::runtime_error("unknown dtype \"" + name + "\", there are: " +
                           join_names(kDtypes, [](const DtypeInfo& d) { return d.name; }));
}

int32_t parse_master(const std::string& name) {
  if (name == "none") return TALUS_MASTER_NONE;
  return name == "f32" ? TALUS_MASTER_F32 : TALUS_MASTER_AUTO;
}

Subject subject_of(const Options& options) {
  const std::string rule = options.norm ? "sgd" : options.rule;  // the norm needs no state
  const AlgorithmRef algorithm = find_algorithm(rule);
  if (!algorithm) throw std::runtime_error("unknown algorithm \"" + rule + "\"");
  return {algorithm,
          parse_dtype(options.param),
          parse_dtype(options.grad.empty() ? options.param : options.grad),
          options.norm ? TALUS_MASTER_AUTO : parse_master(options.master),
          options.norm,
          options.threads,
          options.check_finite,
          options.max_grad_norm};
}

std::string check_of(const Options& options) {
  std::string check = options.check_finite ? "finite" : "";
  if (options.max_grad_norm > 0) check += check.empty() ? "norm" : ", norm";
  return check.empty() ? "none" : check;
}

// ---- before anything is allocated --------------------------------------------------------------

void check_memory(const Preset& preset, const Subject& subject) {
  const uint64_t operands = operand_bytes(preset, subject);
  const uint64_t needed = operands + stream_buffer_bytes(operands) + kSlack;
  const std::optional<uint64_t> available = available_bytes();
  if (available && needed > *available)
    throw std::runtime_error(
        fmt::format("preset {} does not fit: it needs {} bytes of memory, {} are available",
                    preset.name, needed, *available));
}

std::vector<Preset> load_presets(const Options& options, const Subject& subject) {
  std::vector<Preset> presets;
  for (const std::string& name : options.presets) {
    presets.push_back(load_preset(name, options.preset_dirs));
    check_memory(presets.back(), subject);
  }
  return presets;
}

// ---- one row -----------------------------------------------------------------------------------

Row describe_row(const Options& options, const Preset& preset, const Subject& subject) {
  Row row;
  row.preset = preset.name;
  row.rule = options.norm ? "norm" : options.rule;
  row.param = options.norm ? "none" : options.param;
  row.grad = info(subject.grad).name;
  row.master = !options.norm && subject.has_master() ? "f32" : "none";
  row.check = check_of(options);
  row.threads = options.threads;
  return row;
}

std::string state_of(const Model& model) {
  for (int column = kFirstSlot; column < kColumnCount; ++column)
    if (model.table.data(column, 0)) return info(model.params[0].state_dtype).name;
  return "none";
}

void fill_in(const PairedResult& result, const Preset& preset, double gb, Row* row) {
  const double params = double(preset.param_count), tensors = double(preset.tensors.size());
  row->pairs_kept = result.kept;
  row->pairs_tried = result.tried;
  if (result.tried > 0) row->ns_per_tensor_least = result.least_work_seconds / tensors * 1e9;
  if (result.kept == 0) return;
  row->ns_per_param = result.work_seconds / params * 1e9;
  row->ns_per_tensor = result.work_seconds / tensors * 1e9;
  row->gb_per_s = gb / result.work_seconds;
  row->roof_gb_per_s = gb / result.roof_seconds;
  if (row->established()) row->ratio = result.ratio;
}

// Best against best, so that a disturbance of either is no fault of the roof.
std::string roof_fault(const PairedResult& result, double traffic_gb, const Stream& stream) {
  const double roof = traffic_gb / result.least_roof_seconds;
  if (result.tried == 0 || roof >= kLeastRoof * stream.best_gb_per_s()) return "";
  return fmt::format(
      "the roof is at fault: at best it moved {:.1f} GB/s, under {} of the {:.1f} GB/s of the "
      "stream",
      roof, kLeastRoof, stream.best_gb_per_s());
}

Row measure_row(const Options& options, const Preset& preset, const Subject& subject) {
  Row row = describe_row(options, preset, subject);
  const auto progress = [&](const std::string& text) {
    if (options.progress) options.progress(preset.name + ": " + text);
  };
  progress("filling the tensors");
  StepCase step(preset, subject);
  row.state = options.norm ? "none" : state_of(step.optimizer().model());

  Paired paired;
  paired.roof = [&] { step.roof(); };
  paired.work = [&] { step.work(); };
  paired.threads = step.busy_threads();
  paired.pairs = options.pairs;
  paired.seconds = options.seconds;
  paired.progress = [&](int kept, int tried) {
    progress(fmt::format("{} of {} pairs kept, {} wanted", kept, tried, options.pairs));
  };
  paired.repeats = repeats_for(paired, preset.param_count <= kTinyParams ? kTinyRepeats : 1);

  const uint64_t stream_bytes = stream_buffer_bytes(operand_bytes(preset, subject));
  std::optional<Stream> stream;
  if (stream_bytes && !subject.by_rows())
    stream.emplace(roof_of_target(), paired.threads, stream_bytes,
                   options.norm ? Stream::Counted::read : Stream::Counted::read_and_written);
  if (stream) stream->measure();
  const PairedResult result = measure_pairs(paired);
  if (stream) stream->measure();

  const double params = double(preset.param_count) * 1e-9;
  fill_in(result, preset, params * step.bytes_per_param(), &row);
  if (subject.by_rows()) row.ratio = 1 / row.ratio, row.roof_gb_per_s = kNone;
  if (!stream) return row;
  row.stream_gb_per_s = stream->best_gb_per_s();
  row.fault = roof_fault(result, params * step.traffic_per_param(), *stream);
  return row;
}

}  // namespace

std::vector<Row> run(const Options& options) {
  const Subject subject = subject_of(options);
  const std::vector<Preset> presets = load_presets(options, subject);
  std::vector<Row> rows;
  for (const Preset& preset : presets) rows.push_back(measure_row(options, preset, subject));
  return rows;
}

}  // namespace bench
