// How far a save or load is, told to the caller, who may stop it.
#pragma once
#include <talus.h>

#include <cstdint>

#include "lib/base/status.h"

namespace talus {

class Progress {
 public:
  Progress(const talus_io& io, const char* what) : io_(io), what_(what) {}

  Status begin(uint64_t total) {
    total_ = total;
    return tell();
  }
  Status add(uint64_t bytes) {
    done_ += bytes;
    return done_ - told_ < kEvery ? Status() : tell();
  }
  Status end() {
    done_ = total_;
    return tell();
  }

 private:
  static constexpr uint64_t kEvery = uint64_t{32} << 20;

  Status tell() {
    told_ = done_;
    if (!io_.progress) return {};
    const int32_t answer = io_.progress(io_.user, done_, total_);
    if (answer == 0) return {};
    return Status(
        TALUS_E_CANCELLED,
        text("%s: the progress callback returned %d after %llu of %llu bytes", what_, answer,
             static_cast<unsigned long long>(done_), static_cast<unsigned long long>(total_)),
        answer);
  }

  const talus_io& io_;
  const char* what_;
  uint64_t total_ = 0, done_ = 0, told_ = 0;
};

}  // namespace talus
