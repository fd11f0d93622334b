// The one traversal of all rules on a device: a block takes the pieces of one chunk, in turn. Results
// know nothing of blocks, threads and addresses. No include guard: compiled in the namespace of the
// kernels.

// f(0), f(1), ... f(kCount - 1) with constants, so that tables of a rule need no device memory.
template <int kValue>
struct Constant {
  TALUS_FN constexpr operator int() const { return kValue; }
};
template <class F, int... k>
TALUS_FN void each_of(F f, std::integer_sequence<int, k...>) {
  (f(Constant<k>()), ...);
}
template <int kCount, class F>
TALUS_FN void each(F f) {
  each_of(f, std::make_integer_sequence<int, kCount>());
}

// How gradients enter, in the compute type.
template <class T>
struct Entry {
  T factor, limit;
  bool cuts = false;
};

// What is the same for all elements of a tensor.
template <class Rule, class T>
struct Uniform {
  typename Rule::template Scalars<T> scalars;
  T gradient_factor;
  T part[kMaxPartValues];
  Entry<T> entry;
};

// Whether a pass is a measure's, which reads no rows and precedes the decision on its step.
template <class Rule>
inline constexpr bool kMeasures = std::is_empty_v<typename Rule::template Scalars<float>>;

// kMarks: what is not finite stays as it is, for the sums that must not miss it behind the cut.
template <bool kMarks, class T>
TALUS_FN T entered(const Entry<T>& entry, T x) {
  const T whole = x * entry.factor;
  T cut = whole > entry.limit ? entry.limit : whole;
  cut = cut < -entry.limit ? -entry.limit : cut;
  if constexpr (kMarks) return is_finite(whole) ? cut : whole;
  return cut;
}

template <class Rule, class T>
TALUS_FN void load_row(const Tables& tables, int32_t scalar_class, Uniform<Rule, T>& u) {
  constexpr int kCount = int(sizeof u.scalars / sizeof(T));
  const Row& row = row_of(tables, scalar_class);
  T values[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) values[i] = T(row.scalar[i]);
  __builtin_memcpy(&u.scalars, values, sizeof values);
  u.gradient_factor = T(gradient_factor(tables, row));
}

// Before all else of a kernel. False: the step is left out.
template <class Rule, class T>
TALUS_FN bool set_entry(const Tables& tables, const EntryArgs& args, Uniform<Rule, T>& u) {
  u.entry.cuts = args.cuts != 0;
  if constexpr (kMeasures<Rule>) {
    const GradientEntry entry = entry_of(tables, args.entry);
    u.entry.factor = T(entry.factor);
    u.entry.limit = T(entry.limit);
    u.entry.cuts = u.entry.cuts && (entry.factor != 1 || is_finite(entry.limit));
    u.gradient_factor = u.entry.cuts ? T(1) : u.entry.factor;
    return true;
  }
  if (!is_taken(tables)) return false;
  if (u.entry.cuts) {
    const GradientEntry entry = decided_entry(tables, args.entry);
    u.entry.factor = T(entry.factor);
    u.entry.limit = T(entry.limit);
  }
  return true;
}

// The operands of one piece in the order of kUses, dtypes packed: they are asked for at each access,
// and a register each would spill. The value is the master where there is one, and then operand
// kVisible is the parameter, its rounded copy.
template <class Pass, class T, bool kDirect>
struct Operands {
  static constexpr int kVisible = Pass::kUseCount;
  char* data[Pass::kUseCount + 1];
  uint32_t dtypes;
  bool has_visible;

  TALUS_FN Operand<T, kDirect> operator[](int k) const {
    return {data[k], Dtype(dtypes >> (2 * k) & 3)};
  }
  TALUS_FN void set(int k, const Tables& tables, const Piece& piece, Format format, int column) {
    dtypes |= uint32_t(dtype_of(format, column)) << (2 * k);
    data[k] = column_of(tables, piece, column, (*this)[k].size());
  }
};

template <class Pass>
constexpr bool writes_value() {
  for (int k = 0; k < Pass::kUseCount; ++k)
    if (Pass::kUses[k].column == kValue && Pass::kUses[k].write) return true;
  return false;
}
template <class Pass>
inline constexpr bool kWritesValue = writes_value<Pass>();

template <class Pass, class T, bool kDirect>
TALUS_FN Operands<Pass, T, kDirect> operands_of(const Tables& tables, const Piece& piece) {
  const Format format = kDirect ? Format{} : tables.formats[piece.tensor];
  const bool has_master = !kDirect && tables.columns[kHidden * tables.tensors + piece.tensor];
  Operands<Pass, T, kDirect> out;
  out.dtypes = 0;
  each<Pass::kUseCount>([&](auto k) {
    constexpr int kColumn = Pass::kUses[k].column;
    out.set(k, tables, piece, format, kColumn == kValue && has_master ? int(kHidden) : kColumn);
  });
  out.has_visible = kWritesValue<Pass> && has_master;
  if (out.has_visible) out.set(out.kVisible, tables, piece, format, kValue);
  return out;
}

// Loads W elements at i of each operand, updates and stores them; leaves their terms.
template <class Rule, int W, class Pass, class T, bool kDirect>
TALUS_FN void update_some(const Uniform<Rule, T>& u, const Operands<Pass, T, kDirect>& at,
                          uint32_t i, T (*term)[Pass::kSumCount + 1]) {
  Words<T, W> raw[Pass::kUseCount];
  T x[Pass::kUseCount][W];
  each<Pass::kUseCount>([&](auto k) {
    if constexpr (Pass::kUses[k].read) at[k].fetch(i, raw[k]);
  });
  each<Pass::kUseCount>([&](auto k) {
    if constexpr (Pass::kUses[k].read) at[k].template decode<W>(raw[k], x[k]);
  });
#pragma unroll
  for (int w = 0; w < W; ++w) {
    T element[Pass::kUseCount];
    each<Pass::kUseCount>([&](auto k) {
      if constexpr (Pass::kUses[k].read) element[k] = x[k][w];
      if constexpr (Pass::kUses[k].column == kGradient) {
        if constexpr (!kDirect)
          if (u.entry.cuts) element[k] = entered<kMeasures<Rule>>(u.entry, element[k]);
        element[k] = element[k] * u.gradient_factor;
      }
    });
    Pass::update(u.scalars, u.part, element, term[w]);
    each<Pass::kUseCount>([&](auto k) {
      if constexpr (Pass::kUses[k].write) x[k][w] = element[k];
    });
  }
  each<Pass::kUseCount>([&](auto k) {
    if constexpr (Pass::kUses[k].write) at[k].template store<W>(x[k], i);
    if constexpr (Pass::kUses[k].write && Pass::kUses[k].column == kValue)
      if (at.has_visible) at[at.kVisible].template store<W>(x[k], i);
  });
}

// How the n elements of a piece are cut: `head` single ones up to an address where every operand
// is aligned for W, `vectors` of W, then `tail` single ones. Decided by piece, never by tensor: an odd
// length or start costs at most 2 (W - 1) single elements. Operands that are aligned nowhere
// together: all head.
struct Cut {
  uint32_t head, vectors, tail;
};

template <class T, bool kDirect>
TALUS_FN uint32_t misaligned(const Operand<T, kDirect>& at, uint32_t i) {
  return uint32_t(reinterpret_cast<uintptr_t>(at.at(i))) & 15;
}

template <int W, class Pass, class T, bool kDirect>
TALUS_FN Cut cut_piece(const Operands<Pass, T, kDirect>& at, uint32_t n) {
  uint32_t head = 0;
  bool narrow = false;  // the smallest elements need the longest head
  const auto propose = [&](const Operand<T, kDirect>& x) {
    if (narrow && x.wide()) return;
    narrow = !x.wide();
    head = ((16 - misaligned(x, 0)) & 15) / x.size();
  };
  each<Pass::kUseCount>([&](auto k) { propose(at[k]); });
  if (at.has_visible) propose(at[at.kVisible]);
  uint32_t off = at.has_visible ? misaligned(at[at.kVisible], head) : 0;
  each<Pass::kUseCount>([&](auto k) { off |= misaligned(at[k], head); });
  if (off != 0 || head > n) return {n, 0, 0};
  const uint32_t vectors = (n - head) / W;
  return {head, vectors, n - head - vectors * W};
}

// An element pass over one piece, by the whole block.
template <class Rule, class Pass, class T, bool kDirect>
TALUS_FN void update_piece(const Uniform<Rule, T>& u, const Operands<Pass, T, kDirect>& at,
                           uint32_t n) {
  // 16 bytes of the smallest dtype; but f64 and five operands want the registers.
  constexpr int W = kDirect || sizeof(T) == 8 ? 16 / sizeof(T) : Pass::kUseCount > 4 ? 4 : 8;
  T no_term[W][1];
  const Cut cut = cut_piece<W>(at, n);
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < cut.vectors; i += blockDim.x)
    update_some<Rule, W>(u, at, cut.head + i * W, no_term);
  const uint32_t body = cut.vectors * W;
#pragma unroll 1
  for (uint32_t i = threadIdx.x; i < cut.head + cut.tail; i += blockDim.x)
    update_some<Rule, 1>(u, at, i < cut.head ? i : i + body, no_term);
}

// Calls f(piece) for the pieces of this block's chunk whose tensors have a gradient, with the
// scalars of each in u.
template <class Pass, class Rule, class T, class F>
TALUS_FN void for_each_piece(const PassArgs& args, Uniform<Rule, T>& u, F f) {
  const Tables& tables = args.tables;
  const uint32_t chunk = args.first_chunk + blockIdx.x;
  int32_t loaded = kIdle;
#pragma unroll 1
  for (uint32_t p = tables.chunk_first[chunk], end = tables.chunk_first[chunk + 1]; p < end; ++p) {
    const Piece piece = tables.pieces[p];
    // Without a gradient the parameter is left out whole; one of some rows is taken elsewhere.
    if (!tables.columns[kGradient * tables.tensors + piece.tensor]) continue;
    const int32_t scalar_class = tables.members[piece.tensor].scalar_class;
    if constexpr (!kMeasures<Rule>)
      if (scalar_class != loaded) load_row(tables, scalar_class, u);
    loaded = scalar_class;
    if (args.has_parts) {
#pragma unroll
      for (int k = 0; k < kMaxPartValues; ++k)
        u.part[k] = T(tables.part_values[int64_t(piece.tensor) * kMaxPartValues + k]);
    }
    f(piece);
  }
}

template <class T, bool kDirect>
inline constexpr Instance kInstance = sizeof(T) == 8 ? Instance::f64
                                      : kDirect      ? Instance::direct
                                                     : Instance::mixed;

template <class Rule, class Pass, class T, bool kDirect>
__global__ void __launch_bounds__(kThreads,
                                  resident_blocks(kArch, kInstance<T, kDirect>, Pass::kUseCount))
    update_kernel(const __grid_constant__ PassArgs args) {
  Uniform<Rule, T> u;
  if (!set_entry(args.tables, args.entry, u)) return;
  for_each_piece<Pass>(args, u, [&](const Piece& piece) {
    update_piece<Rule>(u, operands_of<Pass, T, kDirect>(args.tables, piece), piece.count);
  });
}
