#ifndef PARAPET_TESTS_COMMON_IDX_FILES_H_
#define PARAPET_TESTS_COMMON_IDX_FILES_H_

#include <zlib.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "tests/common/temp_dir.h"

namespace parapet::testing_idx {

inline std::string Word(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16),
          static_cast<char>(value >> 8), static_cast<char>(value)};
}

inline std::string Idx(const std::vector<uint32_t>& dims,
                       const std::string& values) {
  std::string bytes = Word(0x800 + static_cast<uint32_t>(dims.size()));
  for (uint32_t dimension : dims) bytes += Word(dimension);
  return bytes + values;
}

inline std::string Gzip(const std::string& bytes) {
  z_stream zlib = {};
  deflateInit2(&zlib, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + 16, 8,
               Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&zlib, bytes.size()), '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  zlib.avail_in = static_cast<uInt>(bytes.size());
  zlib.next_out = reinterpret_cast<Bytef*>(packed.data());
  zlib.avail_out = static_cast<uInt>(packed.size());
  deflate(&zlib, Z_FINISH);
  packed.resize(zlib.total_out);
  deflateEnd(&zlib);
  return packed;
}

inline void Write(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace parapet::testing_idx

#endif  // PARAPET_TESTS_COMMON_IDX_FILES_H_
