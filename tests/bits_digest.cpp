// Prints one line: a 64-bit digest of the result bits of every algorithm over all dtype mixes, for
// comparing compilers and optimisation levels. Its data come from integer arithmetic alone.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <string>
#include <vector>

#include "talus.h"

namespace {

constexpr int kSteps = 20;
constexpr int64_t kSizes[] = {1, 7, 64, 333, 4099};

// ---- data

uint64_t mix_bits(uint64_t x) {  // SplitMix64 (Steele et al. 2014)
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

struct Layout {
  int32_t dtype;
  int bytes, mantissa_bits, bias;
  uint64_t exponent_mask() const {
    return ((uint64_t{1} << (bytes * 8 - 1)) - 1) >> mantissa_bits << mantissa_bits;
  }
};
constexpr Layout kLayouts[] = {{TALUS_F16, 2, 10, 15},
                               {TALUS_BF16, 2, 7, 127},
                               {TALUS_F32, 4, 23, 127},
                               {TALUS_F64, 8, 52, 1023}};

const Layout& layout_of(int32_t dtype) {
  for (const Layout& l : kLayouts)
    if (l.dtype == dtype) return l;
  std::abort();
}

// Random sign and mantissa, magnitude in [2^low, 2^(low + 4)); one in 64 is 0, subnormal, inf, NaN.
uint64_t random_bits(const Layout& l, uint64_t r, int low) {
  const uint64_t sign = (r & 1) << (l.bytes * 8 - 1);
  const uint64_t mantissa = (r >> 8) & ((uint64_t{1} << l.mantissa_bits) - 1);
  if ((r >> 1 & 63) == 0) {
    const uint64_t special[] = {0, mantissa, l.exponent_mask(), l.exponent_mask() | 1 | mantissa};
    return sign | special[r >> 60 & 3];
  }
  const uint64_t exponent = uint64_t(l.bias + low + int(r >> 62));
  return sign | exponent << l.mantissa_bits | mantissa;
}

void fill(std::vector<unsigned char>& memory, const Layout& l, uint64_t seed, int low) {
  const size_t count = memory.size() / size_t(l.bytes);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = random_bits(l, mix_bits(mix_bits(seed) + i), low);
    for (int b = 0; b < l.bytes; ++b)
      memory[i * size_t(l.bytes) + size_t(b)] = uint8_t(bits >> (8 * b));
  }
}

// ---- digest

struct Fnv1a {
  uint64_t value = 0xcbf29ce484222325;
  void add(uint64_t word, int bytes) {
    for (int b = 0; b < bytes; ++b) value = (value ^ (word >> (8 * b) & 255)) * 0x100000001b3;
  }
};

// Any NaN counts as the same: its sign and payload are not in the contract.
void add_tensor(Fnv1a& digest, const void* data, int64_t count, const Layout& l) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  const uint64_t inf = l.exponent_mask(), all = inf | ((uint64_t{1} << l.mantissa_bits) - 1);
  for (int64_t i = 0; i < count; ++i) {
    uint64_t bits = 0;
    for (int b = 0; b < l.bytes; ++b) bits |= uint64_t(*bytes++) << (8 * b);
    digest.add((bits & all) > inf ? inf | 1 : bits, l.bytes);
  }
}

// ---- runs

void must(talus_status status, const char* what) {
  if (status == TALUS_OK) return;
  std::fprintf(stderr, "%s: %s: %s\n", what, talus_status_name(status), talus_last_error());
  std::exit(1);
}

struct Tensor {
  std::vector<unsigned char> param, grad;
  const Layout *param_layout, *grad_layout;
  int64_t count;
};

std::deque<Tensor> all_tensors() {
  std::deque<Tensor> tensors;
  for (const Layout& p : kLayouts)
    for (const Layout& g : kLayouts) {
      const bool wide = p.dtype == TALUS_F64;
      if (wide ? g.bytes == 2 : g.dtype == TALUS_F64) continue;
      for (int64_t n : kSizes) {
        const size_t count = size_t(n);
        tensors.push_back({std::vector<unsigned char>(count * size_t(p.bytes)),
                           std::vector<unsigned char>(count * size_t(g.bytes)), &p, &g, n});
      }
    }
  return tensors;
}

bool takes_rows_only(const char* algorithm) {
  const char* const doc = talus_name_doc("row_gradients", algorithm);
  return doc && std::strcmp(doc, "takes no others") == 0;
}

// All rows, each of one element.
void bind_all_rows(talus_optimizer* opt, const std::deque<Tensor>& tensors) {
  static const std::vector<int32_t> numbers = [] {
    std::vector<int32_t> all;
    for (int32_t i = 0; i < kSizes[std::size(kSizes) - 1]; ++i) all.push_back(i);
    return all;
  }();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const talus_rows rows = {
        sizeof rows, TALUS_I32, tensors[i].count, numbers.data(), tensors[i].grad.data(), 0};
    must(talus_bind_rows(opt, int64_t(i), &rows), "talus_bind_rows");
  }
}

void add(talus_optimizer* opt, Tensor& t, int32_t master, bool by_rows) {
  talus_param d{};
  d.struct_size = sizeof d;
  d.dtype = t.param_layout->dtype;
  d.grad_dtype = t.grad_layout->dtype;
  d.data = t.param.data();
  d.grad = by_rows ? nullptr : t.grad.data();
  d.shape = &t.count;
  d.ndim = 1;
  d.master = master;
  must(talus_add_params(opt, 0, 1, &d, nullptr), "talus_add_params");
}

void add_results(Fnv1a& digest, const talus_optimizer* opt, const std::deque<Tensor>& tensors) {
  for (const Tensor& t : tensors) add_tensor(digest, t.param.data(), t.count, *t.param_layout);
  const int64_t states = talus_state_count(opt);
  for (int64_t i = 0; i < states; ++i) {
    talus_state s{};
    s.struct_size = sizeof s;
    must(talus_state_info(opt, i, &s), "talus_state_info");
    if (s.data) add_tensor(digest, s.data, s.count, layout_of(s.dtype));
  }
}

struct Setting {
  std::string name;
  double value;
};

bool has_hyper(const char* algorithm, const std::string& name, talus_hyper* out) {
  const int32_t count = talus_hyper_count(algorithm);
  for (int32_t i = 0; i < count; ++i) {
    out->struct_size = sizeof *out;
    must(talus_hyper_info(algorithm, i, out), "talus_hyper_info");
    if (name == out->name) return true;
  }
  return false;
}

// Defaults; and for each flag, the other value of it, alone and with decay and momentum.
std::vector<std::vector<Setting>> variants_of(const char* algorithm) {
  talus_hyper h{};
  std::vector<Setting> usual;
  for (const Setting& s : {Setting{"weight_decay", .125}, Setting{"momentum", .875}})
    if (has_hyper(algorithm, s.name, &h)) usual.push_back(s);
  std::vector<std::vector<Setting>> variants = {{}, usual};
  const int32_t count = talus_hyper_count(algorithm);
  for (int32_t i = 0; i < count; ++i) {
    h.struct_size = sizeof h;
    must(talus_hyper_info(algorithm, i, &h), "talus_hyper_info");
    if (h.kind != TALUS_FLAG || h.min == h.max) continue;
    const Setting toggled{h.name, h.def == 0 ? 1.0 : 0.0};
    variants.push_back({toggled});
    variants.push_back(usual);
    variants.back().push_back(toggled);
  }
  return variants;
}

void run(Fnv1a& digest, const char* algorithm, const std::vector<Setting>& settings,
         int32_t master) {
  talus_optimizer* opt = nullptr;
  must(talus_create(algorithm, TALUS_CPU, 0, &opt), "talus_create");
  for (const Setting& s : settings)
    must(talus_set(opt, TALUS_ALL, s.name.c_str(), s.value), "talus_set");
  std::deque<Tensor> tensors = all_tensors();
  const bool by_rows = takes_rows_only(algorithm);
  uint64_t seed = 1;
  for (Tensor& t : tensors) {
    fill(t.param, *t.param_layout, ++seed, -2);
    const bool narrow = t.param_layout->bytes == 2;
    add(opt, t, narrow ? master : TALUS_MASTER_AUTO, by_rows);
  }
  for (int step = 0; step < kSteps; ++step) {
    for (Tensor& t : tensors) fill(t.grad, *t.grad_layout, ++seed, -9);
    if (by_rows) bind_all_rows(opt, tensors);
    const talus_status status = talus_step(opt, nullptr);
    if (status == TALUS_E_RANGE) {  // hyperparameters that exclude each other: a result too
      digest.add(uint64_t(status), 4);
      break;
    }
    must(status, algorithm);
  }
  add_results(digest, opt, tensors);
  talus_destroy(opt);
}

}  // namespace

int main() {
  Fnv1a digest;
  const int32_t count = talus_name_count("algorithms");
  if (count <= 0) {
    std::fprintf(stderr, "no algorithms\n");
    return 1;
  }
  for (int32_t i = 0; i < count; ++i) {
    const char* algorithm = talus_name_at("algorithms", i);
    for (const std::vector<Setting>& settings : variants_of(algorithm))
      for (int32_t master : {TALUS_MASTER_AUTO, TALUS_MASTER_NONE})
        run(digest, algorithm, settings, master);
  }
  std::printf("%016llx\n", static_cast<unsigned long long>(digest.value));
}
