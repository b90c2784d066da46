#ifndef PARAPET_TOOLS_RUN_OUTPUT_H_
#define PARAPET_TOOLS_RUN_OUTPUT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace parapet {

// Takes a stream of bytes apart into lines.
class LineSplitter {
 public:
  static constexpr size_t kMaxLine =
      4096;  // bytes; a longer line comes in pieces

  struct Line {
    std::string text;
    bool passing =
        false;  // ended by \r: the next one takes its place on a terminal
  };

  // Appends the lines that are complete now. Empty ones that \r ended are left
  // out.
  void Add(absl::string_view bytes, std::vector<Line>* lines);
  // Appends what came after the last line's end.
  void Finish(std::vector<Line>* lines);

 private:
  std::string partial_;
  bool after_return_ = false;
};

// Writes to a descriptor whose reader may be slow, without ever waiting for it.
// Not owned.
class Sink {
 public:
  static constexpr size_t kFull =
      size_t{1} << 20;  // bytes; stop asking for more to write

  explicit Sink(int fd) : fd_(fd) {}
  int fd() const { return fd_; }
  void Write(absl::string_view text);
  // Writes what the reader takes now. If it is gone, all that is queued is
  // dropped.
  void Flush();
  bool empty() const { return pending_.empty(); }
  bool full() const { return pending_.size() >= kFull; }

 private:
  bool Ready() const;

  int fd_;
  std::string pending_;
};

// The launcher's screen: lines with a prefix for who wrote them, and on a
// terminal one line at the bottom that changes (the progress of the training).
class Screen {
 public:
  // `terminal`: colours, and lines that change. `width`: of the longest name.
  Screen(Sink* sink, bool terminal, size_t width)
      : sink_(sink), terminal_(terminal), width_(width) {}

  // `colour` picks one for the prefix; any number.
  void Print(absl::string_view name, int colour,
             const LineSplitter::Line& line);
  void Say(absl::string_view text);  // by the launcher itself
  // Leaves the line that changes as it is, and goes to the next.
  void Settle();

 private:
  std::string Prefix(absl::string_view name, int colour) const;
  void PrintBottom();

  Sink* sink_;
  bool terminal_;
  size_t width_;
  std::string bottom_;
};

}  // namespace parapet

#endif  // PARAPET_TOOLS_RUN_OUTPUT_H_
