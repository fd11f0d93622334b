// `talus diff`: in what two checkpoints differ, as text or JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/checkpoint/differences.h"
#include "tools/command/command.hpp"
#include "tools/command/table.hpp"

namespace command {
namespace {

using checkpoint::Changed;
using checkpoint::Differences;
using checkpoint::Distance;
using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

// Of its own, as diff has them.
constexpr int kSame = 0, kDiffer = 1, kTrouble = 2;

struct Options {
  std::string a, b;
  bool thorough = false, json = false;
};

// Of a flat index in a tensor.
std::vector<uint64_t> place_of(uint64_t index, const std::vector<uint64_t>& shape) {
  std::vector<uint64_t> place(shape.size());
  for (size_t i = shape.size(); i-- > 0; index /= shape[i]) place[i] = index % shape[i];
  return place;
}

// ---- text

// Texts that are alike for long are shown from where they differ.
std::string cut(const std::string& text, const std::string& other, size_t width) {
  constexpr size_t kBefore = 8;
  if (text.empty()) return "-";
  const auto length = size_t(
      std::mismatch(text.begin(), text.end(), other.begin(), other.end()).first - text.begin());
  const bool fit = text.size() <= width && other.size() <= width;
  size_t start = fit || length <= kBefore ? 0 : length - kBefore;
  while (start > 0 && (text[start] & 0xc0) == 0x80) --start;  // inside of a character
  return cut_end((start > 0 ? "..." : "") + printable(text.substr(start, 4 * width)), width);
}

Rows statement_rows(const Differences& differences, size_t width) {
  const size_t side = (width - width / 3) / 2 - 2;
  Rows rows = {{"what", "A", "B"}};
  for (const checkpoint::Statement& s : differences.statements)
    rows.push_back({printable(s.what), cut(s.a, s.b, side), cut(s.b, s.a, side)});
  return rows;
}

std::string distance_text(const Distance& d) {
  if (d.nan == d.different) return "NaN";
  return fmt::format("{:.4g}{}", double(d.largest), d.nan ? ", NaN" : "");
}

Rows value_rows(const Differences& differences) {
  Rows rows = {{"tensor", "dtype", "different", "of", "first", "distance", "ulp"}};
  for (const Changed& c : differences.changed) {
    if (!c.comparable) continue;
    const Distance& d = c.distance;
    const bool floating = checkpoint::is_floating(c.a->dtype);
    rows.push_back(
        {printable(c.key), c.a->dtype, fmt::format("{}", d.different), fmt::format("{}", d.count),
         cut_middle(talus::safetensors::shape_text(place_of(d.first, c.a->shape)), 16),
         distance_text(d), floating && d.nan < d.different ? fmt::format("{}", d.ulps) : "-"});
  }
  return rows;
}

Rows form_rows(const Differences& differences, size_t width) {
  const size_t side = (width - width / 3) / 2 - 2;
  Rows rows = {{"tensor", "A", "B"}};
  const auto form = [&](const talus::Stored* s) {
    return cut_middle(s->dtype + " " + talus::safetensors::shape_text(s->shape), side);
  };
  for (const Changed& c : differences.changed)
    if (!c.comparable) rows.push_back({printable(c.key), form(c.a), form(c.b)});
  return rows;
}

void print_names(const char* side, const std::vector<std::string>& keys, size_t width) {
  if (keys.empty()) return;
  fmt::print("only in {}: {} tensors\n", side, keys.size());
  for (const std::string& key : keys) fmt::print("  {}\n", cut_middle(printable(key), width - 2));
}

void print_table(const Rows& rows, size_t width) {
  if (rows.size() > 1) fmt::print("{}\n", fit_table(rows, width));
}

void print_text(const Options& options, const Differences& d) {
  const size_t width = terminal_width();
  if (!d.none()) {
    fmt::print("A: {}\nB: {}\n\n", cut_middle(printable(options.a), width - 3),
               cut_middle(printable(options.b), width - 3));
    print_table(statement_rows(d, width), width);
    print_names("A", d.only_a, width);
    print_names("B", d.only_b, width);
    print_table(form_rows(d, width), width);
    print_table(value_rows(d), width);
  }
  std::string last = fmt::format("{} tensors differ, {} are the same", d.changed.size(), d.same);
  if (d.none()) last = fmt::format("the same: {} tensors", d.same);
  if (d.by_digest > 0) last += fmt::format(" ({} by their digests)", d.by_digest);
  fmt::print("{}", format_table({{last}}, width));
}

// ---- JSON

Json text_json(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Json changed_json(const Changed& c) {
  Json out = {{"key", c.key}};
  if (!c.comparable) {
    out["dtype"] = {c.a->dtype, c.b->dtype};
    out["shape"] = {c.a->shape, c.b->shape};
    return out;
  }
  const Distance& d = c.distance;
  const double largest = double(d.largest);
  const bool numbers = d.nan < d.different;
  out["dtype"] = c.a->dtype;
  out["shape"] = c.a->shape;
  out["elements"] = d.count;
  out["different"] = d.different;
  out["not_a_number"] = d.nan;
  out["first"] = d.first;
  out["first_at"] = place_of(d.first, c.a->shape);
  out["largest_distance"] = !numbers                 ? Json(nullptr)
                            : std::isfinite(largest) ? Json(largest)
                                                     : Json("inf");
  out["largest_ulp"] =
      numbers && checkpoint::is_floating(c.a->dtype) ? Json(d.ulps) : Json(nullptr);
  return out;
}

Json differences_json(const Options& options, const Differences& d) {
  Json statements = Json::array(), changed = Json::array();
  for (const checkpoint::Statement& s : d.statements)
    statements.push_back({{"what", s.what}, {"a", text_json(s.a)}, {"b", text_json(s.b)}});
  for (const Changed& c : d.changed) changed.push_back(changed_json(c));
  return {{"a", options.a},
          {"b", options.b},
          {"same", d.none()},
          {"statements", statements},
          {"only_in_a", d.only_a},
          {"only_in_b", d.only_b},
          {"tensors", changed},
          {"tensors_same", d.same},
          {"tensors_same_by_digest", d.by_digest}};
}

int compare(const Options& options) {
  const talus::Catalogue a = checkpoint::open(options.a), b = checkpoint::open(options.b);
  const Differences d = checkpoint::find_differences(a, b, options.thorough);
  for (const std::string& each : d.damaged)
    fmt::print(stderr, "talus: {} is damaged: its digest is another\n", printable(each));
  if (!d.damaged.empty()) return kTrouble;
  if (options.json)
    fmt::print("{}\n",
               differences_json(options, d).dump(2, ' ', false, Json::error_handler_t::replace));
  else
    print_text(options, d);
  return d.none() ? kSame : kDiffer;
}

// main takes a failure for 1, which here says that they differ.
int run(const Options& options) try { return compare(options); } catch (const talus::Error& error) {
  fmt::print(stderr, "talus: {}: {}\n", error.name(), error.what());
  return kTrouble;
} catch (const std::exception& error) {
  fmt::print(stderr, "talus: {}\n", error.what());
  return kTrouble;
}

}  // namespace

Command add_diff(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* line = app.add_subcommand("diff", "Shows in what two checkpoints A and B differ");
  line->add_option("A", options->a, "A checkpoint, as talus inspect takes it")->required();
  line->add_option("B", options->b, "Another")->required();
  line->add_flag("--thorough", options->thorough,
                 "Read also tensors whose digests agree; their bytes may have decayed since");
  line->add_flag("--json", options->json, "Print JSON");
  line->footer(
      "Compared: step counts, groups, hyperparameters, parameters, notes, tensors; not the "
      "writer.\n"
      "Elements differ if their bits do. distance is the largest between two elements, ulp the "
      "same\n"
      "in steps from one number of the dtype to the next.\n"
      "Example: talus diff monday.safetensors tuesday.safetensors\n"
      "Exit codes: 0 the same; 1 they differ; 2 trouble: unreadable, damaged, or wrong usage.");
  return {line, [options] { return run(*options); }, kTrouble};
}

}  // namespace command
