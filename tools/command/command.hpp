// What the subcommands of `talus` share; each lives in the file of its name and knows the library
// by its C ABI alone. But for bench, inspect and diff, which look into the core and lie in
// tools/bench and tools/checkpoint.
#pragma once
#include <CLI/CLI.hpp>
#include <talus.hpp>

#include <functional>
#include <string>

namespace command {

// Exit codes of the program; --help names them.
inline constexpr int kOk = 0;
inline constexpr int kFailure = 1;         // the library refused, or a check failed
inline constexpr int kUsage = 2;           // the command line is not one of ours
inline constexpr int kNotEstablished = 3;  // a measurement that says neither yes nor no

// A subcommand: its command line, and what it does once that has been read.
struct Command {
  CLI::App* line;
  std::function<int()> run;
  int failure = kFailure;  // the exit code where its output cannot be written
};

Command add_bench(CLI::App& app);
Command add_bench_checkpoint(CLI::App& app);
Command add_diff(CLI::App& app);
Command add_info(CLI::App& app);
Command add_inspect(CLI::App& app);
Command add_list(CLI::App& app);
Command add_schedule(CLI::App& app);
Command add_selftest(CLI::App& app);

// Returns the rule behind an algorithm or alias; an unknown name throws the library's own text.
std::string rule_of(const std::string& name);

}  // namespace command
