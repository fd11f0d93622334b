/* A multilayer perceptron for images of digits, with its gradients; it knows nothing of talus.
 *
 * Header only, so that train_digits.c is built by one compiler call.
 */
#ifndef TALUS_EXAMPLES_PERCEPTRON_H
#define TALUS_EXAMPLES_PERCEPTRON_H
#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
  kPixels = 64,
  kHidden = 128,
  kClasses = 10,
  kLayers = 2,
  kWidest = kHidden > kPixels ? kHidden : kPixels,
  kParameters = kPixels * kHidden + kHidden * kClasses + kHidden + kClasses
};

static const int kWidth[kLayers + 1] = {kPixels, kHidden, kClasses};

typedef struct Image {
  float pixels[kPixels]; /* 0 .. 1 */
  int digit, number;     /* number: place in the file, from 0 */
} Image;

typedef struct Images {
  Image *image;
  int count;
} Images;

/* A view of the network's parameters. */
typedef struct Tensor {
  const char *name;
  int64_t shape[2]; /* inputs x outputs, or outputs */
  int32_t ndim;
  int first, count; /* elements of parameters and gradients */
} Tensor;

/* `round` is for products of 16-bit operands, as matrix units have them: sums are f32, and what they
 * take and give is rounded. Parameters are rounded by whoever sets them. */
typedef struct Network {
  float parameters[kParameters], gradients[kParameters];
  Tensor weight[kLayers], bias[kLayers];
  float (*round)(float); /* NULL: all is f32 */
  float loss_factor;     /* gradients are those of the loss times this */
} Network;

/* The outputs of all layers for one image; layer 0 is the image itself. */
typedef struct Activations {
  float of[kLayers + 1][kWidest];
} Activations;

typedef struct Score {
  double loss; /* mean cross entropy */
  int right, count;
} Score;

/* SplitMix64 (Steele, Lea & Flood 2014): the same numbers with every C library. */
static uint64_t random_bits(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Uniform in -1 .. 1. */
static float random_unit(uint64_t *state) {
  return (float)(random_bits(state) >> 40) / 8388608.0f - 1.0f;
}

static void shuffle(Images images, uint64_t *random) {
  for (int i = images.count - 1; i > 0; --i) {
    int j = (int)((random_bits(random) >> 32) * (uint64_t)(i + 1) >> 32);
    Image other = images.image[i];
    images.image[i] = images.image[j];
    images.image[j] = other;
  }
}

/* The sum of three has nearly a normal distribution, of standard deviation 1. */
static Image add_noise(const Image *image, float deviation, uint64_t *random) {
  Image noisy = *image;
  for (int i = 0; i < kPixels; ++i)
    for (int k = 0; k < 3; ++k) noisy.pixels[i] += deviation * random_unit(random);
  return noisy;
}

/* Weights uniform within sqrt(6 / inputs) (He et al. 2015), biases 0. */
static void init_network(Network *net, uint64_t *random) {
  static const char *const kWeights[kLayers] = {"hidden.weight", "output.weight"};
  static const char *const kBiases[kLayers] = {"hidden.bias", "output.bias"};
  int first = 0;
  memset(net, 0, sizeof *net);
  net->loss_factor = 1;
  for (int l = 0; l < kLayers; ++l) {
    int inputs = kWidth[l], outputs = kWidth[l + 1];
    Tensor weight = {kWeights[l], {inputs, outputs}, 2, first, inputs * outputs};
    Tensor bias = {kBiases[l], {outputs, 0}, 1, first + weight.count, outputs};
    for (int i = 0; i < weight.count; ++i)
      net->parameters[first + i] = random_unit(random) * sqrtf(6.0f / (float)inputs);
    net->weight[l] = weight;
    net->bias[l] = bias;
    first += weight.count + bias.count;
  }
}

static void round_all(const Network *net, float *values, int count) {
  for (int i = 0; net->round && i < count; ++i) values[i] = net->round(values[i]);
}

static void forward(const Network *net, const Image *image, Activations *a) {
  memcpy(a->of[0], image->pixels, sizeof image->pixels);
  round_all(net, a->of[0], kPixels);
  for (int l = 0; l < kLayers; ++l) {
    int inputs = kWidth[l], outputs = kWidth[l + 1];
    const float *weight = net->parameters + net->weight[l].first, *in = a->of[l];
    float *out = a->of[l + 1];
    memcpy(out, net->parameters + net->bias[l].first, (size_t)outputs * sizeof *out);
    for (int i = 0; i < inputs; ++i)
      for (int o = 0; o < outputs; ++o) out[o] += in[i] * weight[i * outputs + o];
    for (int o = 0; l + 1 < kLayers && o < outputs; ++o)
      out[o] = out[o] < 0 ? 0 : out[o]; /* relu */
    round_all(net, out, outputs);
  }
}

/* Returns -log softmax(logits)[digit] and writes its derivative by the logits to delta. */
static double cross_entropy(const float *logits, int digit, float *delta) {
  float largest = logits[0], sum = 0;
  for (int c = 1; c < kClasses; ++c) largest = logits[c] > largest ? logits[c] : largest;
  for (int c = 0; c < kClasses; ++c) sum += delta[c] = expf(logits[c] - largest);
  for (int c = 0; c < kClasses; ++c) delta[c] = delta[c] / sum - (c == digit ? 1.0f : 0.0f);
  return logf(sum) - (logits[digit] - largest);
}

/* Adds one image's gradients; delta is the loss's derivative by the logits, and is used up. */
static void backward(Network *net, const Activations *a, float delta[kWidest]) {
  for (int l = kLayers - 1; l >= 0; --l) {
    int inputs = kWidth[l], outputs = kWidth[l + 1];
    const float *weight = net->parameters + net->weight[l].first, *in = a->of[l];
    float *weight_gradient = net->gradients + net->weight[l].first;
    float *bias_gradient = net->gradients + net->bias[l].first, below[kWidest];
    round_all(net, delta, outputs);
    for (int o = 0; o < outputs; ++o) bias_gradient[o] += delta[o];
    for (int i = 0; i < inputs; ++i) {
      float sum = 0;
      for (int o = 0; o < outputs; ++o) weight_gradient[i * outputs + o] += in[i] * delta[o];
      for (int o = 0; l > 0 && o < outputs; ++o) sum += weight[i * outputs + o] * delta[o];
      below[i] = in[i] > 0 ? sum : 0;
    }
    memcpy(delta, below, (size_t)inputs * sizeof *delta);
  }
}

/* Computes the mean loss of a batch, seen through noise, and its gradients times loss_factor. The loss
 * and its derivative are f32 in any case. */
static double compute_gradients(Network *net, Images batch, float noise, uint64_t *random) {
  Activations a;
  float delta[kWidest];
  double loss = 0;
  memset(net->gradients, 0, sizeof net->gradients);
  for (int i = 0; i < batch.count; ++i) {
    Image image = add_noise(&batch.image[i], noise, random);
    forward(net, &image, &a);
    loss += cross_entropy(a.of[kLayers], image.digit, delta) / batch.count;
    for (int c = 0; c < kClasses; ++c) delta[c] = delta[c] / (float)batch.count * net->loss_factor;
    backward(net, &a, delta);
  }
  round_all(net, net->gradients, kParameters);
  return loss;
}

static Score score_of(const Network *net, Images images) {
  Score score = {0, 0, images.count};
  Activations a;
  float delta[kWidest];
  const float *logits = a.of[kLayers];
  for (int i = 0; i < images.count; ++i) {
    int best = 0;
    forward(net, &images.image[i], &a);
    score.loss += cross_entropy(logits, images.image[i].digit, delta) / images.count;
    for (int c = 1; c < kClasses; ++c) best = logits[c] > logits[best] ? c : best;
    score.right += best == images.image[i].digit;
  }
  return score;
}

static double accuracy_of(Score score) { return (double)score.right / score.count; }

#endif
