// Every hyperparameter of every rule at another value than its default, alone and with every other
// one: generated from what the library lists, so that none is forgotten.
#include <catch2/catch_test_macros.hpp>

#include "tests/rule_run.h"

using namespace talus;
using namespace talus::test;

namespace {

struct Option {
  std::string name;
  double value;
};

// Another legal value of a real or an integer; flags are toggled.
double other_value(const std::string& algorithm, const talus_hyper& h) {
  static const std::map<std::string, double> values = {{"lr", .011},
                                                       {"momentum", .83},
                                                       {"dampening", .29},
                                                       {"weight_decay", .017},
                                                       {"beta1", .83},
                                                       {"beta2", .91},
                                                       {"eps", .0123},
                                                       {"alpha", .87},
                                                       {"rho", .79},
                                                       {"lr_decay", .3},
                                                       {"lambd", .21},
                                                       {"t0", 1},
                                                       {"etaminus", .41},
                                                       {"etaplus", 1.37},
                                                       {"step_size_min", .003},
                                                       {"step_size_max", .02},
                                                       {"norm_type", 0},
                                                       {"max_grad_norm", .07},
                                                       {"momentum_decay", .3},
                                                       {"trust_coefficient", .11},
                                                       {"initial_accumulator_value", .2}};
  const auto found = values.find(h.name);
  if (found == values.end())
    throw std::logic_error("no other value for " + std::string(h.name) + " of " + algorithm);
  return found->second;
}

// All but those that have one legal value only.
std::vector<Option> options_of(const std::string& algorithm) {
  std::vector<Option> options;
  for (int32_t i = 0; i < talus_hyper_count(algorithm.c_str()); ++i) {
    talus_hyper h{};
    h.struct_size = sizeof h;
    must(talus_hyper_info(algorithm.c_str(), i, &h));
    if (h.min == h.max) continue;
    options.push_back({h.name, h.kind == TALUS_FLAG ? 1 - h.def : other_value(algorithm, h)});
  }
  return options;
}

// Whether the library takes these values together; it says TALUS_E_RANGE if not.
bool fit_together(const HyperSet& set) {
  TestTensor x(kF32, 1);
  Optimizer optimizer(set.algorithm, set.values);
  optimizer.add(x);
  const talus_status status = talus_prepare(optimizer.get(), nullptr);
  if (status != TALUS_E_RANGE) must(status);
  return status == TALUS_OK;
}

int check(const HyperSet& set) {
  if (!fit_together(set)) return 0;
  for (const Mix& mix : {kF32, kF64, Mix{TALUS_BF16, TALUS_F16, TALUS_MASTER_AUTO}}) {
    const RuleRun run{.set = set, .mix = mix, .n = 37, .steps = 7, .seed = 31};
    INFO(run.name());
    const LibraryRun got = run_library(run);
    if (mix.param == TALUS_F64)
      CHECK(bits_difference(got, run_reference<double>(run)) == "");
    else
      CHECK(bits_difference(got, run_reference<float>(run)) == "");
  }
  return 1;
}

}  // namespace

TEST_CASE("every option alone, and every pair of options, is the sheet's arithmetic bit for bit") {
  for (const char* list : {"algorithms", "aliases"})
    for (int32_t i = 0; i < talus_name_count(list); ++i) {
      const std::string algorithm = talus_name_at(list, i);
      const std::vector<Option> options = options_of(algorithm);
      int runs = 0;
      for (size_t a = 0; a < options.size(); ++a) {
        runs += check({algorithm, options[a].name, {{options[a].name, options[a].value}}});
        for (size_t b = 0; b < a; ++b)
          runs +=
              check({algorithm,
                     options[a].name + " and " + options[b].name,
                     {{options[a].name, options[a].value}, {options[b].name, options[b].value}}});
      }
      INFO(algorithm);
      CHECK(runs >= int(options.size()));
    }
}
