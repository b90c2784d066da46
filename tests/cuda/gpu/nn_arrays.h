#ifndef PARAPET_TESTS_CUDA_GPU_NN_ARRAYS_H_
#define PARAPET_TESTS_CUDA_GPU_NN_ARRAYS_H_

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/nn.h"

namespace parapet::cuda {

// An array on the GPU, with memory behind it that nobody may write.
template <typename T>
struct NnArray {
  Nn::Memory memory;
  int64_t elements = 0;
  T* data() const { return static_cast<T*>(memory.get()); }
};

// Moves arrays to a GPU and back, waiting each time.
class NnArrays {
 public:
  static constexpr int64_t kGuard = 256;  // bytes
  static constexpr int kPoison = 0xff;    // NaN, whatever the type

  explicit NnArrays(Nn* nn)
      : nn_(nn),
        sent_(nn->MakeEvent()),
        computed_(nn->MakeEvent()),
        received_(nn->MakeEvent()) {}

  template <typename T>
  NnArray<T> Send(const std::vector<T>& values) {
    NnArray<T> array = Poisoned<T>(static_cast<int64_t>(values.size()));
    Move(values.data(), Bytes(array), array.data());
    return array;
  }

  // What an operation is to write.
  template <typename T>
  NnArray<T> Poisoned(int64_t elements) {
    NnArray<T> array{nullptr, elements};
    array.memory = nn_->AllocateDevice(Bytes(array) + kGuard);
    if (array.memory == nullptr) {
      wrong_ = "no memory";
      return array;
    }
    const std::vector<char> poison(Bytes(array) + kGuard,
                                   static_cast<char>(kPoison));
    Move(poison.data(), Bytes(array) + kGuard, array.data());
    return array;
  }

  // What is there once all that was submitted is done. Notes if something was
  // written behind it.
  template <typename T>
  std::vector<T> Receive(const NnArray<T>& array) {
    std::vector<T> values(array.elements);
    const int64_t bytes = Bytes(array);
    const Nn::Memory pinned = nn_->AllocatePinned(bytes + kGuard);
    if (pinned == nullptr || array.memory == nullptr) return values;
    nn_->Record(Lane::kCompute, computed_);
    nn_->Wait(Lane::kDownload, computed_);
    nn_->Download(array.data(), pinned.get(), bytes + kGuard);
    nn_->Record(Lane::kDownload, received_);
    nn_->Finish(received_);
    std::memcpy(values.data(), pinned.get(), bytes);
    const auto* guard = static_cast<const unsigned char*>(pinned.get()) + bytes;
    for (int64_t i = 0; i < kGuard; ++i)
      if (guard[i] != kPoison) wrong_ = "wrote behind its output";
    return values;
  }

  // What went wrong with the arrays or the GPU since the last call; empty:
  // nothing.
  std::string TakeWrong() {
    std::string wrong = nn_->failure().empty() ? wrong_ : nn_->failure();
    wrong_.clear();
    return wrong;
  }

  Nn* nn() const { return nn_; }

 private:
  template <typename T>
  static int64_t Bytes(const NnArray<T>& array) {
    return array.elements * static_cast<int64_t>(sizeof(T));
  }

  void Move(const void* values, int64_t bytes, void* to) {
    if (bytes == 0 || to == nullptr) return;
    const Nn::Memory pinned = nn_->AllocatePinned(bytes);
    if (pinned == nullptr) {
      wrong_ = "no pinned memory";
      return;
    }
    std::memcpy(pinned.get(), values, bytes);
    nn_->Upload(pinned.get(), to, bytes);
    nn_->Record(Lane::kUpload, sent_);
    nn_->Wait(Lane::kCompute, sent_);
    nn_->Finish(sent_);
  }

  Nn* const nn_;
  const int sent_, computed_, received_;
  std::string wrong_;
};

// Random numbers, the same everywhere.
class NnRandom {
 public:
  explicit NnRandom(uint32_t seed) : engine_(seed) {}

  uint32_t Below(uint32_t bound) {
    return static_cast<uint32_t>(engine_() % bound);
  }
  // Within [-1, 1), or, with few values, one of -3 to 3, so that equal ones
  // are common.
  std::vector<float> Floats(int64_t count, bool few = false) {
    std::vector<float> values(count);
    for (float& v : values) {
      v = few ? static_cast<float>(Below(7)) - 3
              : static_cast<float>(engine_() * 0x1p-31 - 1);
    }
    return values;
  }

 private:
  std::mt19937 engine_;
};

}  // namespace parapet::cuda

#endif  // PARAPET_TESTS_CUDA_GPU_NN_ARRAYS_H_
