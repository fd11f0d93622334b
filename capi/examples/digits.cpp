// Trains a digit classifier through talus.hpp: train_digits.c for hosts in C++, with the defaults of
// that program, and the same bits.
//
//     digits --epochs 10 --save half.safetensors --stop-after 5
//     digits --epochs 10 --resume half.safetensors
//
// The network and its gradients (perceptron.h) are the program's own affair; talus sees spans and
// names. For the use of the library read make_optimizer, Training::run, save and resume.
#define TALUS_DIGITS_PROGRAM "digits"
#include <talus.hpp>

#include "digits_images.h"
#include "perceptron.h"

#include <unistd.h>

#include <charconv>
#include <iomanip>
#include <iostream>
#include <optional>
#include <span>
#include <sstream>
#include <string>

namespace {

constexpr float kNoise = 0.3f;  // standard deviation, added to pixels in training
constexpr double kLr = 0.01;
constexpr int kBatch = 32;

struct Options {
  std::string data = TALUS_DIGITS_CSV, save, resume;
  int epochs = 80;
  int stop_after = -1;  // epochs; -1: at the end
};

struct Misuse : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A view of the network's memory, which talus borrows for the whole run.
std::span<float> part(float* of, const Tensor& tensor) {
  return {of + tensor.first, size_t(tensor.count)};
}

// The weights are group 0; the biases have a group of their own, since they do not decay.
talus::Optimizer make_optimizer(Network& net) {
  talus::Optimizer opt("adamw", {{"lr", kLr}});
  const int32_t biases = opt.add_group({}, {{"weight_decay", 0}});
  for (int l = 0; l < kLayers; ++l) {
    for (const Tensor* tensor : {&net.weight[l], &net.bias[l]}) {
      opt.add(part(net.parameters, *tensor), part(net.gradients, *tensor),
              {.name = tensor->name,
               .shape = {tensor->shape, tensor->shape + tensor->ndim},
               .group = tensor->ndim == 1 ? biases : 0});
    }
  }
  return opt;
}

// A number of a checkpoint's notes.
template <class T>
T number_of(const talus::Optimizer& opt, const char* key) {
  const std::string text = opt.note(key).value_or("");
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    throw std::runtime_error(std::string("the checkpoint's note ") + key + " is no number");
  return value;
}

class Training {
 public:
  Training(Network& net, Images images, uint64_t random, int epochs)
      : net_(net), images_(images), random_(random), epochs_(epochs), opt_(make_optimizer(net)) {}

  // Takes a step for each batch of each epoch before stop. The learning rate falls in a line to
  // kLr / epochs.
  template <class Report>
  void run(int stop, Report report) {
    for (; epoch_ < stop; report(++epoch_)) {
      opt_.set("lr", kLr * (1 - double(epoch_) / epochs_));
      shuffle(images_, &random_);
      for (int first = 0; first < images_.count; first += kBatch)
        opt_.step([&] {
          return compute_gradients(&net_, batch_at(images_, first, kBatch), kNoise, &random_);
        });
    }
  }

  // talus keeps the optimizer and the parameters, and as notes where the program is.
  void save(const std::string& path) {
    std::ostringstream order;
    for (int i = 0; i < images_.count; ++i) order << images_.image[i].number << ' ';
    opt_.set_note("digits.epochs", std::to_string(epochs_));
    opt_.set_note("digits.epoch", std::to_string(epoch_));
    opt_.set_note("digits.random", std::to_string(random_));
    opt_.set_note("digits.order", order.str());
    opt_.save(path, TALUS_SAVE_PARAMS);
  }

  void resume(const std::string& path) {
    opt_.load(path, TALUS_LOAD_PARAMS);
    if (number_of<int>(opt_, "digits.epochs") != epochs_)
      throw std::runtime_error(path + ": was made with another --epochs");
    epoch_ = number_of<int>(opt_, "digits.epoch");
    random_ = number_of<uint64_t>(opt_, "digits.random");
    std::istringstream order(opt_.note("digits.order").value_or(""));
    for (int i = 0; i < images_.count; ++i) place(i, order);
  }

  int64_t steps() { return opt_.stats().steps; }
  uint64_t state_bytes() { return opt_.stats().state_bytes; }

 private:
  // Puts the next image of the order at i.
  void place(int i, std::istream& order) {
    const std::span rest(images_.image + i, size_t(images_.count - i));
    int number = -1;
    order >> number;
    const auto found = std::ranges::find(rest, number, &Image::number);
    if (found == rest.end()) throw std::runtime_error("the checkpoint is of other images");
    std::swap(rest.front(), *found);
  }

  Network& net_;
  Images images_;
  uint64_t random_;
  int epochs_, epoch_ = 0;
  talus::Optimizer opt_;
};

void show_progress(int epoch, int epochs, Score validation) {
  constexpr int kBar = 30;
  const size_t done = size_t(epoch * kBar / epochs);
  std::cerr << "\r[" << std::string(done, '#') << std::string(kBar - done, '.') << "] epoch "
            << epoch << " of " << epochs << ", validation accuracy " << std::fixed
            << std::setprecision(4) << accuracy_of(validation) << (epoch == epochs ? "\n" : "")
            << std::flush;
}

void print_score(const char* part, Score score) {
  std::cout << part << " accuracy " << std::fixed << std::setprecision(4) << accuracy_of(score)
            << " (" << score.right << " of " << score.count << ")\n";
}

int parse_count(const std::string& option, const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > 100000)
    throw Misuse(option + " takes an integer of 0 to 100000, got '" + text + "'");
  return value;
}

Options parse_options(std::span<char*> words) {
  Options options;
  for (size_t i = 0; i < words.size(); i += 2) {
    const std::string option = words[i];
    if (i + 1 == words.size()) throw Misuse("unknown option, or nothing after it: " + option);
    const std::string value = words[i + 1];
    if (option == "--epochs")
      options.epochs = parse_count(option, value);
    else if (option == "--stop-after")
      options.stop_after = parse_count(option, value);
    else if (option == "--data")
      options.data = value;
    else if (option == "--save")
      options.save = value;
    else if (option == "--resume")
      options.resume = value;
    else
      throw Misuse("unknown option " + option);
  }
  return options;
}

void train(const Options& options) {
  const Images all = load_images(options.data.c_str());
  const std::unique_ptr<Image, decltype(&std::free)> owner(all.image, &std::free);
  shuffle_by_split(all);
  const Images validation = third(all, 1), test = third(all, 2);

  Network net;
  uint64_t random = 1;
  init_network(&net, &random);
  Training training(net, third(all, 0), random, options.epochs);
  if (!options.resume.empty()) training.resume(options.resume);

  const bool is_stopped = options.stop_after >= 0 && options.stop_after < options.epochs;
  const bool has_terminal = isatty(STDERR_FILENO) != 0;
  training.run(is_stopped ? options.stop_after : options.epochs, [&](int epoch) {
    if (has_terminal) show_progress(epoch, options.epochs, score_of(&net, validation));
  });
  if (!options.save.empty()) training.save(options.save);

  std::cout << training.steps() << " steps of " << int(kParameters) << " f32 parameters, "
            << training.state_bytes() << " bytes of state\n";
  print_score("validation", score_of(&net, validation));
  if (!is_stopped) print_score("test", score_of(&net, test));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    train(parse_options(std::span(argv + 1, size_t(argc - 1))));
    return std::cout.flush() ? 0 : 1;
  } catch (const talus::Error& error) {
    std::cerr << "digits: " << error.name() << ": " << error.what() << '\n';
    return 1;
  } catch (const Misuse& error) {
    std::cerr << "digits: " << error.what() << '\n';
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "digits: " << error.what() << '\n';
    return 1;
  }
}
