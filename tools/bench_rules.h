#ifndef PARAPET_TOOLS_BENCH_RULES_H_
#define PARAPET_TOOLS_BENCH_RULES_H_

namespace parapet {

// `parapet bench rules`: what each rule costs a server for n workers and d
// elements, all that it does with the vectors once they are there: distances,
// plan, aggregate. The mean and memcpy of the same bytes are measured in the
// same run. Returns the exit code.
int RunBenchRules(int argc, char** argv);

}  // namespace parapet

#endif  // PARAPET_TOOLS_BENCH_RULES_H_
