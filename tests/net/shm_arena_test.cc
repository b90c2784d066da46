// Memory that is lent: how much of it there is.
#include "common/net/shm_arena.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>
#include <vector>

namespace parapet::net {
namespace {

TEST(ShmArenaTest, BuffersAreApartAndFound) {
  const auto arena = ShmArena::Make();
  std::vector<std::shared_ptr<std::byte>> buffers;
  for (int i = 0; i < 200; ++i) {
    buffers.push_back(arena->Allocate(1000 + i));
    ASSERT_NE(buffers.back(), nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffers.back().get()) % 64, 0u);
    std::memset(buffers.back().get(), i, 1000 + i);
  }
  for (int i = 0; i < 200; ++i) {
    for (int j = 0; j < 1000 + i; ++j)
      ASSERT_EQ(buffers[i].get()[j], static_cast<std::byte>(i));
    const auto place = arena->Find(buffers[i].get() + 3, 900);
    ASSERT_TRUE(place.has_value());
    EXPECT_EQ(place->slab->mapping.get() + place->offset, buffers[i].get() + 3);
  }
  const std::vector<std::byte> other(1000);
  EXPECT_FALSE(arena->Find(other.data(), other.size()).has_value());
}

TEST(ShmArenaTest, BuffersOutliveTheArena) {
  auto arena = ShmArena::Make();
  const auto buffer = arena->Allocate(100);
  arena.reset();
  std::memset(buffer.get(), 1, 100);
  EXPECT_EQ(buffer.get()[99], std::byte{1});
}

// Peers keep every slab that they have mapped, and a slab that is kept for one
// buffer keeps the memory of all that were in it.
TEST(ShmArenaTest, BuffersThatComeAndGoTakeNoFurtherSlabs) {
  constexpr size_t kSize = size_t{1} << 20;
  const auto arena = ShmArena::Make();
  std::mt19937_64 random(1);
  std::set<uint32_t> slabs;
  std::vector<std::shared_ptr<std::byte>> buffers;
  for (int i = 0; i < 100; ++i) buffers.push_back(arena->Allocate(kSize));
  for (int i = 0; i < 5000; ++i) {
    if (i % 100 < 50) {
      buffers[random() % buffers.size()].reset();
    } else {
      for (auto& buffer : buffers) {
        if (buffer == nullptr) buffer = arena->Allocate(kSize);
      }
    }
    for (const auto& buffer : buffers) {
      if (buffer != nullptr)
        slabs.insert(arena->Find(buffer.get(), kSize)->slab->id);
    }
  }
  EXPECT_LE(slabs.size(), 3u);  // 32, 32 and 64 MiB
}

}  // namespace
}  // namespace parapet::net
