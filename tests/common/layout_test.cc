#include "common/layout.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rng.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

constexpr int64_t kBig = 3'000'000'000;

Initializer Uniform(double bound) {
  return {Initializer::Kind::kUniform, bound};
}

Layout Make(std::vector<TensorSpec> specs) {
  absl::StatusOr<Layout> layout = Layout::Create(std::move(specs));
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

ShardMap Shards(int64_t elements, int servers, int64_t chunk = 0,
                int64_t leaf = kLeafElements) {
  absl::StatusOr<ShardMap> map =
      ShardMap::Create(elements, servers, chunk, leaf);
  EXPECT_TRUE(map.ok()) << map.status();
  return *map;
}

bool Refused(std::vector<TensorSpec> specs) {
  return absl::IsInvalidArgument(Layout::Create(std::move(specs)).status());
}

TEST(LayoutTest, PlacesTensorsOneAfterAnother) {
  const Layout layout = Make(
      {{"a", {2, 3}, {}}, {"b", {}, {}}, {"c", {0, 5}, {}}, {"d", {4}, {}}});
  ASSERT_EQ(layout.tensors().size(), 4u);
  const int64_t offsets[] = {0, 6, 7, 7}, elements[] = {6, 1, 0, 4};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(layout.tensors()[i].offset, offsets[i]);
    EXPECT_EQ(layout.tensors()[i].elements, elements[i]);
  }
  EXPECT_EQ(layout.elements(), 11);
}

TEST(LayoutTest, FindsEveryElementAroundEmptyTensors) {
  const Layout layout = Make({{"e0", {0}, {}},
                              {"a", {3}, {}},
                              {"e1", {0}, {}},
                              {"e2", {2, 0}, {}},
                              {"b", {2}, {}},
                              {"e3", {0}, {}}});
  const std::string names[] = {"a[0]", "a[1]", "a[2]", "b[0]", "b[1]"};
  for (int64_t e = 0; e < 5; ++e) EXPECT_EQ(layout.Describe(e), names[e]);
}

TEST(LayoutTest, OneTensor) {
  const Layout layout = Make({{"only", {5}, {}}});
  EXPECT_EQ(layout.TensorAt(0), 0);
  EXPECT_EQ(layout.Describe(4), "only[4]");
}

TEST(LayoutTest, AThousandTensors) {
  std::vector<TensorSpec> specs;
  for (int i = 0; i < 1000; ++i)
    specs.push_back({absl::StrCat("t", i), {i % 7}, {}});
  const Layout layout = Make(specs);
  int64_t element = 0;
  for (int i = 0; i < 1000; ++i) {
    for (int64_t k = 0; k < i % 7; ++k, ++element) {
      ASSERT_EQ(layout.TensorAt(element), i);
      ASSERT_EQ(layout.Describe(element), absl::StrCat("t", i, "[", k, "]"));
    }
  }
  EXPECT_EQ(element, layout.elements());
}

TEST(LayoutTest, ThreeBillionElementsAreDescribed) {
  const Layout layout =
      Make({{"embed.weight", {1'500'000, 2000}, {}}, {"head.bias", {17}, {}}});
  EXPECT_EQ(layout.elements(), kBig + 17);
  EXPECT_EQ(layout.Describe(0), "embed.weight[0]");
  EXPECT_EQ(layout.Describe(int64_t{1} << 31), "embed.weight[2147483648]");
  EXPECT_EQ(layout.Describe(kBig - 1), "embed.weight[2999999999]");
  EXPECT_EQ(layout.Describe(kBig), "head.bias[0]");
  EXPECT_EQ(layout.Describe(kBig + 16), "head.bias[16]");
}

TEST(LayoutTest, RefusesWhatIsNoLayout) {
  EXPECT_TRUE(Refused({}));
  EXPECT_TRUE(Refused({{"empty", {0}, {}}}));
  EXPECT_TRUE(Refused({{"", {1}, {}}}));
  EXPECT_TRUE(Refused({{"a", {1}, {}}, {"a", {1}, {}}}));
  EXPECT_TRUE(Refused({{"a", {-1}, {}}}));
  EXPECT_TRUE(Refused({{"a", {-1, -1}, {}}}));
}

TEST(LayoutTest, RefusesMoreThanItsLimits) {
  EXPECT_TRUE(Refused({{"a",
                        {int64_t{1} << 32, int64_t{1} << 32},
                        {}}}));  // 2^64 would wrap to 0
  EXPECT_TRUE(Refused({{"a", {Layout::kMaxElements, 2}, {}}}));
  EXPECT_TRUE(Refused({{"a", {INT64_MAX}, {}}}));
  EXPECT_TRUE(Refused({{"a", {Layout::kMaxElements}, {}}, {"b", {1}, {}}}));
  EXPECT_EQ(Make({{"a", {Layout::kMaxElements}, {}}}).elements(),
            Layout::kMaxElements);
}

TEST(LayoutTest, TheHashIsOfNamesOrderAndShapes) {
  const uint64_t hash = Make({{"a", {2, 3}, {}}, {"b", {4}, {}}}).hash();
  EXPECT_EQ(Make({{"a", {2, 3}, Uniform(1)}, {"b", {4}, {}}}).hash(), hash);
  EXPECT_NE(Make({{"a", {3, 2}, {}}, {"b", {4}, {}}}).hash(), hash);
  EXPECT_NE(Make({{"a", {6}, {}}, {"b", {4}, {}}}).hash(), hash);
  EXPECT_NE(Make({{"b", {4}, {}}, {"a", {2, 3}, {}}}).hash(), hash);
  EXPECT_NE(Make({{"a", {2, 3}, {}}, {"c", {4}, {}}}).hash(), hash);
  EXPECT_NE(Make({{"a", {2, 3}, {}}, {"b", {4}, {}}, {"e", {0}, {}}}).hash(),
            hash);
}

// --- Initialize ---

TEST(InitializeTest, ARangeIsAPartOfTheWhole) {
  const Layout layout = Make({{"e", {0}, Uniform(1)},
                              {"a", {5}, Uniform(0.5)},
                              {"z", {3}, {}},
                              {"e2", {0}, {}},
                              {"b", {7}, Uniform(2)}});
  std::vector<float> whole(15);
  Initialize(layout, 42, {0, 15}, whole.data());
  for (int64_t begin = 0; begin <= 15; ++begin) {
    for (int64_t end = begin; end <= 15; ++end) {
      std::vector<float> part(end - begin + 1, -99.0f);
      Initialize(layout, 42, {begin, end}, part.data());
      EXPECT_TRUE(
          std::equal(part.begin(), part.end() - 1, whole.begin() + begin));
      EXPECT_EQ(part.back(), -99.0f) << "wrote past the range";
    }
  }
}

TEST(InitializeTest, IsWithinItsBoundAndUniform) {
  constexpr int64_t kCount = 100000;
  const Layout layout =
      Make({{"a", {kCount}, Uniform(0.25)}, {"b", {kCount}, Uniform(0.25)}});
  std::vector<float> values(2 * kCount);
  Initialize(layout, 1, {0, 2 * kCount}, values.data());
  double sum = 0, squares = 0, product = 0;
  for (int64_t i = 0; i < kCount; ++i) {
    ASSERT_LE(std::fabs(values[i]), 0.25f);
    sum += values[i] / 0.25;
    squares += values[i] / 0.25 * values[i] / 0.25;
    product += values[i] / 0.25 * values[kCount + i] / 0.25;
  }
  // Five standard errors each.
  EXPECT_NEAR(sum / kCount, 0, 5 / std::sqrt(3.0 * kCount));
  EXPECT_NEAR(squares / kCount, 1.0 / 3, 5 * std::sqrt(4.0 / 45 / kCount));
  EXPECT_NEAR(product / kCount, 0, 5 / (3 * std::sqrt(1.0 * kCount)));
}

TEST(InitializeTest, ZeroIsZeroAndSeedsDiffer) {
  const Layout layout = Make({{"z", {4}, {}}, {"a", {4}, Uniform(1)}});
  std::vector<float> one(8), two(8);
  Initialize(layout, 1, {0, 8}, one.data());
  Initialize(layout, 2, {0, 8}, two.data());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(one[i], 0.0f);
  EXPECT_NE(one, two);
}

TEST(InitializeTest, ElementsPastTwoToTheThirtyTwoAreReached) {
  const Layout layout = Make({{"a", {int64_t{1} << 33}, Uniform(1)}});
  const int64_t at = (int64_t{1} << 32) + 5;
  float high, low;
  Initialize(layout, 1, {at, at + 1}, &high);
  Initialize(layout, 1, {5, 6}, &low);
  EXPECT_NE(high, low);
  const auto block = Philox(MixKey(1, 0), 0, at / 4);
  EXPECT_EQ(high, static_cast<float>(2.0 * (block[at % 4] * 0x1p-32) - 1.0));
}

// --- ShardMap ---

// Every element is in one chunk, every chunk on one server, and all counts
// agree.
void CheckWhole(const ShardMap& map) {
  int64_t at = 0;
  std::vector<int64_t> chunks(map.servers()), elements(map.servers());
  for (int64_t c = 0; c < map.chunks(); ++c) {
    const Range range = map.ChunkRange(c);
    ASSERT_EQ(range.begin, at);
    ASSERT_GT(range.size(), 0);
    ASSERT_EQ(range.begin % map.leaf_elements(), 0);
    ASSERT_EQ(map.ChunkAt(range.begin), c);
    ASSERT_EQ(map.ChunkAt(range.end - 1), c);
    const int owner = map.OwnerOf(c);
    ASSERT_EQ(map.LocalOf(c), chunks[owner]);
    ASSERT_EQ(map.ChunkOf(owner, chunks[owner]), c);
    ASSERT_EQ(map.LocalAtTurn(owner, map.TurnOf(c)), map.LocalOf(c));
    ++chunks[owner];
    elements[owner] += range.size();
    at = range.end;
  }
  ASSERT_EQ(at, map.elements());
  for (int s = 0; s < map.servers(); ++s) {
    ASSERT_EQ(map.ChunksOf(s), chunks[s]);
    ASSERT_EQ(map.ElementsOf(s), elements[s]);
  }
}

TEST(ShardMapTest, EverySmallMapIsWhole) {
  for (int64_t elements = 1; elements <= 40; ++elements) {
    for (int servers : {1, 2, 3, 7, 50}) {
      for (int64_t chunk : {2, 4, 6, 64}) {
        SCOPED_TRACE(absl::StrCat(elements, " on ", servers, " by ", chunk));
        CheckWhole(Shards(elements, servers, chunk, 2));
      }
    }
  }
}

TEST(ShardMapTest, ServersDifferByOneChunkAtMost) {
  const ShardMap map = Shards(1'000'003, 7, 64, 64);
  for (int s = 0; s < 7; ++s) {
    EXPECT_GE(map.ChunksOf(s), map.chunks() / 7);
    EXPECT_LE(map.ChunksOf(s), map.chunks() / 7 + 1);
  }
}

TEST(ShardMapTest, MoreServersThanChunks) {
  const ShardMap map = Shards(20'000, 9);
  EXPECT_EQ(map.chunks(), 2);
  EXPECT_EQ(map.ChunksOf(1), 1);
  EXPECT_EQ(map.ElementsOf(0), 16'384);
  EXPECT_EQ(map.ElementsOf(1), 20'000 - 16'384);
  for (int s = 2; s < 9; ++s) {
    EXPECT_EQ(map.ChunksOf(s), 0);
    EXPECT_EQ(map.ElementsOf(s), 0);
  }
}

TEST(ShardMapTest, ThreeBillionElementsAreSplit) {
  const ShardMap map = Shards(kBig, 7);
  EXPECT_EQ(map.chunk_elements(), 256 * 1024);
  EXPECT_EQ(map.leaves(), (kBig + kLeafElements - 1) / kLeafElements);
  CheckWhole(map);
  EXPECT_EQ(map.ChunkRange(map.chunks() - 1).end, kBig);
  EXPECT_EQ(map.ChunkAt(kBig - 1), map.chunks() - 1);
}

TEST(ShardMapTest, ATensorLargerThanAShardIsOnSeveralServers) {
  const Layout layout = Make(
      {{"small", {100}, {}}, {"large", {1000, 1000}, {}}, {"tail", {3}, {}}});
  const ShardMap map = Shards(layout.elements(), 4);
  const Tensor& large = layout.tensors()[1];
  ASSERT_GT(large.elements, map.ElementsOf(0));
  std::vector<bool> owners(4);
  for (int64_t c = 0; c < map.chunks(); ++c) {
    const Range range = map.ChunkRange(c);
    if (range.end > large.offset &&
        range.begin < large.offset + large.elements) {
      owners[map.OwnerOf(c)] = true;
    }
  }
  EXPECT_THAT(owners, ::testing::Each(true));
  CheckWhole(map);
}

TEST(ShardMapTest, TheChosenChunkIsWithinItsBounds) {
  EXPECT_EQ(Shards(1, 1).chunk_elements(), 16 * 1024);
  EXPECT_EQ(Shards(235'146, 2).chunk_elements(), 64 * 1024);
  // A share of 47,029, in whole leaves.
  EXPECT_EQ(Shards(235'146, 5).chunk_elements(), 2 * 16 * 1024);
  // 70,000, in whole leaves.
  EXPECT_EQ(Shards(8 * 70'000, 1).chunk_elements(), 4 * 16 * 1024);
  EXPECT_EQ(Shards(8 * 100'000, 1).chunk_elements(), 6 * 16 * 1024);
  EXPECT_EQ(Shards(kBig, 1).chunk_elements(), 256 * 1024);
  EXPECT_EQ(Shards(100, 1, 0, 1 << 20).chunk_elements(), 1 << 20);
}

TEST(ShardMapTest, RefusesWhatCannotBeSplit) {
  const auto refused = [](int64_t elements, int servers, int64_t chunk,
                          int64_t leaf) {
    return absl::IsInvalidArgument(
        ShardMap::Create(elements, servers, chunk, leaf).status());
  };
  EXPECT_TRUE(refused(0, 1, 0, 4));
  EXPECT_TRUE(refused(-5, 1, 0, 4));
  EXPECT_TRUE(refused(5, 0, 0, 4));
  EXPECT_TRUE(refused(5, 1, 6, 4));
  EXPECT_TRUE(refused(5, 1, -4, 4));
  EXPECT_TRUE(refused(5, 1, 4, 0));
  EXPECT_FALSE(refused(5, 1, 4, 4));
}

}  // namespace
}  // namespace parapet
