// A host built with -fno-exceptions and -fno-rtti: members that return the status, and what becomes
// of a failure of one that cannot.
#include <cstdio>
#include <cstdlib>

[[noreturn]] static void end_of_host(const char* text);
#define TALUS_THROW(error) end_of_host((error).what())
#include <talus.hpp>

#include <cstring>

static_assert(noexcept(std::declval<talus::Optimizer&>().try_step()));
#if defined(__cpp_exceptions)
#error "to be built without exceptions"
#endif

static void require(bool is_so, const char* what) {
  if (is_so) return;
  std::fprintf(stderr, "not so: %s; %s\n", what, talus_last_error());
  std::_Exit(1);
}

// The last call of main must come here, with the library's text.
[[noreturn]] static void end_of_host(const char* text) {
  require(std::strstr(text, "no_such") != nullptr, "the text names what was wrong");
  std::puts("ok");
  std::exit(0);
}

int main() {
  float w[3] = {1, 2, 3}, g[3] = {};
  talus::Optimizer opt(nullptr);
  require(talus::Optimizer::try_create("no_such", &opt) == TALUS_E_NAME, "an unknown rule");
  require(talus::Optimizer::try_create("adamw", &opt) == TALUS_OK, "try_create");
  require(opt.try_set("lr", 0.1) == TALUS_OK, "try_set");
  require(opt.try_set("lr", -0.1) == TALUS_E_RANGE, "a value out of range");
  opt.add(w, g, {.name = "w"});
  opt.attach("lr", talus::Schedule::lambda([](int64_t t) { return 1 / (1 + 0.001 * double(t)); }));
  for (int step = 0; step < 300; ++step) {
    const double loss = opt.step([&] {
      double sum = 0;
      for (int i = 0; i < 3; ++i) {
        g[i] = 2 * w[i];
        sum += double(w[i]) * double(w[i]);
      }
      return sum;
    });
    require(step < 299 || loss < 0.01, "it learns");
  }
  opt.load_bytes(opt.save_bytes());
  require(opt.steps(0) == 300, "a checkpoint");
  talus::Schedule unknown("no_such");
  return 1;
}
