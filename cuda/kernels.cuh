// All kernels, in order of dependence. Compiled by nvcc, and by g++ for tests that run blocks on the
// host: they include stand-ins for the words of CUDA first and define TALUS_HOST_SHIM.
#pragma once
#ifndef TALUS_HOST_SHIM
#include <cuda_runtime.h>
// A pointer that was read from memory has no known address space: without this all accesses through
// it are generic ones, and those of 16 bytes are split.
#define TALUS_ASSUME_GLOBAL(p) __builtin_assume(__isGlobal(p))
#endif
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "descriptors.h"
#include "lib/base/power.h"
#include "lib/table/norm.h"
#include "tuning.h"

namespace talus::cuda {
namespace {

#pragma push_macro("TALUS_FN")
#undef TALUS_FN
#define TALUS_FN __device__ __forceinline__
#include "lane_cuda.inl"
#include "lib/base/rounding.inl"
#include "lib/rules/lane_arithmetic.inl"
#include "lib/rules/numbered.inl"
#include "lib/table/step_law.inl"
#include "control.inl"
#include "operand.inl"
#include "pass.inl"
#include "sum.inl"
#include "fold.inl"
#include "begin.inl"
#include "rows.inl"
#pragma pop_macro("TALUS_FN")

}  // namespace
}  // namespace talus::cuda
