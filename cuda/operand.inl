// How a kernel reaches one operand: raw words of W elements first, the switch on dtype after them, so
// that all operands of a thread are on their way before the first is converted. No include guard:
// compiled in the namespace of the kernels.

// N bytes as few accesses of at most 16.
template <int N>
struct alignas(N < 16 ? N : 16) Bytes {
  uint32_t word[N / 4];
};
template <>
struct alignas(2) Bytes<2> {
  uint16_t half;
};

// W elements of T, or half as many words of a dtype of half its size.
template <class T, int W>
struct Words {
  uint32_t word[W * sizeof(T) / 4];
};

template <int N, class To>
TALUS_FN void fetch_bytes(const char* p, To& to) {
  TALUS_ASSUME_GLOBAL(p);
  const Bytes<N> from = *reinterpret_cast<const Bytes<N>*>(p);
  if constexpr (N == 2) {
    to.word[0] = from.half;
  } else {
#pragma unroll
    for (int i = 0; i < N / 4; ++i) to.word[i] = from.word[i];
  }
}
template <int N, class From>
TALUS_FN void put_bytes(const From& from, char* p) {
  Bytes<N> to;
  if constexpr (N == 2) {
    to.half = uint16_t(from.word[0]);
  } else {
#pragma unroll
    for (int i = 0; i < N / 4; ++i) to.word[i] = from.word[i];
  }
  TALUS_ASSUME_GLOBAL(p);
  *reinterpret_cast<Bytes<N>*>(p) = to;
}

// Element w of raw words, and the words of elements.
template <class X>
TALUS_FN X element(const uint32_t* word, int w) {
  if constexpr (sizeof(X) == 2) return X{uint16_t(word[w / 2] >> (w % 2 * 16))};
  if constexpr (sizeof(X) == 4) return __builtin_bit_cast(X, word[w]);
  if constexpr (sizeof(X) == 8)
    return __builtin_bit_cast(X, uint64_t(word[2 * w + 1]) << 32 | word[2 * w]);
}
TALUS_FN void put_element(uint16_t x, uint32_t* word, int w) {
  word[w / 2] = w % 2 ? word[w / 2] | uint32_t(x) << 16 : x;
}
TALUS_FN void put_element(Bf16 x, uint32_t* word, int w) { put_element(x.bits, word, w); }
TALUS_FN void put_element(F16 x, uint32_t* word, int w) { put_element(x.bits, word, w); }
TALUS_FN void put_element(float x, uint32_t* word, int w) { word[w] = bits_of(x); }
TALUS_FN void put_element(double x, uint32_t* word, int w) {
  const uint64_t u = __builtin_bit_cast(uint64_t, x);
  word[2 * w] = uint32_t(u);
  word[2 * w + 1] = uint32_t(u >> 32);
}
template <class X, class T, int W>
TALUS_FN void widen_words(const Words<T, W>& raw, T* x) {
#pragma unroll
  for (int w = 0; w < W; ++w) {
    if constexpr (sizeof(X) == 2)
      x[w] = T(widen(element<X>(raw.word, w)));
    else
      x[w] = T(element<X>(raw.word, w));
  }
}

template <class X, class T>
TALUS_FN X narrowed(T x) {
  if constexpr (kDtypeOf<X> == Dtype::bf16) return to_bf16(x);
  if constexpr (kDtypeOf<X> == Dtype::f16) return to_f16(x);
  if constexpr (sizeof(X) > 2) return X(x);
}
template <class X, class T, int W>
TALUS_FN void narrow_words(const T* x, Words<T, W>& raw) {
#pragma unroll
  for (int w = 0; w < W; ++w) put_element(narrowed<X>(x[w]), raw.word, w);
}

// A column of one tensor from some element on. kDirect: it is of type T, and no switch is left.
template <class T, bool kDirect>
struct Operand {
  char* data;
  Dtype dtype_;

  TALUS_FN Dtype dtype() const { return kDirect ? kDtypeOf<T> : dtype_; }
  TALUS_FN bool wide() const { return dtype() == kDtypeOf<T>; }  // else half the size of T
  TALUS_FN uint32_t size() const { return wide() ? sizeof(T) : sizeof(T) / 2; }
  TALUS_FN char* at(uint32_t i) const { return data + uint64_t(i) * size(); }

  template <int W>
  TALUS_FN void fetch(uint32_t i, Words<T, W>& raw) const {
    if (wide())
      fetch_bytes<W* int(sizeof(T))>(at(i), raw);
    else
      fetch_bytes<W* int(sizeof(T)) / 2>(at(i), raw);
  }
  template <int W>
  TALUS_FN void decode(const Words<T, W>& raw, T* x) const {
    if (wide()) return widen_words<T>(raw, x);
    if constexpr (sizeof(T) == 8)
      widen_words<float>(raw, x);
    else if (dtype() == Dtype::bf16)
      widen_words<Bf16>(raw, x);
    else
      widen_words<F16>(raw, x);
  }
  template <int W>
  TALUS_FN void store(const T* x, uint32_t i) const {
    Words<T, W> raw;
    if (wide()) {
      narrow_words<T>(x, raw);
      return put_bytes<W* int(sizeof(T))>(raw, at(i));
    }
    if constexpr (sizeof(T) == 8)
      narrow_words<float>(x, raw);
    else if (dtype() == Dtype::bf16)
      narrow_words<Bf16>(x, raw);
    else
      narrow_words<F16>(x, raw);
    put_bytes<W* int(sizeof(T)) / 2>(raw, at(i));
  }
  TALUS_FN T load_one(uint32_t i) const {
    Words<T, 1> raw;
    T x;
    fetch<1>(i, raw);
    decode<1>(raw, &x);
    return x;
  }
};

TALUS_FN Dtype dtype_of(Format format, int column) {
  return Dtype(format.bits >> (2 * column) & 3);
}

// Where column `column` of the tensor of a piece begins, and as an operand.
TALUS_FN char* column_of(const Tables& tables, const Piece& piece, int column, uint32_t size) {
  return static_cast<char*>(tables.columns[column * tables.tensors + piece.tensor]) +
         piece.begin * size;
}
template <class T>
TALUS_FN Operand<T, false> operand_of(const Tables& tables, const Piece& piece, Format format,
                                      int column) {
  Operand<T, false> out{nullptr, dtype_of(format, column)};
  out.data = column_of(tables, piece, column, out.size());
  return out;
}
