// The memory that two processes share: what a writer and a reader do with each
// other's mistakes and lies. tests/contract has the rest.
#include "common/net/shm_ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "common/net/shm_ended.h"
#include "common/net/shm_record.h"
#include "common/net/shm_transport.h"

namespace parapet::net {
namespace {

using shm_internal::kLine;
using shm_internal::RecordHead;

class ShmRingTest : public testing::Test {
 protected:
  static constexpr size_t kRing = 8192, kBlock = 4096, kBlocks = 4, kLoans = 4;

  ShmMemory Memory() {
    ShmMemory memory;
    memory.owner = bytes_;
    memory.counters = &counters_;
    memory.bytes = bytes_->data();
    memory.shape = {kRing, kBlock, kBlocks, kLoans};
    return memory;
  }
  std::unique_ptr<ShmReader> Reader() {
    return std::make_unique<ShmReader>(Memory(), limits_, [this] { ++rings_; });
  }

  // A whole message, or false.
  bool Write(ShmWriter* writer, const std::string& header,
             const std::string& payload) {
    ShmWriter::Progress progress;
    const auto done =
        writer->Write(header, Payload::FromString(payload), &progress);
    EXPECT_TRUE(done.ok()) << done.status();
    return done.ok() && *done;
  }

  // A record by a liar.
  void Forge(const RecordHead& head, size_t bytes) {
    std::memcpy(bytes_->data() + forged_ % kRing, &head, sizeof(head));
    forged_ += bytes;
    counters_.written = forged_;
  }
  absl::Status ReadStatus(ShmReader* reader) { return reader->Read().status(); }

  Limits limits_;
  ShmCounters counters_{};
  std::shared_ptr<std::vector<std::byte>> bytes_ =
      std::make_shared<std::vector<std::byte>>(kRing + kBlock * kBlocks);
  int rings_ = 0;
  uint64_t forged_ = 0;
};

std::string Bytes(size_t size, int seed) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<char>(i * 7 + static_cast<size_t>(seed));
  return bytes;
}

TEST_F(ShmRingTest, EverySizeComesWhole) {
  ShmWriter writer(Memory());
  const auto reader = Reader();
  for (size_t size :
       {0, 1, 63, 64, 65, 2047, 2048, 2049, 4095, 4096, 4097, 10000, 100000}) {
    ShmWriter::Progress progress;
    const Payload payload = Payload::FromString(Bytes(size, 3));
    std::optional<ShmReader::Message> got;
    bool done = false;
    for (int i = 0; i < 100 && !got; ++i) {
      if (!done) done = *writer.Write("header", payload, &progress);
      got = *reader->Read();
    }
    ASSERT_TRUE(got.has_value()) << size;
    EXPECT_EQ(got->header, "header");
    EXPECT_EQ(got->payload.ToString(), payload.ToString()) << size;
  }
}

// A reader that keeps everything stops nobody: what comes late is copied.
TEST_F(ShmRingTest, AReaderThatKeepsWhatItGets) {
  ShmWriter writer(Memory());
  const auto reader = Reader();
  std::vector<Payload> kept;
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(Write(&writer, std::to_string(i), Bytes(3000, i))) << i;
    const auto message = *reader->Read();
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->header, std::to_string(i));
    kept.push_back(message->payload);
  }
  for (int i = 0; i < 100; ++i) EXPECT_EQ(kept[i].ToString(), Bytes(3000, i));
}

TEST_F(ShmRingTest, BlocksComeBackInAnyOrder) {
  ShmWriter writer(Memory());
  const auto reader = Reader();
  std::mt19937_64 random(1);
  std::vector<Payload> kept;
  for (int i = 0; i < 3000; ++i) {
    const std::string payload = Bytes(2100 + i % 1900, i);
    ASSERT_TRUE(Write(&writer, "", payload));
    kept.push_back((*reader->Read())->payload);
    EXPECT_EQ(kept.back().ToString(), payload);
    if (kept.size() > 1)
      kept.erase(kept.begin() + static_cast<int>(random() % kept.size()));
  }
}

TEST_F(ShmRingTest, WhoWaitsForRoomIsRung) {
  ShmWriter writer(Memory());
  const auto reader = Reader();
  int sent = 0;
  while (Write(&writer, "h", Bytes(1500, sent))) ++sent;
  EXPECT_GT(sent, 2);
  EXPECT_EQ(rings_, 0);
  EXPECT_TRUE((*reader->Read()).has_value());
  EXPECT_EQ(rings_, 1);
  EXPECT_TRUE((*reader->Read()).has_value());
  EXPECT_EQ(rings_, 1);  // it was told
}

TEST_F(ShmRingTest, PayloadsOutliveTheReader) {
  ShmWriter writer(Memory());
  auto reader = Reader();
  ASSERT_TRUE(Write(&writer, "h", Bytes(4000, 1)));
  const Payload payload = (*reader->Read())->payload;
  reader.reset();
  EXPECT_EQ(payload.ToString(), Bytes(4000, 1));
}

// ---- Liars ------------------------------------------------------------------

TEST_F(ShmRingTest, RecordsThatCannotBe) {
  const std::vector<RecordHead> lies = {
      {.kind = 0},
      {.kind = 9},
      {.kind = RecordHead::kPart, .payload = 10, .total = 10},
      {.kind = RecordHead::kMessage, .header = 1000000},
      {.kind = RecordHead::kMessage, .header = 200},
      {.kind = RecordHead::kMessage, .payload = 3000, .total = 3000},
      {.kind = RecordHead::kMessage, .payload = ~uint64_t{0}, .total = 8},
      {.kind = RecordHead::kMessage, .slot = 4, .payload = 9, .total = 9},
      {.kind = RecordHead::kMessage, .slot = 1, .payload = 0, .total = 9},
      {.kind = RecordHead::kMessage, .slot = 1, .payload = 5000, .total = 5000},
      {.kind = RecordHead::kMessage, .payload = 20, .total = 10},
      {.kind = RecordHead::kSkip}};
  for (size_t i = 0; i < lies.size(); ++i) {
    counters_.written = forged_ = 0;
    Forge(lies[i], kLine);
    const auto reader = Reader();
    EXPECT_TRUE(absl::IsDataLoss(ReadStatus(reader.get()))) << i;
  }
}

TEST_F(ShmRingTest, MoreThanThereIsRoomFor) {
  for (const uint64_t written :
       {uint64_t{kRing + 64}, uint64_t{63}, ~uint64_t{0}, ~uint64_t{63}}) {
    counters_.written = written;
    EXPECT_TRUE(absl::IsDataLoss(ReadStatus(Reader().get()))) << written;
  }
}

TEST_F(ShmRingTest, ABlockThatIsStillKept) {
  const RecordHead head = {
      .kind = RecordHead::kMessage, .slot = 1, .payload = 4096, .total = 4096};
  Forge(head, kLine);
  Forge(head, kLine);
  const auto reader = Reader();
  const auto first = reader->Read();
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(absl::IsDataLoss(ReadStatus(reader.get())));
}

TEST_F(ShmRingTest, MessagesOverTheLimits) {
  limits_.max_header = 10;
  limits_.max_payload = 100;
  ShmWriter writer(Memory());
  ASSERT_TRUE(Write(&writer, std::string(11, 'h'), ""));
  EXPECT_TRUE(absl::IsInvalidArgument(ReadStatus(Reader().get())));
}

TEST_F(ShmRingTest, AReaderThatFreesWhatItWasNotSent) {
  ShmWriter writer(Memory());
  counters_.freed = 64;
  ShmWriter::Progress progress;
  EXPECT_TRUE(absl::IsDataLoss(writer.Write("h", {}, &progress).status()));
}

TEST_F(ShmRingTest, AReaderThatReturnsWhatItWasNotGiven) {
  for (const uint32_t block : {0u, 9u}) {
    counters_.returned = 0;
    ShmWriter writer(Memory());
    counters_.returned = 1;
    counters_.slots[0] = block;
    ShmWriter::Progress progress;
    EXPECT_TRUE(absl::IsDataLoss(
        writer.Write("h", Payload::FromString(Bytes(3000, 1)), &progress)
            .status()));
  }
}

// A message without an end, that goes on whenever something of it was read.
TEST_F(ShmRingTest, ReadsAreBounded) {
  const RecordHead skip = {.kind = RecordHead::kSkip};
  Forge(skip, kRing);
  counters_.wants_room = 1;
  int read = 0;
  ShmReader reader(Memory(), limits_, [&] {
    if (++read == 10000) return;
    Forge(skip, kRing);
    counters_.wants_room = 1;
  });
  const auto message = reader.Read();
  ASSERT_TRUE(message.ok()) << message.status();
  EXPECT_FALSE(message->has_value());
  EXPECT_LT(read, 1000);
}

// In place it is the writer's to change.
TEST_F(ShmRingTest, PayloadsInPlaceMayChange) {
  ShmWriter writer(Memory());
  const auto reader = Reader();
  for (const size_t size : {1000, 4096, 10000}) {
    ASSERT_TRUE(Write(&writer, "h", Bytes(size, 1)));
    EXPECT_EQ((*reader->Read())->payload.may_change(), size == 4096) << size;
  }
}

// Random bytes where records should be: refused or read, never a crash.
TEST_F(ShmRingTest, RandomRecords) {
  std::mt19937_64 random(7);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    for (size_t at = 0; at < kRing; at += kLine) {
      const RecordHead head = {.kind = static_cast<uint32_t>(random() % 5),
                               .header = static_cast<uint32_t>(random() % 100),
                               .slot = static_cast<uint32_t>(random() % 10) - 1,
                               .payload = random() % 5000,
                               .total = random() % 9000};
      std::memcpy(bytes_->data() + at, &head, sizeof(head));
    }
    counters_.written = random() % (kRing / kLine) * kLine;
    const auto reader = Reader();
    for (int k = 0; k < 200; ++k) {
      const auto message = reader->Read();
      if (!message.ok()) ++refused;
      if (!message.ok() || !*message) break;
    }
  }
  EXPECT_GT(refused, 1000);
}

// A worker that has lost its connection may still be reading weights: they stay
// as they are while it lives, however long it computes.
TEST_F(ShmRingTest, WhatALivingProcessHasBorrowedStays) {
  for (const pid_t process : {getpid(), pid_t{0}}) {
    auto lent = std::make_shared<const std::string>(std::string(4000, 'x'));
    const std::weak_ptr<const std::string> watch = lent;
    auto writer = std::make_unique<ShmWriter>(Memory());
    ShmWriter::Progress progress;
    const auto written =
        writer->Write("h", Payload(lent, lent->data(), lent->size()), &progress,
                      ShmWriter::Loan{.slab = 0, .offset = 0});
    ASSERT_TRUE(written.ok() && *written);
    lent.reset();
    const absl::Time now = absl::UnixEpoch();
    ShmEnded ended(absl::Seconds(60));
    ended.Keep(std::move(writer), process, now);
    ended.Forget(now + absl::Seconds(59));
    EXPECT_FALSE(watch.expired());
    ended.Forget(now + absl::Hours(1));
    EXPECT_EQ(watch.expired(), process == 0)
        << "0: nobody knows whether it lives";
  }
}

// What a worker holds of two versions, and its gradient, is lent at once; for
// a very large shard the rest is copied.
TEST(ShmOptionsTest, ThereAreLoansForAShard) {
  constexpr int64_t kChunk = 1 << 16;
  for (const int64_t chunks : {1, 64, 1000}) {
    const ShardMap map = *ShardMap::Create(chunks * kChunk, 1, kChunk);
    EXPECT_GE(ShmOptionsFor(map).shape.loans, 3 * chunks);
  }
  const ShardMap large = *ShardMap::Create(100000 * kChunk, 1, kChunk);
  EXPECT_EQ(ShmOptionsFor(large).shape.slots(), ShmShape::kMostSlots);
}

}  // namespace
}  // namespace parapet::net
