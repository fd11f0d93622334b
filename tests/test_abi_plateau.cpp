// Plateau schedules of an optimizer: reports, whom they serve, and what else moves their values.
#include "tests/abi/fixture.h"

#include <memory>

#include "tests/schedule.h"

using namespace talus::abi;
using talus::test::attach;
using talus::test::must;
using talus::test::Schedule;
using talus::test::value_now;

namespace {

// Falls by half at each report that is not better.
Schedule impatient() { return Schedule("plateau", {{"patience", 0}, {"factor", 0.5}}); }

}  // namespace

TEST_CASE("abi: a report counts once for a plateau, and shrinks every value that it serves") {
  const Handle opt("sgd");
  int32_t group = -1;
  must(talus_add_group(opt, nullptr, &group));
  must(talus_set(opt, 0, "lr", 1));
  must(talus_set(opt, group, "lr", 8));
  must(talus_set(opt, TALUS_ALL, "weight_decay", 0.25));
  const Schedule slow("plateau", {{"patience", 1}, {"factor", 0.5}});
  attach(opt, "lr", slow);
  attach(opt, "weight_decay", slow, TALUS_CLOCK_APPLIED, 0);
  const Schedule quick = impatient();
  attach(opt, "dampening", quick, TALUS_CLOCK_APPLIED, 0);
  must(talus_set(opt, 0, "dampening", 1));
  must(talus_observe(opt, 3));
  must(talus_observe(opt, 3));  // the first bad one; three attachments are not three reports
  CHECK(value_now(opt, "lr") == 1);
  CHECK(value_now(opt, "dampening") == 0.5);
  must(talus_observe(opt, kNaN));
  CHECK(value_now(opt, "lr") == 0.5);
  CHECK(value_now(opt, "lr", group) == 4);
  CHECK(value_now(opt, "weight_decay") == 0.125);
  CHECK(value_now(opt, "weight_decay", group) == 0.25);
  CHECK(value_now(opt, "dampening") == 0.25);
  CHECK(get(opt, "lr", group) == 8);
  int32_t late = -1;
  must(talus_add_group(opt, nullptr, &late));  // starts at its own base
  CHECK(value_now(opt, "lr", late) == get(opt, "lr", late));
}

TEST_CASE("abi: the step uses the plateau's value, whatever its clock") {
  const Handle opt("sgd");
  Model model;
  model.add_to(opt);
  must(talus_set(opt, 0, "lr", 1));
  attach(opt, "lr", impatient(), TALUS_CLOCK_MANUAL);
  must(talus_observe(opt, 1));
  must(talus_observe(opt, 1));
  const float before = model.w[0];
  must(talus_set_clock(opt, 77));
  must(talus_step(opt, nullptr));
  CHECK(model.w[0] == before - 0.5f * model.gw[0]);
}

TEST_CASE("abi: setting the hyperparameter sets the plateau's value, and not what it remembers") {
  const Handle opt("sgd");
  must(talus_set(opt, 0, "lr", 1));
  int32_t group = -1;
  must(talus_add_group(opt, nullptr, &group));
  const Schedule s("plateau", {{"patience", 1}, {"factor", 0.5}});
  attach(opt, "lr", s);
  must(talus_observe(opt, 1));
  must(talus_observe(opt, 1));
  must(talus_set(opt, TALUS_ALL, "lr", 3));
  CHECK(value_now(opt, "lr") == 3);
  must(talus_observe(opt, 1));  // the second bad one
  CHECK(value_now(opt, "lr") == 1.5);
  must(talus_set(opt, 0, "momentum", 0.5));  // another one does not
  CHECK(value_now(opt, "lr") == 1.5);
  must(talus_set(opt, group, "lr", 8));  // nor another group's
  CHECK(value_now(opt, "lr") == 1.5);
  CHECK(value_now(opt, "lr", group) == 8);
}

TEST_CASE("abi: parameters of a plateau act on the next report, and another mode begins afresh") {
  const Handle opt("sgd");
  must(talus_set(opt, 0, "lr", 1));
  Schedule s = impatient();
  attach(opt, "lr", s);
  must(talus_observe(opt, 1));
  must(talus_observe(opt, 2));
  CHECK(value_now(opt, "lr") == 0.5);
  s.set("factor", 0.25);
  must(talus_observe(opt, 2));
  CHECK(value_now(opt, "lr") == 0.125);
  s.set("mode", 0);  // as it was
  must(talus_observe(opt, 1));
  CHECK(value_now(opt, "lr") == 0.03125);
  s.set("mode", 1);
  must(talus_observe(opt, -100));  // the first report: better than none
  CHECK(value_now(opt, "lr") == 0.03125);
  must(talus_observe(opt, -101));
  CHECK(value_now(opt, "lr") == 0.0078125);
  CHECK(talus_schedule_set(s, "threshold", 1) == TALUS_E_RANGE);  // against rel mode, in use
  CHECK(s.get("threshold") == 1e-4);
}

TEST_CASE("abi: a plateau at the end of a chain multiplies what comes before it") {
  const Handle opt("sgd");
  must(talus_set(opt, 0, "lr", 1));
  must(talus_set(opt, 0, "weight_decay", 0));
  Schedule chain("chained"), inner("chained");
  chain.add(Schedule("constant", {{"factor", 0.75}, {"total_iters", 5}}));
  inner.add(Schedule("linear", {{"start_factor", 0.5}, {"total_iters", 4}}));
  inner.add(impatient());
  chain.add(inner);
  attach(opt, "lr", chain, TALUS_CLOCK_MANUAL);
  attach(opt, "weight_decay", chain, TALUS_CLOCK_MANUAL);
  CHECK(value_now(opt, "lr") == 0.375);
  must(talus_observe(opt, 1));
  must(talus_observe(opt, 1));
  CHECK(value_now(opt, "lr") == 0.1875);
  CHECK(value_now(opt, "weight_decay") == 0);  // base 0: multiplied by 1
  must(talus_set_clock(opt, 9));
  CHECK(value_now(opt, "lr") == 0.5);
  must(talus_set(opt, 0, "lr", 4));  // a new base is a new value
  CHECK(value_now(opt, "lr") == 4);
  must(talus_observe(opt, 1));
  CHECK(value_now(opt, "lr") == 2);
}

TEST_CASE("abi: a plateau serves one optimizer, for as long as it is attached there") {
  const Schedule plateau = impatient();
  const Schedule chain("chained");
  must(talus_schedule_add(chain, Schedule("constant")));
  must(talus_schedule_add(chain, plateau));
  auto first = std::make_unique<Handle>("sgd");
  const Handle second("sgd");
  attach(*first, "lr", chain);
  attach(*first, "weight_decay", plateau);  // the same one, in the same optimizer
  for (const Schedule* s : {&plateau, &chain})
    refused(second, TALUS_E_STATE, {"plateau", "another optimizer"},
            [&] { return talus_attach_schedule(second, 0, "lr", *s, 0); });
  CHECK(talus_observe(second, 1) == TALUS_E_STATE);
  attach(*first, "lr", nullptr);
  CHECK(talus_attach_schedule(second, 0, "lr", plateau, 0) == TALUS_E_STATE);
  first.reset();
  CHECK(talus_attach_schedule(second, 0, "lr", chain, 0) == TALUS_OK);
  attach(second, "lr", nullptr);
  const Handle third("sgd");
  CHECK(talus_attach_schedule(third, 0, "lr", plateau, 0) == TALUS_OK);
}
