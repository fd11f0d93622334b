// Sums of squares of the gradients, one partial a tile. No include guard: compiled in the namespace
// of its target.

// From where the gradients lie: f32, f64 and bf16 widen in registers, which staging would double.
template <class T>
void measure_in_place(const PassCall& call, const Segment& g, const T* x, int64_t left) {
  for (int64_t i = 0; i < g.count; i += kTile) {
    TileSum tile;
    tile.clear();
    tile.add_terms<Sum::squares>(x + i, g.count - i < kTile ? g.count - i : kTile, left - i);
    *call.partial(0, g.tensor, (g.begin + i) / kTile) = tile.fold<Sum::squares>();
  }
}

void measure_staged(const PassCall& call, const Segment& g, void* data, Dtype dtype, int64_t left) {
  alignas(64) float block[kTile];
  for (int64_t i = 0; i < g.count; i += kTile) {
    const int64_t n = g.count - i < kTile ? g.count - i : kTile;
    load_block(data, dtype, g.begin + i, n, left - i, block);
    measure_in_place(call, {g.begin + i, n, g.tensor}, block, 0);
  }
}

void measure_segments(const PassCall& call, const Segment* first, const Segment* last) {
  const TableView& table = call.plan->table;
  for (const Segment* g = first; g != last; ++g) {
    if (table.scalar_class[g->tensor] == kIdle) continue;
    void* const data = table.column[kGradient].data[g->tensor];
    if (!data) continue;  // a gradient of some rows is measured apart
    const Dtype dtype = table.column[kGradient].dtype[g->tensor];
    const int64_t left = table.count[g->tensor] - g->begin;
    switch (dtype) {
      case Dtype::f32: measure_in_place(call, *g, at<float>(data, g->begin), left); break;
      case Dtype::f64: measure_in_place(call, *g, at<double>(data, g->begin), left); break;
      case Dtype::bf16: measure_in_place(call, *g, at<Bf16>(data, g->begin), left); break;
      case Dtype::f16: measure_staged(call, *g, data, dtype, left); break;
    }
  }
}
