#ifndef PARAPET_TOOLS_RULES_TABLE_H_
#define PARAPET_TOOLS_RULES_TABLE_H_

#include <ostream>
#include <string>
#include <vector>

namespace parapet {

// `parapet rules`: every rule and every step before one, as the registry of the
// rules (server/rules/registry.h) has them: name with options and defaults,
// formula, limits on n and f, cost for n vectors of d elements, whether servers
// must exchange distances, paper.
//
//   rules               a table
//   rules --json        an array of objects
//   rules --markdown    the tables of docs/rules.md
//
// `args` are the words after "rules". Returns the exit code.
int RunRules(const std::vector<std::string>& args, std::ostream& out,
             std::ostream& err);

// The same with the standard streams. argv[0] is skipped.
int RunRules(int argc, char** argv);

}  // namespace parapet

#endif  // PARAPET_TOOLS_RULES_TABLE_H_
