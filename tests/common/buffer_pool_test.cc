#include "common/buffer_pool.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

using ::testing::Each;

bool IsAligned(const void* p) {
  return reinterpret_cast<uintptr_t>(p) % 64 == 0;
}

TEST(BufferPoolTest, BuffersAreAlignedApartAndWritable) {
  const auto pool = BufferPool::Create(1000, 2);
  std::vector<std::shared_ptr<std::byte>> held;
  std::set<std::byte*> places;
  for (int i = 0; i < 5; ++i) {
    held.push_back(pool->Get());
    std::memset(held.back().get(), i, 1000);
    EXPECT_TRUE(IsAligned(held.back().get()));
    places.insert(held.back().get());
  }
  EXPECT_EQ(places.size(), 5u);
  for (int i = 0; i < 5; ++i) {
    EXPECT_THAT(std::vector<std::byte>(held[i].get(), held[i].get() + 1000),
                Each(static_cast<std::byte>(i)));
  }
}

TEST(BufferPoolTest, ABufferIsUsedAgainWhenItsLastOwnerLetsGo) {
  const auto pool = BufferPool::Create(64, 4);
  auto first = pool->Get();
  std::byte* const place = first.get();
  auto second = first;
  first.reset();
  const auto other = pool->Get();
  EXPECT_NE(other.get(), place);
  second.reset();
  EXPECT_EQ(pool->Get().get(), place);
}

TEST(BufferPoolTest, WithAnIdleBufferNothingIsAllocated) {
  const auto pool = BufferPool::Create(64, 4);
  std::byte* const place = pool->Get().get();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(pool->Get().get(), place);
}

TEST(BufferPoolTest, BuffersMayOutliveThePool) {
  auto pool = BufferPool::Create(64, 4);
  auto held = pool->Get();
  pool.reset();
  std::memset(held.get(), 1, 64);
  held.reset();  // the sanitizers see what is lost or freed twice
}

TEST(BufferPoolTest, NothingIsASize) {
  const auto pool = BufferPool::Create(0, 0);
  EXPECT_NE(pool->Get(), nullptr);
}

TEST(BufferPoolTest, ThreadsMayLetGo) {
  const auto pool = BufferPool::Create(256, 3);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([pool, t] {
      for (int i = 0; i < 2000; ++i) {
        const auto a = pool->Get();
        const auto b = pool->Get();
        std::memset(a.get(), t, 256);
        std::memset(b.get(), t + 4, 256);
        ASSERT_EQ(a.get()[255], static_cast<std::byte>(t));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ZeroedBufferTest, IsZero) {
  const auto buffer = MakeZeroedBuffer(777);
  EXPECT_TRUE(IsAligned(buffer.get()));
  EXPECT_THAT(std::vector<std::byte>(buffer.get(), buffer.get() + 777),
              Each(std::byte{0}));
  EXPECT_NE(MakeZeroedBuffer(0), nullptr);
}

}  // namespace
}  // namespace parapet
