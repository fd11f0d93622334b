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
// cpuid by hand: the compiler's own test brings a constructor that runs when the library is loaded.
struct CpuId {
  unsigned leaf1_ecx = 0, leaf7_ebx = 0, saved = 0;  // saved: registers that the system keeps

  CpuId() {
    unsigned a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d)) leaf1_ecx = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) leaf7_ebx = b;
    if (leaf1_ecx & bit_OSXSAVE) asm volatile("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
  }
  bool has(unsigned ecx1, unsigned ebx7, unsigned registers) const {
    return (leaf1_ecx & ecx1) == ecx1 && (leaf7_ebx & ebx7) == ebx7 &&
           (saved & registers) == registers;
  }
};

// What Highway's target of that name is compiled with.
bool is_supported(Simd target) {
  constexpr unsigned kSse4 = bit_SSSE3 | bit_SSE4_2 | bit_AES | bit_PCLMUL;
  constexpr unsigned kAvx2 = kSse4 | bit_AVX | bit_FMA | bit_F16C;
  constexpr unsigned kAvx2Leaf7 = bit_AVX2 | bit_BMI | bit_BMI2;
  constexpr unsigned kAvx3Leaf7 =
      kAvx2Leaf7 | bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;
  constexpr unsigned kYmm = 0x6, kZmm = 0xe6;  // XCR0
  const CpuId cpu;
  switch (target) {
    case Simd::ssse3: return cpu.has(bit_SSSE3, 0, 0);
    case Simd::sse4: return cpu.has(kSse4, 0, 0);
    case Simd::avx2: return cpu.has(kAvx2, kAvx2Leaf7, kYmm);
    case Simd::avx3: return cpu.has(kAvx2, kAvx3Leaf7, kZmm);
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
  const char* why = "the strongest that this CPU has";

  Choice() {
    const char* const name = std::getenv("TALUS_CPU_TARGET");
    if (name) {
      std::strncpy(wanted, name, sizeof wanted - 1);
      why = "TALUS_CPU_TARGET asks for it";
    }
    for (const TargetInfo& known : cpu_targets())
      if (!target && (!name || std::strcmp(known.kernels->target, name) == 0)) target = &known;
  }
};

}  // namespace

Status choose_cpu_target(const TargetInfo** out, const char** why) {
  static const Choice choice;
  *out = choice.target;
  if (why) *why = choice.why;
  if (choice.target) return {};
  return failure(TALUS_E_NAME, "TALUS_CPU_TARGET is %s, expected one that this machine has: %s",
                 quoted(choice.wanted).c_str(), join_names(cpu_targets(), [](const TargetInfo& t) {
                                                  return t.kernels->target;
                                                }).c_str());
}

}  // namespace talus
