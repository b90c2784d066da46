#include "common/net/shm_link.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <utility>

#include "common/status_macros.h"

namespace parapet::net {
namespace {

constexpr uint64_t kMagic = 0x3130'4d48'5350'5250;  // "PRPSHM01"
constexpr size_t kPage = 4096;
constexpr size_t kMostBytes = size_t{1} << 30;

struct Hello {
  uint64_t magic = kMagic;
};

struct Answer {
  uint64_t magic = kMagic;
  uint64_t ring = 0, block = 0, blocks = 0, loans = 0;
};

struct SlabNote {
  uint64_t magic = kMagic;
  uint64_t id = 0, bytes = 0;
};

// The counters of both directions: up is from the connecting side.
struct Counters {
  ShmCounters up, down;
};

absl::Status Nonsense() {
  return absl::InvalidArgumentError(
      "what answered does not speak this version's shared memory");
}

absl::Status Gone() { return absl::UnavailableError("the other side hung up"); }

// A packet of the expected size with the expected number of descriptors.
template <class T>
absl::StatusOr<Packet> Receive(int socket, size_t fds, T* content) {
  PARAPET_ASSIGN_OR_RETURN(Packet packet,
                           ReceivePacket(socket, content, sizeof(T)));
  if (packet.size == 0) return absl::AbortedError(Gone().message());
  if (packet.cut) {
    return absl::ResourceExhaustedError(
        "descriptors were lost: this process can open no more (ulimit -n), or "
        "the other side sent too many");
  }
  if (packet.size != sizeof(T) || packet.fds.size() != fds ||
      content->magic != kMagic)
    return Nonsense();
  return packet;
}

// That it is of no file type, as an eventfd, and does not block. A full pipe,
// say, would keep whoever writes to it.
absl::Status CheckBell(int fd) {
  struct stat facts;
  if (fstat(fd, &facts) != 0)
    return absl::ErrnoToStatus(errno, "cannot look at an eventfd");
  const int flags = fcntl(fd, F_GETFL);
  return (facts.st_mode & S_IFMT) == 0 && (flags & O_NONBLOCK) != 0
             ? absl::OkStatus()
             : Nonsense();
}

absl::Status CheckShape(const ShmShape& shape, const Limits& limits) {
  const size_t record = shm_internal::kLine +
                        shm_internal::Padded(limits.max_header) +
                        ShmWriter::kInline;
  const bool fits =
      std::has_single_bit(shape.ring) && shape.ring >= 2 * record &&
      shape.block % 64 == 0 && shape.block > 0 && shape.block <= kMostBytes &&
      shape.ring <= kMostBytes && shape.blocks >= 2 &&
      shape.blocks <= ShmShape::kMostSlots &&
      shape.loans <= ShmShape::kMostSlots &&
      shape.slots() <= ShmShape::kMostSlots && shape.bytes() <= kMostBytes;
  return fits ? absl::OkStatus() : Nonsense();
}

}  // namespace

absl::StatusOr<std::shared_ptr<ShmBell>> ShmBell::Make() {
  UniqueFd bell(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid())
    return absl::ErrnoToStatus(errno, "cannot make an eventfd");
  PARAPET_ASSIGN_OR_RETURN(UniqueFd word, MakeSharedFile(kPage));
  PARAPET_ASSIGN_OR_RETURN(std::shared_ptr<ShmBell> made,
                           Open(std::move(bell), word));
  made->file_ = std::move(word);
  return made;
}

absl::StatusOr<std::shared_ptr<ShmBell>> ShmBell::Open(UniqueFd bell,
                                                       const UniqueFd& word) {
  PARAPET_RETURN_IF_ERROR(CheckBell(bell.get()));
  PARAPET_RETURN_IF_ERROR(CheckSharedFile(word.get(), kPage));
  std::shared_ptr<ShmBell> opened(new ShmBell);
  PARAPET_ASSIGN_OR_RETURN(opened->mapping_, MapFile(word.get(), kPage, true));
  opened->word_ =
      reinterpret_cast<std::atomic<uint32_t>*>(opened->mapping_.get());
  opened->bell_ = std::move(bell);
  return opened;
}

void ShmBell::Ring() {
  if (word_->load(std::memory_order_seq_cst) == 0 || word_->exchange(0) == 0)
    return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t n = write(bell_.get(), &one, sizeof(one));
}

void ShmBell::Clear() {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t n = read(bell_.get(), &count, sizeof(count));
}

absl::Status SendHello(int socket, const ShmBell& bell) {
  const Hello hello;
  return SendPacket(socket, &hello, sizeof(hello), bell.fds());
}

absl::StatusOr<ShmLink> AnswerHello(int socket, const ShmBell& bell,
                                    const ShmShape& shape,
                                    const Limits& limits) {
  Hello hello;
  PARAPET_ASSIGN_OR_RETURN(Packet packet, Receive(socket, 2, &hello));
  ShmLink link;
  PARAPET_ASSIGN_OR_RETURN(
      link.peer, ShmBell::Open(std::move(packet.fds[0]), packet.fds[1]));
  PARAPET_ASSIGN_OR_RETURN(UniqueFd counters, MakeSharedFile(sizeof(Counters)));
  PARAPET_ASSIGN_OR_RETURN(UniqueFd up, MakeSharedFile(shape.bytes()));
  PARAPET_ASSIGN_OR_RETURN(UniqueFd down, MakeSharedFile(shape.bytes()));
  PARAPET_ASSIGN_OR_RETURN(const Mapping shared,
                           MapFile(counters.get(), sizeof(Counters), true));
  PARAPET_ASSIGN_OR_RETURN(const Mapping in,
                           MapFile(up.get(), shape.bytes(), false));
  PARAPET_ASSIGN_OR_RETURN(const Mapping out,
                           MapFile(down.get(), shape.bytes(), true));
  PARAPET_RETURN_IF_ERROR(SealWriting(down.get()));
  auto* const both = reinterpret_cast<Counters*>(shared.get());
  using Owners = std::pair<Mapping, Mapping>;
  link.reader = std::make_unique<ShmReader>(
      ShmMemory{std::make_shared<Owners>(shared, in), &both->up, in.get(),
                shape},
      limits, [peer = link.peer] { peer->Ring(); });
  link.writer = std::make_unique<ShmWriter>(ShmMemory{
      std::make_shared<Owners>(shared, out), &both->down, out.get(), shape});
  const Answer answer = {kMagic, shape.ring, shape.block, shape.blocks,
                         shape.loans};
  std::vector<int> fds = {counters.get(), up.get(), down.get()};
  for (int fd : bell.fds()) fds.push_back(fd);
  PARAPET_RETURN_IF_ERROR(SendPacket(socket, &answer, sizeof(answer), fds));
  return link;
}

absl::StatusOr<ShmLink> TakeAnswer(int socket, const Limits& limits) {
  Answer answer;
  PARAPET_ASSIGN_OR_RETURN(Packet packet, Receive(socket, 5, &answer));
  const ShmShape shape = {answer.ring, answer.block, answer.blocks,
                          answer.loans};
  PARAPET_RETURN_IF_ERROR(CheckShape(shape, limits));
  std::vector<UniqueFd>& fds = packet.fds;
  PARAPET_RETURN_IF_ERROR(CheckSharedFile(fds[0].get(), sizeof(Counters)));
  PARAPET_RETURN_IF_ERROR(CheckSharedFile(fds[1].get(), shape.bytes()));
  PARAPET_RETURN_IF_ERROR(CheckSharedFile(fds[2].get(), shape.bytes()));
  PARAPET_ASSIGN_OR_RETURN(const Mapping shared,
                           MapFile(fds[0].get(), sizeof(Counters), true));
  PARAPET_ASSIGN_OR_RETURN(const Mapping out,
                           MapFile(fds[1].get(), shape.bytes(), true));
  PARAPET_ASSIGN_OR_RETURN(const Mapping in,
                           MapFile(fds[2].get(), shape.bytes(), false));
  ShmLink link;
  PARAPET_ASSIGN_OR_RETURN(link.peer, ShmBell::Open(std::move(fds[3]), fds[4]));
  auto* const both = reinterpret_cast<Counters*>(shared.get());
  using Owners = std::pair<Mapping, Mapping>;
  link.writer = std::make_unique<ShmWriter>(ShmMemory{
      std::make_shared<Owners>(shared, out), &both->up, out.get(), shape});
  link.reader = std::make_unique<ShmReader>(
      ShmMemory{std::make_shared<Owners>(shared, in), &both->down, in.get(),
                shape},
      limits, [peer = link.peer] { peer->Ring(); });
  return link;
}

absl::Status SendSlab(int socket, uint32_t id, int file, size_t bytes) {
  const SlabNote note = {kMagic, id, bytes};
  return SendPacket(socket, &note, sizeof(note), {file});
}

absl::StatusOr<ShmSlab> TakeSlab(int socket, size_t most) {
  SlabNote note;
  PARAPET_ASSIGN_OR_RETURN(Packet packet, Receive(socket, 1, &note));
  if (note.id > ~uint32_t{0}) return Nonsense();
  if (note.bytes > most)
    return absl::ResourceExhaustedError("it lends from too much memory");
  const int file = packet.fds[0].get();
  PARAPET_RETURN_IF_ERROR(CheckSharedFile(file, note.bytes));
  PARAPET_ASSIGN_OR_RETURN(Mapping mapping, MapFile(file, note.bytes, false));
  return ShmSlab{static_cast<uint32_t>(note.id), note.bytes,
                 std::move(mapping)};
}

}  // namespace parapet::net
