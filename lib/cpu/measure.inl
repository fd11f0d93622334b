// Sums of the gradients as they enter a step, one partial a tile. No include guard: compiled in the
// namespace of its target.

// From where the gradients lie: f32, f64 and bf16 widen in registers, which staging would double.
template <class Load, class T>
void measure_in_place(const PassCall& call, const Segment& g, const T* x, int64_t left, Load load) {
  for (int64_t i = 0; i < g.count; i += kTile) {
    TileSum tile;
    tile.clear();
    tile.add_terms<Sum::squares>(x + i, g.count - i < kTile ? g.count - i : kTile, left - i, load);
    *call.partial(0, g.tensor, (g.begin + i) / kTile) = tile.fold<Sum::squares>();
  }
}

// Any sum of any dtype, cut or not, through a block in L1.
template <class T>
[[gnu::noinline]] void measure_staged(const PassCall& call, const Segment& g, void* data,
                                      Dtype dtype, int64_t left) {
  alignas(64) T block[kTile];
  for (int64_t i = 0; i < g.count; i += kTile) {
    const int64_t n = g.count - i < kTile ? g.count - i : kTile;
    load_block(data, dtype, g.begin + i, n, left - i, block);
    if (call.entry) enter_block<true>(*call.entry, n, block);
    TileSum tile;
    tile.clear();
    tile.add_block(call.measured, block, n);
    *call.partial(0, g.tensor, (g.begin + i) / kTile) = tile.total(call.measured);
  }
}

// Squares of gradients that are not cut. T: the compute type, in which they are scaled.
template <class T, class Load>
void measure_squares(const PassCall& call, const Segment& g, void* data, Dtype dtype, int64_t left,
                     Load load) {
  switch (dtype) {
    case Dtype::f32: return measure_in_place(call, g, at<float>(data, g.begin), left, load);
    case Dtype::f64: return measure_in_place(call, g, at<double>(data, g.begin), left, load);
    case Dtype::bf16: return measure_in_place(call, g, at<Bf16>(data, g.begin), left, load);
    case Dtype::f16: return measure_staged<T>(call, g, data, dtype, left);
  }
}

template <class T>
void measure_segments(const PassCall& call, const Segment* first, const Segment* last) {
  const TableView& table = call.plan->table;
  const bool squares =
      call.measured == Sum::squares && !(call.entry && call.entry->limit != __builtin_inf());
  for (const Segment* g = first; g != last; ++g) {
    if (table.scalar_class[g->tensor] == kIdle) continue;
    void* const data = table.column[kGradient].data[g->tensor];
    if (!data) continue;  // a gradient of some rows is measured apart
    const Dtype dtype = table.column[kGradient].dtype[g->tensor];
    const int64_t left = table.count[g->tensor] - g->begin;
    if (!squares)
      measure_staged<T>(call, *g, data, dtype, left);
    else if (call.entry)
      measure_squares<T>(call, *g, data, dtype, left, LoadScaled<T>{T(call.entry->factor)});
    else
      measure_squares<T>(call, *g, data, dtype, left, LoadPlain());
  }
}
