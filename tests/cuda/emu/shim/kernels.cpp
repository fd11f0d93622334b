// All kernels of the plugin as the host's compiler makes them, known to the emulated runtime.
#include "tests/cuda/emu/shim/host_shim.h"

#include "cuda/kernels.cu"
#include "tests/cuda/emu/cudart/emu.h"

namespace talus::cuda {
namespace {

template <class Args>
void run(const void* kernel, unsigned grid, unsigned block, const void* argument, uint64_t seed) {
  host_shim::scheduler.seed = seed;
  host_shim::launch(grid, block,
                    reinterpret_cast<void (*)(Args)>(reinterpret_cast<uintptr_t>(kernel)),
                    *static_cast<const Args*>(argument));
}

template <class Args>
void add(void (*kernel)(Args)) {
  if (kernel) emu_add_host_kernel(reinterpret_cast<const void*>(kernel), sizeof(Args), run<Args>);
}

void add(const PassEntry& pass) {
  for (const PassKernel kernel : {pass.direct, pass.mixed[0], pass.mixed[1]}) add(kernel);
  for (const RowsKernel kernel : pass.rows) add(kernel);
  add(pass.fold);
}

[[gnu::constructor]] void add_all() {
  for (const RuleEntry& rule : rule_entries())
    for (const auto& variant : rule.variants)
      for (const PassEntry& pass : variant) add(pass);
  const CommonKernels& common = common_kernels();
  for (const BeginKernel kernel : common.begin) add(kernel);
  for (const MeasureKernels& measure : {common.squares, common.magnitudes, common.largest}) {
    add(measure.pass);
    add(measure.total);
    add(measure.norm);
  }
  add(common.decide);
  add(common.scaler);
}

}  // namespace
}  // namespace talus::cuda
