// Saves an optimizer and loads it again: whole and durable, or not at all. What is in a file, and
// when a load refuses one, is in talus.h and in README.
#pragma once
#include <talus.h>

#include <string>

#include "lib/checkpoint/bytes.h"
#include "lib/optimizer/optimizer.h"

namespace talus {

// path: "x.safetensors", or "x.safetensors.index.json" for an index with shards.
Status save(Optimizer& from, const std::string& path, const talus_io& io, void* stream);
Status save_to(Optimizer& from, Sink& sink, const talus_io& io, void* stream);

Status load(Optimizer& into, const std::string& path, const talus_io& io, void* stream);
Status load_from(Optimizer& into, Source& source, const talus_io& io, void* stream);

}  // namespace talus
