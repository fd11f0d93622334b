// One CPU target in a process of its own, which sends its results through a pipe.
#include "selftest.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace command {
namespace {

using Json = nlohmann::json;

constexpr int kMostMilliseconds = 300'000;  // for a setup, which takes a second

void send(int pipe, const void* data, size_t bytes) {
  for (const char* at = static_cast<const char*>(data); bytes > 0;) {
    const ssize_t done = write(pipe, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) _exit(1);  // nobody listens any more
    at += done, bytes -= size_t(done);
  }
}

// False where the other end was closed before, or says nothing.
bool receive(int pipe, void* data, size_t bytes) {
  for (char* at = static_cast<char*>(data); bytes > 0;) {
    pollfd ready{pipe, POLLIN, 0};
    const int count = poll(&ready, 1, kMostMilliseconds);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    const ssize_t done = read(pipe, at, bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    at += done, bytes -= size_t(done);
  }
  return true;
}

// A header in JSON behind its length, then the bytes of all buffers.
void send(int pipe, const TargetResult& result) {
  Json buffers = Json::array();
  for (const Buffer& each : result.buffers)
    buffers.push_back({each.what, each.tensor, each.dtype, each.bytes.size()});
  const std::string header = Json{
      {"checks", result.outcome.checks},
      {"failures", result.outcome.failures},
      {"buffers", buffers}}.dump();
  const size_t size = header.size();
  send(pipe, &size, sizeof size);
  send(pipe, header.data(), size);
  for (const Buffer& each : result.buffers) send(pipe, each.bytes.data(), each.bytes.size());
}

bool receive(int pipe, TargetResult* result) {
  size_t size = 0;
  if (!receive(pipe, &size, sizeof size)) return false;
  std::string header(size, ' ');
  if (!receive(pipe, header.data(), size)) return false;
  const Json parsed = Json::parse(header);
  result->outcome = {parsed["checks"], parsed["failures"]};
  for (const Json& each : parsed["buffers"]) {
    Buffer buffer{each[0], each[1], each[2], {}};
    buffer.bytes.resize(each[3]);
    if (!receive(pipe, buffer.bytes.data(), buffer.bytes.size())) return false;
    result->buffers.push_back(std::move(buffer));
  }
  return true;
}

[[noreturn]] void run_target(int pipe, const std::string& target, bool checked) {
  setenv("TALUS_CPU_TARGET", target.c_str(), 1);
  for (const Setup& setup : all_setups()) {
    TargetResult result;
    try {
      result.buffers = run_everywhere(setup, checked ? &result.outcome : nullptr);
      if (checked && setup.values.empty()) check_worked_values(setup.algorithm, result.outcome);
    } catch (const std::exception& error) {
      result.outcome.add(error.what());
    }
    send(pipe, result);
  }
  _exit(0);  // nothing of the parent's is to be flushed twice
}

}  // namespace

TargetRun::TargetRun(const std::string& target, bool checked) : target_(target) {
  int ends[2];
  std::fflush(nullptr);
  if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  process_ = fork();
  if (process_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (process_ == 0) {
    close(ends[0]);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // not to go on alone
#endif
    run_target(ends[1], target, checked);
  }
  close(ends[1]);
  pipe_ = ends[0];
}

TargetRun::TargetRun(TargetRun&& other) noexcept
    : target_(std::move(other.target_)),
      process_(std::exchange(other.process_, -1)),
      pipe_(std::exchange(other.pipe_, -1)) {}

TargetRun::~TargetRun() { how_it_ended(); }

TargetResult TargetRun::next() {
  TargetResult result;
  if (process_ < 0 || !receive(pipe_, &result)) throw std::runtime_error(how_it_ended());
  return result;
}

std::string TargetRun::how_it_ended() {
  if (process_ < 0) return "ended before";
  int status = 0;
  close(pipe_);
  kill(process_, SIGKILL);  // which one that has ended does not feel
  while (waitpid(process_, &status, 0) < 0 && errno == EINTR) {}
  process_ = -1;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return "was killed, or said nothing more";
  if (WIFSIGNALED(status)) return fmt::format("died of \"{}\"", strsignal(WTERMSIG(status)));
  return fmt::format("ended early with exit code {}", WEXITSTATUS(status));
}

}  // namespace command
