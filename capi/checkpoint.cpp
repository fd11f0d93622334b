// Checkpoints through the C ABI: the caller's functions as source and sink. No logic.
#include "lib/checkpoint/checkpoint.h"

#include "capi/handle.h"

using namespace talus;
using namespace talus::capi;

namespace talus::capi {
namespace {

constexpr size_t kLeastIo = offsetof(talus_io, flags) + sizeof(uint64_t);
constexpr size_t kLeastWriter = offsetof(talus_writer, write) + sizeof(void (*)());
constexpr size_t kLeastReader = offsetof(talus_reader, read_at) + sizeof(void (*)());

constexpr uint64_t kSaveFlags = TALUS_SAVE_PARAMS | TALUS_SAVE_NO_DIGEST;
constexpr uint64_t kLoadFlags = TALUS_LOAD_ALLOW_MISSING | TALUS_LOAD_ALLOW_EXTRA |
                                TALUS_LOAD_CONVERT | TALUS_LOAD_KEEP_HYPER | TALUS_LOAD_PARAMS |
                                TALUS_LOAD_IN_PLACE | TALUS_LOAD_CHECK_ONLY;

Status answered(int32_t answer, const char* function, const char* callback) {
  if (answer == 0) return {};
  return Status(TALUS_E_CALLBACK,
                text("%s: %s returned %d, expected 0", function, callback, answer), answer);
}

class CallbackSink final : public Sink {
 public:
  explicit CallbackSink(const talus_writer& writer) : writer_(writer) {}
  const std::string& name() const override { return name_; }
  Status begin(uint64_t) override { return {}; }
  Status write(const void* bytes, uint64_t count) override {
    return answered(writer_.write(writer_.user, bytes, count), "talus_save_to", "write");
  }
  Status commit() override { return {}; }

 private:
  const talus_writer& writer_;
  std::string name_ = "talus_save_to";
};

class CallbackSource final : public Source {
 public:
  explicit CallbackSource(const talus_reader& reader) : reader_(reader) {}
  const std::string& name() const override { return name_; }
  uint64_t size() const override { return reader_.size; }
  Status read(uint64_t offset, void* out, uint64_t bytes) override {
    if (bytes == 0) return {};
    return answered(reader_.read_at(reader_.user, offset, out, bytes), "talus_load_from",
                    "read_at");
  }

 private:
  const talus_reader& reader_;
  std::string name_ = "talus_load_from";
};

Status take_io(const talus_io* from, uint64_t known, const char* function, talus_io* out) {
  *out = {};
  if (!from) return {};
  const std::string what = text("%s: talus_io", function);
  TALUS_TRY(take(from, kLeastIo, what.c_str(), out));
  if (out->flags & ~known)
    return failure(TALUS_E_ARGUMENT, "%s.flags has 0x%llx, expected no other than 0x%llx",
                   what.c_str(), static_cast<unsigned long long>(out->flags & ~known),
                   static_cast<unsigned long long>(known));
  return {};
}

Status check_call(const talus_optimizer* opt, const char* function, void* stream) {
  TALUS_TRY(need(opt, function, "opt"));
  return check_stream(opt, stream, function);
}

Status check_path(const char* path, const char* function) {
  TALUS_TRY(need(path, function, "path"));
  if (*path && is_utf8(path)) return {};
  return failure(TALUS_E_ARGUMENT, "%s: path is %s, expected UTF-8", function,
                 *path ? "no UTF-8" : "empty");
}

}  // namespace
}  // namespace talus::capi

extern "C" {

talus_status talus_save(talus_optimizer* opt, const char* path, const talus_io* io, void* stream) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_call(opt, "talus_save", stream));
    TALUS_TRY(check_path(path, "talus_save"));
    talus_io taken;
    TALUS_TRY(take_io(io, kSaveFlags, "talus_save", &taken));
    TALUS_TRY(get(opt).check_whole());
    return save(get(opt), path, taken, stream);
  });
}

talus_status talus_load(talus_optimizer* opt, const char* path, const talus_io* io, void* stream) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_call(opt, "talus_load", stream));
    TALUS_TRY(check_path(path, "talus_load"));
    talus_io taken;
    TALUS_TRY(take_io(io, kLoadFlags, "talus_load", &taken));
    return load(get(opt), path, taken, stream);
  });
}

talus_status talus_save_to(talus_optimizer* opt, const talus_writer* writer, const talus_io* io,
                           void* stream) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_call(opt, "talus_save_to", stream));
    TALUS_TRY(need(writer, "talus_save_to", "writer"));
    talus_writer to;
    TALUS_TRY(take(writer, kLeastWriter, "talus_save_to: talus_writer", &to));
    if (!to.write)
      return failure(TALUS_E_ARGUMENT, "talus_save_to: write is NULL, expected a function");
    talus_io taken;
    TALUS_TRY(take_io(io, kSaveFlags, "talus_save_to", &taken));
    TALUS_TRY(get(opt).check_whole());
    CallbackSink sink(to);
    return save_to(get(opt), sink, taken, stream);
  });
}

talus_status talus_load_from(talus_optimizer* opt, const talus_reader* reader, const talus_io* io,
                             void* stream) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(check_call(opt, "talus_load_from", stream));
    TALUS_TRY(need(reader, "talus_load_from", "reader"));
    talus_reader from;
    TALUS_TRY(take(reader, kLeastReader, "talus_load_from: talus_reader", &from));
    if (!from.read_at)
      return failure(TALUS_E_ARGUMENT, "talus_load_from: read_at is NULL, expected a function");
    talus_io taken;
    TALUS_TRY(take_io(io, kLoadFlags, "talus_load_from", &taken));
    CallbackSource source(from);
    return load_from(get(opt), source, taken, stream);
  });
}

talus_status talus_set_note(talus_optimizer* opt, const char* key, const char* text) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(opt, "talus_set_note", "opt"));
    TALUS_TRY(need(key, "talus_set_note", "key"));
    TALUS_TRY(get(opt).check_whole());
    return get(opt).set_note(key, text);
  });
}

talus_status talus_get_note(const talus_optimizer* opt, const char* key, char* text,
                            uint64_t capacity, uint64_t* needed) {
  return guarded(__func__, [&]() -> Status {
    TALUS_TRY(need(opt, "talus_get_note", "opt"));
    TALUS_TRY(need(key, "talus_get_note", "key"));
    if (capacity > 0) TALUS_TRY(need(text, "talus_get_note", "text"));
    TALUS_TRY(get(opt).check_whole());
    const Notes& notes = get(opt).notes();
    const auto found = notes.find(key);
    const uint64_t bytes = found == notes.end() ? 0 : found->second.size() + 1;
    if (needed) *needed = bytes;
    if (bytes == 0)
      return failure(TALUS_E_NAME, "talus_get_note: there is no note %s", quoted(key).c_str());
    if (capacity < bytes)
      return failure(TALUS_E_ARGUMENT,
                     "talus_get_note: the note %s needs %llu bytes, capacity is %llu",
                     quoted(key).c_str(), static_cast<unsigned long long>(bytes),
                     static_cast<unsigned long long>(capacity));
    std::memcpy(text, found->second.c_str(), bytes);
    return {};
  });
}

}  // extern "C"
