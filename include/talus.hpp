// talus.hpp: RAII over talus.h for C++20, header only; nothing here is part of the library's ABI.
//
//     std::vector<float> weights = ..., gradient(weights.size());
//     talus::Optimizer opt("adamw", {{"lr", 3e-4}, {"weight_decay", 0.1}});
//     opt.add(weights, gradient, {.name = "w", .shape = {128, 64}});
//     for (...) { ...write the gradient...; opt.step(); }
//
// Unless a comment says otherwise: what talus.h says of a function holds for the one that wraps it.
// A failure throws talus::Error and has changed nothing. Tensor memory is borrowed as the pointers
// in talus.h are: a vector must not grow until it is bound again or the optimizer is destroyed.
// Groups and parameters are plain indices. handle() lends the raw optimizer.
//
// A host built without exceptions calls the try_ members, which return the status; everything else
// that fails there ends in TALUS_THROW(error), which the host may define and which must not return.
#ifndef TALUS_HPP
#define TALUS_HPP
#if !defined(__cpp_concepts) || !defined(__cpp_designated_initializers)
#error "talus.hpp: needs C++20, such as -std=c++20; talus.h does not"
#endif
#include <talus.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if !defined(TALUS_THROW)
#if defined(__cpp_exceptions)
#define TALUS_THROW(error) throw error
#else
#define TALUS_THROW(error) ((void)(error), std::abort())
#endif
#endif
// Of the inline namespace. It keeps these classes apart from the library's own in one static program,
// and those with and without exceptions from each other.
#if defined(__cpp_exceptions)
#define TALUS_INLINE_NAMESPACE v0
#else
#define TALUS_INLINE_NAMESPACE v0_without_exceptions
#endif

namespace talus {
inline namespace TALUS_INLINE_NAMESPACE {

// A status that is not TALUS_OK; what() is the library's text: what, where, got, expected.
class Error : public std::runtime_error {
 public:
  // Takes text and detail of this thread's last failure.
  explicit Error(talus_status code) : Error(code, talus_last_error(), talus_last_error_detail()) {}
  Error(talus_status code, const std::string& text, int64_t detail = 0)
      : std::runtime_error(text), code_(code), detail_(detail) {}

  // Returns TALUS_E_....
  talus_status code() const noexcept { return code_; }
  // Returns "TALUS_E_RANGE" and the like.
  const char* name() const noexcept { return talus_status_name(code_); }
  // Returns the number that goes with the code, 0 where there is none.
  int64_t detail() const noexcept { return detail_; }

 private:
  talus_status code_;
  int64_t detail_;
};

// Throws Error unless status is TALUS_OK; for calls of talus.h that this file does not wrap.
inline void check(talus_status status) {
  if (status != TALUS_OK) TALUS_THROW(Error(status));
}

// Throws Error(code, text).
[[noreturn]] inline void refuse(talus_status code, const std::string& text) {
  TALUS_THROW(Error(code, text));
  std::abort();  // a TALUS_THROW that came back
}

// Calls f, which a C frame waits for: nothing may unwind into that. Returns whether f came to its
// end; if not, *thrown (if given) gets its exception.
template <class F>
bool contain(F&& f, std::exception_ptr* thrown = nullptr) noexcept {
#if defined(__cpp_exceptions)
  try {
    f();
  } catch (...) {
    if (thrown != nullptr) *thrown = std::current_exception();
    return false;
  }
#else
  (void)thrown;
  f();
#endif
  return true;
}

// Of the library that was loaded, coded as TALUS_VERSION is; and its line for bug reports.
inline uint32_t version() noexcept { return talus_version(); }
inline uint32_t abi_version() noexcept { return talus_abi_version(); }
inline std::string build_info() { return talus_build_info(); }

// The ABI that this file is written for: the number of the SONAME.
inline constexpr uint32_t kAbi = 0;
// Throws TALUS_E_VERSION unless the loaded library has it; for hosts that do not leave this to the
// loader, which compares the names of files alone.
inline void require_abi() {
  const uint32_t found = talus_abi_version() >> 16;
  if (found != kAbi)
    refuse(TALUS_E_VERSION,
           "libtalus: ABI is " + std::to_string(found) + ", expected " + std::to_string(kAbi));
}

// The bits of a 16-bit element, for hosts whose own half type is a plain uint16_t.
struct Float16 {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// Maps an element type to its TALUS_ dtype. Specialise it for a half type of your own.
template <class T>
struct dtype_of;
template <>
struct dtype_of<float> : std::integral_constant<int32_t, TALUS_F32> {};
template <>
struct dtype_of<double> : std::integral_constant<int32_t, TALUS_F64> {};
template <>
struct dtype_of<Float16> : std::integral_constant<int32_t, TALUS_F16> {};
template <>
struct dtype_of<BFloat16> : std::integral_constant<int32_t, TALUS_BF16> {};

// A type with a dtype.
template <class T>
concept Element = requires {
  { dtype_of<std::remove_const_t<T>>::value } -> std::convertible_to<int32_t>;
};

template <Element T>
inline constexpr int32_t dtype = dtype_of<std::remove_const_t<T>>::value;

// Contiguous elements that outlive the call: a span, or an lvalue vector or array.
template <class R>
concept Tensor = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    std::ranges::borrowed_range<R> &&
    Element<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

// Views a tensor as a span; const elements stay const.
template <Tensor R>
auto view(R&& tensor) {
  using T = std::remove_reference_t<std::ranges::range_reference_t<R>>;
  return std::span<T>(std::ranges::data(tensor), std::ranges::size(tensor));
}

// Returns a value-initialised struct of talus.h with struct_size set.
template <class Struct>
Struct sized() {
  Struct value{};
  value.struct_size = sizeof value;
  return value;
}

// Returns the names of a list ("algorithms", "aliases", "slots/adamw", ...; see talus_name_count).
inline std::vector<std::string> names(const std::string& list) {
  const int32_t count = talus_name_count(list.c_str());
  if (count < 0) refuse(TALUS_E_NAME, "no list named \"" + list + "\"");
  std::vector<std::string> result;
  for (int32_t i = 0; i < count; ++i) result.emplace_back(talus_name_at(list.c_str(), i));
  return result;
}

// Returns the line about one name of a list.
inline std::string doc(const std::string& list, const std::string& name) {
  const char* text = talus_name_doc(list.c_str(), name.c_str());
  if (text == nullptr) refuse(TALUS_E_NAME, "no \"" + name + "\" in list \"" + list + "\"");
  return text;
}

// Describes every hyperparameter of an algorithm or alias, or every setting (owner "settings").
inline std::vector<talus_hyper> hypers(const std::string& owner) {
  std::vector<talus_hyper> result;
  const int32_t count = talus_hyper_count(owner.c_str());
  if (count < 0) {
    talus_hyper unused = sized<talus_hyper>();
    check(talus_hyper_info(owner.c_str(), 0, &unused));
  }
  for (int32_t i = 0; i < count; ++i) {
    result.push_back(sized<talus_hyper>());
    check(talus_hyper_info(owner.c_str(), i, &result.back()));
  }
  return result;
}

// Tells whether a feature can be used here and now; if not, *reason (if given) gets the library's.
inline bool has_feature(const std::string& name, std::string* reason = nullptr) {
  if (talus_has_feature(name.c_str()) != 0) return true;
  if (reason != nullptr) *reason = talus_last_error();
  return false;
}

// Sets the folders that plugins are looked for in first, separated by ':'.
inline void set_plugin_path(const std::string& folders) {
  check(talus_set_plugin_path(folders.c_str()));
}

// Names and values of hyperparameters or settings.
using Values = std::initializer_list<std::pair<const char*, double>>;

// Receives the log of the whole process for as long as it lives. One at a time: a second one
// replaces the first, and whichever is destroyed first makes the library silent again.
class Log {
 public:
  using Line = std::function<void(int32_t level, std::string_view text)>;

  // line is called for levels up to `level`; it must not throw and must not call the library.
  explicit Log(Line line, int32_t level = TALUS_LOG_WARNING) : line_(std::move(line)) {
    talus_set_log(&Log::call, level, this);
  }
  ~Log() { talus_set_log(nullptr, 0, nullptr); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

 private:
  static void call(void* user, int32_t level, const char* text) noexcept {
    static_cast<Log*>(user)->line_(level, text);
  }

  Line line_;
};

// A reference to a schedule: a hyperparameter's value over time. Copies refer to the same schedule.
//
//     talus::Schedule warmup("linear", {{"total_iters", 500}}), decay("cosine", {{"T_max", 9500}});
//     opt.attach("lr", talus::Schedule::sequential({warmup, decay}, {500}));
class Schedule {
 public:
  using Function = std::function<double(int64_t t)>;

  // Creates one of a kind in names("schedules"), with parameters in hypers("schedule/KIND").
  explicit Schedule(const std::string& kind, Values values = {}) {
    talus_schedule* created = nullptr;
    check(talus_schedule_create(kind.c_str(), &created));
    handle_ = {created, talus_schedule_destroy};
    set(values);
  }
  // Takes ownership of a reference.
  explicit Schedule(talus_schedule* owned) : handle_(owned, talus_schedule_destroy) {}

  // The base times f(t).
  static Schedule lambda(Function f) { return of_function("lambda", std::move(f)); }
  // The base times f(1) ... f(t).
  static Schedule multiplicative(Function f) { return of_function("multiplicative", std::move(f)); }
  static Schedule multistep(std::span<const int64_t> milestones, Values values = {}) {
    Schedule made("multistep", values);
    made.set_milestones(milestones);
    return made;
  }
  // One piece after the other; each but the first begins at its milestone and sees its own time.
  static Schedule sequential(std::initializer_list<Schedule> pieces,
                             std::initializer_list<int64_t> milestones) {
    Schedule made("sequential");
    for (const Schedule& piece : pieces) made.add(piece);
    made.set_milestones({milestones.begin(), milestones.size()});
    return made;
  }
  // Each piece on the value of the one before.
  static Schedule chained(std::initializer_list<Schedule> pieces) {
    Schedule made("chained");
    for (const Schedule& piece : pieces) made.add(piece);
    return made;
  }

  talus_schedule* handle() const noexcept { return handle_.get(); }
  std::string kind() const { return talus_schedule_kind(handle()); }

  void set(const char* name, double value) { check(talus_schedule_set(handle(), name, value)); }
  void set(Values values) {
    for (const auto& [name, value] : values) set(name, value);
  }
  // Returns NaN for what is not set and has no default of its own.
  double get(const char* name) const {
    double value = 0;
    check(talus_schedule_get(handle(), name, &value));
    return value;
  }
  void set_milestones(std::span<const int64_t> values) {
    check(talus_schedule_set_list(handle(), "milestones", values.data(), int64_t(values.size())));
  }
  std::vector<int64_t> milestones() const {
    int64_t count = 0;
    check(talus_schedule_get_list(handle(), "milestones", nullptr, 0, &count));
    std::vector<int64_t> values(static_cast<size_t>(count));
    check(talus_schedule_get_list(handle(), "milestones", values.data(), count, &count));
    return values;
  }
  // f must be pure. An exception of it is a value that is not finite: the step fails.
  void set_function(Function f) {
    auto kept = std::make_unique<Function>(std::move(f));
    const talus_schedule_function call = [](void* user, int64_t t) noexcept {
      double value = std::numeric_limits<double>::quiet_NaN();
      contain([&] { value = (*static_cast<Function*>(user))(t); });
      return value;
    };
    check(talus_schedule_set_function(handle(), call, kept.get(), [](void* user) noexcept {
      delete static_cast<Function*>(user);
    }));
    kept.release();  // destroy frees it from here on
  }

  void add(const Schedule& piece) { check(talus_schedule_add(handle(), piece.handle())); }
  int32_t piece_count() const { return talus_schedule_piece_count(handle()); }
  Schedule piece(int32_t i) const {
    talus_schedule* found = nullptr;
    check(talus_schedule_piece(handle(), i, &found));
    return Schedule(found);
  }

  double value(double base, int64_t t) const {
    double value = 0;
    check(talus_schedule_value(handle(), base, t, &value));
    return value;
  }

 private:
  static Schedule of_function(const char* kind, Function f) {
    Schedule made(kind);
    made.set_function(std::move(f));
    return made;
  }

  std::shared_ptr<talus_schedule> handle_;
};

// A reference to a loss scaler. Copies refer to the same one.
class Scaler {
 public:
  explicit Scaler(Values values = {}, int32_t device_type = TALUS_CPU, int32_t device_id = 0) {
    talus_scaler* created = nullptr;
    check(talus_scaler_create(device_type, device_id, &created));
    handle_ = {created, talus_scaler_destroy};
    for (const auto& [name, value] : values) set(name, value);
  }

  talus_scaler* handle() const noexcept { return handle_.get(); }
  void set(const char* name, double value) { check(talus_scaler_set(handle(), name, value)); }
  double get(const char* name) const {
    double value = 0;
    check(talus_scaler_get(handle(), name, &value));
    return value;
  }
  // What the loss is to be multiplied by.
  double scale() const {
    double value = 0;
    check(talus_scaler_scale(handle(), &value));
    return value;
  }
  void update(void* stream = nullptr) { check(talus_scaler_update(handle(), stream)); }

 private:
  std::shared_ptr<talus_scaler> handle_;
};

// What O0, O1 and O2 of apex amp ask of a host without a framework.
struct Amp {
  int32_t compute_dtype;  // of matrix products and what goes between them: the host casts
  int32_t param_dtype;    // of talus_param::dtype; what the model's weights are stored as
  int32_t grad_dtype;     // that gradients are expected in
  int32_t master;         // of talus_param::master
  bool needs_scaler;      // a loss scaler belongs to it
};

// Level 0, 1 or 2; half: TALUS_F16 or TALUS_BF16, which needs no scaler.
inline Amp amp(int level, int32_t half = TALUS_BF16) {
  if (half != TALUS_F16 && half != TALUS_BF16)
    refuse(TALUS_E_ARGUMENT, "amp: half is " + std::to_string(half) + ", expected f16 or bf16");
  switch (level) {
    case 0: return {TALUS_F32, TALUS_F32, TALUS_F32, TALUS_MASTER_NONE, false};
    case 1: return {half, TALUS_F32, TALUS_F32, TALUS_MASTER_NONE, half == TALUS_F16};
    case 2: return {half, half, half, TALUS_MASTER_F32, half == TALUS_F16};
    default:
      refuse(TALUS_E_ARGUMENT, "amp: level is " + std::to_string(level) + ", expected 0 .. 2");
  }
}

// What a parameter may have besides its memory; every default is talus_param's.
struct ParamOptions {
  const char* name = nullptr;       // nullptr: "param.<index>"
  std::vector<int64_t> shape = {};  // empty: one extent, the size of the span
  int32_t group = 0;
  int32_t state_dtype = 0;
  int32_t master = TALUS_MASTER_AUTO;
  int32_t grad_dtype = 0;  // of gradients bound later; 0: that of the span, without one the dtype
};

// Owns a talus_optimizer. Movable; one that was moved from may only be destroyed or assigned to.
// As in C, one call at a time; the const members of one optimizer may overlap.
class Optimizer {
 public:
  // Creates an optimizer whose group 0 runs `algorithm`, and sets values for TALUS_ALL.
  explicit Optimizer(const std::string& algorithm, Values values = {},
                     int32_t device_type = TALUS_CPU, int32_t device_id = 0) {
    talus_optimizer* created = nullptr;
    check(talus_create(algorithm.c_str(), device_type, device_id, &created));
    handle_.reset(created);
    set(values);
  }
  // Takes ownership of what talus_create gave.
  explicit Optimizer(talus_optimizer* owned) noexcept : handle_(owned) {}

  Optimizer(Optimizer&&) noexcept = default;
  Optimizer& operator=(Optimizer&& other) noexcept {
    Optimizer moved(std::move(other));  // the old optimizer goes before the hooks it may call
    std::swap(handle_, moved.handle_);
    std::swap(parallel_for_, moved.parallel_for_);
    std::swap(const_grads_, moved.const_grads_);
    return *this;
  }

  // Lends the optimizer for calls that this file does not wrap.
  talus_optimizer* handle() const noexcept { return handle_.get(); }

  /* without exceptions: these return the status, and talus_last_error has the text */

  // *out is an optimizer without a handle before, or one to be replaced.
  static talus_status try_create(const char* algorithm, Optimizer* out,
                                 int32_t device_type = TALUS_CPU, int32_t device_id = 0) noexcept {
    talus_optimizer* created = nullptr;
    const talus_status status = talus_create(algorithm, device_type, device_id, &created);
    if (status == TALUS_OK) *out = Optimizer(created);
    return status;
  }
  talus_status try_set(const char* name, double value, int32_t group = TALUS_ALL) noexcept {
    return talus_set(handle(), group, name, value);
  }
  talus_status try_add(std::span<const talus_param> params, int32_t group = 0,
                       int64_t* first = nullptr) noexcept {
    return talus_add_params(handle(), group, int64_t(params.size()), params.data(), first);
  }
  talus_status try_bind_grads(std::span<void* const> grads, int64_t first = 0) noexcept {
    return talus_bind_grads(handle(), first, int64_t(grads.size()), grads.data());
  }
  talus_status try_step(void* stream = nullptr) noexcept { return talus_step(handle(), stream); }
  talus_status try_save(const char* path, uint64_t flags = 0, void* stream = nullptr) noexcept {
    const talus_io io = io_of(flags, {});
    return talus_save(handle(), path, &io, stream);
  }
  talus_status try_load(const char* path, uint64_t flags = 0, void* stream = nullptr) noexcept {
    const talus_io io = io_of(flags, {});
    return talus_load(handle(), path, &io, stream);
  }

  /* groups, hyperparameters */

  // Adds a group and returns its index. algorithm "": the one of the constructor. Values are set in
  // this group only; if one is refused the group is there with its defaults.
  int32_t add_group(const std::string& algorithm = {}, Values values = {}) {
    int32_t group = 0;
    const char* name = algorithm.empty() ? nullptr : algorithm.c_str();
    check(talus_add_group(handle(), name, &group));
    set(values, group);
    return group;
  }
  int32_t group_count() const { return talus_group_count(handle()); }
  // Returns the algorithm's own name, never an alias.
  std::string group_algorithm(int32_t group = 0) const {
    const char* name = talus_group_algorithm(handle(), group);
    if (name == nullptr) refuse(TALUS_E_ARGUMENT, "no group " + std::to_string(group));
    return name;
  }

  void set(const char* name, double value, int32_t group = TALUS_ALL) {
    check(talus_set(handle(), group, name, value));
  }
  // Sets one after the other; on failure those before the refused one are set.
  void set(Values values, int32_t group = TALUS_ALL) {
    for (const auto& [name, value] : values) set(name, value, group);
  }
  double get(const char* name, int32_t group = 0) const {
    double value = 0;
    check(talus_get(handle(), group, name, &value));
    return value;
  }

  /* schedules */

  // clock: TALUS_CLOCK_...
  void attach(const char* hyper, const Schedule& schedule, int32_t group = TALUS_ALL,
              int32_t clock = TALUS_CLOCK_APPLIED) {
    check(talus_attach_schedule(handle(), group, hyper, schedule.handle(), clock));
  }
  void detach(const char* hyper, int32_t group = TALUS_ALL) {
    check(talus_attach_schedule(handle(), group, hyper, nullptr, TALUS_CLOCK_APPLIED));
  }
  std::optional<Schedule> schedule(const char* hyper, int32_t group = 0) const {
    talus_schedule* found = nullptr;
    check(talus_get_schedule(handle(), group, hyper, &found, nullptr));
    return found == nullptr ? std::nullopt : std::optional<Schedule>(std::in_place, found);
  }
  // Returns TALUS_CLOCK_..., nothing where no schedule is attached.
  std::optional<int32_t> schedule_clock(const char* hyper, int32_t group = 0) const {
    talus_schedule* found = nullptr;
    int32_t clock = 0;
    check(talus_get_schedule(handle(), group, hyper, &found, &clock));
    talus_schedule_destroy(found);
    return found == nullptr ? std::nullopt : std::optional(clock);
  }
  // Returns what the next step will use.
  double value_now(const char* name, int32_t group = 0) const {
    double value = 0;
    check(talus_value_now(handle(), group, name, &value));
    return value;
  }
  void set_clock(int64_t t) { check(talus_set_clock(handle(), t)); }
  int64_t clock(int32_t which = TALUS_CLOCK_MANUAL) const {
    int64_t t = 0;
    check(talus_get_clock(handle(), which, &t));
    return t;
  }
  // Reports a metric to plateau schedules.
  void observe(double metric) { check(talus_observe(handle(), metric)); }

  /* gradients: scale, check, clip */

  void attach(const Scaler& scaler) { check(talus_attach_scaler(handle(), scaler.handle())); }
  // Somebody else's scale and flag, in memory of the optimizer's device; see talus_bind_scale.
  void bind_scale(const float* scale, const float* found = nullptr) {
    check(talus_bind_scale(handle(), scale, found));
  }
  void detach_scaler() { check(talus_attach_scaler(handle(), nullptr)); }
  // Measures the gradients, scaled back and before clipping; group TALUS_ALL: all.
  double grad_norm(double type = 2, int32_t group = TALUS_ALL, void* stream = nullptr) {
    double norm = 0;
    talus_optimizer* const self = handle();
    check(talus_grad_norm(&self, 1, group, type, &norm, stream));
    return norm;
  }
  // And has the next step clipped to max_norm.
  double clip_grad_norm(double max_norm, double type = 2, int32_t group = TALUS_ALL,
                        void* stream = nullptr) {
    double norm = 0;
    talus_optimizer* const self = handle();
    check(talus_clip_grad_norm(&self, 1, group, max_norm, type, &norm, stream));
    return norm;
  }
  // Tells that a 16-bit parameter was written from outside: its master starts again from it.
  void reload_master(int64_t param, void* stream = nullptr) {
    check(talus_import_param(handle(), "master", param, nullptr, TALUS_F32, stream));
  }
  // Writes a parameter from its master.
  void copy_out_master(int64_t param, void* stream = nullptr) {
    check(talus_export_param(handle(), "master", param, nullptr, TALUS_F32, stream));
  }
  // Copies a master out, as many elements as the parameter has; or sets it, and the parameter with it.
  void export_master(int64_t index, std::span<float> to, void* stream = nullptr) {
    require_count("master", to.size(), element_count(param(index)));
    check(talus_export_param(handle(), "master", index, to.data(), TALUS_F32, stream));
  }
  void import_master(int64_t index, std::span<const float> from, void* stream = nullptr) {
    require_count("master", from.size(), element_count(param(index)));
    check(talus_import_param(handle(), "master", index, from.data(), TALUS_F32, stream));
  }

  /* settings */

  void set_setting(const char* name, double value) {
    check(talus_set_setting(handle(), name, value));
  }
  double get_setting(const char* name) const {
    double value = 0;
    check(talus_get_setting(handle(), name, &value));
    return value;
  }

  /* parameters */

  // Adds one parameter and returns its index. grad empty: none yet, see bind_grad.
  template <Tensor Data, Tensor Grad>
  int64_t add(Data&& data, Grad&& grad, const ParamOptions& options = {}) {
    return add_spans(view(data), view(grad), options);
  }
  template <Tensor Data>
  int64_t add(Data&& data, const ParamOptions& options = {}) {
    const auto elements = view(data);
    return add_spans(elements, decltype(elements){}, options);
  }
  // Adds what talus.h describes, for memory that no span can name; struct_size may be left 0.
  int64_t add(talus_param param, int32_t group = 0) {
    if (param.struct_size == 0) param.struct_size = sizeof param;
    return add(std::span<const talus_param>(&param, 1), group);
  }
  // Adds several, all or none, and returns the index of the first.
  int64_t add(std::span<const talus_param> params, int32_t group = 0) {
    int64_t first = 0;
    check(talus_add_params(handle(), group, int64_t(params.size()), params.data(), &first));
    return first;
  }

  int64_t param_count() const { return talus_param_count(handle()); }
  // Describes a parameter with defaults filled in; its name and shape live as long as the
  // optimizer.
  talus_param param(int64_t index) const {
    talus_param info = sized<talus_param>();
    check(talus_param_info(handle(), index, &info));
    return info;
  }
  int32_t param_group(int64_t index) const {
    const int32_t group = talus_param_group(handle(), index);
    if (group < 0) refuse(TALUS_E_ARGUMENT, "no parameter " + std::to_string(index));
    return group;
  }
  std::optional<int64_t> find(const char* name) const {
    const int64_t index = talus_find_param(handle(), name);
    return index < 0 ? std::nullopt : std::optional(index);
  }

  // State and step counts follow.
  void move(std::span<const int64_t> params, int32_t group) {
    check(talus_move_params(handle(), group, int64_t(params.size()), params.data()));
  }
  // Indices of others stay.
  void remove(std::span<const int64_t> params) {
    check(talus_remove_params(handle(), int64_t(params.size()), params.data()));
  }

  // Rebinds moved memory; memory of another type or size is refused.
  template <Tensor Data>
  void bind_data(int64_t index, Data&& data) {
    const std::span elements = view(data);
    const talus_param info = param(index);
    require_dtype("data", dtype<typename decltype(elements)::element_type>, info.dtype);
    require_count("data", elements.size(), element_count(info));
    check(talus_bind_data(handle(), index, elements.data()));
  }
  // Binds the gradient of one parameter; one of another type or size is refused.
  template <Tensor Grad>
  void bind_grad(int64_t index, Grad&& grad) {
    const std::span elements = view(grad);
    const talus_param info = param(index);
    require_dtype("gradient", dtype<typename decltype(elements)::element_type>, info.grad_dtype);
    require_count("gradient", elements.size(), element_count(info));
    void* const pointer = writable(elements);
    check(talus_bind_grads(handle(), index, 1, &pointer));
    note_const(elements);
  }
  // Binds a whole column of gradients in one call; nullptr: no gradient.
  void bind_grads(std::span<void* const> grads, int64_t first = 0) {
    check(talus_bind_grads(handle(), first, int64_t(grads.size()), grads.data()));
  }
  // Binds a gradient of some rows for the next step alone: as many values as indices times the row.
  template <class Index, Tensor Values>
  requires std::is_same_v<std::remove_const_t<Index>, int32_t> ||
      std::is_same_v<std::remove_const_t<Index>, int64_t>
  void bind_rows(int64_t index, std::span<Index> indices, Values&& values) {
    const std::span elements = view(values);
    const talus_param info = param(index);
    require_dtype("values", dtype<typename decltype(elements)::element_type>, info.grad_dtype);
    const int64_t rows = info.ndim > 0 ? info.shape[0] : 0;
    const int64_t length = rows > 0 ? element_count(info) / rows : 0;
    require_count("values", elements.size(), int64_t(indices.size()) * length);
    talus_rows bound = sized<talus_rows>();
    bound.index_dtype = sizeof(Index) == 4 ? TALUS_I32 : TALUS_I64;
    bound.count = int64_t(indices.size());
    bound.indices = indices.data();
    bound.values = elements.data();
    check(talus_bind_rows(handle(), index, &bound));
  }
  // What talus.h describes, for memory that no span can name; and takes rows back.
  void bind_rows(int64_t index, talus_rows rows) {
    if (rows.struct_size == 0) rows.struct_size = sizeof rows;
    check(talus_bind_rows(handle(), index, &rows));
  }
  void unbind_rows(int64_t index) { check(talus_bind_rows(handle(), index, nullptr)); }
  // Filling is refused (TALUS_E_STATE) where a gradient was bound as const since the last unbinding.
  void zero_grad(int32_t mode = TALUS_ZERO_FILL, void* stream = nullptr) {
    if (const_grads_ && mode == TALUS_ZERO_FILL)
      refuse(TALUS_E_STATE, "zero_grad: a gradient was bound as const, expected TALUS_ZERO_UNBIND");
    check(talus_zero_grad(handle(), mode, stream));
    if (mode == TALUS_ZERO_UNBIND) const_grads_ = false;
  }

  /* state */

  // Describes all state tensors, parameters in order, slots in order.
  std::vector<talus_state> states() const {
    const int64_t count = talus_state_count(handle());
    std::vector<talus_state> result(size_t(count < 0 ? 0 : count), sized<talus_state>());
    for (size_t i = 0; i < result.size(); ++i)
      check(talus_state_info(handle(), int64_t(i), &result[i]));
    return result;
  }
  // Views one state tensor: live memory, empty until there is some. Write only between calls.
  template <Element T>
  std::span<T> state(int64_t index, std::string_view slot) const {
    for (const talus_state& found : states()) {
      if (found.param != index || found.slot != slot) continue;
      require_dtype("state", dtype<T>, found.dtype);
      return {static_cast<T*>(found.data), found.data == nullptr ? 0 : size_t(found.count)};
    }
    refuse(TALUS_E_NAME,
           "parameter " + std::to_string(index) + ": no slot \"" + std::string(slot) + "\"");
  }
  // Memory of another type or size than state() would view is refused.
  template <Tensor State>
  void bind_state(int64_t index, const char* slot, State&& data) {
    const std::span elements = view(data);
    for (const talus_state& found : states())
      if (found.param == index && std::string_view(slot) == found.slot)
        require_dtype("state", dtype<typename decltype(elements)::element_type>, found.dtype);
    check(talus_bind_state(handle(), index, slot, elements.data(), elements.size_bytes()));
  }
  int64_t steps(int64_t index) const {
    int64_t steps = 0;
    check(talus_steps(handle(), index, &steps));
    return steps;
  }
  void set_steps(int64_t index, int64_t steps) { check(talus_set_steps(handle(), index, steps)); }

  /* the step */

  void prepare(void* stream = nullptr) { check(talus_prepare(handle(), stream)); }
  void step(void* stream = nullptr) { check(talus_step(handle(), stream)); }
  // Before a captured step is replayed.
  void advance(void* stream = nullptr) { check(talus_advance(handle(), stream)); }

  // Calls closure() -> loss, then takes a step, and returns the loss. An exception of the closure
  // comes out of this call, never through the C frames, and no step was taken.
  template <class Closure>
  requires std::is_invocable_r_v<double, Closure&>
  double step(Closure&& closure, void* stream = nullptr) {
    struct Call {
      std::remove_reference_t<Closure>& closure;
      std::exception_ptr thrown;
    } call{closure, nullptr};
    const talus_closure evaluate = [](void* user, double* loss) noexcept -> int32_t {
      Call& state = *static_cast<Call*>(user);
      const auto call = [&] { *loss = static_cast<double>(std::invoke(state.closure)); };
      return contain(call, &state.thrown) ? 0 : 1;
    };
    double loss = 0;
    const talus_status status = talus_step_closure(handle(), evaluate, &call, &loss, stream);
    if (call.thrown) std::rethrow_exception(call.thrown);
    check(status);
    return loss;
  }

  // Bytes for each element of a parameter of this dtype, with these options, which need no name and
  // no shape; the group as it is set.
  talus_bytes bytes_per_param(int32_t dtype, const ParamOptions& options = {}) const {
    talus_param param = sized<talus_param>();
    param.dtype = dtype;
    param.grad_dtype = options.grad_dtype;
    param.state_dtype = options.state_dtype;
    param.master = options.master;
    talus_bytes result = sized<talus_bytes>();
    check(talus_bytes_per_param(handle(), options.group, &param, &result));
    return result;
  }

  talus_stats stats(bool wait = false) {
    talus_stats result = sized<talus_stats>();
    check(talus_get_stats(handle(), wait ? 1 : 0, &result));
    return result;
  }

  /* checkpoints */

  // Told how far a save or load is; false: cancel. Must not throw.
  using Progress = std::function<bool(uint64_t done_bytes, uint64_t total_bytes)>;
  // flags: TALUS_SAVE_... or TALUS_LOAD_...
  void save(const std::string& path, uint64_t flags = 0, const Progress& progress = {},
            void* stream = nullptr) {
    const talus_io io = io_of(flags, progress);
    check(talus_save(handle(), path.c_str(), &io, stream));
  }
  void load(const std::string& path, uint64_t flags = 0, const Progress& progress = {},
            void* stream = nullptr) {
    const talus_io io = io_of(flags, progress);
    check(talus_load(handle(), path.c_str(), &io, stream));
  }
  // Takes all the bytes of a checkpoint, front to back.
  using Write = std::function<void(const void* bytes, uint64_t count)>;
  // Gives count bytes from offset on; called in any order, for some bytes more than once.
  using Read = std::function<void(uint64_t offset, void* bytes, uint64_t count)>;
  // What the function throws comes out of the call.
  void save_to(const Write& write, uint64_t flags = 0, const Progress& progress = {},
               void* stream = nullptr) {
    Stream<Write> target{write, nullptr};
    talus_writer writer = sized<talus_writer>();
    writer.user = &target;
    writer.write = [](void* user, const void* bytes, uint64_t count) noexcept -> int32_t {
      return static_cast<Stream<Write>*>(user)->call(bytes, count);
    };
    const talus_io io = io_of(flags, progress);
    target.check(talus_save_to(handle(), &writer, &io, stream));
  }
  // size: of the whole checkpoint.
  void load_from(const Read& read, uint64_t size, uint64_t flags = 0, const Progress& progress = {},
                 void* stream = nullptr) {
    Stream<Read> source{read, nullptr};
    talus_reader reader = sized<talus_reader>();
    reader.user = &source;
    reader.size = size;
    reader.read_at = [](void* user, uint64_t offset, void* bytes,
                        uint64_t count) noexcept -> int32_t {
      return static_cast<Stream<Read>*>(user)->call(offset, bytes, count);
    };
    const talus_io io = io_of(flags, progress);
    source.check(talus_load_from(handle(), &reader, &io, stream));
  }
  // The bytes that save writes; and loads them.
  std::string save_bytes(uint64_t flags = 0, void* stream = nullptr) {
    std::string bytes;
    save_to(
        [&bytes](const void* piece, uint64_t count) {
          bytes.append(static_cast<const char*>(piece), size_t(count));
        },
        flags, {}, stream);
    return bytes;
  }
  void load_bytes(std::string_view bytes, uint64_t flags = 0, void* stream = nullptr) {
    load_from(
        [bytes](uint64_t offset, void* to, uint64_t count) {
          bytes.copy(static_cast<char*>(to), size_t(count), size_t(offset));
        },
        bytes.size(), flags, {}, stream);
  }

  // Notes that a checkpoint keeps.
  void set_note(const std::string& key, const std::string& text) {
    check(talus_set_note(handle(), key.c_str(), text.c_str()));
  }
  void remove_note(const std::string& key) {
    check(talus_set_note(handle(), key.c_str(), nullptr));
  }
  std::optional<std::string> note(const std::string& key) const {
    uint64_t needed = 0;
    (void)talus_get_note(handle(), key.c_str(), nullptr, 0, &needed);
    if (needed == 0) return std::nullopt;
    std::string text(size_t(needed), '\0');
    check(talus_get_note(handle(), key.c_str(), text.data(), needed, nullptr));
    text.pop_back();
    return text;
  }

  /* hooks */

  using Task = std::function<void(int64_t)>;
  // Runs task(i) once for each 0 <= i < count and returns when all are done. Must not throw.
  using ParallelFor = std::function<void(int64_t count, const Task& task)>;
  // Runs steps on the host's threads; an empty function: the library's own again.
  void set_parallel_for(ParallelFor run) {
    std::unique_ptr<ParallelFor> kept;
    if (run) kept = std::make_unique<ParallelFor>(std::move(run));
    check(talus_set_parallel_for(handle(), kept ? &Optimizer::call_parallel_for : nullptr,
                                 kept.get()));
    parallel_for_ = std::move(kept);
  }

  // Where state and workspace come from; neither may throw. alloc: nullptr means no memory.
  struct Allocator {
    std::function<void*(uint64_t bytes, uint64_t alignment, void* stream)> alloc;
    std::function<void(void* data, uint64_t bytes, void* stream)> release;
  };
  // Sets the allocator, which lives until its last release; before memory has been allocated.
  void set_allocator(Allocator allocator) {
    auto kept = std::make_unique<Allocator>(std::move(allocator));
    talus_allocator table = sized<talus_allocator>();
    table.user = kept.get();
    table.alloc = [](void* user, uint64_t bytes, uint64_t alignment, void* stream) noexcept {
      return static_cast<Allocator*>(user)->alloc(bytes, alignment, stream);
    };
    table.release = [](void* user, void* data, uint64_t bytes, void* stream) noexcept {
      static_cast<Allocator*>(user)->release(data, bytes, stream);
    };
    table.destroy = [](void* user) noexcept { delete static_cast<Allocator*>(user); };
    check(talus_set_allocator(handle(), &table));
    kept.release();  // destroy frees it from here on
  }

 private:
  static talus_io io_of(uint64_t flags, const Progress& progress) {
    talus_io io = sized<talus_io>();
    io.flags = flags;
    io.user = const_cast<Progress*>(&progress);
    if (progress)
      io.progress = [](void* user, uint64_t done, uint64_t total) noexcept -> int32_t {
        return (*static_cast<const Progress*>(user))(done, total) ? 0 : 1;
      };
    return io;
  }

  // A function of the caller behind a C callback: what it throws is kept until the call is over.
  template <class Function>
  struct Stream {
    const Function& function;
    std::exception_ptr thrown;

    template <class... Arguments>
    int32_t call(Arguments... arguments) noexcept {
      return contain([&] { function(arguments...); }, &thrown) ? 0 : 1;
    }
    void check(talus_status status) const {
      if (thrown) std::rethrow_exception(thrown);
      talus::check(status);
    }
  };

  struct Destroy {
    void operator()(talus_optimizer* opt) const noexcept { talus_destroy(opt); }
  };

  template <class T, class G>
  int64_t add_spans(std::span<T> data, std::span<G> grad, const ParamOptions& options) {
    static_assert(!std::is_const_v<T>, "a parameter is written by the step");
    const int64_t extent = int64_t(data.size());
    talus_param param = sized<talus_param>();
    param.dtype = dtype<T>;
    param.data = data.data();
    param.grad = writable(grad);
    param.grad_dtype = options.grad_dtype;
    if (param.grad_dtype == 0 && !grad.empty()) param.grad_dtype = dtype<G>;
    if (!grad.empty()) require_dtype("gradient", dtype<G>, param.grad_dtype);
    param.name = options.name;
    param.shape = options.shape.empty() ? &extent : options.shape.data();
    param.ndim = options.shape.empty() ? 1 : int32_t(options.shape.size());
    param.state_dtype = options.state_dtype;
    param.master = options.master;
    require_count("data", data.size(), element_count(param));
    if (!grad.empty()) require_count("gradient", grad.size(), extent);
    const int64_t index = add(param, options.group);
    note_const(grad);
    return index;
  }

  // talus.h takes gradients without const though no step writes them.
  template <class T>
  static void* writable(std::span<T> elements) {
    return const_cast<std::remove_const_t<T>*>(elements.data());
  }
  template <class T>
  void note_const(std::span<T> grad) {
    if (std::is_const_v<T> && !grad.empty()) const_grads_ = true;
  }

  // Returns the product of the extents, -1 for one that is no count: the library names the fault.
  static int64_t element_count(const talus_param& param) {
    int64_t count = 1;
    for (int32_t i = 0; i < param.ndim; ++i) {
      const int64_t extent = param.shape[i];
      if (extent < 0) return -1;
      if (extent != 0 && count > std::numeric_limits<int64_t>::max() / extent) return -1;
      count *= extent;
    }
    return count;
  }

  static void require_count(const char* what, size_t got, int64_t expected) {
    if (expected < 0 || int64_t(got) == expected) return;
    refuse(TALUS_E_ARGUMENT, std::string(what) + ": got " + std::to_string(got) +
                                 " elements, expected " + std::to_string(expected));
  }
  static void require_dtype(const char* what, int32_t got, int32_t expected) {
    if (got == expected) return;
    refuse(TALUS_E_ARGUMENT, std::string(what) + ": got dtype " + std::to_string(got) +
                                 ", expected " + std::to_string(expected));
  }

  static void call_parallel_for(void* user, int64_t count, talus_task task,
                                void* context) noexcept {
    (*static_cast<ParallelFor*>(user))(count, [=](int64_t i) { task(context, i); });
  }

  std::unique_ptr<ParallelFor> parallel_for_;  // outlives the optimizer, so it is declared before
  std::unique_ptr<talus_optimizer, Destroy> handle_;
  bool const_grads_ = false;  // which nothing may fill
};

inline std::vector<talus_optimizer*> handles_of(std::span<Optimizer* const> opts) {
  std::vector<talus_optimizer*> handles;
  for (const Optimizer* opt : opts) handles.push_back(opt->handle());
  return handles;
}

// Measures the gradients of several optimizers as if they were one; see Optimizer::grad_norm.
inline double grad_norm(std::span<Optimizer* const> opts, double type = 2, void* stream = nullptr) {
  double norm = 0;
  const std::vector<talus_optimizer*> handles = handles_of(opts);
  check(talus_grad_norm(handles.data(), int32_t(handles.size()), TALUS_ALL, type, &norm, stream));
  return norm;
}
// And has the next step of each clipped to max_norm, by the same factor.
inline double clip_grad_norm(std::span<Optimizer* const> opts, double max_norm, double type = 2,
                             void* stream = nullptr) {
  double norm = 0;
  const std::vector<talus_optimizer*> handles = handles_of(opts);
  check(talus_clip_grad_norm(handles.data(), int32_t(handles.size()), TALUS_ALL, max_norm, type,
                             &norm, stream));
  return norm;
}

}  // namespace TALUS_INLINE_NAMESPACE
}  // namespace talus
#undef TALUS_INLINE_NAMESPACE
#endif
