#ifndef PARAPET_TOOLS_RUN_H_
#define PARAPET_TOOLS_RUN_H_

namespace parapet {

// `parapet run`: starts a job's servers, workers and evaluators on this machine
// and stays with them to the end. argv[0] is skipped; the flags follow. Returns
// the exit code: that of the first process that failed (128 + the signal, if
// one ended it), 0 if none did.
//
// What the processes write appears on standard error, each line with who wrote
// it. Standard output gets the summary alone, after everything else (and before
// it, with --progress=json, what the lead writes to its own).
//
// SIGINT, SIGTERM and SIGHUP are passed on to every process; what still runs
// after --grace, or at a second signal, is killed. When a server fails, or a
// worker says by its exit code that it cannot work, the others get --grace to
// leave, then SIGTERM, then SIGKILL. A worker that a signal ended, or that was
// left out (kExitLeftOut), leaves the job going. If the launcher itself dies,
// however, the kernel kills what it started. Call it from a process's only
// thread.
int RunJob(int argc, char** argv);

}  // namespace parapet

#endif  // PARAPET_TOOLS_RUN_H_
