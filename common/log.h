#ifndef PARAPET_COMMON_LOG_H_
#define PARAPET_COMMON_LOG_H_

#include <memory>
#include <string>

#include "spdlog/spdlog.h"

namespace parapet {

// Loggers are made in main and passed in; nothing uses spdlog's default one.
using Logger = spdlog::logger;

// Writes to standard error, a line a message: "12:00:01.234 W server 0: words".
// `level` is one of trace, debug, info, warn, error, off (anything else counts
// as info). Thread-safe.
std::shared_ptr<Logger> MakeLogger(const std::string& name,
                                   const std::string& level);

// Swallows everything: for tests and simulations.
std::shared_ptr<Logger> MakeNullLogger();

}  // namespace parapet

#endif  // PARAPET_COMMON_LOG_H_
