// In what two checkpoints differ. Knows neither command line nor output.
#pragma once
#include <string>
#include <vector>

#include "tools/checkpoint/contents.h"
#include "tools/checkpoint/elements.h"

namespace checkpoint {

// A statement of what is not in tensors; "" where one side says nothing.
struct Statement {
  std::string what, a, b;  // "group 0 lr", "0.01", "0.005"
};

// A tensor of both of which something differs. One of another dtype or shape has no distance.
struct Changed {
  std::string key;
  const talus::Stored *a, *b;
  bool comparable;
  Distance distance;
};

struct Differences {
  std::vector<Statement> statements;
  std::vector<std::string> only_a, only_b;
  std::vector<Changed> changed;
  size_t same = 0, by_digest = 0;    // tensors of both that do not differ; of those, unread
  std::vector<std::string> damaged;  // "a.safetensors: tensor \"w\"": not as the digest says

  bool none() const {
    return statements.empty() && only_a.empty() && only_b.empty() && changed.empty();
  }
};

// thorough: reads also tensors whose digests agree. Throws talus::Error.
Differences find_differences(const talus::Catalogue& a, const talus::Catalogue& b, bool thorough);

}  // namespace checkpoint
