// Runs the conformance script over talus.hpp and compares every answer to the bit; what the calls
// are stands at the top of conformance.txt.
//
//     conformance [FILE]      by default the variable TALUS_CONFORMANCE, or the one in the sources
#include "conformance/elements.hpp"

#include <talus.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <sstream>

namespace {

using Words = std::vector<std::string>;  // of a call, behind its name

struct Run {
  std::filesystem::path folder;
  // Optimizers go before arrays, which they point to.
  std::map<std::string, Array> arrays;
  std::deque<std::vector<int64_t>> rows;
  std::map<std::string, talus::Optimizer> optimizers;
  std::map<std::string, talus::Schedule> schedules;
  std::map<std::string, talus::Scaler> scalers;

  talus::Optimizer& opt(const std::string& name) { return find(optimizers, name); }
  Array& array(const std::string& name) { return find(arrays, name); }
  talus::Schedule& schedule(const std::string& name) { return find(schedules, name); }
  talus::Scaler& scaler(const std::string& name) { return find(scalers, name); }
  std::string path(const std::string& name) const { return folder / name; }

 private:
  template <class T>
  static T& find(std::map<std::string, T>& things, const std::string& name) {
    const auto found = things.find(name);
    if (found == things.end()) throw Fault("there is no " + name + " of this kind");
    return found->second;
  }
};

template <class T>
void add(std::map<std::string, T>& things, const std::string& name, T thing) {
  if (!things.emplace(name, std::move(thing)).second) throw Fault(name + " is there already");
}

void fill(Run& run, const Words& w) { set_elements(run.array(w[0]), std::span(w).subspan(1)); }

std::string read(Run& run, const Words& w) {
  return std::visit([](const auto& elements) { return bits_of(std::span(elements)); },
                    run.array(w[0]));
}

void same(Run& run, const Words& w) {
  if (read(run, {w[0]}) != read(run, {w[1]})) throw Fault(w[0] + " and " + w[1] + " differ");
}

int32_t master_of(const std::string& word) {
  return word == "-" ? TALUS_MASTER_AUTO : word == "none" ? TALUS_MASTER_NONE : TALUS_MASTER_F32;
}

void param(Run& run, const Words& w) {
  const talus::ParamOptions options{.name = w[2].c_str(),
                                    .shape = shape_of(w[5]),
                                    .group = to_index(w[1]),
                                    .state_dtype = dtype_of(w[6]),
                                    .master = master_of(w[7])};
  talus::Optimizer& opt = run.opt(w[0]);
  std::visit(
      [&](auto& data) {
        if (w[4] == "-") {
          opt.add(data, options);
        } else {
          std::visit([&](auto& grad) { opt.add(data, grad, options); }, run.array(w[4]));
        }
      },
      run.array(w[3]));
}

void bind(Run& run, const Words& w) {
  talus::Optimizer& opt = run.opt(w[0]);
  void* const none[] = {nullptr};
  if (w[2] == "-")
    opt.bind_grads(none, to_int(w[1]));
  else
    std::visit([&](auto& grad) { opt.bind_grad(to_int(w[1]), grad); }, run.array(w[2]));
}

void rows(Run& run, const Words& w) {
  std::vector<int64_t>& indices = run.rows.emplace_back();
  for (const std::string& word : std::span(w).subspan(3)) indices.push_back(to_int(word));
  std::visit(
      [&](auto& values) { run.opt(w[0]).bind_rows(to_int(w[1]), std::span(indices), values); },
      run.array(w[2]));
}

std::string slot(Run& run, const Words& w) {
  const talus::Optimizer& opt = run.opt(w[0]);
  const int64_t index = to_int(w[1]);
  const auto view = [&]<class T>(T) { return bits_of(opt.state<T>(index, w[2])); };
  for (const talus_state& state : opt.states())
    if (state.param == index && state.slot == w[2]) return with_element(state.dtype, view);
  throw Fault("parameter " + w[1] + " has no slot " + w[2]);
}

std::string stat(Run& run, const Words& w) {
  const talus_stats stats = run.opt(w[0]).stats(true);
  const std::map<std::string, int64_t> fields = {{"found_inf", stats.found_inf},
                                                 {"steps", stats.steps},
                                                 {"skipped", stats.skipped},
                                                 {"nonfinite_param", stats.nonfinite_param}};
  return std::to_string(fields.at(w[1]));
}

void schedule_list(Run& run, const Words& w) {
  std::vector<int64_t> values;
  for (const std::string& word : std::span(w).subspan(2)) values.push_back(to_int(word));
  if (w[1] != "milestones") throw Fault("the one list is milestones");
  run.schedule(w[0]).set_milestones(values);
}

void schedule_function(Run& run, const Words& w) {
  const double d = to_double(w[1]);
  run.schedule(w[0]).set_function([d](int64_t t) { return d / (d + double(t)); });
}

void attach(Run& run, const Words& w) {
  if (w[3] == "-")
    run.opt(w[0]).detach(w[2].c_str(), to_index(w[1]));
  else
    run.opt(w[0]).attach(w[2].c_str(), run.schedule(w[3]), to_index(w[1]));
}

void attach_scaler(Run& run, const Words& w) {
  if (w[1] == "-")
    run.opt(w[0]).detach_scaler();
  else
    run.opt(w[0]).attach(run.scaler(w[1]));
}

std::string export_param(Run& run, const Words& w) {
  if (w[2] == "master") {
    int64_t count = 1;
    const talus_param info = run.opt(w[0]).param(to_int(w[1]));
    for (int32_t i = 0; i < info.ndim; ++i) count *= info.shape[i];
    std::vector<float> copy(static_cast<size_t>(count));
    run.opt(w[0]).export_master(to_int(w[1]), copy);
    return bits_of(std::span(copy));
  }
  talus::check(talus_export_param(run.opt(w[0]).handle(), w[2].c_str(), to_int(w[1]), nullptr,
                                  TALUS_F32, nullptr));
  throw Fault("no view " + w[2] + " was expected");
}

std::string bytes(Run& run, const Words& w) {
  const talus_bytes found =
      run.opt(w[0]).bytes_per_param(dtype_of(w[2]), {.group = to_index(w[1]),
                                                     .state_dtype = dtype_of(w[4]),
                                                     .master = master_of(w[5]),
                                                     .grad_dtype = dtype_of(w[3])});
  const double fields[] = {found.param, found.grad, found.master,
                           found.state, found.read, found.written};
  return bits_of(std::span<const double>(fields));
}

void same_file(Run& run, const Words& w) {
  std::string contents[2];
  for (size_t i = 0; i < 2; ++i) {
    std::ifstream file(run.path(w[i]), std::ios::binary);
    contents[i].assign(std::istreambuf_iterator<char>(file), {});
  }
  if (contents[0].empty() || contents[0] != contents[1])
    throw Fault(w[0] + " and " + w[1] + " differ, or are empty");
}

void destroy(Run& run, const Words& w) {
  run.optimizers.erase(w[0]);
  run.schedules.erase(w[0]);
  run.scalers.erase(w[0]);
}

struct Call {
  size_t words;  // behind its name, at least
  std::function<std::string(Run&, const Words&)> make;
};

// A call that answers nothing.
template <class F>
Call act(size_t words, F f) {
  return {words, [f](Run& run, const Words& w) { return f(run, w), std::string(); }};
}

// One that answers what f returns.
template <class F>
Call ask(size_t words, F f) {
  return {words, [f](Run& run, const Words& w) -> std::string {
            const auto answer = f(run, w);
            if constexpr (std::is_same_v<decltype(answer), const double>)
              return bits_of(answer);
            else if constexpr (std::is_integral_v<decltype(answer)>)
              return std::to_string(answer);
            else
              return answer;
          }};
}

#define ACT(words, ...) act(words, [](Run& r, const Words& w) { __VA_ARGS__; })
#define ASK(words, ...) ask(words, [](Run& r, const Words& w) { return __VA_ARGS__; })
const std::map<std::string, Call> kCalls = {
    {"optimizer", ACT(2, add(r.optimizers, w[0], talus::Optimizer(w[1])))},
    {"group", ACT(2, r.opt(w[0]).add_group(w[1]))},
    {"set", ACT(4, r.opt(w[0]).set(w[2].c_str(), to_double(w[3]), to_index(w[1])))},
    {"get", ASK(3, r.opt(w[0]).get(w[2].c_str(), to_index(w[1])))},
    {"setting", ACT(3, r.opt(w[0]).set_setting(w[1].c_str(), to_double(w[2])))},
    {"get_setting", ASK(2, r.opt(w[0]).get_setting(w[1].c_str()))},
    {"count", ask(1, [](Run&, const Words& w) { return talus::names(w[0]).size(); })},
    {"array", ACT(2, add(r.arrays, w[0], make_array(w[1], std::span(w).subspan(2))))},
    {"fill", act(1, fill)},
    {"read", ask(1, read)},
    {"same", act(2, same)},
    {"param", act(8, param)},
    {"bind", act(3, bind)},
    {"rows", act(3, rows)},
    {"set_group", ACT(3, r.opt(w[0]).move(std::array{to_int(w[2])}, to_index(w[1])))},
    {"remove", ACT(2, r.opt(w[0]).remove(std::array{to_int(w[1])}))},
    {"find", ASK(2, r.opt(w[0]).find(w[1].c_str()).value_or(-1))},
    {"zero_grad", ACT(1, r.opt(w[0]).zero_grad())},
    {"slot", ask(3, slot)},
    {"steps", ASK(2, r.opt(w[0]).steps(to_int(w[1])))},
    {"set_steps", ACT(3, r.opt(w[0]).set_steps(to_int(w[1]), to_int(w[2])))},
    {"step", ACT(1, r.opt(w[0]).step())},
    {"advance", ACT(1, r.opt(w[0]).advance())},
    {"step_closure", ASK(2, r.opt(w[0]).step([&] { return to_double(w[1]); }))},
    {"stat", ask(2, stat)},
    {"schedule", ACT(2, add(r.schedules, w[0], talus::Schedule(w[1])))},
    {"schedule_set", ACT(3, r.schedule(w[0]).set(w[1].c_str(), to_double(w[2])))},
    {"schedule_list", act(2, schedule_list)},
    {"schedule_add", ACT(2, r.schedule(w[0]).add(r.schedule(w[1])))},
    {"schedule_function", act(2, schedule_function)},
    {"schedule_value", ASK(3, r.schedule(w[0]).value(to_double(w[1]), to_int(w[2])))},
    {"attach", act(4, attach)},
    {"value_now", ASK(3, r.opt(w[0]).value_now(w[2].c_str(), to_index(w[1])))},
    {"observe", ACT(2, r.opt(w[0]).observe(to_double(w[1])))},
    {"scaler", ACT(1, add(r.scalers, w[0], talus::Scaler()))},
    {"scaler_set", ACT(3, r.scaler(w[0]).set(w[1].c_str(), to_double(w[2])))},
    {"scale", ASK(1, r.scaler(w[0]).scale())},
    {"attach_scaler", act(2, attach_scaler)},
    {"update", ACT(1, r.scaler(w[0]).update())},
    {"norm", ASK(3, r.opt(w[0]).grad_norm(to_double(w[2]), to_index(w[1])))},
    {"clip", ASK(4, r.opt(w[0]).clip_grad_norm(to_double(w[2]), to_double(w[3]), to_index(w[1])))},
    {"export", ask(3, export_param)},
    {"bytes", ask(6, bytes)},
    {"save", ACT(2, r.opt(w[0]).save(r.path(w[1])))},
    {"load", ACT(2, r.opt(w[0]).load(r.path(w[1])))},
    {"truncate", ACT(2, std::filesystem::resize_file(r.path(w[0]), uintmax_t(to_int(w[1]))))},
    {"same_file", act(2, same_file)},
    {"destroy", act(1, destroy)}};
#undef ACT
#undef ASK

Words split(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

std::string make(Run& run, Words words) {
  const auto call = kCalls.find(words.at(0));
  if (call == kCalls.end()) throw Fault("unknown call " + words[0]);
  if (words.size() <= call->second.words) throw Fault("too few words");
  words.erase(words.begin());
  return call->second.make(run, words);
}

// ! STATUS WORD CALL
void must_fail(Run& run, const Words& words) {
  try {
    make(run, Words(words.begin() + 3, words.end()));
  } catch (const talus::Error& error) {
    if (error.name() == words[1] && std::string(error.what()).find(words[2]) != std::string::npos)
      return;
    throw Fault("got " + std::string(error.name()) + " \"" + error.what() + "\"");
  }
  throw Fault("nothing failed");
}

void run_line(Run& run, const std::string& line) {
  const size_t equals = std::min(line.find(" ="), line.size());
  const Words words = split(line.substr(0, equals));
  if (words.at(0) == "!") return must_fail(run, words);
  const std::string got = make(run, words);
  const std::string expected = equals < line.size() ? line.substr(equals + 3) : "";
  if (got != expected) throw Fault("got " + got + ", expected " + expected);
}

std::filesystem::path make_folder() {
  std::string path = std::filesystem::temp_directory_path() / "talus-conformance-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) throw Fault("no folder " + path);
  return path;
}

// Returns how many calls were made; *number: of the line.
int run_script(Run& run, std::istream& script, int* number) {
  int calls = 0;
  for (std::string line; std::getline(script, line);) {
    ++*number;
    if (line.empty() || line[0] == '#') continue;
    run_line(run, line);
    ++calls;
  }
  return calls;
}

}  // namespace

int main(int argc, char** argv) {
  const char* path = std::getenv("TALUS_CONFORMANCE");
  if (argc > 1) path = argv[1];
  if (path == nullptr) path = TALUS_CONFORMANCE_FILE;
  int number = 0, status = 0;
  Run run;
  try {
    std::ifstream script(path);
    run.folder = make_folder();
    const int calls = run_script(run, script, &number);
    if (calls == 0) throw Fault("no calls");
    std::printf("%d calls agree\n", calls);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s:%d: %s\n", path, number, error.what());
    status = 1;
  }
  std::filesystem::remove_all(run.folder);
  return status;
}
