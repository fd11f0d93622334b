// The loss scaler: a scale that falls when gradients overflow and grows while they do not (PyTorch's
// rule, with apex's hysteresis and bounds). Shared by optimizers, each of which skips alone. On a device
// the state is the device's; which round it is, the host counts. Not thread-safe.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "lib/base/hyper.h"
#include "lib/base/status.h"
#include "lib/table/backend.h"

namespace talus {

std::span<const Hyper> scaler_params();

class Scaler {
 public:
  explicit Scaler(const Backend& backend,
                  int32_t device = 0);  // of the CPU, until it has a context
  ~Scaler();
  Scaler(const Scaler&) = delete;
  // On a device that find_backend gave: it moves the scale alone there, and what is asked here waits.
  static Status create(const Backend& backend, int32_t device, std::shared_ptr<Scaler>* out);
  bool is_on(const Backend& backend, int32_t device) const;

  // "scale" too: the present one; and "growth_tracker". TALUS_E_NAME, _RANGE; TALUS_E_STATE within a
  // round.
  Status set(std::string_view name, double value);
  Status get(std::string_view name, double* value);  // and the members of the state
  Status read_scale(double* out);
  // Fetches what a device has made of it: state() is up to date then.
  Status fetch();
  const double* params() const { return params_; }
  const ScalerState& state() const { return state_; }
  // Of a checkpoint; all or nothing. TALUS_E_RANGE.
  Status restore(const double* params, const ScalerState& state);

  // A round is what lies between two updates: each optimizer steps at most once in it.
  int64_t round() const { return round_; }
  bool round_is_open() const { return checked_ > 0; }
  void note(bool found);  // by an optimizer that has stepped or skipped; a device finds by itself
  // By one whose step is replayed, also behind note: where the graph has the update, the round is over.
  void close_replayed();
  void forget_graph() { replays_ = false; }  // another is being captured
  // TALUS_E_STATE: nobody has. On a capturing stream it is recorded, and then each replay is a round.
  Status update(void* stream);
  ScalerMemory* memory() const { return memory_; }  // NULL: on the CPU

 private:
  Status set_growth(double value);
  Status check_closed(const char* name) const;
  Status from_backend(int32_t status, const char* what) const;
  Status send(const double* params, const ScalerState& state);
  Status record(void* stream, bool* recorded);

  double params_[kScalerParamCount];
  ScalerState state_{};
  int64_t round_ = 1, checked_ = 0;
  bool found_ = false;
  bool replays_ = false;  // a graph has its update

  const Backend* backend_;
  int32_t device_;
  void* context_ = nullptr;
  ScalerMemory* memory_ = nullptr;
};

// Whether the parameters go together: NULL, or what does not.
const char* scaler_conflict(const double* params);
// Whether a checkpoint's can be taken: TALUS_E_RANGE.
Status check_scaler(const double* params, const ScalerState& state);

}  // namespace talus
