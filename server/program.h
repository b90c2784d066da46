#ifndef PARAPET_SERVER_PROGRAM_H_
#define PARAPET_SERVER_PROGRAM_H_

namespace parapet {

// The whole server program. Returns its exit code; docs/architecture.md lists
// them.
int RunServerProgram(int argc, char** argv);

}  // namespace parapet

#endif  // PARAPET_SERVER_PROGRAM_H_
