#include "common/hash.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "common/rng.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

std::vector<std::byte> RandomBytes(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.Next32());
  return bytes;
}

TEST(HashTest, IsTheSameEverywhere) {
  // Values of XXH3_64bits as published with the reference implementation: the
  // empty input, and "a".
  EXPECT_EQ(HashBytes(nullptr, 0), 0x2D06800538D394C2u);
  EXPECT_EQ(HashBytes("a", 1), 0xE6C632B61E964E1Fu);
}

TEST(HashTest, SeedAndEveryBitMatter) {
  std::vector<std::byte> bytes = RandomBytes(300, 1);
  const uint64_t hash = HashBytes(bytes.data(), bytes.size());
  EXPECT_NE(hash, HashBytes(bytes.data(), bytes.size(), 1));
  for (size_t i = 0; i < bytes.size() * 8; ++i) {
    bytes[i / 8] ^= static_cast<std::byte>(1 << i % 8);
    EXPECT_NE(hash, HashBytes(bytes.data(), bytes.size())) << "bit " << i;
    bytes[i / 8] ^= static_cast<std::byte>(1 << i % 8);
  }
}

TEST(StreamingHashTest, EqualsHashBytesHoweverItIsCut) {
  for (size_t size : {0, 1, 16, 17, 240, 241, 1024, 5000}) {
    for (uint64_t seed : {uint64_t{0}, uint64_t{7}, ~uint64_t{0}}) {
      const std::vector<std::byte> bytes = RandomBytes(size, seed + size);
      for (size_t step : {1, 3, 64, 256, 1023, 10000}) {
        StreamingHash hash(seed);
        for (size_t at = 0; at < size; at += step) {
          hash.Update(absl::MakeConstSpan(bytes).subspan(at, step));
        }
        ASSERT_EQ(hash.Digest(), HashBytes(bytes.data(), size, seed))
            << size << " by " << step;
      }
    }
  }
}

TEST(StreamingHashTest, DigestMayBeTakenOnTheWayAndTheStateMoved) {
  const std::vector<std::byte> bytes = RandomBytes(2000, 3);
  StreamingHash first;
  first.Update({bytes.data(), 700});
  EXPECT_EQ(first.Digest(), HashBytes(bytes.data(), 700));
  first.Update({});
  StreamingHash second = std::move(first);
  second.Update({bytes.data() + 700, 1300});
  EXPECT_EQ(second.Digest(), HashBytes(bytes.data(), 2000));
}

TEST(HashLeavesTest, SumOverPartsIsTheWholeForAnyCutAtLeaves) {
  constexpr int64_t kLeaf = 8, kBytes = 4,
                    kElements = 8 * 12 + 5;  // the last leaf is short
  const std::vector<std::byte> bytes = RandomBytes(kElements * kBytes, 4);
  const uint64_t whole = HashLeaves(bytes, 0, kBytes, kLeaf);
  for (int64_t leaves : {1, 2, 3, 5, 13}) {
    uint64_t sum = 0;
    const int64_t step = leaves * kLeaf;
    for (int64_t at = (kElements - 1) / step * step; at >= 0;
         at -= step) {  // in the other order
      const int64_t count = std::min(step, kElements - at);
      sum += HashLeaves(
          absl::MakeConstSpan(bytes).subspan(at * kBytes, count * kBytes), at,
          kBytes, kLeaf);
    }
    EXPECT_EQ(sum, whole) << leaves;
  }
}

TEST(HashLeavesTest, SwappedLeavesAndOtherPlacesAreNoticed) {
  constexpr int64_t kLeaf = 8, kBytes = 4;
  std::vector<std::byte> bytes = RandomBytes(2 * kLeaf * kBytes, 5);
  const uint64_t before = HashLeaves(bytes, 0, kBytes, kLeaf);
  EXPECT_NE(before, HashLeaves(bytes, kLeaf, kBytes, kLeaf));
  std::rotate(bytes.begin(), bytes.begin() + kLeaf * kBytes, bytes.end());
  EXPECT_NE(before, HashLeaves(bytes, 0, kBytes, kLeaf));
  EXPECT_EQ(HashLeaves({}, 0, kBytes, kLeaf), 0u);
}

}  // namespace
}  // namespace parapet
