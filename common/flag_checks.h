#ifndef PARAPET_COMMON_FLAG_CHECKS_H_
#define PARAPET_COMMON_FLAG_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/flag_set.h"
#include "common/flags.h"

namespace parapet {

// Contradictions between flags that each are right by themselves.
// InvalidArgument, in words that name the flags and what would do instead.
// `given` knows where each flag came from.
absl::Status CheckCommon(const CommonFlags& flags, const FlagSet& given);

// The number of a process: `value` is -1 if it was not given, and then 0 if
// there is only one.
absl::Status CheckNumber(const std::string& flag, const std::string& of,
                         int count, int* value);

// auth=none is for this machine alone, unless --insecure says that the network
// is trusted.
absl::Status CheckReach(const CommonFlags& flags,
                        const std::vector<std::string>& addresses);

}  // namespace parapet

#endif  // PARAPET_COMMON_FLAG_CHECKS_H_
