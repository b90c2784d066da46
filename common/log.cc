#include "common/log.h"

#include "spdlog/sinks/null_sink.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace parapet {

std::shared_ptr<Logger> MakeLogger(const std::string& name,
                                   const std::string& level) {
  auto logger = std::make_shared<Logger>(
      name, std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("%H:%M:%S.%e %L %n: %v");
  const bool off = level == "off";
  const auto parsed = spdlog::level::from_str(level);
  logger->set_level(parsed == spdlog::level::off && !off ? spdlog::level::info
                                                         : parsed);
  logger->flush_on(spdlog::level::info);
  return logger;
}

std::shared_ptr<Logger> MakeNullLogger() {
  return std::make_shared<Logger>(
      "null", std::make_shared<spdlog::sinks::null_sink_mt>());
}

}  // namespace parapet
