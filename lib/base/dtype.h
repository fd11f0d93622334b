// Element types of tensors, and their numbers in the C ABI. No arithmetic: see rounding.inl.
#pragma once
#include <cstddef>
#include <cstdint>

namespace talus {

enum class Dtype : uint8_t { f32, bf16, f16, f64 };

// 16-bit floats as distinct types, so that overloads choose the conversion.
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

struct DtypeInfo {
  Dtype dtype;
  int32_t abi;  // DLPack type code | bits << 8, as TALUS_F32 in talus.h
  uint8_t bytes;
  const char* name;
};
// In the order of the enum.
inline constexpr DtypeInfo kDtypes[] = {{Dtype::f32, 0x2002, 4, "f32"},
                                        {Dtype::bf16, 0x1004, 2, "bf16"},
                                        {Dtype::f16, 0x1002, 2, "f16"},
                                        {Dtype::f64, 0x4002, 8, "f64"}};

constexpr const DtypeInfo& info(Dtype t) { return kDtypes[static_cast<int>(t)]; }
constexpr int64_t size_of(Dtype t) { return info(t).bytes; }
constexpr bool is_16_bit(Dtype t) { return size_of(t) == 2; }

// What a rule computes in behind a parameter of this dtype.
constexpr Dtype compute_type(Dtype param) { return param == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

template <class T>
inline constexpr Dtype kDtypeOf = Dtype::f32;
template <>
inline constexpr Dtype kDtypeOf<Bf16> = Dtype::bf16;
template <>
inline constexpr Dtype kDtypeOf<F16> = Dtype::f16;
template <>
inline constexpr Dtype kDtypeOf<double> = Dtype::f64;

}  // namespace talus
