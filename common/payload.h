#ifndef PARAPET_COMMON_PAYLOAD_H_
#define PARAPET_COMMON_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace parapet {

// Immutable bytes with shared ownership: what a transport carries beside a
// header. Copying one copies a pointer. The bytes may lie at any address: read
// them with unaligned loads (memcpy). Only a sender that lies changes what it
// has sent, and only where may_change() says so.
class Payload {
 public:
  Payload() = default;
  Payload(std::shared_ptr<const void> owner, const void* data, size_t size)
      : owner_(std::move(owner)),
        data_(static_cast<const std::byte*>(data)),
        size_(size) {}

  // Of memory that whoever sent it can still write to.
  static Payload ThatMayChange(std::shared_ptr<const void> owner,
                               const void* data, size_t size) {
    Payload payload(std::move(owner), data, size);
    payload.may_change_ = true;
    return payload;
  }

  static Payload FromString(std::string bytes) {
    auto owner = std::make_shared<const std::string>(std::move(bytes));
    return Payload(owner, owner->data(), owner->size());
  }

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  absl::Span<const std::byte> bytes() const { return {data_, size_}; }
  std::string ToString() const {
    return size_ == 0
               ? std::string()
               : std::string(reinterpret_cast<const char*>(data_), size_);
  }
  // Whether the sender, if it lies, can change the bytes while they are here:
  // who checks them and then uses them must do both on a copy.
  bool may_change() const { return may_change_; }
  // Whoever holds a copy of this keeps the bytes alive.
  const std::shared_ptr<const void>& owner() const { return owner_; }

 private:
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  bool may_change_ = false;
};

}  // namespace parapet

#endif  // PARAPET_COMMON_PAYLOAD_H_
