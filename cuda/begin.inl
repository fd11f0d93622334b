// What precedes the first step of a parameter: slots get their initial value, the master its start.
// No include guard: compiled in the namespace of the kernels.

template <class T>
TALUS_FN void begin_piece(const BeginArgs& args, const BeginRow& row, const Piece& piece) {
  const Tables& tables = args.tables;
  const Format format = tables.formats[piece.tensor];
  const bool has_master = tables.columns[kHidden * tables.tensors + piece.tensor] != nullptr;
  const bool copies = has_master && (format.bits & kHiddenGiven) == 0;
  const auto param = operand_of<T>(tables, piece, format, kValue);
  const auto hidden = operand_of<T>(tables, piece, format, has_master ? kHidden : kValue);
  for (uint32_t i = threadIdx.x; i < piece.count; i += blockDim.x) {
    const T value = copies ? param.load_one(i) : hidden.load_one(i);
    if (copies) hidden.template store<1>(&value, i);
    for (uint32_t k = 0; k < args.slot_count; ++k) {
      void* const column = tables.columns[(kFirstSlot + k) * tables.tensors + piece.tensor];
      if (!column) continue;
      if (args.tensor_slots >> k & 1) {
        double* const scalar = static_cast<double*>(column);
        TALUS_ASSUME_GLOBAL(scalar);
        if (piece.begin == 0 && i == 0) *scalar = row.initial[k];
        continue;
      }
      const auto slot = operand_of<T>(tables, piece, format, int(kFirstSlot + k));
      const T start = row.copies_param >> k & 1 ? value : T(row.initial[k]);
      slot.template store<1>(&start, i);
    }
  }
}

// Of an ordered step: it is taken, and its rows are those of a class that had no step when it was ordered.
TALUS_FN bool begins(const BeginArgs& args) {
  if (args.order == Order::none) return true;
  const StepControl& control = *args.tables.control;
  if (args.order == Order::decided) return control.live && control.candidate == 0;
  return candidate_of(*args.tables.order, control, false) == 0;
}

template <class T>
__global__ void __launch_bounds__(kThreads) begin_kernel(const __grid_constant__ BeginArgs args) {
  const Tables& tables = args.tables;
  const uint32_t chunk = args.first_chunk + blockIdx.x;
  if (!begins(args)) return;
  for (uint32_t p = tables.chunk_first[chunk], end = tables.chunk_first[chunk + 1]; p < end; ++p) {
    const Piece piece = tables.pieces[p];
    const int32_t scalar_class = tables.members[piece.tensor].scalar_class;
    if (scalar_class == kIdle || !tables.begin_rows[scalar_class].first) continue;
    begin_piece<T>(args, tables.begin_rows[scalar_class], piece);
  }
}
