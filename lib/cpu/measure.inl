// Sums of the gradients as they enter a step, one partial a tile. No include guard: compiled in the
// namespace of its target.

// From where the gradients lie: they widen in registers, which staging would double.
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
#if TALUS_F16C
    case Dtype::f16: return measure_in_place(call, g, at<F16>(data, g.begin), left, load);
#else
    case Dtype::f16: return measure_staged<T>(call, g, data, dtype, left);
#endif
  }
}

// By its bits: an exponent of ones is not finite. Several times as fast as a sum of what is widened.
template <class Bits, class T>
TALUS_FN bool any_not_finite(const T* x, int64_t n, int64_t left, Bits exponent) {
  Bits found = 0;
  for (int64_t i = 0; i < n; i += kAsk) {
    prefetch(x + i, left - i);
    for (int64_t k = i; k < ask_end(i, n); ++k) {
      Bits bits;
      __builtin_memcpy(&bits, x + k, sizeof bits);
      found |= Bits((bits & exponent) == exponent);
    }
  }
  return found != 0;
}

// A tile is 0 or infinite.
template <class Bits, class T>
[[gnu::noinline]] void glance_at(const PassCall& call, const Segment& g, const T* x, int64_t left,
                                 Bits exponent) {
  for (int64_t i = 0; i < g.count; i += kTile) {
    const int64_t n = g.count - i < kTile ? g.count - i : kTile;
    *call.partial(0, g.tensor, (g.begin + i) / kTile) =
        any_not_finite(x + i, n, left - i, exponent) ? __builtin_inf() : 0;
  }
}

TALUS_FN void glance(const PassCall& call, const Segment& g, void* data, Dtype dtype,
                     int64_t left) {
  switch (dtype) {
    case Dtype::f32:
      return glance_at(call, g, at<float>(data, g.begin), left, uint32_t{0x7f800000});
    case Dtype::f64:
      return glance_at(call, g, at<double>(data, g.begin), left, uint64_t{0x7ff0000000000000});
    case Dtype::bf16: return glance_at(call, g, at<Bf16>(data, g.begin), left, uint16_t{0x7f80});
    case Dtype::f16: return glance_at(call, g, at<F16>(data, g.begin), left, uint16_t{0x7c00});
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
    if (call.glance)
      glance(call, *g, data, dtype, left);
    else if (!squares)
      measure_staged<T>(call, *g, data, dtype, left);
    else if (call.entry)
      measure_squares<T>(call, *g, data, dtype, left, LoadScaled<T>{T(call.entry->factor)});
    else
      measure_squares<T>(call, *g, data, dtype, left, LoadPlain());
  }
}
