// A small optimizer that has taken steps, for fuzz targets that load into it.
#pragma once
#include <string>
#include <vector>

#include "tests/checkpoint/memory_file.h"
#include "tests/fuzz/target.h"

namespace talus::test {

class Live {
 public:
  Live() {
    must(talus_create("adamw", TALUS_CPU, 0, &opt_));
    must(talus_set_setting(opt_, "threads", 1));
    add("w", TALUS_F32, w_.data(), gw_.data());
    add("h", TALUS_BF16, h_.data(), gh_.data());
    must(talus_set_note(opt_, "epoch", "2"));
    for (int i = 0; i < 2; ++i) must(talus_step(opt_, nullptr));
    state_ = save_bytes(opt_, TALUS_SAVE_PARAMS | TALUS_SAVE_NO_DIGEST);
  }
  ~Live() { talus_destroy(opt_); }
  Live(const Live&) = delete;

  talus_optimizer* get() const { return opt_; }
  const std::string& state() const { return state_; }

  // After a load that ended with this status.
  void check(talus_status status, bool in_place) {
    if (status == TALUS_OK) detach_all();
    if (status == TALUS_OK || in_place) {
      require(load_bytes(opt_, state_, TALUS_LOAD_PARAMS) == TALUS_OK,
              std::string("its own state is refused: ") + talus_last_error());
    } else {
      require(status == TALUS_E_FORMAT || status == TALUS_E_MISMATCH || status == TALUS_E_VERSION ||
                  status == TALUS_E_UNSUPPORTED || status == TALUS_E_IO ||
                  status == TALUS_E_CALLBACK,
              std::string("refused with another status: ") + talus_last_error());
      require(*talus_last_error() != 0, "refused without a text");
    }
    require(save_bytes(opt_, TALUS_SAVE_PARAMS | TALUS_SAVE_NO_DIGEST) == state_,
            "a load that failed has changed something");
  }

 private:
  // Its own state has no schedules.
  void detach_all() {
    for (int32_t i = 0; i < talus_hyper_count("adamw"); ++i) {
      talus_hyper hyper{};
      hyper.struct_size = sizeof hyper;
      must(talus_hyper_info("adamw", i, &hyper));
      if (hyper.kind == TALUS_REAL)
        must(talus_attach_schedule(opt_, TALUS_ALL, hyper.name, nullptr, TALUS_CLOCK_APPLIED));
    }
  }
  void add(const char* name, int32_t dtype, void* data, void* grad) {
    static const int64_t extent = 3;
    talus_param p{};
    p.struct_size = sizeof p;
    p.dtype = dtype;
    p.data = data;
    p.grad = grad;
    p.name = name;
    p.shape = &extent;
    p.ndim = 1;
    must(talus_add_params(opt_, 0, 1, &p, nullptr));
  }

  talus_optimizer* opt_ = nullptr;
  std::vector<float> w_ = {1, 2, 3}, gw_ = {0.5f, -1, 0.25f};
  std::vector<uint16_t> h_ = {0x3f80, 0x4000, 0x4040}, gh_ = {0x3f00, 0xbf80, 0x3e80};
  std::string state_;
};

}  // namespace talus::test
