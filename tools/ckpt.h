#ifndef PARAPET_TOOLS_CKPT_H_
#define PARAPET_TOOLS_CKPT_H_

#include <ostream>
#include <string>
#include <vector>

#include "common/disk.h"

namespace parapet {

// `parapet ckpt`: looks into snapshots.
//
//   ckpt show DIR                what a snapshot holds, after checking it
//   ckpt export DIR FILE         its weights as one plain safetensors file
//
// DIR is a snapshot's folder, or the folder of all snapshots; then every one is
// checked and listed, and the last good one is shown. Returns the exit code: 0,
// 2 for wrong usage, 5 for bad or missing data, 1 if something else failed
// (such as a full disk). `args` are the words after "ckpt".
int RunCkpt(Disk& disk, const std::vector<std::string>& args, std::ostream& out,
            std::ostream& err);

// The same with the real disk and the standard streams. argv[0] is skipped.
int RunCkpt(int argc, char** argv);

}  // namespace parapet

#endif  // PARAPET_TOOLS_CKPT_H_
