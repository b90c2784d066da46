// Bytes from the network: whatever they are, Decode says yes or no.

#include <string>
#include <vector>

#include "common/wire.h"
#include "gtest/gtest.h"
#include "tests/fuzz/mutate.h"

namespace parapet {
namespace {

// Decodes, and checks that what was accepted can go on the wire again.
bool Accepts(const Frames& frames, const WireLimits& limits) {
  const auto message =
      Decode(frames.header, Payload::FromString(frames.payload), limits);
  if (!message.ok()) {
    EXPECT_TRUE(absl::IsInvalidArgument(message.status()));
    EXPECT_FALSE(message.status().message().empty());
    return false;
  }
  const Frames again = FramesOf(*message);
  // One text may have stood for two fields, and takes more room now.
  if (again.header.size() > limits.header) return true;
  const auto second =
      Decode(again.header, Payload::FromString(again.payload), limits);
  EXPECT_TRUE(second.ok()) << second.status();
  return true;
}

std::vector<Frames> Corpus() {
  std::vector<Frames> corpus;
  for (const Body& body : EveryMessage()) {
    corpus.push_back(FramesOf({1, 2, body}));
  }
  return corpus;
}

TEST(WireFuzzTest, SpoiledMessages) {
  const uint64_t seed = 20240611;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const std::vector<Frames> corpus = Corpus();
  Mutator mutator(seed);
  int accepted = 0, refused = 0;
  for (int i = 0; i < 400000 && !HasFailure(); ++i) {
    const Frames& frames = corpus[mutator.Below(corpus.size())];
    (Accepts(mutator.Spoil(frames), WireLimits()) ? accepted : refused)++;
  }
  // Both happen a lot, or else it tests little.
  EXPECT_GT(accepted, 10000);
  EXPECT_GT(refused, 10000);
}

// Faults on faults: what was accepted is spoiled further.
TEST(WireFuzzTest, MessagesThatWereSpoiledBefore) {
  const uint64_t seed = 5;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Mutator mutator(seed);
  std::vector<Frames> corpus = Corpus();
  for (int i = 0; i < 100000 && !HasFailure(); ++i) {
    Frames frames = mutator.Spoil(corpus[mutator.Below(corpus.size())]);
    if (!Accepts(frames, WireLimits()) || frames.payload.size() > 4096) {
      continue;
    }
    const size_t place = mutator.Below(500);
    if (place < corpus.size()) {
      corpus[place] = std::move(frames);
    } else {
      corpus.push_back(std::move(frames));
    }
  }
}

TEST(WireFuzzTest, SenselessNumbers) {
  const uint64_t seed = 6;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Mutator mutator(seed);
  WireLimits tight;
  tight.chunk_payload = 40;
  tight.max_locals = 8;
  tight.max_id = 9;
  for (int i = 0; i < 50000 && !HasFailure(); ++i) {
    Accepts(FramesOf({mutator.Edge(), mutator.Edge(), mutator.AnyBody()}),
            tight);
  }
}

TEST(WireFuzzTest, Noise) {
  const uint64_t seed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Mutator mutator(seed);
  for (int i = 0; i < 50000 && !HasFailure(); ++i) {
    Accepts({mutator.Noise(200), mutator.Noise(50)}, WireLimits());
  }
}

}  // namespace
}  // namespace parapet
