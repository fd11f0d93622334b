// How long schedules live, with their functions and pieces, and how large they may grow.
#include "tests/abi/fixture.h"

#include <memory>

#include "tests/schedule.h"

using namespace talus::abi;
using talus::test::attach;
using talus::test::must;
using talus::test::Schedule;
using talus::test::value_now;

namespace {

double half(void*, int64_t) { return 0.5; }

// Counts how often a function's user was given back.
void count_up(void* user) { ++*static_cast<int*>(user); }

// lambda that halves.
Schedule counted(int* gone, const char* kind = "lambda") {
  Schedule made(kind);
  must(talus_schedule_set_function(made, half, gone, count_up));
  return made;
}

// A chain in a chain, and so on: this many levels. Pieces are added from the inside.
Schedule nested(int levels) {
  Schedule made("chained");
  for (int i = 1; i < levels; ++i) {
    Schedule outer("chained");
    outer.add(made);
    made = std::move(outer);
  }
  return made;
}

talus_status add_many(const Schedule& to, const Schedule& piece, int count) {
  for (int i = 0; i < count; ++i)
    if (const talus_status status = talus_schedule_add(to, piece); status != TALUS_OK)
      return status;
  return TALUS_OK;
}

}  // namespace

TEST_CASE("abi: a function's user is given back once: when it is replaced, or its schedule gone") {
  int first = 0, second = 0;
  {
    const Schedule s = counted(&first);
    must(talus_schedule_set_function(s, half, &second, count_up));
    CHECK((first == 1 && second == 0));
    must(talus_schedule_set_function(s, half, &first, nullptr));  // without a destroy
    CHECK((first == 1 && second == 1));
    must(talus_schedule_set_function(s, half, &second, count_up));
  }
  CHECK((first == 1 && second == 2));
}

TEST_CASE("abi: a function that is refused stays the caller's") {
  int given = 0, refused_user = 0;
  {
    const Schedule other("cosine"), s = counted(&given);
    refused(nullptr, TALUS_E_UNSUPPORTED, {"cosine", "lambda"},
            [&] { return talus_schedule_set_function(other, half, &refused_user, count_up); });
    refused(nullptr, TALUS_E_ARGUMENT, {"function"},
            [&] { return talus_schedule_set_function(s, nullptr, &refused_user, count_up); });
    refused(nullptr, TALUS_E_ARGUMENT, {"schedule"},
            [&] { return talus_schedule_set_function(nullptr, half, &refused_user, count_up); });
    CHECK(s.value(1, 0) == 0.5);
    CHECK(given == 0);
  }
  CHECK(given == 1);
  CHECK(refused_user == 0);
}

TEST_CASE("abi: a new function of a product multiplies from the beginning") {
  Schedule s("multiplicative");
  s.function(half);
  CHECK(s.value(1, 3) == 0.125);
  s.function([](void*, int64_t) { return 0.25; });
  CHECK(s.value(1, 3) == 0.015625);
  CHECK(s.value(1, 2) == 0.0625);
}

TEST_CASE("abi: what a schedule is attached to keeps it, each on its own") {
  int gone = 0;
  Model model, other_model;
  auto first = std::make_unique<Handle>("sgd"), second = std::make_unique<Handle>("adamw");
  model.add_to(*first);
  other_model.add_to(*second);
  {
    const Schedule s = counted(&gone);
    attach(*first, "lr", s);
    attach(*first, "weight_decay", s);
    attach(*second, "lr", s);
  }
  CHECK(gone == 0);
  CHECK(value_now(*first, "lr") == 0.5e-3);
  must(talus_step(*first, nullptr));
  attach(*first, "lr", nullptr);
  first.reset();
  CHECK(gone == 0);
  must(talus_step(*second, nullptr));
  talus_schedule* again = nullptr;
  must(talus_get_schedule(*second, 0, "lr", &again, nullptr));
  second.reset();
  CHECK(gone == 0);
  double value = 0;
  must(talus_schedule_value(again, 3, 0, &value));  // the optimizers are gone
  CHECK(value == 1.5);
  talus_schedule_destroy(again);
  CHECK(gone == 1);
}

TEST_CASE(
    "abi: a schedule that is taken away is gone at once, for all groups also the later ones'") {
  int gone = 0;
  const Handle opt("sgd");
  attach(opt, "lr", counted(&gone));
  attach(opt, "lr", nullptr, TALUS_CLOCK_APPLIED, 0);
  CHECK(gone == 0);  // groups added later will want it
  attach(opt, "lr", nullptr);
  CHECK(gone == 1);
}

TEST_CASE("abi: a composite keeps its pieces, and a piece does not keep the composite") {
  int gone = 0, other_gone = 0;
  talus_schedule *piece = nullptr, *whole = nullptr;
  {
    Schedule chain("chained"), outer("chained");
    chain.add(counted(&gone));
    chain.add(counted(&other_gone, "multiplicative"));
    outer.add(chain);
    must(talus_schedule_piece(outer, 0, &whole));
    must(talus_schedule_piece(chain, 0, &piece));
  }
  CHECK((gone == 0 && other_gone == 0));
  double value = 0;
  must(talus_schedule_value(whole, 1, 1, &value));
  CHECK(value == 0.25);
  CHECK(std::string(talus_schedule_kind(piece)) == "lambda");
  talus_schedule_destroy(whole);
  CHECK((gone == 0 && other_gone == 1));
  talus_schedule_destroy(piece);
  CHECK(gone == 1);
}

TEST_CASE("abi: pieces are counted, and given out by index") {
  Schedule s("sequential");
  CHECK(talus_schedule_piece_count(s) == 0);
  s.add(Schedule("constant"));
  s.add(Schedule("linear"));
  CHECK(talus_schedule_piece_count(s) == 2);
  CHECK(talus_schedule_piece_count(Schedule("step")) == 0);
  talus_schedule* const untouched = reinterpret_cast<talus_schedule*>(uintptr_t(0x10));
  talus_schedule* out = untouched;
  for (const int32_t i : {-1, 2, 77})
    refused(nullptr, TALUS_E_ARGUMENT, {"sequential", std::to_string(i).c_str(), "2 pieces"},
            [&] { return talus_schedule_piece(s, i, &out); });
  CHECK(out == untouched);
  refused(nullptr, TALUS_E_ARGUMENT, {"out"}, [&] { return talus_schedule_piece(s, 0, nullptr); });
  must(talus_schedule_piece(s, 1, &out));
  CHECK(std::string(talus_schedule_kind(out)) == "linear");
  must(talus_schedule_set(out, "end_factor", 0.25));  // the piece itself, no copy
  talus_schedule_destroy(out);
  s.milestones({3});
  CHECK(s.value(1, 100) == 0.25);
  refused(nullptr, TALUS_E_UNSUPPORTED, {"step", "sequential", "chained"},
          [&] { return talus_schedule_add(Schedule("step"), s); });
}

TEST_CASE("abi: no schedule is a piece of itself, at whatever depth") {
  Schedule a("chained"), b("chained"), c("sequential");
  a.add(b);
  b.add(c);
  const auto circle = [&](const Schedule& to, const Schedule& piece) {
    const int32_t before = talus_schedule_piece_count(to);
    refused(nullptr, TALUS_E_ARGUMENT, {talus_schedule_kind(to), "itself"},
            [&] { return talus_schedule_add(to, piece); });
    CHECK(talus_schedule_piece_count(to) == before);
  };
  circle(a, a);
  circle(b, a);
  circle(c, a);
  circle(c, b);
  a.add(c);  // twice in one tree is no circle
}

TEST_CASE("abi: 16 levels and 4096 pieces, no more") {
  const char* const text = "more than 16 levels or 4096 pieces";
  const Schedule leaf("constant");
  CHECK(nested(16).value(1, 0) == 1);
  const Schedule deep = nested(16), one_more("chained");
  refused(nullptr, TALUS_E_ARGUMENT, {"chained", text},
          [&] { return talus_schedule_add(one_more, deep); });
  CHECK(talus_schedule_piece_count(one_more) == 0);

  const Schedule wide("chained"), half_of("chained"), two("chained");
  CHECK(add_many(wide, leaf, 4096) == TALUS_OK);
  CHECK(wide.value(1, 9) == 1);
  refused(nullptr, TALUS_E_ARGUMENT, {"chained", text},
          [&] { return talus_schedule_add(wide, leaf); });
  CHECK(talus_schedule_piece_count(wide) == 4096);
  CHECK(add_many(half_of, leaf, 2047) == TALUS_OK);
  CHECK(add_many(two, half_of, 2) == TALUS_OK);  // a piece counts wherever it stands
  CHECK(two.value(1, 9) == 1);
  CHECK(talus_schedule_add(two, leaf) == TALUS_E_ARGUMENT);
}

TEST_CASE("abi: what has grown too deep behind its back has no value, and goes without harm") {
  int gone = 0;
  Schedule top("chained");
  {
    Schedule end("chained");
    top.add(end);
    for (int i = 0; i < 200000; ++i) {  // a stack has room for fewer calls
      Schedule next("chained");
      if (i == 199999) next.add(counted(&gone));
      end.add(next);
      if (i % 7 == 0) end.add(next);
      end = std::move(next);
    }
  }
  double value = 7;
  refused(nullptr, TALUS_E_ARGUMENT, {"chained", "16 levels"},
          [&] { return talus_schedule_value(top, 1, 0, &value); });
  const Handle opt("sgd");
  refused(opt, TALUS_E_ARGUMENT, {"chained", "16 levels"},
          [&] { return talus_attach_schedule(opt, 0, "lr", top, TALUS_CLOCK_APPLIED); });
  CHECK(gone == 0);
  top = Schedule("chained");
  CHECK(gone == 1);
}

TEST_CASE("abi: what is in use takes no pieces, and no parameter against another") {
  Schedule chain("chained"), sequence("sequential"), root("exponential", {{"gamma", 0.5}}),
      wsd("wsd", {{"decay", 3}, {"end_factor", 0.5}});
  chain.add(sequence);
  sequence.add(root);
  sequence.add(wsd);
  sequence.milestones({4});
  const std::string before = text_of(chain);
  {
    const Handle opt("sgd");
    attach(opt, "lr", chain);
    const Schedule more("constant");
    for (const Schedule* s : {&chain, &sequence})
      refused(opt, TALUS_E_STATE, {talus_schedule_kind(*s), "in use"},
              [&] { return talus_schedule_add(*s, more); });
    refused(opt, TALUS_E_RANGE, {"wsd", "end_factor = 0", "decay"},
            [&] { return talus_schedule_set(wsd, "end_factor", 0); });
    const int64_t two[] = {1, 2}, one[] = {7};
    refused(opt, TALUS_E_RANGE, {"sequential", "2 pieces", "2 milestones", "1"},
            [&] { return talus_schedule_set_list(sequence, "milestones", two, 2); });
    CHECK(text_of(chain) == before);
    CHECK(talus_schedule_set_list(sequence, "milestones", one, 1) == TALUS_OK);
    CHECK(talus_schedule_set(wsd, "end_factor", 0.25) == TALUS_OK);
    CHECK(talus_schedule_set(root, "gamma", 0.25) == TALUS_OK);
    CHECK(value_now(opt, "lr") == 1e-3);
    attach(opt, "lr", nullptr);
    CHECK(talus_schedule_set(wsd, "end_factor", 0) == TALUS_OK);  // free again
    CHECK(talus_schedule_add(chain, more) == TALUS_OK);
    must(talus_schedule_set(wsd, "end_factor", 0.25));
    attach(opt, "lr", chain);
  }
  CHECK(talus_schedule_add(chain, Schedule("linear")) == TALUS_OK);  // the optimizer is gone
}
