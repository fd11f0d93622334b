// How an optimizer comes and goes, and the hooks of its host. The step is in optimizer.cpp.
#include <unistd.h>

#include "lib/base/log.h"
#include "lib/cpu/backend.h"
#include "lib/cpu/chunk_runner.h"
#include "lib/device/devices.h"
#include "lib/optimizer/optimizer.h"

namespace talus {

Status Optimizer::create(const AlgorithmRef& algorithm, std::unique_ptr<Optimizer>* out) {
  const Backend* cpu = nullptr;
  TALUS_TRY(find_backend(TALUS_CPU, 0, &cpu));
  return create(algorithm, *cpu, 0, out);
}

Status Optimizer::create(const AlgorithmRef& algorithm, const Backend& backend, int32_t device,
                         std::unique_ptr<Optimizer>* out) {
  std::unique_ptr<Optimizer> made(new Optimizer);
  made->backend_ = &backend;
  made->on_cpu_ = &backend == &cpu_backend();
  made->config_.device = device;
  made->process_ = getpid();
  made->config_.threads = usable_threads();
  if (const int32_t status = backend.create(&made->config_, &made->context_); status != TALUS_OK) {
    int64_t detail = 0;
    const char* const why = backend.last_error(nullptr, &detail);
    return Status(status, text("cannot use %s device %d: %s", backend.name, device, why), detail);
  }
  made->memory_ = std::make_unique<StateMemory>(made->model_, *made->backend_, made->context_);
  made->algorithm_ = algorithm;
  made->model_.groups.emplace_back(algorithm);
  for (int i = 0; i < kSettingCount; ++i) made->settings_[i] = settings()[size_t(i)].def;
  log_line(TALUS_LOG_INFO, "optimizer \"%s\" on %s device %d", algorithm.algorithm->name,
           backend.name, device);
  *out = std::move(made);
  return {};
}

Optimizer::~Optimizer() {
  memory_.reset();
  if (workspace_) backend_->release(context_, workspace_, workspace_bytes_, nullptr);
  if (orders_.control)
    backend_->release(context_, orders_.control, sizeof *orders_.control, nullptr);
  if (context_) backend_->destroy(context_);
  if (config_.allocator.destroy) config_.allocator.destroy(config_.allocator.user);
}

Status Optimizer::configure(const BackendConfig& config) {
  if (const int32_t status = backend_->set_config(context_, &config); status != TALUS_OK)
    return failure(status, "the %s backend cannot take %d threads", backend_->name, config.threads);
  config_ = config;
  return {};
}

Status Optimizer::set_parallel_for(talus_parallel_for run, void* user) {
  BackendConfig config = config_;
  config.parallel_for = run;
  config.parallel_for_user = run ? user : nullptr;
  return configure(config);
}

Status Optimizer::set_allocator(const talus_allocator& allocator) {
  if (memory_->bytes() || workspace_)
    return failure(TALUS_E_STATE,
                   "talus_set_allocator: %llu bytes are allocated already, expected a call before "
                   "prepare and step",
                   static_cast<unsigned long long>(memory_->bytes() + workspace_bytes_));
  BackendConfig config = config_;
  config.allocator = allocator;
  const talus_allocator before = config_.allocator;
  TALUS_TRY(configure(config));
  if (before.destroy) before.destroy(before.user);
  return {};
}

void Optimizer::set_chunk(int64_t elements) {
  plan_changed_ |= elements != chunk_;
  chunk_ = elements;
}

}  // namespace talus
