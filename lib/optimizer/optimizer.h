// An optimizer: groups of parameters, their state, and the step. Knows no device: kernels are the
// backend's. Not thread-safe; pointers and structs from the C ABI have been checked for NULL.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/optimizer/attachments.h"
#include "lib/optimizer/model.h"
#include "lib/optimizer/orders.h"
#include "lib/optimizer/scaler.h"
#include "lib/optimizer/state_memory.h"
#include "lib/table/backend.h"
#include "lib/table/chunk_plan.h"

namespace talus {

// Settings of a whole optimizer, described like hyperparameters.
enum Setting {
  kThreads,
  kStats,
  kCheckPointers,
  kCheckRows,
  kCheckMasters,
  kChunkTiles,
  kShardBytes,
  kGradScale,
  kMaxGradNorm,
  kGradNormType,
  kMaxGradValue,
  kCheckFinite,
  kErrorIfNonfinite,
  kSettingCount
};
std::span<const Hyper> settings();

// What the clocks of schedules read.
struct Clocks {
  int64_t applied = 0, called = 0, manual = 0;

  int64_t at(int32_t clock) const {
    return clock == TALUS_CLOCK_APPLIED ? applied : clock == TALUS_CLOCK_CALLED ? called : manual;
  }
};

struct StepStats {
  int64_t steps = 0, skipped = 0;
  double grad_norm = __builtin_nan("");
  double clip_factor = 1, loss_scale = 1;
  bool found = false;            // the last step was skipped
  int64_t nonfinite_param = -1;  // the first one then
};

// Whose gradients a norm is of: one group, or all.
struct NormScope {
  int32_t group = TALUS_ALL;
  double type = 2;  // 1, 2 or infinity
};

using Notes = std::map<std::string, std::string, std::less<>>;

// What a checkpoint puts in place of what an optimizer has; its tensors lie in their memory by then.
struct Restored {
  std::vector<Group> groups;  // empty: they stay
  struct Steps {
    int64_t param, steps;
    bool master_given;  // before its first step
  };
  std::vector<Steps> steps;
  std::vector<double> settings;  // empty: they stay
  struct ScalerValues {
    double params[kScalerParamCount];
    ScalerState state;
  };
  std::optional<ScalerValues> scaler;  // none: it stays
  Clocks clocks;
  bool keeps_schedules = false;
  Attachments schedules;
  Notes notes;
};

class Optimizer {
 public:
  // On a device of the backend that find_backend gave.
  static Status create(const AlgorithmRef& algorithm, const Backend& backend, int32_t device,
                       std::unique_ptr<Optimizer>* out);
  // On the CPU. TALUS_E_NAME if TALUS_CPU_TARGET is not to be had.
  static Status create(const AlgorithmRef& algorithm, std::unique_ptr<Optimizer>* out);
  ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  const Model& model() const { return model_; }
  bool on_cpu() const { return on_cpu_; }

  // Groups and values; group is valid or TALUS_ALL.
  Status add_group(const AlgorithmRef* algorithm, int32_t* group);
  Status set(int32_t group, std::string_view name, double value);
  Status get(int32_t group, std::string_view name, double* value) const;
  Status value_now(int32_t group, std::string_view name, double* value) const;
  Status set_setting(std::string_view name, double value);
  Status get_setting(std::string_view name, double* value) const;
  double setting(int i) const { return settings_[i]; }
  Status check_setting(int i, double value) const;

  // Schedules; group is valid or TALUS_ALL, clock valid. NULL: none any more.
  Status attach(int32_t group, std::string_view hyper, const SchedulePtr& schedule, int32_t clock);
  Status find_schedule(int32_t group, std::string_view hyper, const Attachment** out) const;
  Status set_clock(int64_t t);
  Status observe(double metric);
  const Attachments& schedules() const { return schedules_; }
  const Clocks& clocks() const { return clocks_; }

  // Masters, in memory of the device; NULL: the parameter itself, see talus_import_param.
  Status export_master(int64_t param, void* data, int32_t dtype, void* stream);
  Status import_master(int64_t param, const void* data, int32_t dtype, void* stream);
  Status bytes_per_param(int32_t group, const talus_param& param, talus_bytes* out) const;

  // Parameters and gradients; indices are valid.
  Status add_params(int32_t group, std::span<const talus_param> params, int64_t* first);
  Status bind_data(int64_t param, void* data);
  Status bind_grads(int64_t first, std::span<void* const> grads);
  Status bind_rows(int64_t param, const talus_rows* rows);  // NULL: none
  Status zero_grad(bool unbind, void* stream);
  void* dense_grad(int64_t param) const;  // also where rows stand in for it

  // Membership; indices are valid.
  Status move_params(int32_t group, std::span<const int64_t> params);
  Status remove_params(std::span<const int64_t> params);

  // State.
  int64_t state_count() const { return first_state_.back(); }
  void state_at(int64_t i, int64_t* param, StateSlot* slot) const;
  void* state_data(int64_t param, const StateSlot& slot) const;
  Status bind_state(int64_t param, std::string_view slot, void* data, uint64_t bytes);
  int64_t steps(int64_t param) const { return model_.classes.steps(model_.table, param); }
  Status set_steps(int64_t param, int64_t steps);

  // Gradients: how they are scaled, checked and clipped. A scaler may serve several optimizers.
  Status attach_scaler(std::shared_ptr<Scaler> scaler);  // NULL: none any more
  const std::shared_ptr<Scaler>& scaler() const { return scaler_; }
  // A scale and a flag of somebody else, in memory of the device; NULL: none.
  Status bind_scale(const float* scale, const float* found);
  // Totals of tensors of the scope in order, as a norm is made of them; behind them rest others.
  Status tensor_totals(const NormScope& scope, void* stream, std::vector<double>* out);
  // For the next step alone: its groups' gradients times coef; found: it is skipped.
  void reserve_clip();
  Status check_clip(int32_t group);
  void scale_totals(const NormScope& scope, double* total, int64_t* first_nonfinite) const;
  void clip_next(int32_t group, double coef, bool found, int64_t param);
  // Counts of steps are known then: waits where a device decides on steps that are under way.
  Status settle();

  Status prepare(void* stream);
  Status step(void* stream);
  Status advance(void* stream);  // before a captured step is replayed

  // Of the last step. wait: for a device that has not reported yet; else what is known.
  Status read_stats(bool wait, StepStats* out);
  uint64_t state_bytes() const { return memory_->bytes(); }
  uint64_t workspace_bytes() const { return workspace_bytes_; }

  // Checkpoints. Notes are the caller's, kept in them.
  Status set_note(std::string_view key, const char* text);  // NULL: none any more
  const Notes& notes() const { return notes_; }
  // A master that holds what the first step is to start from, or a step's result.
  bool has_begun(int64_t param, const StateSlot& slot) const;
  // Nothing on the stream is being captured, the device can be used.
  Status check_idle(void* stream);
  // Memory for the state of these; *allocated: some, which take_back_memory frees.
  Status give_memory(std::span<const int64_t> params, void* stream, bool* allocated);
  void take_back_memory() { memory_->take_back(); }
  uint64_t shard_bytes() const { return uint64_t(settings_[kShardBytes]); }
  void reserve_for(const Restored& from);
  void restore(Restored& from) noexcept;  // reserve first
  // A load in place that ended half-way: until another one has succeeded, nothing else is to be had.
  void damage() { damaged_ = true; }
  bool is_whole() const { return !damaged_; }
  Status check_whole() const;
  const Backend& backend() const { return *backend_; }
  // A backend's status in words; the end of the device is remembered.
  Status from_backend(int32_t status, const char* what);

  Status set_parallel_for(talus_parallel_for run, void* user);
  Status set_allocator(const talus_allocator& allocator);
  // Elements per chunk, a multiple of kTile; results do not depend on it.
  void set_chunk(int64_t elements);
  // For those who call the backend themselves: checkpoints, and tests and the bench, which run kernels
  // of their own over the same plan and threads.
  void* backend_context() const { return context_; }

 private:
  Optimizer() = default;

  // Parts of a step, in the order of their calls.
  Status check_usable() const;
  Status check_step() const;
  Status check_conflicts();
  Status check_gradients(bool scheduled) const;
  Status evaluate_schedules(const Clocks& at) {
    return schedules_.items.empty() ? Status() : evaluate_attached(at);
  }
  Status evaluate_attached(const Clocks& at);
  void fit_classes();
  Status ready(StateMemory::Scope scope, void* stream);
  Status build_plan(void* stream);
  Status send_columns(void* stream);
  Status kept(const Status& status);
  Status lose(const Status& why);
  bool wants_norm() const;
  bool checks_gradients() const;
  Status check_gradient_setting(int setting, double value) const;
  Status check_own_scale(const char* function) const;
  Status check_masters(void* stream);
  Status compare_master(int64_t param, void* stream);
  Status check_master(int64_t param, int32_t dtype, const char* function) const;
  struct Converted {
    void* data;
    Dtype dtype;
  };
  Status convert_memory(const void* from, Dtype from_dtype, std::span<const Converted> targets,
                        int64_t count, void* stream);
  Status queue_norms(void* stream);
  Status refuse_replay();
  template <class Use>
  void each_counted(int32_t group, Use use) const;
  Status glance(void* stream, Report* report);
  Status look_for_nonfinite(void* stream, Report* report);
  void drop_clip();
  void close_gradients();
  Status check_round() const;
  Status send_row_gradients(void* stream);
  double norm_type() const;
  double known_scale() const;
  Status read_loss_scale(double* out);
  GradientEntry entry() const;
  Status measure(void* stream);
  Status measure_norm(const NormScope& scope, const GradientEntry& entry, void* stream,
                      Report* out);
  void note_norm();
  Status fetch_norm();
  Status nonfinite_gradient(int64_t param) const;
  Status skip_step();
  Status send_scalars(void* stream);
  Status begin_new(void* stream, Order order);
  Status run_passes(void* stream, bool recorded, Order order);
  Status ask_device(void* stream, bool* out);
  Status capture(void* stream);
  Status check_replay() const;
  void count_step();

  // Steps that a device decides on.
  bool is_ordered() const;
  StepShape shape() const;
  double check_type() const;
  void take_end(const StepControl& report, bool all);
  void start_groups();
  Status check_fault();
  Status poll(Await await);
  bool is_new_member(int64_t param) const;
  void note_members();
  Status make_room();
  Status fill_rows();
  Status predict_rows();
  Status send_order(void* stream);
  Status measure_ordered(double type, bool tells, void* stream);
  Status queue_decision(void* stream);
  Status queue_passes(void* stream, bool recorded);
  Status queue_rest(void* stream);
  void count_ordered();
  Status step_ordered(void* stream);
  struct Told {  // of the last step
    StepControl last;
    bool measured, ordered;
    double type;
  };
  Status refuse_nonfinite(const Told& before);
  Status advance_ordered(void* stream);
  Status prepare_orders(void* stream);

  Status add_checked(int32_t group, std::span<const talus_param> params);
  void take_back(int64_t param_count);
  template <class F>
  Status each_gradient(int64_t count, F f) const;
  Status check_new_gradients(int64_t first) const;
  Status check_grad(int64_t param, const void* grad) const;
  Status check_device(const void* data, uint64_t bytes, int64_t param, const char* what) const;
  Status check_dense(int64_t param, const void* grad) const;
  void set_grad(int64_t param, void* grad);
  Status check_rows(int64_t param, const talus_rows& rows) const;
  Status row_fault(const RowGradient& rows, const RowFault& fault) const;
  bool has_rows(int64_t param) const;
  void drop_rows(int64_t param);
  void drop_all_rows();
  Status check_move(int64_t param, int32_t group) const;
  Status check_no_gradient(const void* data, uint64_t bytes, int64_t param, const char* what) const;
  Status move_range(void* old, MemoryMap::Owner owner, void* data, uint64_t bytes, const char* what,
                    bool checked);
  Status find_real(int32_t group, std::string_view name, int* out) const;
  std::vector<int32_t> groups_with(int32_t group, std::string_view name) const;
  void put(Attachment added);
  void detach(int32_t group, const std::vector<int32_t>& groups, std::string_view name);
  Status attach_later(const Group& added, int32_t index, std::vector<Attachment>* out) const;
  Status value_of(const Attachment& a, const Clocks& at, double* out) const;
  Status name_schedules(const Status& status, int32_t group, const Clocks& at) const;
  void base_changed(int32_t group, std::string_view hyper, double value);
  void remember(std::string_view name, double value);
  void change_slots(int32_t group);
  Status configure(const BackendConfig& config);
  void index_states(int64_t first);
  bool find_slot_of(int64_t param, std::string_view name, StateSlot* out) const;

  const Backend* backend_ = nullptr;
  void* context_ = nullptr;
  BackendConfig config_{};
  Model model_;
  std::unique_ptr<StateMemory> memory_;
  AlgorithmRef algorithm_;
  std::vector<Override> overrides_;
  double settings_[kSettingCount];

  ChunkPlan plan_;
  int64_t chunk_ = kChunk;
  void* workspace_ = nullptr;
  uint64_t workspace_bytes_ = 0;
  int64_t plans_ = 0;  // taken by the backend since creation
  struct Captured {
    int64_t plan = 0;  // its number in plans_; 0: nothing was captured
    StepShape shape;
  };
  Captured captured_;                 // what the last capture recorded
  std::vector<Row> rows_;             // by scalar class
  std::vector<BeginRow> begin_rows_;  // by scalar class
  struct BoundRows {
    RowGradient rows;
    void* dense;  // what is bound beside it
  };
  std::vector<BoundRows> row_gradients_;  // of the coming step
  std::vector<RowGradient> sent_rows_;    // as the backend holds them

  Attachments schedules_;
  Clocks clocks_;
  StepStats stats_;
  std::shared_ptr<Scaler> scaler_;
  int64_t scaler_round_ = 0;  // of the last step with this one:
  std::weak_ptr<Scaler> last_scaler_;
  const float *foreign_scale_ = nullptr, *foreign_found_ = nullptr;
  double coef_ = 1;                 // of the norm clip, for the step being taken
  std::vector<double> group_coef_;  // by group, for the next step; empty: 1
  bool skip_next_ = false;
  int64_t skip_param_ = -1;  // the first parameter that was not finite then
  Orders orders_;
  std::vector<Row> ordered_rows_;        // [candidate][class]
  std::vector<uint8_t> in_scope_;        // by class, of a norm
  bool measured_ = false;                // by the last step
  bool norm_pending_ = false;            // and a device has not been asked for it
  bool last_ordered_ = false;            // the last step was
  double measured_type_ = 2;             // of its norm
  std::vector<int64_t> first_state_{0};  // of each parameter, and the end

  Notes notes_;
  bool on_cpu_ = true;
  int64_t process_ = 0;  // that created it
  Status lost_;  // what ended the use of the device; not OK: nothing but destruction is left
  bool damaged_ = false;  // by a load: nothing but another one and destruction is left

  // What the next step must do first.
  bool plan_changed_ = true, values_changed_ = true;
  bool has_f64_ = false;          // the plan has passes in f64
  bool total_wanted_ = false;     // a rule reads the norm; as of check_conflicts
  bool state_wanted_ = true;      // a parameter may lack memory
  uint32_t columns_changed_ = 0;  // bit c: column c, since the backend saw it
};

}  // namespace talus
