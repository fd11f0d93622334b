// What the tests of the ABI share: a small model, everything that can be seen of an optimizer, and
// the contract of a refused call. Raw C calls on purpose: talus.hpp would hide struct_size.
#pragma once
#include <catch2/catch_test_macros.hpp>

#include <talus.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#if defined(__SANITIZE_THREAD__)
#define TALUS_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TALUS_TEST_TSAN 1
#endif
#endif

namespace talus::abi {

inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

// Owns a talus_optimizer.
class Handle {
 public:
  explicit Handle(const char* algorithm) {
    REQUIRE(talus_create(algorithm, TALUS_CPU, 0, &opt_) == TALUS_OK);
  }
  ~Handle() { talus_destroy(opt_); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator talus_optimizer*() const { return opt_; }

 private:
  talus_optimizer* opt_ = nullptr;
};

// A descriptor of contiguous memory of one extent; `extent` must live until it is used.
template <class T>
talus_param describe(int32_t dtype, T* data, T* grad, const int64_t* extent) {
  talus_param param{};
  param.struct_size = sizeof param;
  param.dtype = dtype;
  param.data = data;
  param.grad = grad;
  param.shape = extent;
  param.ndim = 1;
  return param;
}

inline int64_t add(talus_optimizer* opt, const talus_param& param, int32_t group = 0) {
  int64_t first = -1;
  INFO(talus_last_error());
  REQUIRE(talus_add_params(opt, group, 1, &param, &first) == TALUS_OK);
  return first;
}

inline double get(const talus_optimizer* opt, const char* name, int32_t group = 0) {
  double value = kNaN;
  REQUIRE(talus_get(opt, group, name, &value) == TALUS_OK);
  return value;
}

inline int64_t steps(const talus_optimizer* opt, int64_t param) {
  int64_t count = -1;
  REQUIRE(talus_steps(opt, param, &count) == TALUS_OK);
  return count;
}

// Two small f32 tensors with their gradients, in the caller's memory.
struct Model {
  std::vector<float> w = {1, -2, 3, -4, 5}, b = {0.5f, -0.25f};
  std::vector<float> gw = {0.5f, 0.25f, -0.125f, 1, -1}, gb = {0.75f, -0.5f};

  void add_to(talus_optimizer* opt, int32_t group = 0) {
    const int64_t extents[] = {int64_t(w.size()), int64_t(b.size())};
    talus_param params[] = {describe(TALUS_F32, w.data(), gw.data(), &extents[0]),
                            describe(TALUS_F32, b.data(), gb.data(), &extents[1])};
    params[0].name = "w";
    params[1].name = "b";
    REQUIRE(talus_add_params(opt, group, 2, params, nullptr) == TALUS_OK);
  }
};

// The state tensors, one by one.
inline std::vector<talus_state> states(const talus_optimizer* opt) {
  std::vector<talus_state> found;
  for (int64_t i = 0; i < talus_state_count(opt); ++i) {
    talus_state state{};
    state.struct_size = sizeof state;
    REQUIRE(talus_state_info(opt, i, &state) == TALUS_OK);
    found.push_back(state);
  }
  return found;
}

inline const talus_state* find_state(const std::vector<talus_state>& all, int64_t param,
                                     const std::string& slot) {
  for (const talus_state& state : all)
    if (state.param == param && state.slot == slot) return &state;
  return nullptr;
}

/* everything that can be seen of an optimizer, as lines */

inline std::string hex(const void* data, uint64_t bytes) {
  std::string text;
  for (uint64_t i = 0; data != nullptr && i < bytes; ++i) {
    const unsigned char byte = static_cast<const unsigned char*>(data)[i];
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

inline std::string exact(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%a", value);
  return text;
}

inline std::string address(const void* pointer) {
  char text[40];
  std::snprintf(text, sizeof text, "%p", pointer);
  return text;
}

inline void see_groups(const talus_optimizer* opt, std::vector<std::string>& lines) {
  for (int32_t g = 0; g < talus_group_count(opt); ++g) {
    const std::string algorithm = talus_group_algorithm(opt, g);
    const std::string group = "group " + std::to_string(g) + " " + algorithm + " ";
    for (int32_t i = 0; i < talus_hyper_count(algorithm.c_str()); ++i) {
      talus_hyper hyper{};
      hyper.struct_size = sizeof hyper;
      REQUIRE(talus_hyper_info(algorithm.c_str(), i, &hyper) == TALUS_OK);
      lines.push_back(group + hyper.name + " " + exact(get(opt, hyper.name, g)));
    }
  }
  for (int32_t i = 0; i < talus_name_count("settings"); ++i) {
    double value = kNaN;
    const char* name = talus_name_at("settings", i);
    REQUIRE(talus_get_setting(opt, name, &value) == TALUS_OK);
    lines.push_back(std::string("setting ") + name + " " + exact(value));
  }
}

// With its pieces. Not its function, nor what a plateau remembers.
inline std::string text_of(const talus_schedule* schedule) {
  const std::string kind = talus_schedule_kind(schedule), owner = "schedule/" + kind;
  std::string text = kind + "(";
  for (int32_t i = 0; i < talus_hyper_count(owner.c_str()); ++i) {
    talus_hyper hyper{};
    hyper.struct_size = sizeof hyper;
    double value = 0;
    REQUIRE(talus_hyper_info(owner.c_str(), i, &hyper) == TALUS_OK);
    REQUIRE(talus_schedule_get(schedule, hyper.name, &value) == TALUS_OK);
    text += std::string(hyper.name) + " " + exact(value) + ", ";
  }
  int64_t milestones[8], count = 0;
  if (kind == "multistep" || kind == "sequential")
    REQUIRE(talus_schedule_get_list(schedule, "milestones", milestones, 8, &count) == TALUS_OK);
  for (int64_t i = 0; i < count && i < 8; ++i) text += std::to_string(milestones[i]) + ", ";
  for (int32_t i = 0; i < talus_schedule_piece_count(schedule); ++i) {
    talus_schedule* piece = nullptr;
    REQUIRE(talus_schedule_piece(schedule, i, &piece) == TALUS_OK);
    text += text_of(piece) + ", ";
    talus_schedule_destroy(piece);
  }
  return text + std::to_string(count) + ")";
}

inline void see_schedules(const talus_optimizer* opt, std::vector<std::string>& lines) {
  for (int32_t g = 0; g < talus_group_count(opt); ++g) {
    const char* const algorithm = talus_group_algorithm(opt, g);
    for (int32_t i = 0; i < talus_hyper_count(algorithm); ++i) {
      talus_hyper hyper{};
      hyper.struct_size = sizeof hyper;
      REQUIRE(talus_hyper_info(algorithm, i, &hyper) == TALUS_OK);
      if (hyper.kind != TALUS_REAL) continue;
      talus_schedule* schedule = nullptr;
      int32_t clock = -1;
      REQUIRE(talus_get_schedule(opt, g, hyper.name, &schedule, &clock) == TALUS_OK);
      if (schedule == nullptr) continue;
      lines.push_back("group " + std::to_string(g) + " " + hyper.name + " clock " +
                      std::to_string(clock) + " " + text_of(schedule));
      talus_schedule_destroy(schedule);
    }
  }
  for (int32_t clock = TALUS_CLOCK_APPLIED; clock <= TALUS_CLOCK_MANUAL; ++clock) {
    int64_t t = -1;
    REQUIRE(talus_get_clock(opt, clock, &t) == TALUS_OK);
    lines.push_back("clock " + std::to_string(clock) + " " + std::to_string(t));
  }
}

inline uint64_t byte_count(int32_t dtype, const int64_t* shape, int32_t ndim) {
  uint64_t count = uint64_t(dtype >> 8) / 8;
  for (int32_t i = 0; i < ndim; ++i) count *= uint64_t(shape[i]);
  return count;
}

inline void see_params(const talus_optimizer* opt, std::vector<std::string>& lines) {
  for (int64_t i = 0; i < talus_param_count(opt); ++i) {
    talus_param info{};
    info.struct_size = sizeof info;
    if (talus_param_group(opt, i) < 0) {
      lines.push_back("param " + std::to_string(i) + " removed");
      continue;
    }
    REQUIRE(talus_param_info(opt, i, &info) == TALUS_OK);
    std::string shape;
    for (int32_t k = 0; k < info.ndim; ++k) shape += std::to_string(info.shape[k]) + ",";
    const std::string param = "param " + std::to_string(i) + " ";
    lines.push_back(param + info.name + " [" + shape + "] group " +
                    std::to_string(talus_param_group(opt, i)) + " dtypes " +
                    std::to_string(info.dtype) + " " + std::to_string(info.grad_dtype) + " " +
                    std::to_string(info.state_dtype) + " master " + std::to_string(info.master));
    lines.push_back(param + "steps " + std::to_string(steps(opt, i)));
    lines.push_back(param + "data " + address(info.data) + " " +
                    hex(info.data, byte_count(info.dtype, info.shape, info.ndim)));
    lines.push_back(param + "grad " + address(info.grad) + " " +
                    hex(info.grad, byte_count(info.grad_dtype, info.shape, info.ndim)));
  }
}

// Memory that a failed step has got hold of for state that has not started is no change: it holds
// nothing yet, and the next try uses it.
enum class Reserved { seen, overlooked };

inline void see_states(const talus_optimizer* opt, Reserved reserved,
                       std::vector<std::string>& lines) {
  for (const talus_state& state : states(opt)) {
    const bool started = steps(opt, state.param) > 0;  // before that contents mean nothing
    const bool show = started || reserved == Reserved::seen;
    lines.push_back("state " + std::to_string(state.param) + " " + state.slot + " " +
                    std::to_string(state.dtype) + " " + (show ? address(state.data) : "") + " " +
                    (started ? hex(state.data, state.bytes) : "not started"));
  }
}

inline std::vector<std::string> see(talus_optimizer* opt, Reserved reserved = Reserved::seen) {
  std::vector<std::string> lines;
  if (opt == nullptr) return lines;
  see_groups(opt, lines);
  see_schedules(opt, lines);
  see_params(opt, lines);
  see_states(opt, reserved, lines);
  talus_stats stats{};
  stats.struct_size = sizeof stats;
  REQUIRE(talus_get_stats(opt, 1, &stats) == TALUS_OK);
  lines.push_back("stats steps " + std::to_string(stats.steps) + " skipped " +
                  std::to_string(stats.skipped));
  if (reserved == Reserved::seen)
    lines.push_back("stats state bytes " + std::to_string(stats.state_bytes));
  return lines;
}

inline std::string first_difference(const std::vector<std::string>& before,
                                    const std::vector<std::string>& after) {
  for (size_t i = 0; i < before.size() && i < after.size(); ++i)
    if (before[i] != after[i]) return "before: " + before[i] + "\nafter:  " + after[i];
  if (before.size() == after.size()) return "";
  return std::to_string(before.size()) + " lines before, " + std::to_string(after.size()) +
         " after";
}

/* a refused call */

// Leaves a text that no call under test can leave, so that a stale one is seen.
inline std::string leave_stale_error() {
  talus_hyper out{};
  out.struct_size = sizeof out;
  REQUIRE(talus_hyper_info("stale", 0, &out) == TALUS_E_NAME);
  return talus_last_error();
}

// The call fails with `expected`, its text names every one of `causes`, and nothing that can be
// seen of the optimizer (may be NULL) has changed. Out parameters are for the caller to check.
template <class Call>
void refused(talus_optimizer* opt, talus_status expected, std::initializer_list<const char*> causes,
             Call call) {
  const std::vector<std::string> before = see(opt);
  const std::string stale = leave_stale_error();
  const talus_status status = call();
  const std::string text = talus_last_error();
  INFO("status " << talus_status_name(status) << ", expected " << talus_status_name(expected));
  INFO("text: " << text);
  CHECK(status == expected);
  CHECK_FALSE(text.empty());
  CHECK(text != stale);
  CHECK(text.find('\n') == std::string::npos);
  for (const char* cause : causes) {
    INFO("the text should name: " << cause);
    CHECK(text.find(cause) != std::string::npos);
  }
  CHECK(first_difference(before, see(opt)) == "");
}

}  // namespace talus::abi
