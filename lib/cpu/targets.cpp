// Which targets this machine can run, and the choice of one, once.
#include <array>
#include <cstdlib>
#include <cstring>

#include "lib/cpu/kernels.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace talus {
namespace {

#if defined(__x86_64__)
bool has_f16c() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

// What Highway's target of that name is compiled with; the builtin asks the operating system, too,
// whether it saves the wide registers.
bool is_supported(Simd target) {
  const bool ssse3 = __builtin_cpu_supports("ssse3");
  const bool sse4 = ssse3 && __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("aes") &&
                    __builtin_cpu_supports("pclmul");
  const bool avx2 = sse4 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && has_f16c();
  const bool avx3 = avx2 && __builtin_cpu_supports("avx512f") &&
                    __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                    __builtin_cpu_supports("avx512bw");
  switch (target) {
    case Simd::ssse3: return ssse3;
    case Simd::sse4: return sse4;
    case Simd::avx2: return avx2;
    case Simd::avx3: return avx3;
    default: return false;
  }
}
#else
bool is_supported(Simd target) { return target == Simd::neon; }  // part of every aarch64
#endif

struct Known {
  Simd target;
  const char* doc;
};
// Strongest first.
constexpr Known kKnown[] = {{Simd::avx3, "AVX-512 F, VL, DQ, BW: 16 f32 at once"},
                            {Simd::avx2, "AVX2 with F16C: 8 f32 at once"},
                            {Simd::sse4, "SSE4.2: 4 f32 at once"},
                            {Simd::ssse3, "SSSE3: 4 f32 at once"},
                            {Simd::neon, "NEON: 4 f32 at once"}};

struct Targets {
  std::array<TargetInfo, std::size(kKnown) + 1> list{};
  size_t count = 0;
};

Targets find_targets() {
  Targets found;
  for (const Known& known : kKnown) {
    const KernelTable* kernels = simd_kernels(known.target);
    if (kernels && is_supported(known.target)) found.list[found.count++] = {kernels, known.doc};
  }
  found.list[found.count++] = {&scalar_kernels(), "one element at a time, on any CPU"};
  return found;
}

}  // namespace

std::span<const TargetInfo> cpu_targets() {
  static const Targets targets = find_targets();
  return {targets.list.data(), targets.count};
}

namespace {

// What the environment asked for at the first call; a copy, for a host may change it.
struct Choice {
  char wanted[32] = "";
  const TargetInfo* target = nullptr;

  Choice() {
    const char* const name = std::getenv("TALUS_CPU_TARGET");
    if (name) std::strncpy(wanted, name, sizeof wanted - 1);
    for (const TargetInfo& known : cpu_targets())
      if (!target && (!name || std::strcmp(known.kernels->target, name) == 0)) target = &known;
  }
};

}  // namespace

Status choose_cpu_target(const TargetInfo** out) {
  static const Choice choice;
  *out = choice.target;
  if (choice.target) return {};
  return failure(TALUS_E_NAME, "TALUS_CPU_TARGET is %s, expected one that this machine has: %s",
                 quoted(choice.wanted).c_str(), join_names(cpu_targets(), [](const TargetInfo& t) {
                                                  return t.kernels->target;
                                                }).c_str());
}

}  // namespace talus
