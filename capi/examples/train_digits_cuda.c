/* The training of train_digits.c with parameters, gradients and state in the memory of a GPU.
 *
 * The network computes on the CPU: gradients are copied to the device before a step, parameters back
 * after it. talus_step(opt, NULL) queues on the legacy default stream, as these copies do, so nothing
 * has to wait for anything by name. Same bits as train_digits, for every algorithm and dtype.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>

#define TALUS_DIGITS_DEVICE TALUS_CUDA

static void check_cuda(cudaError_t error, const char *what) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "train_digits_cuda: %s: %s\n", what, cudaGetErrorString(error));
  exit(1);
}

static void send(void *device, const void *data, size_t bytes) {
  check_cuda(cudaMemcpy(device, data, bytes, cudaMemcpyHostToDevice), "copy to the device");
}

static void fetch(void *data, const void *device, size_t bytes) {
  check_cuda(cudaMemcpy(data, device, bytes, cudaMemcpyDeviceToHost), "copy from the device");
}

static void *to_device(void *data, size_t bytes) {
  void *device;
  check_cuda(cudaMalloc(&device, bytes), "memory of the device");
  send(device, data, bytes);
  return device;
}

static void release(void *device) { check_cuda(cudaFree(device), "memory of the device"); }

#include "train_digits.c"
