// Sums of squares of the gradients, one partial a tile. No include guard: compiled in the namespace
// of its target.

template <class T>
void measure_segment(const PassCall& call, const Segment& g) {
  const ColumnView& gradient = call.plan->table.column[kGradient];
  alignas(64) T block[kBlock];
  TileSum tile;
  for (int64_t i = g.begin, end = g.begin + g.count; i < end; i += kBlock) {
    const int64_t n = end - i < kBlock ? end - i : kBlock;
    if (i % kTile == 0) tile.clear();
    load_block(gradient.data[g.tensor], gradient.dtype[g.tensor], i, n, block);
    tile.add(Sum::squares, block, n);
    if (i % kTile + n == kTile || i + n == end)
      *call.partial(0, g.tensor, i / kTile) = tile.total(Sum::squares);
  }
}

template <class T>
void measure_segments(const PassCall& call, const Segment* first, const Segment* last) {
  for (const Segment* g = first; g != last; ++g)
    if (call.plan->table.scalar_class[g->tensor] != kIdle) measure_segment<T>(call, *g);
}
