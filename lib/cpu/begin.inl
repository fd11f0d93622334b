// What precedes the first step of a parameter: slots get their initial value, the master its start.
// No include guard: compiled in the namespace of its target.

template <class T>
void begin_segment(const PassCall& call, const BeginRow& row, const Segment& g, int slot_count) {
  const TableView& table = call.plan->table;
  const ColumnView& param = table.column[kValue];
  alignas(64) T value[kBlock], constant[kBlock];
  for (int64_t i = g.begin, end = g.begin + g.count; i < end; i += kBlock) {
    const int64_t n = end - i < kBlock ? end - i : kBlock, left = table.count[g.tensor] - i;
    const ColumnView& hidden = table.column[kHidden];
    if (hidden.data[g.tensor] && !table.hidden_given[g.tensor]) {
      load_block(param.data[g.tensor], param.dtype[g.tensor], i, n, left, value);
      store_block(hidden.data[g.tensor], hidden.dtype[g.tensor], i, n, left, value);
    }
    const int value_column = column_of(table, g.tensor, kValue);
    load_block(table.column[value_column].data[g.tensor],
               table.column[value_column].dtype[g.tensor], i, n, left, value);
    for (int k = 0; k < slot_count; ++k) {
      const ColumnView& c = table.column[kFirstSlot + k];
      if (!c.data[g.tensor]) continue;
      if (call.slots[k].shape == Shape::tensor) {
        if (i == 0) *at<double>(c.data[g.tensor], 0) = row.initial[k];
        continue;
      }
      for (T& x : constant) x = T(row.initial[k]);
      const bool copies = row.copies_param >> k & 1;
      store_block(c.data[g.tensor], c.dtype[g.tensor], i, n, left, copies ? value : constant);
    }
  }
}

template <class T>
void begin_segments(const PassCall& call, const Segment* first, const Segment* last) {
  for (const Segment* g = first; g != last; ++g) {
    const int32_t scalar_class = call.plan->table.scalar_class[g->tensor];
    if (scalar_class == kIdle || !call.begin_rows[scalar_class].first) continue;
    begin_segment<T>(call, call.begin_rows[scalar_class], *g, call.slot_count);
  }
}
