#ifndef PARAPET_TOOLS_LOAD_H_
#define PARAPET_TOOLS_LOAD_H_

namespace parapet {

// `parapet load`: plays the workers of a job without a model, against servers
// that it starts or that are there, checks what comes back and says how fast it
// came. The exit code.
int RunLoad(int argc, char** argv);

}  // namespace parapet

#endif  // PARAPET_TOOLS_LOAD_H_
