#include "gnuplot.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sstream>

namespace command {
namespace {

constexpr int kNoSuchProgram = 127;  // of a shell

// The script lies in a file without a name, so that nothing is left of it and no pipe can break.
std::string run_gnuplot(const std::string& script, std::string* picture) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  if (!file) return fmt::format("no temporary file: {}", std::strerror(errno));
  const bool written = std::fwrite(script.data(), 1, script.size(), file.get()) == script.size();
  if (std::fflush(file.get()) != 0 || !written)
    return fmt::format("temporary file: {}", std::strerror(errno));
  std::rewind(file.get());
  const std::string line =
      fmt::format("gnuplot --default-settings /dev/fd/{} 2>/dev/null", fileno(file.get()));
  std::FILE* const gnuplot = popen(line.c_str(), "r");
  if (!gnuplot) return fmt::format("gnuplot could not be started: {}", std::strerror(errno));
  char part[1 << 16];
  while (const size_t count = std::fread(part, 1, sizeof part, gnuplot))
    picture->append(part, count);
  const int status = pclose(gnuplot);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNoSuchProgram) return "gnuplot was not found";
  return status == 0 && !picture->empty() ? "" : "gnuplot failed";
}

std::string write_file(const std::string& text, const std::string& name) {
  std::FILE* const file = std::fopen(name.c_str(), "wb");
  if (!file) return std::strerror(errno);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const int error = errno;
  if (std::fclose(file) == 0 && written) return "";
  const std::string reason = std::strerror(written ? errno : error);
  std::error_code ignored;
  if (std::filesystem::is_regular_file(name, ignored)) std::filesystem::remove(name, ignored);
  return reason;
}

// Without empty lines and without spaces at the end of others.
std::string without_margins(const std::string& picture) {
  std::istringstream lines(picture);
  std::string out;
  for (std::string line; std::getline(lines, line);) {
    line.erase(line.find_last_not_of(" \f\r") + 1);
    if (!line.empty()) out += line + "\n";
  }
  return out;
}

}  // namespace

std::string gnuplot_string(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("''") : std::string(1, c);
  return out + "'";
}

std::string draw_svg(const std::string& script, const std::string& file) {
  std::string picture;
  const std::string reason =
      run_gnuplot("set terminal svg size 720,420 noenhanced\n" + script, &picture);
  return reason.empty() ? write_file(picture, file) : reason;
}

std::string draw_text(const std::string& script, size_t width, size_t height, std::string* reason) {
  std::string picture;
  *reason = run_gnuplot(
      fmt::format("set terminal dumb nofeed size {},{} noenhanced\n{}", width, height, script),
      &picture);
  return reason->empty() ? without_margins(picture) : "";
}

}  // namespace command
