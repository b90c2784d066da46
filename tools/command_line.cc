#include "tools/command_line.h"

#include <algorithm>

#include "common/flags.h"

namespace parapet {

std::vector<std::string> ArgsOf(int argc, char** argv) {
  return {argv + std::min(argc, 1), argv + argc};
}

std::optional<int> ParseArgs(CLI::App* app,
                             const std::vector<std::string>& args,
                             std::ostream& out, std::ostream& err) {
  try {
    app->parse(std::vector<std::string>(
        args.rbegin(), args.rend()));  // CLI11 takes them backwards
  } catch (const CLI::ParseError& error) {
    return app->exit(error, out, err) == 0 ? kExitDone : kExitUsage;
  }
  return std::nullopt;
}

}  // namespace parapet
