#ifndef PARAPET_WORKER_ONEDNN_H_
#define PARAPET_WORKER_ONEDNN_H_

#include <dnnl.hpp>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"

namespace parapet {

// What the layers share of oneDNN: one CPU engine and one stream. oneDNN
// reports errors by exceptions, so everything here may throw dnnl::error;
// Network catches them.
struct OneDnn {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
};

// Caps the instruction set. That can be done once per process and before
// oneDNN's first primitive, for the whole process: a cap that comes too late,
// or a second one that is lower than the first, is a FailedPrecondition. A cap
// above what the machine has does nothing.
absl::Status CapInstructionSet(const std::string& isa);

// The instruction set that oneDNN uses in this process, e.g. "avx2".
std::string EffectiveInstructionSet();

// Sets the number of OpenMP threads of the calling thread for a scope:
// primitives must be made and run with the same number.
class ThreadScope {
 public:
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  const int before_;
};

// A primitive with a scratchpad of its own. oneDNN's is one per thread, as
// large as what that thread has made needs: a primitive could not be run by
// another thread.
class Kernel {
 public:
  // What a primitive descriptor must be made with.
  static dnnl::primitive_attr Attributes();

  Kernel() = default;
  Kernel(const OneDnn& dnnl, const dnnl::primitive_desc_base& made);

  void Run(const OneDnn& dnnl,
           std::unordered_map<int, dnnl::memory> arguments) const;

 private:
  dnnl::primitive primitive_;
  dnnl::memory scratchpad_;
};

// A memory of float32, row-major.
dnnl::memory::desc PlainDesc(const dnnl::memory::dims& dims);

// Points a memory at values that oneDNN will only read.
void PointAt(const float* values, dnnl::memory* memory);

inline float* Data(const dnnl::memory& memory) {
  return static_cast<float*>(memory.get_data_handle());
}

// Copies a memory into another format. Where both formats are one, `from` and
// `to` are one memory and Run does nothing.
class Reorder {
 public:
  Reorder() = default;
  // From a memory that is there to the format that a primitive reads.
  static Reorder Into(const OneDnn& dnnl, const dnnl::memory& from,
                      const dnnl::memory::desc& to);
  // From the format that a primitive writes to a memory that is there.
  static Reorder OutOf(const OneDnn& dnnl, const dnnl::memory::desc& from,
                       const dnnl::memory& to);

  const dnnl::memory& from() const { return from_; }
  const dnnl::memory& to() const { return to_; }
  void Run(const OneDnn& dnnl) const;

 private:
  Reorder(const OneDnn& dnnl, const dnnl::memory& from, const dnnl::memory& to);

  dnnl::memory from_, to_;
  Kernel kernel_;
};

}  // namespace parapet

#endif  // PARAPET_WORKER_ONEDNN_H_
