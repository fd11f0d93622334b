// A load: everything is compared, then read into memory that nothing depends on yet, then taken over.
#include <algorithm>
#include <map>

#include "lib/base/float_environment.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/checkpoint/compare.h"
#include "lib/base/convert.h"
#include "lib/checkpoint/crc32c.h"
#include "lib/checkpoint/progress.h"
#include "lib/checkpoint/settings.h"
#include "lib/checkpoint/state_tensors.h"
#include "lib/checkpoint/transfer.h"

namespace talus {
namespace {

using Int = long long;  // for %lld

// A copy on its way to live memory.
struct Staged {
  std::unique_ptr<char[]> copy;
  void* live;
  uint64_t bytes;
};

class Load {
 public:
  Load(Optimizer& into, Catalogue& file, const talus_io& io, void* stream)
      : into_(into),
        model_(into.model()),
        file_(file),
        flags_(io.flags),
        stream_(stream),
        transfer_(into, stream),
        progress_(io, "talus_load") {}

  ~Load() {
    if (finished_) return;
    if (touched_live_) into_.damage();
    if (allocated_) into_.take_back_memory();
  }

  Status run() {
    const FloatEnvironment ieee;
    TALUS_TRY(compare(into_, file_, flags_, &plan_));
    sort_by_place();
    const bool check_only = has(TALUS_LOAD_CHECK_ONLY), in_place = has(TALUS_LOAD_IN_PLACE);
    TALUS_TRY(progress_.begin(bytes_to_read() * (in_place && !check_only ? 2 : 1)));
    if (check_only || in_place)
      for (const Reading& r : plan_.readings) TALUS_TRY(verify(r));
    if (check_only) return progress_.end();
    TALUS_TRY(make_room());
    TALUS_TRY(fill());
    return take_over();
  }

 private:
  bool has(uint64_t flag) const { return (flags_ & flag) != 0; }

  // As the files have them, so that they are read from front to back.
  void sort_by_place() {
    const auto place = [](const Reading& r) {
      const Part& first = r.from->parts.front();
      return std::pair(first.file, first.offset);
    };
    std::stable_sort(plan_.readings.begin(), plan_.readings.end(),
                     [&](const Reading& a, const Reading& b) { return place(a) < place(b); });
  }

  uint64_t bytes_to_read() const {
    uint64_t bytes = 0;
    for (const Reading& r : plan_.readings)
      for (const Part& part : r.from->parts) bytes += part.bytes;
    return bytes;
  }

  // ---- memory ---------------------------------------------------------------------------------

  Status make_room() {
    std::vector<int64_t> begun;
    for (const Restored::Steps& s : plan_.restored.steps)
      if (s.steps > 0 || s.master_given) begun.push_back(s.param);
    TALUS_TRY(into_.give_memory(begun, stream_, &allocated_));
    into_.reserve_for(plan_.restored);
    return {};
  }

  // Whether what lies there means something to the optimizer as it is.
  bool is_live(const Reading& r) const {
    return r.use == Reading::parameter || into_.has_begun(r.param, r.slot);
  }

  void* live_memory(const Reading& r) const {
    return r.use == Reading::parameter ? model_.table.data(kValue, r.param)
                                       : into_.state_data(r.param, r.slot);
  }

  void* parameter_memory(int64_t param) const { return model_.table.data(kValue, param); }
  uint64_t parameter_bytes(int64_t param) const {
    const Parameter& p = model_.params[param];
    return uint64_t(p.count * size_of(p.dtype));
  }

  // Host memory in place of live memory; NULL: the live memory itself is to be written.
  char* stage(void* live, uint64_t bytes) {
    if (has(TALUS_LOAD_IN_PLACE)) return touched_live_ = true, nullptr;
    staged_.push_back({std::unique_ptr<char[]>(new char[bytes ? bytes : 1]), live, bytes});
    return staged_.back().copy.get();
  }

  // fill writes what is meant for `live`, or for the copy where there is one.
  Status write(void* live, char* copy, uint64_t bytes, const Transfer::Fill& fill) {
    if (!copy) return transfer_.upload(live, bytes, fill);
    for (uint64_t at = 0; at < bytes; at += Transfer::kHostPiece)
      TALUS_TRY(fill(copy + at, at, std::min(Transfer::kHostPiece, bytes - at)));
    return {};
  }

  // ---- reading --------------------------------------------------------------------------------

  Status fill() {
    for (const Reading& r : plan_.readings) TALUS_TRY(read(r));
    for (const int64_t param : plan_.widened) TALUS_TRY(widen_master(param));
    return progress_.end();
  }

  Status read(const Reading& r) {
    const Parameter& p = model_.params[r.param];
    const uint64_t size = uint64_t(size_of(r.wanted(p)));
    char* const live = static_cast<char*>(live_memory(r));
    uint64_t count = 0;
    for (const Part& part : r.from->parts) count += part.count;
    char* const copy = is_live(r) ? stage(live, count * size) : nullptr;
    if (copy && r.use == Reading::parameter) parameters_[r.param] = copy;
    char* rounded = nullptr;
    const bool rounds = r.use == Reading::rounded_master;
    if (rounds) rounded = stage(parameter_memory(r.param), parameter_bytes(r.param));
    for (const Part& part : r.from->parts) {
      uint32_t digest = 0;
      const uint64_t skip = part.first * size;
      TALUS_TRY(write(live + skip, copy ? copy + skip : nullptr, part.count * size,
                      [&](void* room, uint64_t offset, uint64_t bytes) -> Status {
                        const uint64_t at = offset / size, n = bytes / size;
                        TALUS_TRY(read_elements(r, part, at, n, room, &digest));
                        if (rounds) return round_to(r, rounded, part.first + at, n, room);
                        return check_master(r, part.first + at, n, room);
                      }));
      TALUS_TRY(check_digest(r, part, digest));
    }
    return {};
  }

  // Elements at .. at+n-1 of a part, in the wanted dtype.
  Status read_elements(const Reading& r, const Part& part, uint64_t at, uint64_t n, void* room,
                       uint32_t* digest) {
    const Dtype wanted = r.wanted(model_.params[r.param]);
    const uint64_t size = uint64_t(size_of(r.stored)), bytes = n * size;
    void* target = room;
    if (wanted != r.stored) {
      scratch_.resize(size_t(bytes));
      target = scratch_.data();
    }
    TALUS_TRY(file_.file(part.file).read(part.offset + at * size, target, bytes));
    *digest = crc32c(*digest, target, size_t(bytes));
    if (wanted != r.stored) convert(target, r.stored, room, wanted, n);
    return progress_.add(bytes);
  }

  Status check_digest(const Reading& r, const Part& part, uint32_t digest) const {
    if (!part.has_digest || part.digest == digest) return {};
    const Parameter& p = model_.params[r.param];
    const std::string key = r.use == Reading::parameter ? p.name : state_key(p.name, r.slot.name);
    return failure(TALUS_E_FORMAT,
                   "%s: tensor %s has the digest %08x, expected %08x: it has changed "
                   "since it was written",
                   file_.file(part.file).name().c_str(), quoted(key).c_str(), digest, part.digest);
  }

  // Reads and throws away.
  Status verify(const Reading& r) {
    const uint64_t size = uint64_t(size_of(r.wanted(model_.params[r.param])));
    for (const Part& part : r.from->parts) {
      uint32_t digest = 0;
      for (uint64_t at = 0; at < part.count; at += Transfer::kHostPiece / size) {
        const uint64_t n = std::min(Transfer::kHostPiece / size, part.count - at);
        discard_.resize(size_t(n * size));
        TALUS_TRY(read_elements(r, part, at, n, discard_.data(), &digest));
        TALUS_TRY(check_master(r, part.first + at, n, discard_.data()));
      }
      TALUS_TRY(check_digest(r, part, digest));
    }
    return {};
  }

  // ---- masters --------------------------------------------------------------------------------

  Status copy(void* to, const void* from, uint64_t bytes) {
    if (bytes == 0) return {};
    return into_.from_backend(
        into_.backend().copy(into_.backend_context(), to, from, bytes, stream_), "copy state");
  }

  // Of the caller's parameter, as it is.
  Status parameter_elements(int64_t param, uint64_t first, uint64_t n, const void** out) {
    const uint64_t size = uint64_t(size_of(model_.params[param].dtype));
    const char* const at = static_cast<const char*>(parameter_memory(param)) + first * size;
    if (into_.on_cpu()) return *out = at, Status();
    elements_.resize(size_t(n * size));
    *out = elements_.data();
    return copy(elements_.data(), at, n * size);
  }

  // A forgotten load of the model is the commonest cause.
  Status check_master(const Reading& r, uint64_t first, uint64_t n, const void* master) {
    if (r.use != Reading::checked_master) return {};
    const Parameter& p = model_.params[r.param];
    const void* values = nullptr;
    TALUS_TRY(parameter_elements(r.param, first, n, &values));
    const uint64_t bad = find_unrounded(master, r.slot.dtype, values, p.dtype, n);
    if (bad == n) return {};
    Differences differences;
    differences.add(TALUS_M_MASTER,
                    text("parameter %s: element %llu is not its rounded master in the file; the "
                         "model's own weights are to be loaded first, or TALUS_LOAD_PARAMS given",
                         quoted(p.name).c_str(), static_cast<unsigned long long>(first + bad)));
    return differences.status(file_.name());
  }

  Status round_to(const Reading& r, char* rounded, uint64_t first, uint64_t n, const void* master) {
    const Parameter& p = model_.params[r.param];
    const uint64_t size = uint64_t(size_of(p.dtype));
    if (rounded) {
      convert(master, r.slot.dtype, rounded + first * size, p.dtype, n);
      return {};
    }
    elements_.resize(size_t(n * size));
    convert(master, r.slot.dtype, elements_.data(), p.dtype, n);
    return copy(static_cast<char*>(parameter_memory(r.param)) + first * size, elements_.data(),
                n * size);
  }

  // The file has none: the parameter is where it starts.
  Status widen_master(int64_t param) {
    const Parameter& p = model_.params[param];
    StateSlot slot{};
    for_each_slot(model_, param, [&](const StateSlot& s) {
      if (s.column == kHidden) slot = s;
    });
    void* const live = into_.state_data(param, slot);
    char* const copy = into_.has_begun(param, slot) ? stage(live, slot.bytes()) : nullptr;
    const auto loaded = parameters_.find(param);
    return write(live, copy, slot.bytes(), [&](void* room, uint64_t offset, uint64_t bytes) {
      const uint64_t first = offset / sizeof(float), n = bytes / sizeof(float);
      const void* values = nullptr;
      if (loaded != parameters_.end())
        values = loaded->second + first * uint64_t(size_of(p.dtype));
      else
        TALUS_TRY(parameter_elements(param, first, n, &values));
      convert(values, p.dtype, room, slot.dtype, n);
      return Status();
    });
  }

  // ---- the end --------------------------------------------------------------------------------

  // On the CPU nothing here can fail.
  Status take_over() {
    for (const Staged& s : staged_) {
      touched_live_ = true;
      TALUS_TRY(copy(s.live, s.copy.get(), s.bytes));
    }
    into_.restore(plan_.restored);
    finished_ = true;
    return {};
  }

  Optimizer& into_;
  const Model& model_;
  Catalogue& file_;
  uint64_t flags_;
  void* stream_;
  Transfer transfer_;
  Progress progress_;
  LoadPlan plan_;
  std::vector<Staged> staged_;
  std::map<int64_t, const char*> parameters_;       // copies of them that were read
  std::vector<char> scratch_, discard_, elements_;  // one piece each
  bool allocated_ = false, touched_live_ = false, finished_ = false;
};

Status load(Optimizer& into, Catalogue& file, const talus_io& io, void* stream) {
  return Load(into, file, io, stream).run();
}

}  // namespace

Status load(Optimizer& into, const std::string& path, const talus_io& io, void* stream) {
  TALUS_TRY(into.check_idle(stream));
  TALUS_TRY(check_round(into));
  Catalogue file;
  TALUS_TRY(Catalogue::open(path, &file));
  return load(into, file, io, stream);
}

Status load_from(Optimizer& into, Source& source, const talus_io& io, void* stream) {
  TALUS_TRY(into.check_idle(stream));
  TALUS_TRY(check_round(into));
  Catalogue file;
  TALUS_TRY(Catalogue::open(source, &file));
  return load(into, file, io, stream);
}

}  // namespace talus
