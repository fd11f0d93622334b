// Sums of squares of the gradients, one partial a tile. No include guard: compiled in the namespace
// of its target.

// From where the gradients lie: f32, f64 and bf16 widen in registers, which staging would double.
template <class T>
void measure_in_place(const PassCall& call, const Segment& g, const T* x) {
  TileSum tile;
  for (int64_t i = 0; i < g.count; i += kBlock) {
    const int64_t n = g.count - i < kBlock ? g.count - i : kBlock;
    if (i % kTile == 0) tile.clear();
    tile.add(Sum::squares, x + i, n);
    if (i % kTile + n == kTile || i + n == g.count)
      *call.partial(0, g.tensor, (g.begin + i) / kTile) = tile.total(Sum::squares);
  }
}

void measure_staged(const PassCall& call, const Segment& g) {
  const ColumnView& gradient = call.plan->table.column[kGradient];
  alignas(64) float block[kTile];
  for (int64_t i = 0; i < g.count; i += kTile) {
    const int64_t n = g.count - i < kTile ? g.count - i : kTile;
    load_block(gradient.data[g.tensor], gradient.dtype[g.tensor], g.begin + i, n, block);
    measure_in_place(call, {g.begin + i, n, g.tensor}, block);
  }
}

void measure_segments(const PassCall& call, const Segment* first, const Segment* last) {
  const TableView& table = call.plan->table;
  for (const Segment* g = first; g != last; ++g) {
    if (table.scalar_class[g->tensor] == kIdle) continue;
    void* const data = table.column[kGradient].data[g->tensor];
    switch (table.column[kGradient].dtype[g->tensor]) {
      case Dtype::f32: measure_in_place(call, *g, at<float>(data, g->begin)); break;
      case Dtype::f64: measure_in_place(call, *g, at<double>(data, g->begin)); break;
      case Dtype::bf16: measure_in_place(call, *g, at<Bf16>(data, g->begin)); break;
      case Dtype::f16: measure_staged(call, *g); break;
    }
  }
}
