// Where the bytes of a checkpoint come from and go to: a file, or the caller's callbacks.
#pragma once
#include <cstdint>
#include <string>

#include "lib/base/status.h"

namespace talus {

class Source {
 public:
  virtual ~Source() = default;
  virtual const std::string& name() const = 0;  // for texts
  virtual uint64_t size() const = 0;
  // All of them or a failure: TALUS_E_IO (detail errno) with call and path, TALUS_E_CALLBACK.
  virtual Status read(uint64_t offset, void* out, uint64_t bytes) = 0;
};

class Sink {
 public:
  virtual ~Sink() = default;  // what was not committed is gone
  virtual const std::string& name() const = 0;
  virtual Status begin(uint64_t total) = 0;  // bytes that are going to be written
  virtual Status write(const void* bytes, uint64_t count) = 0;  // in order
  virtual Status commit() = 0;                                  // whole and durable
  // Whether it is to be found under its name, durable or not.
  virtual bool visible() const { return false; }
};

}  // namespace talus
