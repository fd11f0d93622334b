// The `talus` command: reads the command line and runs one subcommand.
#include "command.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <exception>

namespace {

constexpr const char* kFooter =
    "Exit codes: 0 success; 1 failure (an unknown rule, a failed check); 2 wrong usage;\n"
    "3 a measurement that established nothing. Of diff: 0 the same; 1 they differ; 2 trouble.\n"
    "Errors go to standard error; with --json standard output is one JSON document.\n"
    "Example: talus list adamw";

std::string version_line() {
  const uint32_t version = talus_version();
  return fmt::format("talus {}.{}.{}", version >> 16, version >> 8 & 255, version & 255);
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app{
      "talus: an optimizer runtime. Shows what the library is, has and does here, how fast, and\n"
      "what its checkpoints hold.",
      "talus"};
  app.footer(kFooter);
  app.set_version_flag("--version", version_line());
  app.require_subcommand(1);
  const command::Command commands[] = {
      command::add_info(app),     command::add_list(app),
      command::add_schedule(app), command::add_selftest(app),
      command::add_inspect(app),  command::add_diff(app),
      command::add_bench(app),    command::add_bench_checkpoint(app)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? command::kOk : command::kUsage;
  }
  for (const command::Command& each : commands)
    if (each.line->parsed()) {
      const int code = each.run();
      if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
      fmt::print(stderr, "talus: standard output cannot be written\n");
      return each.failure;
    }
  return command::kUsage;
} catch (const talus::Error& error) {
  fmt::print(stderr, "talus: {}: {}\n", error.name(), error.what());
  return command::kFailure;
} catch (const std::exception& error) {
  fmt::print(stderr, "talus: {}\n", error.what());
  return command::kFailure;
}
