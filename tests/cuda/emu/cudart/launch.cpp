// Registration and launches: finds the PTX in a plugin's fatbin and runs it through the interpreter.
#include <cstdio>
#include <cstring>

#include "tests/cuda/emu/cudart/state.h"
#include "tests/cuda/emu/ptx/machine.h"

using namespace emu;

namespace {

struct Function {
  std::shared_ptr<ptx::Module> module;
  std::string name;
};
std::map<const void*, Function>& functions() {
  static auto* const map = new std::map<const void*, Function>;
  return *map;
}

struct Configuration {
  dim3 grid, block;
  size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

template <class T>
T read(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// A fatbin is a header and entries: u16 kind (1: PTX, 2: ELF), u16 version, u32 header size, u64 payload
// size. Searching for ".version" would not do: with -lineinfo the text is in the cubins too.
std::string find_ptx(const void* wrapper) {
  struct Wrapper {
    int magic, version;
    const unsigned char* data;
  };
  const unsigned char* const data = static_cast<const Wrapper*>(wrapper)->data;
  const unsigned char* at = data + read<uint16_t>(data + 6);
  const unsigned char* const end = at + read<uint64_t>(data + 8);
  std::string text;
  while (at < end) {
    const uint32_t header = read<uint32_t>(at + 4);
    const uint64_t payload = read<uint64_t>(at + 8);
    if (header == 0) break;
    const char* const body = reinterpret_cast<const char*>(at + header);
    if (read<uint16_t>(at) == 1) text.assign(body, strnlen(body, payload));
    at += header + payload;
  }
  return text.find(".version ") == std::string::npos ? "" : text;  // compressed ones read as noise
}

void set_fault(const ptx::Fault& f) {
  Runtime& r = runtime();
  r.fault = f.what();
  r.sticky = f.kind == ptx::FaultKind::misaligned_address ? cudaErrorMisalignedAddress
             : f.kind == ptx::FaultKind::illegal_address  ? cudaErrorIllegalAddress
                                                          : cudaErrorLaunchFailure;
}

using Arguments = std::vector<std::vector<char>>;

void run_kernel(const ptx::Kernel& kernel, int device, unsigned grid, unsigned block,
                const Arguments& arguments) {
  if (runtime().sticky != cudaSuccess) return;  // nothing runs on a lost context
  try {
    ptx::Machine machine(kernel, runtime().devices[device].memory);
    for (size_t i = 0; i < arguments.size(); ++i)
      machine.set_argument(i, arguments[i].data(), arguments[i].size());
    machine.shuffle_order(runtime().shuffle);
    if (runtime().checks_races) machine.check_global_races();
    machine.launch(grid, block);
  } catch (const ptx::Fault& f) {
    set_fault(f);
  }
}

void run_host_kernel(const void* function, const HostKernel& kernel, unsigned grid, unsigned block,
                     const std::vector<char>& argument) {
  if (runtime().sticky != cudaSuccess) return;
  open_device_memory(true);
  try {
    kernel.run(function, grid, block, argument.data(), runtime().shuffle);
  } catch (const std::exception& e) {
    runtime().fault = e.what();
    runtime().sticky = cudaErrorLaunchFailure;
  }
  open_device_memory(false);
}

cudaError_t launch_host_kernel(const void* function, const HostKernel& kernel, unsigned grid,
                               unsigned block, void** args, Stream* s) {
  if (!s || s->device != runtime().current) return leave(cudaErrorInvalidResourceHandle);
  if (grid == 0) return leave(cudaErrorInvalidConfiguration);
  const char* const from = static_cast<const char*>(args[0]);
  const std::vector<char> argument(from, from + kernel.argument_bytes);
  EMU_TRY(submit(s, cudaGraphNodeTypeKernel,
                 [=] { run_host_kernel(function, kernel, grid, block, argument); }));
  return leave(runtime().sticky);
}

// Null: `error` says why.
const ptx::Kernel* find_kernel(const void* function, cudaError_t& error) {
  const auto it = functions().find(function);
  error = cudaErrorInvalidDeviceFunction;
  if (it == functions().end()) return nullptr;
  error = cudaErrorNoKernelImageForDevice;
  if (!it->second.module) return nullptr;
  try {
    return &it->second.module->kernel(it->second.name);
  } catch (const ptx::ParseError& e) {
    runtime().fault = e.what();
    error = cudaErrorInvalidPtx;
    return nullptr;
  }
}

cudaError_t launch(const void* function, dim3 grid, dim3 block, void** args, size_t shared,
                   Stream* s) {
  const auto host = runtime().host_kernels.find(function);
  if (host != runtime().host_kernels.end())
    return launch_host_kernel(function, host->second, grid.x, block.x, args, s);
  cudaError_t error;
  const ptx::Kernel* kernel = find_kernel(function, error);
  if (!kernel) return leave(error);
  if (!s || s->device != runtime().current) return leave(cudaErrorInvalidResourceHandle);
  if (grid.x == 0 || block.x == 0 || block.x > kernel->max_threads ||
      grid.y * grid.z * block.y * block.z != 1 || shared != 0)
    return leave(cudaErrorInvalidConfiguration);
  Arguments arguments;  // copied at the launch, as by the driver
  for (size_t i = 0; i < kernel->param_order.size(); ++i) {
    const char* const from = static_cast<const char*>(args[i]);
    arguments.emplace_back(from, from + kernel->param_order[i].size);
  }
  EMU_TRY(submit(s, cudaGraphNodeTypeKernel, [=, device = s->device] {
    run_kernel(*kernel, device, grid.x, block.x, arguments);
  }));
  return leave(runtime().sticky);
}

}  // namespace

extern "C" {

void emu_add_host_kernel(const void* kernel, size_t argument_bytes, emu_host_kernel run) {
  EMU_LOCK;
  runtime().host_kernels[kernel] = {argument_bytes, run};
}

void** __cudaRegisterFatBinary(void* wrapper) {
  auto* const module = new std::shared_ptr<ptx::Module>;
  const std::string text = find_ptx(wrapper);
  if (!text.empty()) *module = std::make_shared<ptx::Module>(text);
  return reinterpret_cast<void**>(module);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void** module) {
  delete reinterpret_cast<std::shared_ptr<ptx::Module>*>(module);
}
void __cudaRegisterFunction(void** module, const char* host, char*, const char* name, int, uint3*,
                            uint3*, dim3*, dim3*, int*) {
  EMU_LOCK;
  functions()[host] = {*reinterpret_cast<std::shared_ptr<ptx::Module>*>(module), name};
}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, CUstream_st* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  const Configuration c = configurations.back();
  configurations.pop_back();
  *grid = c.grid;
  *block = c.block;
  *shared = c.shared;
  *static_cast<cudaStream_t*>(stream) = c.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(host));
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* f, dim3 grid, dim3 block, void** args, size_t shared,
                             cudaStream_t stream) {
  EMU_ENTER(EMU_LAUNCH, stream, grid.x);
  return launch(f, grid, block, args, shared, stream_of(stream));
}
cudaError_t __cudaLaunchKernel(cudaKernel_t k, dim3 grid, dim3 block, void** args, size_t shared,
                               cudaStream_t stream) {
  return cudaLaunchKernel(reinterpret_cast<const void*>(k), grid, block, args, shared, stream);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* out, const void* function) {
  EMU_ENTER(EMU_OTHER);
  *out = {};
  if (runtime().host_kernels.count(function)) return cudaSuccess;
  cudaError_t error;
  const ptx::Kernel* kernel = find_kernel(function, error);
  if (!kernel) return leave(error);
  out->maxThreadsPerBlock = int(kernel->max_threads);
  out->sharedSizeBytes = kernel->shared_bytes;
  out->ptxVersion = out->binaryVersion = 90;
  return cudaSuccess;
}

}  // extern "C"
