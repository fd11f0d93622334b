// The one traversal of all rules on a CPU: stage, update, unstage, sum.
// A rule is compiled for float and double only. Operands of another dtype pass through a block in
// L1, so code grows as rules + dtypes; compiled for every mix it was five times as large and no
// faster in memory (AdamW, 24M parameters, 1 thread, shared 2-core Zen 5, 2026-11-30).
// No include guard: compiled in the namespace of its target.

// Pointers of one step of the loop: operands in the order of kUses, sums in that of kSums.
template <class Pass, class T>
struct Operands {
  T* use[Pass::kUseCount];
  int64_t left[Pass::kUseCount];  // elements to the end of the tensor; staged: 0. See prefetch()
  TileSum* sum;                   // of the tile that it lies in, where the pass has sums
  T (*term)[kBlock];              // of a block, where the pass has summands of its own
};

// Class-wide and part-wide values, by value into the loop: vector stores may alias anything, so a
// reference would be read again each turn.
template <class Rule, class T>
struct Uniform {
  typename Rule::template Scalars<T> scalars;
  T gradient_factor;
  T part[kMaxPartValues];
};

template <class Rule, class Pass, class Access, class T>
TALUS_FN void update_lanes(const Uniform<Rule, T>& u, Access access, int64_t i,
                           const Operands<Pass, T>& at) {
  typename Access::V x[Pass::kUseCount], term[Pass::kSumCount + 1];  // + 1: an array has some
  for (int k = 0; k < Pass::kUseCount; ++k) {
    if (Pass::kUses[k].read) x[k] = access.load(at.use[k] + i);
    if (Pass::kUses[k].column == kGradient) x[k] = x[k] * typename Access::V(u.gradient_factor);
  }
  Pass::update(u.scalars, u.part, x, term);
  for (int k = 0; k < Pass::kUseCount; ++k)
    if (Pass::kUses[k].write) access.store(x[k], at.use[k] + i);
  if constexpr (kHasOwnSum<Pass>)
    for (int k = 0; k < kTermCount<Pass>; ++k) access.store(term[k], at.term[k] + i);
  else
    for (int k = 0; k < Pass::kSumCount; ++k)
      at.sum[k].add(Pass::kSums[k], access.valid(term[k]), i % kTileLanes);
}

template <class Rule, class Pass, class T>
TALUS_FN void update_span(const Uniform<Rule, T> u, int64_t n, const Operands<Pass, T> at) {
  int64_t i = 0;
  for (const int64_t whole = n / kLanes<T> * kLanes<T>; i < whole;) {
    if (n >= kAsk)
      for (int k = 0; k < Pass::kUseCount; ++k) prefetch(at.use[k] + i, at.left[k] - i);
    for (const int64_t end = ask_end(i, whole); i < end; i += kLanes<T>)
      update_lanes<Rule, Pass>(u, Whole<T>(), i, at);
  }
#if TALUS_MASKED_TAIL
  if (i < n) update_lanes<Rule, Pass>(u, FirstN<T>(n - i), i, at);
#else
  for (; i < n; ++i) update_lanes<Rule, Pass>(u, One<T>(), i, at);
#endif
}

// The same behind a call, which costs 100 instructions and saves a third of a rule's object: where
// they do not count, in blocks and for f64.
template <class Rule, class Pass, class T>
[[gnu::noinline]] void update_span_apart(const Uniform<Rule, T>& u, int64_t n,
                                         const Operands<Pass, T>& at) {
  update_span<Rule, Pass, T>(u, n, at);
}

// The tensor behind a use: the value is the master where there is one.
TALUS_FN int column_of(const TableView& table, int64_t tensor, int column) {
  return column == kValue && table.column[kHidden].data[tensor] ? int(kHidden) : column;
}

// The pass's own summands of a block, in double as all of a summand is.
template <class Rule, class Pass, class T>
void evaluate_summands(const Row& row, const T* a, const T* b, int64_t n, double* out) {
  typename Rule::template Scalars<double> s;
  __builtin_memcpy(&s, row.scalar, sizeof s);
  int64_t i = 0;
  for (; i + kLanes<double> <= n; i += kLanes<double>)
    Whole<double>().store(Pass::summand(s, load_f64(a + i), load_f64(b + i)), out + i);
  for (; i < n; ++i) out[i] = Pass::summand(s, double(a[i]), double(b[i]));
}

// The n terms of each sum of a block into its tile.
template <class Rule, class Pass, class T>
void add_block(const Row& row, const T (*term)[kBlock], int64_t n, TileSum* tile) {
  for (int k = 0; k < Pass::kSumCount; ++k) {
    if (Pass::kSums[k] != Sum::own) {
      tile[k].add_block(Pass::kSums[k], term[k], n);
      continue;
    }
    alignas(64) double summand[kBlock];
    evaluate_summands<Rule, Pass>(row, term[k], term[Pass::kSumCount], n, summand);
    tile[k].add_block(Sum::plain, summand, n);
  }
}

// One segment, block by block. An operand of type T is used in place, any other through `block`.
// Sums are taken in the loop: apart, over terms in L1, memory rests meanwhile (lars at 0.89 of the
// roof, now 0.94; novograd at 0.86, now 0.92; f32 in memory, 1 thread, 2-vCPU Intel Xeon,
// 2026-11-30).
template <class Rule, class Pass, class T>
[[gnu::noinline]] void update_staged(const Uniform<Rule, T>& u, const PassCall& call,
                                     const Segment& g) {
  const TableView& table = call.plan->table;
  const bool direct = table.path[g.tensor] == Path::direct && !call.entry;
  const int64_t whole = !kHasOwnSum<Pass> && direct ? kTile : kBlock;
  alignas(64) T block[Pass::kUseCount][kBlock],
      term[kHasOwnSum<Pass> ? kTermCount<Pass> : 1][kBlock];
  TileSum tile[Pass::kSumCount + 1];
  Operands<Pass, T> at_block;
  at_block.sum = tile;
  at_block.term = term;
  for (int64_t i = g.begin, end = g.begin + g.count; i < end; i += whole) {
    const int64_t n = end - i < whole ? end - i : whole, left = table.count[g.tensor] - i;
    for (int k = 0; k < Pass::kSumCount; ++k)
      if (i % kTile == 0) tile[k].clear();
    for (int k = 0; k < Pass::kUseCount; ++k) {
      const ColumnView& c = table.column[column_of(table, g.tensor, Pass::kUses[k].column)];
      const Dtype dtype = c.dtype[g.tensor];
      const bool enters = call.entry && Pass::kUses[k].column == kGradient;
      const bool in_place = dtype == kDtypeOf<T> && !enters;
      at_block.use[k] = in_place ? at<T>(c.data[g.tensor], i) : block[k];
      at_block.left[k] = in_place ? left : 0;
      if (!in_place && Pass::kUses[k].read)
        load_block(c.data[g.tensor], dtype, i, n, left, block[k]);
      if (enters) enter_block<false>(*call.entry, n, block[k]);
    }
    update_span_apart<Rule, Pass, T>(u, n, at_block);
    for (int k = 0; k < Pass::kUseCount; ++k) {
      if (!Pass::kUses[k].write) continue;
      const int column = column_of(table, g.tensor, Pass::kUses[k].column);
      const ColumnView& c = table.column[column];
      if (c.dtype[g.tensor] != kDtypeOf<T>)
        store_block(c.data[g.tensor], c.dtype[g.tensor], i, n, Pass::kUses[k].read ? 0 : left,
                    block[k]);
      if (column == kHidden) {  // the visible parameter is the master's rounded copy
        const ColumnView& visible = table.column[kValue];
        store_block(visible.data[g.tensor], visible.dtype[g.tensor], i, n, left, at_block.use[k]);
      }
    }
    if constexpr (kHasOwnSum<Pass>)
      add_block<Rule, Pass, T>(call.rows[table.scalar_class[g.tensor]], term, n, tile);
    for (int k = 0; k < Pass::kSumCount; ++k)
      if ((i + n) % kTile == 0 || i + n == end)
        *call.partial(k, g.tensor, i / kTile) = tile[k].total(Pass::kSums[k]);
  }
}

template <class Rule, class Pass, class T>
TALUS_FN void update_segment(const Uniform<Rule, T>& u, const PassCall& call, const Segment& g) {
  const TableView& table = call.plan->table;
  if (Pass::kSumCount > 0 || table.path[g.tensor] == Path::staged || call.entry)
    return update_staged<Rule, Pass, T>(u, call, g);
  Operands<Pass, T> operands;
  for (int k = 0; k < Pass::kUseCount; ++k) {
    operands.use[k] = at<T>(table.column[Pass::kUses[k].column].data[g.tensor], g.begin);
    operands.left[k] = table.count[g.tensor] - g.begin;
  }
  if constexpr (kDtypeOf<T> == Dtype::f64)
    update_span_apart<Rule, Pass, T>(u, g.count, operands);
  else
    update_span<Rule, Pass, T>(u, g.count, operands);
}

template <class Rule, class T>
TALUS_FN void load_row(const Row& row, Uniform<Rule, T>& u) {
  constexpr int kCount = int(sizeof u.scalars / sizeof(T));
  T values[kCount];
  for (int i = 0; i < kCount; ++i) values[i] = T(row.scalar[i]);
  __builtin_memcpy(&u.scalars, values, sizeof values);
  u.gradient_factor = T(row.gradient_factor);
}

// Segments of one key: scalars are read where the class changes, part values for each tensor.
template <class Rule, class Pass, class T>
void update_segments(const PassCall& call, const Segment* first, const Segment* last) {
  Uniform<Rule, T> u;
  int32_t loaded = kIdle;
  for (const Segment* g = first; g != last; ++g) {
    const int32_t scalar_class = call.plan->table.scalar_class[g->tensor];
    if (scalar_class == kIdle) continue;  // no gradient: the parameter is left out whole
    if (!call.plan->table.column[kGradient].data[g->tensor]) continue;  // it has one of some rows
    if (scalar_class != loaded) load_row(call.rows[scalar_class], u);
    loaded = scalar_class;
    if (call.part_values)
      for (int k = 0; k < kMaxPartValues; ++k)
        u.part[k] = T(call.part_values[g->tensor * kMaxPartValues + k]);
    update_segment<Rule, Pass, T>(u, call, *g);
  }
}
