// A fresh emulation, and nothing left on the device at the end.
#pragma once
#include <catch2/catch_test_macros.hpp>

#include "tests/cuda/emu/cudart/emu.h"

struct Fresh {
  Fresh() {
    emu_reset();
    before = emu_live_allocations();
  }
  ~Fresh() {
    emu_reset();
    CHECK(emu_live_allocations() == before);
  }
  size_t before = 0;
};
