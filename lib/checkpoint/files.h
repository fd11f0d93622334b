// Files of checkpoints: one that is read as it was when opened, and one that appears under its name
// whole and durable, or not at all.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/checkpoint/bytes.h"

namespace talus {

// Reads with pread, never mapped: a file that someone else cuts is then an error and no signal.
// TALUS_E_IO: it cannot be opened, is no regular file (a symbolic link is followed unless `links`
// is false), ends early.
Status open_source(const std::string& path, bool links, std::unique_ptr<Source>* out);

// A file beside `path` until it is committed: written, fsynced, closed, renamed over `path`, the
// folder fsynced. Whatever fails before the rename leaves `path` as it was, and no file behind once
// the sink is gone. A failure behind it says that the file is there but not known to be durable.
// Space is asked for at begin. Takes the mode of an old file; a symbolic link is replaced, not
// followed; what is neither is not replaced. Left-overs of killed processes for the same name are
// removed if they are older than a day.
Status create_sink(const std::string& path, std::unique_ptr<Sink>* out);

// As above, under a name that must not exist: a shard. Looked for here and before the rename;
// between these two the name is guarded by the random number in it alone.
Status create_new_sink(const std::string& path, std::unique_ptr<Sink>* out);

// 16 hex digits that nobody has drawn before.
Status random_name(std::string* out);

// Names of regular files in a folder ("": the working one) that are wanted and that nobody has written
// for a day. Best effort.
std::vector<std::string> old_files(const std::string& folder,
                                   const std::function<bool(std::string_view)>& wanted);

// Best effort; says whether it went.
bool remove_file(const std::string& path);

// "dir/x.safetensors" -> "dir/", "x.safetensors".
std::string folder_of(const std::string& path);
std::string base_name(const std::string& path);

}  // namespace talus
