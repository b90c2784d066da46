#include <algorithm>
#include <cstring>
#include <utility>

#include "common/net/shm_record.h"
#include "common/net/shm_ring.h"
#include "common/status_macros.h"

namespace parapet::net {

using shm_internal::Broken;
using shm_internal::kLine;
using shm_internal::kNoBlock;
using shm_internal::Padded;
using shm_internal::RecordHead;

ShmWriter::ShmWriter(ShmMemory memory)
    : memory_(std::move(memory)), in_use_(memory_.shape.blocks) {
  for (size_t block = memory_.shape.blocks; block-- > 0;)
    free_.push_back(static_cast<uint32_t>(block));
}

absl::StatusOr<size_t> ShmWriter::FreeBytes() {
  const uint64_t freed =
      memory_.counters->freed.load(std::memory_order_acquire);
  if (freed < freed_ || freed > written_)
    return Broken("it freed what it was never sent");
  freed_ = freed;
  return memory_.shape.ring - static_cast<size_t>(written_ - freed_);
}

void ShmWriter::Publish(size_t bytes) {
  written_ += bytes;
  memory_.counters->written.store(written_, std::memory_order_seq_cst);
}

absl::StatusOr<std::byte*> ShmWriter::Room(size_t bytes) {
  PARAPET_ASSIGN_OR_RETURN(const size_t free, FreeBytes());
  const size_t place = static_cast<size_t>(written_) & (memory_.shape.ring - 1);
  const size_t to_end = memory_.shape.ring - place;
  if (to_end >= bytes) return free >= bytes ? memory_.bytes + place : nullptr;
  if (free < to_end + bytes) return nullptr;
  const RecordHead skip = {.kind = RecordHead::kSkip};
  std::memcpy(memory_.bytes + place, &skip, sizeof(skip));
  Publish(to_end);
  return memory_.bytes;
}

absl::Status ShmWriter::TakeReturned() {
  const uint64_t returned =
      memory_.counters->returned.load(std::memory_order_acquire);
  const size_t blocks = memory_.shape.blocks;
  if (returned < returned_ || returned - returned_ > blocks)
    return Broken("it returned more than it was given");
  for (; returned_ < returned; ++returned_) {
    const uint32_t block = memory_.counters->blocks[returned_ % blocks].load(
        std::memory_order_relaxed);
    if (block >= blocks || !in_use_[block])
      return Broken("it returned a block that it was not given");
    in_use_[block] = false;
    free_.push_back(block);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<uint32_t>> ShmWriter::TakeBlock() {
  PARAPET_RETURN_IF_ERROR(TakeReturned());
  if (free_.empty()) return std::nullopt;
  const uint32_t block = free_.back();
  free_.pop_back();
  in_use_[block] = true;
  return block;
}

absl::StatusOr<bool> ShmWriter::WritePart(absl::string_view header,
                                          const Payload& payload,
                                          Progress* progress) {
  const size_t rest = payload.size() - progress->done;
  const bool in_line = rest <= kInline;
  RecordHead head = {
      .kind = progress->begun ? RecordHead::kPart : RecordHead::kMessage,
      .header = progress->begun ? 0 : static_cast<uint32_t>(header.size()),
      .block = kNoBlock,
      .payload = std::min(rest, in_line ? rest : memory_.shape.block),
      .total = payload.size()};
  const size_t bytes =
      kLine + Padded(head.header) + (in_line ? Padded(rest) : 0);
  PARAPET_ASSIGN_OR_RETURN(std::byte* const to, Room(bytes));
  if (to == nullptr) return false;
  std::byte* data = to + kLine + Padded(head.header);
  if (!in_line) {
    PARAPET_ASSIGN_OR_RETURN(const std::optional<uint32_t> block, TakeBlock());
    if (!block) return false;
    head.block = *block;
    data = memory_.bytes + memory_.shape.ring + *block * memory_.shape.block;
  }
  if (head.payload > 0)
    std::memcpy(data, payload.data() + progress->done, head.payload);
  std::memcpy(to, &head, sizeof(head));
  std::memcpy(to + kLine, header.data(), head.header);
  progress->begun = true;
  progress->done += head.payload;
  Publish(bytes);
  return true;
}

absl::StatusOr<bool> ShmWriter::Write(absl::string_view header,
                                      const Payload& payload,
                                      Progress* progress) {
  while (!progress->begun || progress->done < payload.size()) {
    PARAPET_ASSIGN_OR_RETURN(bool written,
                             WritePart(header, payload, progress));
    if (written) continue;
    // Said before looking again: whoever frees afterwards sees it.
    memory_.counters->wants_room.store(1, std::memory_order_seq_cst);
    PARAPET_ASSIGN_OR_RETURN(written, WritePart(header, payload, progress));
    if (!written) return false;
    memory_.counters->wants_room.store(0, std::memory_order_relaxed);
  }
  return true;
}

}  // namespace parapet::net
