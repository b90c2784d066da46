#ifndef PARAPET_TOOLS_BENCH_ROUND_H_
#define PARAPET_TOOLS_BENCH_ROUND_H_

namespace parapet {

// `parapet bench round`: rounds of a given size without a model, by real server
// and worker processes on this machine, beside a bare zmq echo of the same
// bytes and memcpy in the same run. Returns the exit code.
int RunBenchRound(int argc, char** argv);

}  // namespace parapet

#endif  // PARAPET_TOOLS_BENCH_ROUND_H_
