// The lane of one SIMD vector over Google Highway. The only file, with kernels.cpp, that names the
// library; inside the subset of 1.0.3. Never uses its bf16 conversions: they truncate before 1.2.
// No include guard: compiled in the namespace of its target.
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct Vec {
  using D = hn::ScalableTag<T>;
  hn::Vec<D> raw;
  TALUS_FN Vec() {}
  TALUS_FN Vec(hn::Vec<D> x) : raw(x) {}
  TALUS_FN explicit Vec(T x) : raw(hn::Set(D(), x)) {}

  friend TALUS_FN Vec operator+(Vec a, Vec b) { return hn::Add(a.raw, b.raw); }
  friend TALUS_FN Vec operator-(Vec a, Vec b) { return hn::Sub(a.raw, b.raw); }
  friend TALUS_FN Vec operator*(Vec a, Vec b) { return hn::Mul(a.raw, b.raw); }
  friend TALUS_FN Vec operator/(Vec a, Vec b) { return hn::Div(a.raw, b.raw); }
  friend TALUS_FN auto operator>(Vec a, Vec b) { return hn::Gt(a.raw, b.raw); }
  friend TALUS_FN auto operator>=(Vec a, Vec b) { return hn::Ge(a.raw, b.raw); }
  // Not hn::Ne, which on x86 says that a NaN does not differ from itself.
  friend TALUS_FN auto operator!=(Vec a, Vec b) { return hn::Not(hn::Eq(a.raw, b.raw)); }
  friend TALUS_FN Vec sqrt(Vec a) { return hn::Sqrt(a.raw); }
  friend TALUS_FN Vec abs(Vec a) { return hn::Abs(a.raw); }
};

// a / divisor, one divisor for all elements, where the quotient is not subnormal. With AVX-512 f32 goes
// through a product in double, which leaves the divider to the divisions that need it (AdamW in cache:
// 0.69 to 0.52 ns/param, 2-core Intel Xeon, 2026-11-30). Halves of narrower vectors cost more than
// their division (AdamW of 100M f32: 0.77 to 1.05 of the roof, 2-vCPU AMD Zen 1, 2026-12-02). It is
// the same number: two errors of at most 2^-53 stay under 2^-51, and no quotient of two 24-bit numbers
// lies nearer than 2^-49 to the middle between two floats, nor on it.
#if HWY_TARGET == HWY_AVX3
TALUS_FN Vec<float> quotient(Vec<float> a, float divisor) {
  using D = Vec<float>::D;
  const hn::Half<D> half;
  const Vec<double> inverse(1 / double(divisor));
  const auto scaled = [&](hn::Vec<hn::Half<D>> x) {
    return hn::DemoteTo(half, hn::Mul(hn::PromoteTo(Vec<double>::D(), x), inverse.raw));
  };
  return hn::Combine(D(), scaled(hn::UpperHalf(half, a.raw)), scaled(hn::LowerHalf(half, a.raw)));
}

// The same where a quotient may be subnormal: a vector that holds one takes the divider.
TALUS_FN Vec<float> quotient_of_any(Vec<float> a, float divisor) {
  using D = Vec<float>::D;
  const Vec<float> fast = quotient(a, divisor);
  const auto small = hn::Le(hn::Abs(fast.raw), hn::Set(D(), 0x1p-126f));
  const auto not_zero = hn::Gt(hn::Abs(a.raw), hn::Zero(D()));
  if (hn::AllFalse(D(), hn::And(small, not_zero))) return fast;
  return a / Vec<float>(divisor);
}
#else
TALUS_FN Vec<float> quotient(Vec<float> a, float divisor) { return a / Vec<float>(divisor); }
TALUS_FN Vec<float> quotient_of_any(Vec<float> a, float divisor) { return a / Vec<float>(divisor); }
#endif
TALUS_FN Vec<double> quotient(Vec<double> a, double divisor) { return a / Vec<double>(divisor); }
TALUS_FN Vec<double> quotient_of_any(Vec<double> a, double divisor) {
  return a / Vec<double>(divisor);
}

template <class T>
TALUS_FN Vec<T> select(hn::Mask<typename Vec<T>::D> yes, Vec<T> a, Vec<T> b) {
  return hn::IfThenElse(yes, a.raw, b.raw);
}

template <class T>
inline constexpr int64_t kLanes = HWY_LANES(T);

// A whole vector at a pointer of any alignment.
template <class T>
struct Whole {
  using V = Vec<T>;
  TALUS_FN V load(const T* p) const { return hn::LoadU(typename V::D(), p); }
  TALUS_FN void store(V x, T* p) const { hn::StoreU(x.raw, typename V::D(), p); }
  TALUS_FN V valid(V x) const { return x; }
};

// Masked access that touches no byte outside the first n elements. True for 4- and 8-byte lanes
// from AVX2 on; elsewhere Highway's MaskedLoad is an aligned full load, so tails go one by one.
#if HWY_TARGET <= HWY_AVX2
#define TALUS_MASKED_TAIL 1
template <class T>
struct FirstN {
  using V = Vec<T>;
  hn::Mask<typename V::D> mask;
  TALUS_FN explicit FirstN(int64_t n) : mask(hn::FirstN(typename V::D(), size_t(n))) {}
  TALUS_FN V load(const T* p) const { return hn::MaskedLoad(mask, typename V::D(), p); }
  TALUS_FN void store(V x, T* p) const { hn::BlendedStore(x.raw, mask, typename V::D(), p); }
  TALUS_FN V valid(V x) const { return hn::IfThenElseZero(mask, x.raw); }  // what a sum may see
};
#else
#define TALUS_MASKED_TAIL 0
#endif

TALUS_FN Vec<float> widen_vector(const Bf16* p) {
  using D = Vec<float>::D;
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const auto half = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(d32, half)));
}

// The rounding of to_bf16, in integers.
TALUS_FN void narrow_vector(Vec<float> x, Bf16* p) {
  using D = Vec<float>::D;
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> signed32;
  const auto u = hn::BitCast(d32, x.raw);
  const auto top = hn::ShiftRight<16>(u);
  const auto odd = hn::And(top, hn::Set(d32, 1u));
  const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(u, hn::Set(d32, 0x7fffu)), odd));
  const auto quiet = hn::Or(top, hn::Set(d32, 0x40u));
  const auto is_nan = hn::RebindMask(d32, hn::IsNaN(x.raw));
  const auto half = hn::IfThenElse(is_nan, quiet, rounded);
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(signed32, half)), d16, reinterpret_cast<uint16_t*>(p));
}

// On AVX2 a half of a vector at a time costs less than what sorts 16-bit lanes across halves, most of
// all where such a half is what a processor computes at once (AdamW in cache, bf16 with an f32
// master, 1 thread, AMD Zen 1, 2026-12-02: 2.27 to 1.95 ns/param).
#if HWY_TARGET == HWY_AVX2
#define TALUS_BF16_SPANS 1
inline constexpr int64_t kSpan = 16;  // elements
TALUS_FN void widen_span(const Bf16* p, float* to) {
  const hn::Full128<uint16_t> d16;
  const hn::Full128<float> d;
  const auto* const from = reinterpret_cast<const uint16_t*>(p);
  for (int64_t i = 0; i < kSpan; i += 8) {
    const auto half = hn::LoadU(d16, from + i);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d16, hn::Zero(d16), half)), d, to + i);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d16, hn::Zero(d16), half)), d, to + i + 4);
  }
}
TALUS_FN void narrow_span(const float* from, Bf16* p) {
  using D = Vec<float>::D;
  const hn::Half<D> half;
  const hn::RebindToUnsigned<D> d32;
  const hn::RebindToSigned<D> signed32;
  const hn::Repartition<int16_t, D> d16;
  const auto load = [&](int64_t i) {
    return hn::Combine(D(), hn::LoadU(half, from + i + 8), hn::LoadU(half, from + i));
  };
  const auto round = [&](hn::Vec<D> x) {
    const auto u = hn::BitCast(d32, x);
    const auto odd_bit = hn::Set(d32, 0x10000u);
    const auto is_odd = hn::Eq(hn::And(u, odd_bit), odd_bit);  // - 1
    const auto rounded = hn::Sub(hn::Add(u, hn::Set(d32, 0x7fffu)), hn::VecFromMask(d32, is_odd));
    return hn::ShiftRight<16>(hn::BitCast(signed32, rounded));
  };
  const auto a = load(0), b = load(4);
  if (!hn::AllFalse(D(), hn::IsNaN(hn::Add(a, b)))) {  // one of them, or infinities of both signs
    for (int64_t i = 0; i < kSpan; i += kLanes<float>)
      narrow_vector(Whole<float>().load(from + i), p + i);
    return;
  }
  hn::StoreU(hn::ReorderDemote2To(d16, round(a), round(b)), d16, reinterpret_cast<int16_t*>(p));
}
#else
#define TALUS_BF16_SPANS 0
#endif

// The F16C instructions are exact and deaf to flush-to-zero (checked over all inputs).
#if HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)
#define TALUS_F16C 1
TALUS_FN Vec<float> widen_vector(const F16* p) {
  using D = Vec<float>::D;
  const hn::Rebind<hwy::float16_t, D> d16;
  return hn::PromoteTo(D(), hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}
TALUS_FN void narrow_vector(Vec<float> x, F16* p) {
  using D = Vec<float>::D;
  const hn::Rebind<hwy::float16_t, D> d16;
  hn::StoreU(hn::DemoteTo(d16, x.raw), d16, reinterpret_cast<hwy::float16_t*>(p));
}
#else
#define TALUS_F16C 0
#endif

// kLanes<double> elements as doubles.
TALUS_FN Vec<double> load_f64(const double* p) { return Whole<double>().load(p); }
TALUS_FN Vec<double> load_f64(const float* p) {
  const hn::Rebind<float, Vec<double>::D> d32;
  return hn::PromoteTo(Vec<double>::D(), hn::LoadU(d32, p));
}
TALUS_FN Vec<double> load_f64(const Bf16* p) {
  const hn::Rebind<uint16_t, Vec<double>::D> d16;
  const hn::Rebind<uint32_t, Vec<double>::D> d32;
  const hn::Rebind<float, Vec<double>::D> df;
  const auto half = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  const auto wide = hn::ShiftLeft<16>(hn::PromoteTo(d32, half));
  return hn::PromoteTo(Vec<double>::D(), hn::BitCast(df, wide));
}
#if TALUS_F16C
TALUS_FN hn::Vec<hn::Rebind<float, Vec<double>::D>> load_f32(const F16* p) {
  const hn::Rebind<hwy::float16_t, Vec<double>::D> d16;
  const hn::Rebind<float, Vec<double>::D> df;
  return hn::PromoteTo(df, hn::LoadU(d16, reinterpret_cast<const hwy::float16_t*>(p)));
}
TALUS_FN Vec<double> load_f64(const F16* p) { return hn::PromoteTo(Vec<double>::D(), load_f32(p)); }
TALUS_FN Vec<double> load_f64(const F16* p, float factor) {
  const hn::Rebind<float, Vec<double>::D> df;
  return hn::PromoteTo(Vec<double>::D(), hn::Mul(load_f32(p), hn::Set(df, factor)));
}
#endif

// The same times a factor, multiplied as float or double.
template <class T>
TALUS_FN Vec<double> load_f64(const T* p, double factor) {
  return load_f64(p) * Vec<double>(factor);
}
TALUS_FN Vec<double> load_f64(const float* p, float factor) {
  const hn::Rebind<float, Vec<double>::D> d32;
  return hn::PromoteTo(Vec<double>::D(), hn::Mul(hn::LoadU(d32, p), hn::Set(d32, factor)));
}
TALUS_FN Vec<double> load_f64(const Bf16* p, float factor) {
  const hn::Rebind<uint16_t, Vec<double>::D> d16;
  const hn::Rebind<uint32_t, Vec<double>::D> d32;
  const hn::Rebind<float, Vec<double>::D> df;
  const auto half = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(p));
  const auto wide = hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(d32, half)));
  return hn::PromoteTo(Vec<double>::D(), hn::Mul(wide, hn::Set(df, factor)));
}
TALUS_FN Vec<double> load_f64(const double* p,
                              float factor) {  // no such gradient, but a text for it
  return load_f64(p, double(factor));
}

// The halves of a vector as doubles, in order.
TALUS_FN Vec<double> lower_f64(Vec<float> x) {
  const hn::Half<Vec<float>::D> half;
  return hn::PromoteTo(Vec<double>::D(), hn::LowerHalf(half, x.raw));
}
TALUS_FN Vec<double> upper_f64(Vec<float> x) {
  const hn::Half<Vec<float>::D> half;
  return hn::PromoteTo(Vec<double>::D(), hn::UpperHalf(half, x.raw));
}
