// A process that saves again and again is killed at random moments; after each kill the checkpoint
// loads, and is bit for bit that of some step, no earlier one than before.
//   kill_saves [kills [seed]]      500 kills, half of them of saves of several files
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/checkpoint/saved_model.h"

using namespace talus::test;

namespace {

int64_t steps_of(const SmallModel& model) {
  int64_t steps = 0;
  must(talus_steps(model.get(), 0, &steps));
  return steps;
}

// Goes on where the checkpoint is.
[[noreturn]] void train_and_save(const std::string& path) {
  SmallModel model;
  if (load_at(model, path) != TALUS_OK) ::_exit(3);
  for (int64_t step = steps_of(model) + 1;; ++step) {
    model.step(step);
    if (save_at(model, path) != TALUS_OK) ::_exit(4);
  }
}

void sleep_us(int64_t us) {
  const timespec time = {us / 1'000'000, us % 1'000'000 * 1000};
  ::nanosleep(&time, nullptr);
}

// True: it ran until it was killed.
bool run_and_kill(const std::string& path, int64_t us) {
  const pid_t child = ::fork();
  if (child == 0) train_and_save(path);
  if (child < 0) return false;
  sleep_us(us);
  ::kill(child, SIGKILL);
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
         WTERMSIG(status) == SIGKILL;
}

int64_t now_us() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000 + time.tv_nsec / 1000;
}

// Temporaries, which are removed: a day is not waited for here.
int64_t take_left_overs(const Folder& folder) {
  int64_t count = 0;
  for (const std::string& name : folder.names())
    if (name.starts_with('.')) count += ::unlink((folder / name).c_str()) == 0;
  return count;
}

struct Tally {
  int64_t steps = 0, left_overs = 0, moved_on = 0;
};

// One name in a folder of its own.
class Trial {
 public:
  explicit Trial(const char* name) : path_(folder_ / name) {
    const int64_t begin = now_us();
    for (int i = 0; i < 4; ++i) must(save_at(reference_, path_));
    save_us_ = (now_us() - begin) / 4;
  }

  // False, with the reason on stderr: a checkpoint is not what it must be.
  bool kill_once(int64_t us) {
    if (!run_and_kill(path_, us)) return wrong("the child ended by itself, or there was none");
    const int64_t left = take_left_overs(folder_);
    if (left > 1) return wrong("more than one temporary is left");
    tally_.left_overs += left;
    const SmallModel loaded;
    if (load_at(loaded, path_) != TALUS_OK) return wrong(talus_last_error());
    return check(loaded);
  }
  const Tally& tally() const { return tally_; }
  int64_t save_us() const { return save_us_; }

 private:
  bool check(const SmallModel& loaded) {
    const int64_t steps = steps_of(loaded);
    if (steps < tally_.steps) return wrong("an earlier step than before");
    tally_.moved_on += steps > tally_.steps;
    while (tally_.steps < steps) reference_.step(++tally_.steps);
    if (loaded.bytes() != reference_.bytes()) return wrong("other bytes than those of its step");
    return true;
  }
  bool wrong(const char* why) const {
    std::fprintf(stderr, "%s after step %" PRId64 ": %s\n", path_.c_str(), tally_.steps, why);
    return false;
  }

  Folder folder_;
  std::string path_;
  SmallModel reference_;
  int64_t save_us_ = 0;
  Tally tally_;
};

}  // namespace

int main(int count, char** arguments) {
  const int64_t kills = count > 1 ? std::atoll(arguments[1]) : 500;
  const uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1;
  std::mt19937_64 random(seed);
  Trial plain(kPlainName), sharded(kIndexName);
  for (int64_t i = 0; i < kills; ++i) {
    Trial& trial = i % 2 == 0 ? plain : sharded;
    // From the start of the process, which loads first, to some saves.
    const double saves = 1 + 6.0 * double(i) / double(kills);
    const int64_t us = int64_t(random() % uint64_t(2000 + saves * double(trial.save_us())));
    if (trial.kill_once(us)) continue;
    std::fprintf(stderr, "kill %" PRId64 " after %" PRId64 " us, seed %" PRIu64 "\n", i, us, seed);
    return 1;
  }
  for (const Trial* trial : {&plain, &sharded}) {
    const Tally& t = trial->tally();
    std::printf("%s: %" PRId64 " us a save, %" PRId64 " saves, %" PRId64
                " kills behind a new one, %" PRId64 " temporaries left\n",
                trial == &plain ? "one file" : "several files", trial->save_us(), t.steps,
                t.moved_on, t.left_overs);
    if (t.moved_on == 0 || t.left_overs == 0) {
      std::fprintf(stderr, "no kill has met a save under way: the times do not fit here\n");
      return 1;
    }
  }
  return 0;
}
