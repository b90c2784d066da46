#ifndef PARAPET_TESTS_COMMON_TEMP_DIR_H_
#define PARAPET_TESTS_COMMON_TEMP_DIR_H_

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "gtest/gtest.h"

namespace parapet {

// A folder of a test's own, removed at its end.
class TempDir {
 public:
  TempDir() {
    std::string name = ::testing::TempDir() + "parapet-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  std::string operator/(const std::string& name) const {
    return path_ + "/" + name;
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace parapet

#endif  // PARAPET_TESTS_COMMON_TEMP_DIR_H_
