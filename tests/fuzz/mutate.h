#ifndef PARAPET_TESTS_FUZZ_MUTATE_H_
#define PARAPET_TESTS_FUZZ_MUTATE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/rng.h"
#include "common/wire.h"
#include "tests/common/wire_messages.h"

namespace parapet {

// A message as it is on the wire.
struct Frames {
  std::string header, payload;
};

inline Frames FramesOf(const Message& message) {
  Encoder encoder;
  Payload payload;
  Frames frames;
  frames.header = std::string(encoder.Encode(message, &payload));
  frames.payload = payload.ToString();
  return frames;
}

// Spoils bytes in the ways in which parsers break. Every choice comes from the
// seed.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed, 0x66757a7a) {}

  uint64_t Below(uint64_t n) { return random_.Below(n); }
  bool OneIn(uint64_t n) { return Below(n) == 0; }

  // A number at which something might break.
  uint64_t Edge() {
    static constexpr uint64_t kEdges[] = {
        0,          1,          2,          3,          7,
        8,          255,        256,        65535,      65536,
        0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32, (1ull << 63) - 1,
        1ull << 63, ~0ull - 1,  ~0ull};
    return OneIn(4) ? random_.Next64() >> Below(64)
                    : kEdges[Below(std::size(kEdges))];
  }

  std::string Noise(size_t most) {
    std::string bytes(Below(most + 1), '\0');
    for (char& c : bytes) c = static_cast<char>(Below(256));
    return bytes;
  }

  void Spoil(std::string* bytes) {
    const uint64_t times = 1 + Below(4);
    for (uint64_t i = 0; i < times; ++i) SpoilOnce(bytes);
  }

  Frames Spoil(Frames frames) {
    switch (Below(8)) {
      case 0:
        Spoil(&frames.payload);
        break;
      case 1:
        std::swap(frames.header, frames.payload);
        break;
      case 2:
        frames.payload = Noise(100);
        break;
      case 3:
        frames.payload.clear();
        break;
      case 4:
        Spoil(&frames.payload);
        Spoil(&frames.header);
        break;
      default:
        Spoil(&frames.header);
    }
    if (OneIn(50)) frames.header = Noise(OneIn(10) ? 5000 : 200);
    return frames;
  }

  // A message of any kind with senseless numbers in its right places.
  Body AnyBody() {
    static const std::vector<Body> kAll = EveryMessage();
    Body body = kAll[Below(kAll.size())];
    std::visit([this](auto& m) { Senseless(m); }, body);
    return body;
  }

 private:
  void SpoilOnce(std::string* bytes) {
    if (bytes->empty()) {
      *bytes = Noise(16);
      return;
    }
    const size_t at = Below(bytes->size());
    switch (Below(7)) {
      case 0:
        (*bytes)[at] = static_cast<char>((*bytes)[at] ^ (1 << Below(8)));
        return;
      case 1:
        (*bytes)[at] = static_cast<char>(Edge());
        return;
      case 2:
      case 3: {  // a whole number
        const uint64_t edge = Edge();
        const size_t width = size_t{1} << Below(4);
        std::memcpy(bytes->data() + at, &edge,
                    std::min(width, bytes->size() - at));
        return;
      }
      case 4:
        bytes->resize(at);
        return;
      case 5:
        bytes->insert(at, Noise(16));
        return;
      default:
        bytes->erase(at, Below(16));
    }
  }

  std::vector<bool> Bits() {
    std::vector<bool> bits(Below(20));
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = OneIn(2);
    return bits;
  }
  template <typename M>
  void Senseless(M&) {}
  void Senseless(HelloMessage& m) {
    m.peer = {static_cast<Role>(Below(3)), static_cast<uint32_t>(Edge())};
    m.link = static_cast<uint16_t>(Edge());
    m.nonce = Edge();
  }
  void Senseless(PushMessage& m) {
    m.round = Edge();
    m.chunk = Edge();
    m.samples = static_cast<uint32_t>(Edge());
    m.data = Chunk(Below(80));
  }
  void Senseless(AbstainMessage& m) { m.round = Edge(); }
  void Senseless(WeightsMessage& m) {
    m.version = Edge();
    m.chunk = Edge();
    m.credit = Edge();
    m.data = Chunk(Below(80));
  }
  void Senseless(AckMessage& m) { m = {Edge(), Edge(), m.status, Edge()}; }
  void Senseless(NeedWeightsMessage& m) { m = {Edge(), Bits()}; }
  void Senseless(NeedGradientsMessage& m) { m = {Edge(), Edge(), Bits()}; }
  void Senseless(RoundDoneMessage& m) { m.round = Edge(); }
  void Senseless(PingMessage& m) { m.round = Edge(); }
  void Senseless(CompleteMessage& m) { m.round = Edge(); }
  void Senseless(ShardDoneMessage& m) { m.round = Edge(); }
  void Senseless(CloseMessage& m) { m.round = Edge(); }
  void Senseless(VersionHashMessage& m) { m = {Edge(), Edge(), Edge()}; }
  void Senseless(SnapshotDoneMessage& m) { m.version = Edge(); }
  void Senseless(EvalReportMessage& m) { m.version = Edge(); }
  void Senseless(ShardReportMessage& m) {
    m.round = Edge();
    m.workers[0] = static_cast<uint32_t>(Edge());
  }
  void Senseless(DecisionMessage& m) {
    m.round = Edge();
    m.op = static_cast<uint8_t>(Edge());
    m.f = static_cast<uint32_t>(Edge());
    m.bad = OneIn(2);
  }
  void Senseless(LeaseMessage& m) {
    m.lease.from = Edge();
    m.lease.until = m.lease.from + m.lease.facts.size();
    m.lease.marks = {{static_cast<Mark::Kind>(Below(4)), m.lease.until}};
  }

  Random random_;
};

}  // namespace parapet

#endif  // PARAPET_TESTS_FUZZ_MUTATE_H_
