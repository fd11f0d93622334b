#include "tools/checkpoint/differences.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "tools/checkpoint/progress_bar.h"
#include "tools/checkpoint/schedule_texts.h"

namespace checkpoint {
namespace {

using talus::Catalogue;
using talus::Manifest;

using Texts = std::map<std::string, std::string>;

// ---- what is not in tensors

Texts count_texts(const Manifest& manifest) {
  const talus::Counts& c = manifest.counts;
  return {{"steps applied", fmt::format("{}", c.applied)},
          {"steps called", fmt::format("{}", c.called)},
          {"steps skipped", fmt::format("{}", c.skipped)},
          {"clock", fmt::format("{}", c.clock)}};
}

Texts group_texts(const Manifest& manifest) {
  Texts out;
  for (size_t g = 0; g < manifest.groups.size(); ++g) {
    const talus::GroupRecord& group = manifest.groups[g];
    const std::string name = fmt::format("group {} ", g);
    out[name + "algorithm"] = group.algorithm;
    out[name + "mode"] = group.mode;
    for (const auto& [hyper, value] : group.hyper) out[name + hyper] = fmt::format("{}", value);
  }
  return out;
}

Texts scheduled_texts(const Manifest& manifest) {
  Texts out;
  for (const auto& [where, text] : checkpoint::schedule_texts(manifest))
    out["schedule of " + where] = text;
  return out;
}

Texts param_texts(const Manifest& manifest) {
  Texts out;
  for (const talus::ParamRecord& p : manifest.params)
    out["parameter " + p.name] =
        fmt::format("{} {} in group {}, slots: {}", p.dtype,
                    talus::safetensors::shape_text(p.shape), p.group, fmt::join(p.slots, ", "));
  return out;
}

Texts note_texts(const Manifest& manifest) {
  Texts out;
  for (const auto& [key, text] : manifest.notes) out["note " + key] = text;
  return out;
}

void add_statements(const Texts& a, const Texts& b, std::vector<Statement>* out) {
  std::set<std::string> names;
  for (const Texts* side : {&a, &b})
    for (const auto& [name, text] : *side) names.insert(name);
  const auto text_of = [](const Texts& side, const std::string& name) {
    const auto found = side.find(name);
    return found == side.end() ? std::string() : found->second;
  };
  for (const std::string& name : names)
    if (a.contains(name) != b.contains(name) || text_of(a, name) != text_of(b, name))
      out->push_back({name, text_of(a, name), text_of(b, name)});
}

std::vector<Statement> compare_manifests(const Catalogue& a, const Catalogue& b) {
  std::vector<Statement> out;
  const auto writer = [](const Catalogue& file) {
    return Texts{{"written by talus", file.foreign() ? "no" : "yes"}};
  };
  add_statements(writer(a), writer(b), &out);
  if (!a.foreign() && !b.foreign())
    for (const auto texts_of : {count_texts, group_texts, scheduled_texts, param_texts})
      add_statements(texts_of(a.manifest()), texts_of(b.manifest()), &out);
  add_statements(note_texts(a.manifest()), note_texts(b.manifest()), &out);
  return out;
}

// ---- tensors

// Where both are cut into the same parts; a digest of 32 bits stands for their bytes.
bool digests_agree(const talus::Stored& a, const talus::Stored& b) {
  if (digests_of(a) != Digests::all || digests_of(b) != Digests::all) return false;
  return std::equal(a.parts.begin(), a.parts.end(), b.parts.begin(), b.parts.end(),
                    [](const talus::Part& x, const talus::Part& y) {
                      return x.bytes == y.bytes && x.digest == y.digest;
                    });
}

class Comparison {
 public:
  Comparison(const Catalogue& a, const Catalogue& b, bool thorough)
      : a_(a), b_(b), thorough_(thorough), bar_(std::min(a.bytes(), b.bytes())) {}

  Differences run() {
    out_.statements = compare_manifests(a_, b_);
    const std::vector<Entry> mine = entries_of(a_), theirs = entries_of(b_);
    std::map<std::string_view, const Entry*> others;
    for (const Entry& entry : theirs) others[entry.key] = &entry;
    for (const Entry* entry : in_file_order(mine)) {
      const auto other = others.find(entry->key);
      if (other == others.end())
        out_.only_a.push_back(entry->key);
      else
        compare_pair(*entry, *other->second);
    }
    for (const Entry& entry : theirs)
      if (!a_.find(entry.key)) out_.only_b.push_back(entry.key);
    std::sort(out_.only_a.begin(), out_.only_a.end());
    std::sort(out_.changed.begin(), out_.changed.end(),
              [](const Changed& x, const Changed& y) { return x.key < y.key; });
    return std::move(out_);
  }

 private:
  void compare_pair(const Entry& a, const Entry& b) {
    if (a.stored->dtype != b.stored->dtype || a.stored->shape != b.stored->shape) {
      out_.changed.push_back({a.key, a.stored, b.stored, false, {}});
      return;
    }
    if (!thorough_ && digests_agree(*a.stored, *b.stored)) {
      ++out_.same;
      ++out_.by_digest;
      bar_.add(a.bytes());
      return;
    }
    const Distance distance = compare_values(a, b);
    if (distance.different == 0)
      ++out_.same;
    else
      out_.changed.push_back({a.key, a.stored, b.stored, true, distance});
  }

  Distance compare_values(const Entry& a, const Entry& b) {
    Distance distance;
    TensorStream mine(a_, a), theirs(b_, b);
    const uint64_t size = talus::safetensors::dtype_bytes(a.stored->dtype);
    while (mine.left() > 0) {
      const std::vector<char>&x = mine.next(), &y = theirs.next();
      compare(a.stored->dtype, x.data(), y.data(), x.size() / size, &distance);
      bar_.add(x.size());
    }
    if (!mine.sound()) add_damaged(a_, a);
    if (!theirs.sound()) add_damaged(b_, b);
    return distance;
  }

  void add_damaged(const Catalogue& file, const Entry& entry) {
    out_.damaged.push_back(fmt::format("{}: tensor \"{}\"", file.name(), entry.key));
  }

  const Catalogue &a_, &b_;
  bool thorough_;
  ProgressBar bar_;
  Differences out_;
};

}  // namespace

Differences find_differences(const Catalogue& a, const Catalogue& b, bool thorough) {
  return Comparison(a, b, thorough).run();
}

}  // namespace checkpoint
