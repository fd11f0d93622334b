// Equal bits whoever runs the step: any count of threads, in any chunks, or the host's own loop in
// any order; and an alias equals its rule with the same hyperparameters.
#include "command.hpp"
#include "selftest.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace command {
namespace {

std::vector<std::string> g_only;  // empty: all

bool is_left_out(const std::string& algorithm) {
  return !g_only.empty() && std::find(g_only.begin(), g_only.end(), algorithm) == g_only.end();
}

// Decay, all state that there may be, and one flag other than its default.
Setup with_all_state(const std::string& algorithm, const char* flag) {
  Setup setup{algorithm, flag ? flag : "all state", {}};
  for (const talus_hyper& hyper : talus::hypers(algorithm)) {
    const bool is_flag = hyper.kind == TALUS_FLAG, fixed = hyper.flags & TALUS_HYPER_FIXED;
    if ((flag && hyper.name == std::string(flag)) || (is_flag && fixed))
      setup.values.emplace_back(hyper.name, hyper.def == 0);
    else if (fixed)
      setup.values.emplace_back(hyper.name, 0.9);
    else if (hyper.name == std::string("weight_decay"))
      setup.values.emplace_back(hyper.name, 0.1);
  }
  return setup;
}

struct How {
  int threads, chunk_tiles;
  bool host_loop = false;
};

// In the words of the settings.
std::string describe(const How& how) {
  return fmt::format("threads {}, chunk_tiles {}{}", how.threads, how.chunk_tiles,
                     how.host_loop ? ", host's loop backwards" : "");
}

talus::Optimizer make(const Setup& setup) {
  talus::Optimizer opt(setup.algorithm);
  for (const auto& [name, value] : setup.values) opt.set(name.c_str(), value);
  return opt;
}

// The rule behind an alias, told every hyperparameter that the alias has.
talus::Optimizer spelt_out(const std::string& alias) {
  talus::Optimizer opt(rule_of(alias));
  for (const talus_hyper& hyper : talus::hypers(alias)) opt.set(hyper.name, hyper.def);
  return opt;
}

// Returns parameters and state after the last step. *written: the first gradient that a step wrote.
Buffers train(talus::Optimizer opt, const How& how, std::string* written = nullptr) {
  opt.set_setting("threads", how.threads);
  opt.set_setting("chunk_tiles", how.chunk_tiles);
  if (how.host_loop)
    opt.set_parallel_for([](int64_t count, const talus::Optimizer::Task& task) {
      for (int64_t i = count - 1; i >= 0; --i) task(i);
    });
  std::vector<Tensor> tensors = problem().tensors;
  add(opt, tensors);
  const std::vector<int64_t> rows = row_numbers();
  for (int k = 0; k < kStepCount; ++k) {
    const auto& grads = problem().grads[k];
    for (size_t i = 0; i < grads.size(); ++i)
      std::copy(grads[i].begin(), grads[i].end(), tensors[i].grad.begin());
    step(opt, tensors, rows.data());
    if (written && written->empty()) *written = gradient_change(tensors, k);
  }
  return collect(opt, tensors);
}

void compare(const Buffers& got, const Buffers& expected, const std::string& what,
             Outcome& outcome) {
  for (const std::string& each : differences(got, expected))
    outcome.add(each.empty() ? "" : what + ": " + each);
}

// Whether the library takes these values together.
bool fits_together(const Setup& setup) {
  talus::Optimizer opt = make(setup);
  const talus_status status = talus_prepare(opt.handle(), nullptr);
  if (status != TALUS_E_RANGE) talus::check(status);
  return status == TALUS_OK;
}

}  // namespace

std::vector<Setup> all_setups() {
  std::vector<Setup> setups;
  for (const char* list : {"algorithms", "aliases"})
    for (const std::string& name : talus::names(list)) {
      if (is_left_out(name)) continue;
      setups.push_back({name, "defaults", {}});
      if (rule_of(name) != name) continue;  // an alias is its rule, told other values
      setups.push_back(with_all_state(name, nullptr));
      for (const talus_hyper& hyper : talus::hypers(name)) {
        if (hyper.kind != TALUS_FLAG || hyper.max != 1 || hyper.flags & TALUS_HYPER_FIXED) continue;
        Setup setup = with_all_state(name, hyper.name);
        setup.brief = true;
        if (fits_together(setup)) setups.push_back(setup);
      }
    }
  return setups;
}

void leave_out_all_but(const std::vector<std::string>& algorithms) { g_only = algorithms; }

Buffers run_everywhere(const Setup& setup, Outcome* outcome) {
  std::string written;
  const How first{1, 4};
  const Buffers expected = train(make(setup), first, &written);
  if (!outcome) return expected;
  outcome->add(written.empty() ? "" : "a step wrote to a gradient: " + written);
  std::vector<How> all{{8, 1, true}};
  if (setup.brief) all.push_back({3, 1});
  for (const int tiles : kChunkTiles)
    for (const int threads : kThreadCounts)
      if (!setup.brief) all.push_back({threads, tiles});
  for (const How& how : all)
    compare(train(make(setup), how), expected, describe(how) + " against " + describe(first),
            *outcome);
  if (setup.values.empty() && rule_of(setup.algorithm) != setup.algorithm)
    compare(expected, train(spelt_out(setup.algorithm), first), "alias against its rule", *outcome);
  return expected;
}

}  // namespace command
