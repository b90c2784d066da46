#ifndef PARAPET_TOOLS_COMMAND_LINE_H_
#define PARAPET_TOOLS_COMMAND_LINE_H_

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace parapet {

// The words after the command: argv without argv[0].
std::vector<std::string> ArgsOf(int argc, char** argv);

// Reads the words into what the app's options are bound to. The exit code if
// the command ends here: help was asked for and is on `out`, or something is
// wrong and is said on `err`.
std::optional<int> ParseArgs(CLI::App* app,
                             const std::vector<std::string>& args,
                             std::ostream& out, std::ostream& err);

}  // namespace parapet

#endif  // PARAPET_TOOLS_COMMAND_LINE_H_
