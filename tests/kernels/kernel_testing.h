#ifndef PARAPET_TESTS_KERNELS_KERNEL_TESTING_H_
#define PARAPET_TESTS_KERNELS_KERNEL_TESTING_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "hwy/highway.h"
#include "kernels/device.h"

namespace parapet::kernel_testing {

// A suite that runs once for each instruction set that this CPU has. Every test
// compares bits with one scalar reference, so all instruction sets agree with
// each other.
class OnEveryTarget : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().DeInit();
  }
  const std::unique_ptr<Device> device_ = MakeCpuDevice();
};

inline auto EveryTarget() {
  return testing::ValuesIn(hwy::SupportedAndGeneratedTargets());
}
inline std::string TargetNameOf(const testing::TestParamInfo<int64_t>& info) {
  return hwy::TargetName(info.param);
}

// `size` elements at `offset` bytes past an aligned address, among bytes that
// nobody may change.
template <class T>
class Guarded {
 public:
  explicit Guarded(int64_t size, size_t offset = 0)
      : begin_(kGuard + offset),
        end_(begin_ + static_cast<size_t>(size) * sizeof(T)),
        storage_(AlignedBytes(end_ + kGuard)) {}

  // Only for offsets that are multiples of alignof(T).
  T* data() { return reinterpret_cast<T*>(bytes()); }
  uint8_t* bytes() { return storage_.get() + begin_; }
  int64_t size() const {
    return static_cast<int64_t>((end_ - begin_) / sizeof(T));
  }
  std::vector<T> Values() const {
    std::vector<T> values((end_ - begin_) / sizeof(T));
    if (!values.empty())
      std::memcpy(values.data(), storage_.get() + begin_, end_ - begin_);
    return values;
  }
  void Assign(const std::vector<T>& values) {
    if (!values.empty())
      std::memcpy(bytes(), values.data(), values.size() * sizeof(T));
  }
  bool Intact() const {
    for (size_t i = 0; i < end_ + kGuard; ++i) {
      if ((i < begin_ || i >= end_) && storage_.get()[i] != kPoison)
        return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuard = 128;
  static constexpr uint8_t kPoison = 0xA5;
  struct Free {
    void operator()(uint8_t* p) const {
      ::operator delete[](p, std::align_val_t{64});
    }
  };
  static std::unique_ptr<uint8_t[], Free> AlignedBytes(size_t size) {
    auto* bytes =
        static_cast<uint8_t*>(::operator new[](size, std::align_val_t{64}));
    std::memset(bytes, kPoison, size);
    return std::unique_ptr<uint8_t[], Free>(bytes);
  }

  size_t begin_, end_;
  std::unique_ptr<uint8_t[], Free> storage_;
};

// Every size up to 70 (all tails of all vector widths), then the neighbours of
// tiles and pages.
inline std::vector<int64_t> OddSizes() {
  std::vector<int64_t> sizes = {511,  512,  513,  1023, 1024,
                                1025, 2047, 2048, 2049, 4097};
  for (int64_t size = 0; size <= 70; ++size) sizes.push_back(size);
  return sizes;
}

inline const DType kAllTypes[] = {DType::kFloat32, DType::kBFloat16,
                                  DType::kFloat16};

// The bits of floats: unlike ==, they tell 0 from -0 and equal NaNs.
inline std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits;
  for (float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// Normal deviates of very different sizes.
inline std::vector<float> RandomFloats(std::mt19937_64& random, int64_t size,
                                       double spread = 3) {
  std::normal_distribution<double> normal;
  std::vector<float> values;
  for (int64_t i = 0; i < size; ++i) {
    values.push_back(
        static_cast<float>(normal(random) * std::exp(spread * normal(random))));
  }
  return values;
}

// Scalar conversions by the definition of each format: the references of the
// tests.

inline double ValueOfHalf(uint16_t bits, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits, top = (1 << exponent_bits) - 1;
  const int exponent = bits >> fraction_bits & top,
            fraction = bits & ((1 << fraction_bits) - 1);
  const int bias = top / 2;
  double value = std::ldexp(fraction, 1 - bias - fraction_bits);
  if (exponent > 0) {
    value = std::ldexp((1 << fraction_bits) + fraction,
                       exponent - bias - fraction_bits);
  }
  if (exponent == top) value = fraction == 0 ? HUGE_VAL : std::nan("");
  return (bits & 0x8000) != 0 ? -value : value;
}

// Not for NaN. nearbyint rounds to nearest even; the divisions and products
// here are exact.
inline uint16_t HalfOfValue(double value, int exponent_bits) {
  const int fraction_bits = 15 - exponent_bits, top = (1 << exponent_bits) - 1;
  const int lowest = 1 - top / 2;  // exponent of the smallest normal number
  const int sign = std::signbit(value) ? 0x8000 : 0;
  if (value == 0) return static_cast<uint16_t>(sign);
  if (std::isinf(value))
    return static_cast<uint16_t>(sign | top << fraction_bits);
  const int exponent = std::max(std::ilogb(value), lowest);
  const double units =
      std::nearbyint(std::ldexp(std::abs(value), fraction_bits - exponent));
  const int bits =
      ((exponent - lowest) << fraction_bits) + static_cast<int>(units);
  return static_cast<uint16_t>(sign | std::min(bits, top << fraction_bits));
}

inline int ExponentBits(DType type) { return type == DType::kFloat16 ? 5 : 8; }

// One stored element, as a number.
inline double StoredValue(const void* data, DType type, int64_t index) {
  const auto* from = static_cast<const uint8_t*>(data) + index * SizeOf(type);
  if (type == DType::kFloat32) {
    float value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return ValueOfHalf(bits, ExponentBits(type));
}

// Writes one element, rounded as Device::Encode does with scale 1; any NaN
// becomes a quiet one.
inline void StoreValue(float value, DType type, int64_t index, void* data) {
  auto* to = static_cast<uint8_t*>(data) + index * SizeOf(type);
  if (type == DType::kFloat32) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  const uint16_t nan = type == DType::kFloat16 ? 0x7E00 : 0x7FC0;
  const uint16_t bits =
      std::isnan(value) ? nan : HalfOfValue(value, ExponentBits(type));
  std::memcpy(to, &bits, sizeof(bits));
}

}  // namespace parapet::kernel_testing

#endif  // PARAPET_TESTS_KERNELS_KERNEL_TESTING_H_
