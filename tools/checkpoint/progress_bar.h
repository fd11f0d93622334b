// A bar on standard error while a large file is read; a terminal alone gets it.
#pragma once
#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>

namespace checkpoint {

class ProgressBar {
 public:
  explicit ProgressBar(uint64_t bytes)
      : bytes_(bytes), on_(bytes >= kLeast && isatty(STDERR_FILENO) != 0) {}
  ~ProgressBar() {
    if (shown_ >= 0) fmt::print(stderr, "\r\033[K");
  }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void add(uint64_t bytes) {
    done_ += bytes;
    if (!on_) return;
    const int percent = int(double(done_) / double(bytes_) * 100);
    if (percent == shown_) return;
    shown_ = percent;
    std::string bar(kWidth, '.');
    bar.replace(0, size_t(percent * kWidth / 100), size_t(percent * kWidth / 100), '#');
    fmt::print(stderr, "\r\033[K[{}] {} % of {:.1f} GB", bar, percent, double(bytes_) / 1e9);
  }

 private:
  static constexpr uint64_t kLeast = uint64_t{64} << 20;  // read before anybody looks
  static constexpr int kWidth = 30;

  uint64_t bytes_, done_ = 0;
  bool on_;
  int shown_ = -1;
};

}  // namespace checkpoint
