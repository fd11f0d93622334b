// Kernels that the tests of the emulated runtime launch, behind a plain C function each.
#include <cuda_runtime.h>

namespace {

__global__ void add_kernel(float* x, float amount, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += amount;
}

__global__ void __launch_bounds__(64) reverse_kernel(float* x) {
  __shared__ float copy[64];
  copy[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = copy[63 - threadIdx.x];
}

}  // namespace

extern "C" cudaError_t probe_add(float* x, float amount, unsigned n, cudaStream_t stream) {
  add_kernel<<<(n + 63) / 64, 64, 0, stream>>>(x, amount, n);
  return cudaGetLastError();
}

extern "C" cudaError_t probe_reverse(float* x, unsigned threads, cudaStream_t stream) {
  reverse_kernel<<<1, threads, 0, stream>>>(x);
  return cudaGetLastError();
}
