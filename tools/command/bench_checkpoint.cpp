// `talus bench-checkpoint`: saves and loads beside a plain write and fsync, or a plain read, of as many
// bytes in the same run; and what memory each takes beyond the state.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/command/command.hpp"
#include "tools/command/table.hpp"

#include <fmt/format.h>

namespace command {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kPiece = size_t{8} << 20;  // of a plain write or read
constexpr double kMiB = 1 << 20;

struct Arguments {
  std::string folder = ".";
  double gib = 2;
  int pairs = 5;
  bool json = false;
};

struct Row {
  std::string what;
  std::vector<double> ratios, seconds, plain;
  double extra_mib = 0;
};

[[noreturn]] void give_up(const std::string& call, const std::string& path) {
  throw std::runtime_error(fmt::format("{} {}: {}", call, path, std::strerror(errno)));
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// A field of /proc/self/status in MiB; the peak starts anew when it is asked for by reset_peak.
double memory_mib(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field + ":")) return std::stod(line.substr(field.size() + 1)) / 1024;
  return NAN;
}
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : number_(open(path.c_str(), flags, 0666)) {
    if (number_ < 0) give_up("open", path);
  }
  ~Descriptor() { close(number_); }
  Descriptor(const Descriptor&) = delete;
  operator int() const { return number_; }

 private:
  int number_;
};

void write_plain(const std::string& path, const std::vector<char>& piece, uint64_t bytes) {
  const Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC);
  for (uint64_t done = 0; done < bytes;) {
    const ssize_t n = write(file, piece.data(), std::min<uint64_t>(piece.size(), bytes - done));
    if (n <= 0) give_up("write", path);
    done += uint64_t(n);
  }
  if (fsync(file) != 0) give_up("fsync", path);
}

// Into memory as large as the state, in pieces.
void read_plain(const std::string& path, std::vector<char>& room) {
  const Descriptor file(path, O_RDONLY);
  for (size_t at = 0; at < room.size();) {
    const ssize_t n = read(file, room.data() + at, std::min(kPiece, room.size() - at));
    if (n < 0) give_up("read", path);
    if (n == 0) break;
    at += size_t(n);
  }
}

// Parameters of adamw, 8 bytes of state an element, of 16 Mi elements each.
class Subject {
 public:
  explicit Subject(uint64_t state_bytes) : optimizer_("adamw") {
    constexpr uint64_t kElements = uint64_t{16} << 20;
    const uint64_t elements = std::max<uint64_t>(1, state_bytes / 8);
    data_.resize(elements, 1.0f);
    grad_.resize(kElements, 0.5f);
    for (uint64_t at = 0; at < elements; at += kElements) {
      const size_t n = size_t(std::min(kElements, elements - at));
      optimizer_.add(std::span(data_.data() + at, n), std::span(grad_.data(), n));
    }
  }
  talus::Optimizer& optimizer() { return optimizer_; }

 private:
  std::vector<float> data_, grad_;
  talus::Optimizer optimizer_;
};

class Measurement {
 public:
  explicit Measurement(const Arguments& arguments)
      : pairs_(arguments.pairs),
        bytes_(uint64_t(arguments.gib * 1024 * kMiB)),
        path_(fmt::format("{}/talus-bench-{}.safetensors", arguments.folder, getpid())),
        plain_path_(path_ + ".plain"),
        piece_(kPiece, 'x'),
        room_(bytes_, 'y'),
        live_(bytes_) {
    live_.optimizer().step();
  }
  ~Measurement() {
    unlink(path_.c_str());
    unlink(plain_path_.c_str());
  }
  Measurement(const Measurement&) = delete;

  std::vector<Row> run() {
    const auto write = [&] { write_plain(plain_path_, piece_, bytes_); };
    const auto read = [&] { read_plain(path_, room_); };
    std::vector<Row> rows;
    rows.push_back(measure("save", write, [&] { live_.optimizer().save(path_); }));
    rows.push_back(measure("load, in place", read,
                           [&] { live_.optimizer().load(path_, TALUS_LOAD_IN_PLACE); }));
    rows.push_back(measure("load, over live state", read, [&] { live_.optimizer().load(path_); }));
    rows.push_back(measure_fresh(read));
    return rows;
  }

 private:
  Row measure(const std::string& what, const std::function<void()>& plain,
              const std::function<void()>& work) {
    Row row{what, {}, {}, {}, 0};
    for (int i = 0; i < pairs_; ++i) {
      const double before = seconds_of(plain);
      const double base = memory_mib("VmRSS");
      reset_peak();
      const double own = seconds_of(work);
      row.extra_mib = std::max(row.extra_mib, memory_mib("VmHWM") - base);
      keep(row, own, (before + seconds_of(plain)) / 2);
    }
    return row;
  }

  // Its state is new memory: what it takes beyond that is extra.
  Row measure_fresh(const std::function<void()>& plain) {
    Row row{"load, fresh", {}, {}, {}, 0};
    for (int i = 0; i < pairs_; ++i) {
      Subject fresh(bytes_);
      fresh.optimizer().prepare();
      const double before = seconds_of(plain);
      const double base = memory_mib("VmRSS");
      reset_peak();
      const double own = seconds_of([&] { fresh.optimizer().load(path_); });
      row.extra_mib = std::max(row.extra_mib, memory_mib("VmHWM") - base - double(bytes_) / kMiB);
      keep(row, own, (before + seconds_of(plain)) / 2);
    }
    return row;
  }

  static void keep(Row& row, double own, double plain) {
    row.ratios.push_back(plain / own);
    row.seconds.push_back(own);
    row.plain.push_back(plain);
  }

  int pairs_;
  uint64_t bytes_;
  std::string path_, plain_path_;
  std::vector<char> piece_, room_;
  Subject live_;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int run(const Arguments& arguments) {
  const std::vector<Row> rows = Measurement(arguments).run();
  if (arguments.json) {
    Json list = Json::array();
    for (const Row& r : rows)
      list.push_back({{"what", r.what},
                      {"gib", arguments.gib},
                      {"ratio", median(r.ratios)},
                      {"seconds", median(r.seconds)},
                      {"plain_seconds", median(r.plain)},
                      {"extra_mib", r.extra_mib},
                      {"pairs", r.ratios.size()}});
    fmt::print("{}\n", list.dump(2));
    return kOk;
  }
  std::vector<std::vector<std::string>> cells = {
      {"what", "GiB", "seconds", "plain", "ratio", "least", "most", "extra MiB"}};
  for (const Row& r : rows)
    cells.push_back(
        {r.what, fmt::format("{:g}", arguments.gib), fmt::format("{:.2f}", median(r.seconds)),
         fmt::format("{:.2f}", median(r.plain)), fmt::format("{:.2f}", median(r.ratios)),
         fmt::format("{:.2f}", *std::min_element(r.ratios.begin(), r.ratios.end())),
         fmt::format("{:.2f}", *std::max_element(r.ratios.begin(), r.ratios.end())),
         fmt::format("{:.0f}", r.extra_mib)});
  fmt::print("{}", format_table(cells));
  return kOk;
}

constexpr const char* kFooter =
    "A sample is plain, talus, plain; plain is a write and fsync of as many bytes for a save, a "
    "read\n"
    "of the file for a load (from the page cache, as the load). ratio = plain time / talus time, "
    "the\n"
    "median of the samples. extra is the peak of memory beyond what the state needs. Needs four\n"
    "times GIB in memory and twice in FOLDER.";

}  // namespace

Command add_bench_checkpoint(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* line = app.add_subcommand("bench-checkpoint",
                                      "Measures saves and loads against a plain write and read");
  line->add_option("--folder", arguments->folder, "Where the files go")->capture_default_str();
  line->add_option("--gib", arguments->gib, "State in GiB")
      ->check(CLI::Range(0.001, 1024.0))
      ->capture_default_str();
  line->add_option("--pairs", arguments->pairs, "Samples")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  line->add_flag("--json", arguments->json, "Print JSON, a list of rows");
  line->footer(kFooter);
  return {line, [arguments] { return run(*arguments); }};
}

}  // namespace command
