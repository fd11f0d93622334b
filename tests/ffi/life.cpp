// Ten thousand lives of everything that has a handle, over talus.hpp: the resident set stops growing.
#include <talus.hpp>

#include "resident.h"

#include <array>

namespace {

void live() {
  std::array<float, 6> w = {1, 2, 3, 4, 5, 6}, v = w;
  const std::array<float, 6> g = {1, 1, 1, 1, 1, 1};
  talus::Optimizer opt("adamw");
  const talus::Scaler scaler;
  opt.attach(scaler);
  opt.add(w, g, {.shape = {2, 3}});
  opt.add(v, g, {.group = opt.add_group("lamb")});
  const talus::Schedule scaled = talus::Schedule::lambda(
      [held = std::string(64, 'x')](int64_t t) { return t < int64_t(held.size()) ? 1 : 0.5; });
  opt.attach("lr", talus::Schedule::chained({talus::Schedule("linear"), scaled}));
  opt.clip_grad_norm(1);
  opt.step([] { return 1.0; });
  talus::Scaler(scaler).update();
  opt.set_note("epoch", "1");
  const std::string bytes = opt.save_bytes();
  talus::Optimizer moved = std::move(opt);
  moved.load_bytes(bytes);
  try {
    moved.set("no_such", 1);
  } catch (const talus::Error&) {}
}

}  // namespace

int main() { return grows(live); }
