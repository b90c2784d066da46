#include "kernels/cpu/tile.h"

#include <cstring>

#include "kernels/cpu/cast.h"

namespace parapet {

FloatRows::FloatRows(absl::Span<const Row> rows)
    : rows_(rows), copies_(rows.size()), at_(rows.size()) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].dtype != DType::kFloat32 || rows[i].scale != 1)
      copies_[i].resize(kTileElements);
  }
}

const uint8_t* const* FloatRows::Read(size_t begin, size_t elements) {
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    const uint8_t* from = static_cast<const uint8_t*>(row.data) +
                          begin * static_cast<size_t>(SizeOf(row.dtype));
    if (copies_[i].empty()) {
      at_[i] = from;
      continue;
    }
    DecodeRange(from, row.dtype, row.scale, elements, copies_[i].data());
    at_[i] = reinterpret_cast<const uint8_t*>(copies_[i].data());
  }
  return at_.data();
}

const uint8_t* const* FloatRows::Copy(size_t elements) {
  again_.resize(rows_.size());
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (!copies_[i].empty()) continue;
    again_[i].resize(kTileElements);
    std::memcpy(again_[i].data(), at_[i], elements * sizeof(float));
    at_[i] = reinterpret_cast<const uint8_t*>(again_[i].data());
  }
  return at_.data();
}

}  // namespace parapet
