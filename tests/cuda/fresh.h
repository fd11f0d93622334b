// A fresh emulation, nothing left on the device at the end, and what a step may not do in between.
#pragma once
#include <catch2/catch_test_macros.hpp>

#include <string>

#include "tests/cuda/emu/cudart/emu.h"

struct Fresh {
  Fresh() {
    emu_reset();
    before = emu_live_allocations();
  }
  ~Fresh() {
    if (const std::string fault = emu_last_fault(); !fault.empty()) WARN(fault);
    emu_reset();
    CHECK(emu_live_allocations() == before);
  }
  size_t before = 0;
};

// Calls of the log from `from` on that a steady step may not make.
inline std::string forbidden(size_t from) {
  for (size_t i = from; i < emu_log_size(); ++i) {
    const emu_record r = emu_log_at(i);
    for (const int kind : {EMU_SYNC, EMU_ALLOCATE, EMU_RELEASE, EMU_COPY_PAGEABLE})
      if (r.kind == kind) return r.call;
  }
  return "";
}
