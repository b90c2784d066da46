#ifndef PARAPET_SERVER_RULES_VECTOR16_H_
#define PARAPET_SERVER_RULES_VECTOR16_H_

#include <cstring>

namespace parapet::rules {

// 16 bytes of T as one value, of which every operation is one on each element:
// GCC's and Clang's vector extension. The compiler does not make vectors of
// these loops by itself at -O2.
template <typename T>
struct Vector16 {
  typedef T type __attribute__((vector_size(16)));
  static constexpr int kSize = 16 / sizeof(T);

  static type Load(const T* from) {
    type value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  }
  static void Store(type value, T* to) {
    std::memcpy(to, &value, sizeof(value));
  }
};

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_VECTOR16_H_
