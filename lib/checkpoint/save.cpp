// A save: the tensors are laid out, then written once, front to back.
#include <algorithm>
#include <cerrno>

#include "lib/checkpoint/checkpoint.h"
#include "lib/checkpoint/crc32c.h"
#include "lib/checkpoint/files.h"
#include "lib/checkpoint/index.h"
#include "lib/checkpoint/manifest.h"
#include "lib/checkpoint/progress.h"
#include "lib/checkpoint/schedules.h"
#include "lib/checkpoint/settings.h"
#include "lib/checkpoint/state_tensors.h"
#include "lib/checkpoint/transfer.h"

namespace talus {
namespace {

using safetensors::Layout;
using safetensors::Strings;
using Tensors = std::vector<StateTensor>;

std::vector<ParamRecord> param_records(const Optimizer& from) {
  const Model& model = from.model();
  std::vector<ParamRecord> out;
  for (int64_t i = 0; i < model.params.size(); ++i) {
    const Parameter& p = model.params[i];
    if (p.removed) continue;
    ParamRecord record{p.name, file_dtype(p.dtype), param_shape(p), p.group, {}};
    for_each_slot(model, i, [&](const StateSlot& slot) {
      if (from.has_begun(i, slot)) record.slots.push_back(slot.name);
    });
    out.push_back(std::move(record));
  }
  return out;
}

std::vector<GroupRecord> group_records(const Model& model) {
  std::vector<GroupRecord> out;
  for (const Group& group : model.groups) {
    GroupRecord record;
    record.algorithm = group.algorithm();
    const std::span<const Hyper> hypers = group.rule().hypers;
    for (size_t i = 0; i < hypers.size(); ++i)
      record.hyper.emplace_back(hypers[i].name, group.values()[i]);
    out.push_back(std::move(record));
  }
  return out;
}

bool has_master(const std::vector<ParamRecord>& params) {
  return std::any_of(params.begin(), params.end(), [](const ParamRecord& p) {
    return std::find(p.slots.begin(), p.slots.end(), kMasterSlot) != p.slots.end();
  });
}

Status describe(const Optimizer& from, Manifest* to) {
  Manifest& out = *to;
  out.writer =
      text("talus %d.%d.%d", TALUS_VERSION >> 16, TALUS_VERSION >> 8 & 255, TALUS_VERSION & 255);
  out.params = param_records(from);
  out.groups = group_records(from.model());
  if (has_master(out.params)) out.required.push_back("master");
  const Clocks& clocks = from.clocks();
  out.counts = {clocks.applied, clocks.called, clocks.called - clocks.applied, clocks.manual};
  out.notes = from.notes();
  TALUS_TRY(record_settings(from, &out));
  if (!out.settings.empty()) out.required.push_back(kSettingsFeature);
  if (out.scaler) out.required.push_back(kScalerFeature);
  TALUS_TRY(record_schedules(from, &out.schedules));
  if (!out.schedules.empty()) out.required.push_back(kSchedulesFeature);
  return {};
}

// Some tensors as one file, with their digest unless it is not wanted.
struct Plan {
  std::vector<const StateTensor*> tensors;
  bool digest = true;
  Layout layout;

  Status lay_out(const Strings& metadata) {
    std::vector<safetensors::Entry> entries;
    for (const StateTensor* t : tensors) entries.push_back(t->entry);
    if (digest) entries.push_back({kDigestKey, kDigestDtype, {tensors.size() + 1}});
    return safetensors::lay_out(entries, metadata, digest ? kDigestKey : "", &layout);
  }
};

class Writer {
 public:
  Writer(Optimizer& from, void* stream, Progress& progress)
      : transfer_(from, stream), progress_(progress) {}

  // All but the sink's begin and commit. *head_digest: of its header.
  Status write(const Plan& plan, Sink& sink, uint32_t* head_digest) {
    std::vector<uint32_t> digests;
    digests.reserve(plan.tensors.size() + 1);
    const std::string& head = plan.layout.head;
    digests.push_back(crc32c(0, head.data(), head.size()));
    *head_digest = digests.front();
    TALUS_TRY(put(sink, head.data(), head.size()));
    for (const size_t i : plan.layout.order) {
      if (i == plan.tensors.size()) continue;  // the digest, last
      uint32_t digest = 0;
      TALUS_TRY(write_tensor(*plan.tensors[i], sink, &digest));
      digests.push_back(digest);
    }
    if (!plan.digest) return {};
    return put(sink, digests.data(), digests.size() * sizeof digests[0]);
  }

 private:
  Status write_tensor(const StateTensor& tensor, Sink& sink, uint32_t* digest) {
    if (tensor.is_steps) {
      *digest = crc32c(0, &tensor.steps, sizeof tensor.steps);
      return put(sink, &tensor.steps, sizeof tensor.steps);
    }
    return transfer_.download(tensor.data, tensor.entry.bytes(),
                              [&](const void* bytes, uint64_t, uint64_t count) {
                                *digest = crc32c(*digest, bytes, count);
                                return put(sink, bytes, count);
                              });
  }

  Status put(Sink& sink, const void* bytes, uint64_t count) {
    TALUS_TRY(sink.write(bytes, count));
    return progress_.add(count);
  }

  Transfer transfer_;
  Progress& progress_;
};

Status take_tensors(const Optimizer& from, const talus_io& io, Tensors* out) {
  return state_tensors(from, (io.flags & TALUS_SAVE_PARAMS) != 0, out);
}

// Half of what a reader takes.
constexpr size_t kMostTensors = size_t{1} << 19;

// Tensors in the order of the parameters, as many to a shard as fit.
std::vector<Plan> split(const Tensors& tensors, uint64_t shard_bytes, bool digest) {
  std::vector<Plan> out;
  uint64_t used = 0;
  for (const StateTensor& t : tensors) {
    const uint64_t bytes = t.entry.bytes();
    const bool full = !out.empty() && out.back().tensors.size() == kMostTensors;
    if (out.empty() || full || (shard_bytes > 0 && used + bytes > shard_bytes && used > 0)) {
      out.push_back({{}, digest, {}});
      used = 0;
    }
    out.back().tensors.push_back(&t);
    used += bytes;
  }
  if (out.empty()) out.push_back({{}, digest, {}});
  return out;
}

// Shards under new names, and the index whose rename is what publishes them.
class ShardedSave {
 public:
  ShardedSave(Optimizer& from, const std::string& path, const talus_io& io, void* stream)
      : from_(from),
        path_(path),
        io_(io),
        progress_(io, "talus_save"),
        writer_(from, stream, progress_) {}
  ~ShardedSave() {
    if (!published_)
      for (const std::string& file : written_) remove_file(file);
  }

  Status run() {
    Tensors tensors;
    TALUS_TRY(take_tensors(from_, io_, &tensors));
    plans_ = split(tensors, from_.shard_bytes(), !(io_.flags & TALUS_SAVE_NO_DIGEST));
    TALUS_TRY(lay_out());
    remove_left_overs();
    for (size_t i = 0; i < plans_.size(); ++i)
      if (const Status status = write_shard(i); !status.ok()) return explained(status);
    return publish();
  }

 private:
  Status lay_out() {
    Manifest manifest;
    TALUS_TRY(describe(from_, &manifest));
    index_.metadata = write_manifest(manifest);
    TALUS_TRY(random_name(&index_.generation));
    const Strings metadata = {{"format", "pt"}, {"talus.version", std::to_string(kFormatVersion)}};
    uint64_t total = 0;
    for (Plan& plan : plans_) {
      TALUS_TRY(plan.lay_out(metadata));
      total += plan.layout.total;
    }
    return progress_.begin(total);
  }

  // What killed saves left a day ago. Shards that were whole stay: another index may name them.
  void remove_left_overs() const {
    const std::string folder = folder_of(path_);
    const auto is_left_over = [&](std::string_view name) {
      return is_shard_left_over(path_, name);
    };
    for (const std::string& name : old_files(folder, is_left_over)) remove_file(folder + name);
  }

  static Status explained(const Status& status) {
    if (status.detail() != ENOSPC && status.detail() != EDQUOT) return status;
    return Status(status.code(),
                  status.text() +
                      "; until the new index is there, old and new shards need space "
                      "beside each other",
                  status.detail());
  }

  Status write_shard(size_t i) {
    const Plan& plan = plans_[i];
    const std::string file = shard_name(path_, index_.generation, int(i + 1), int(plans_.size()));
    std::unique_ptr<Sink> sink;
    written_.push_back(folder_of(path_) + file);
    if (Status status = create_new_sink(written_.back(), &sink); !status.ok()) {
      written_.pop_back();  // what is there under this name is not ours
      return status;
    }
    ShardRecord& record = index_.files[file];
    record.size = plan.layout.total;
    TALUS_TRY(sink->begin(plan.layout.total));
    TALUS_TRY(writer_.write(plan, *sink, &record.header_crc32c));
    for (const StateTensor* t : plan.tensors) {
      if (!index_.weight_map.emplace(t->entry.name, file).second)
        return failure(TALUS_E_ARGUMENT, "talus_save: two tensors would have the key %s",
                       quoted(t->entry.name).c_str());
      index_.total_size += t->entry.bytes();
    }
    return sink->commit();
  }

  Status publish() {
    const std::vector<std::string> before = named_by_old_index();
    const std::string text = write_index(index_);
    if (text.size() > kMostIndexBytes)
      return failure(TALUS_E_ARGUMENT, "%s: an index of %zu bytes, at most %llu are read",
                     path_.c_str(), text.size(), static_cast<unsigned long long>(kMostIndexBytes));
    std::unique_ptr<Sink> sink;
    TALUS_TRY(create_sink(path_, &sink));
    TALUS_TRY(sink->begin(text.size()));
    TALUS_TRY(sink->write(text.data(), text.size()));
    TALUS_TRY(progress_.end());
    const Status status = sink->commit();
    published_ = status.ok() || sink->visible();
    if (status.ok())
      for (const std::string& file : before) remove_file(file);
    return status;
  }

  // Paths of those of an index that can be read, and only what has the form of our names. Whole,
  // since nothing may be allocated any more once the new index is there.
  std::vector<std::string> named_by_old_index() const {
    std::vector<std::string> out;
    Index old;
    if (!read_index_file(path_, &old).ok()) return out;
    for (const auto& [file, record] : old.files)
      if (is_shard_of(path_, file) && !index_.files.contains(file))
        out.push_back(folder_of(path_) + file);
    return out;
  }

  Optimizer& from_;
  const std::string& path_;
  const talus_io& io_;
  Progress progress_;
  Writer writer_;
  std::vector<Plan> plans_;
  std::vector<std::string> written_;  // paths
  Index index_;
  bool published_ = false;
};

}  // namespace

Status save_to(Optimizer& from, Sink& sink, const talus_io& io, void* stream) {
  TALUS_TRY(from.check_idle(stream));
  Tensors tensors;
  TALUS_TRY(take_tensors(from, io, &tensors));
  Plan plan;
  plan.digest = !(io.flags & TALUS_SAVE_NO_DIGEST);
  for (const StateTensor& t : tensors) plan.tensors.push_back(&t);
  Manifest manifest;
  TALUS_TRY(describe(from, &manifest));
  TALUS_TRY(plan.lay_out(write_manifest(manifest)));
  Progress progress(io, "talus_save");
  TALUS_TRY(progress.begin(plan.layout.total));
  TALUS_TRY(sink.begin(plan.layout.total));
  uint32_t digest = 0;
  TALUS_TRY(Writer(from, stream, progress).write(plan, sink, &digest));
  TALUS_TRY(progress.end());
  return sink.commit();
}

Status save(Optimizer& from, const std::string& path, const talus_io& io, void* stream) {
  TALUS_TRY(from.check_idle(stream));
  if (is_index(path)) return ShardedSave(from, path, io, stream).run();
  std::unique_ptr<Sink> sink;
  TALUS_TRY(create_sink(path, &sink));
  return save_to(from, *sink, io, stream);
}

}  // namespace talus
