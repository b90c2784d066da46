#include "tools/run_output.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace parapet {
namespace {

constexpr char kClearLine[] = "\r\033[K";
constexpr char kPlain[] = "\033[0m";
// Cyan, green, yellow, magenta, blue and their bright forms; no red, which says
// that something is wrong.
constexpr int kColours[] = {36, 32, 33, 35, 34, 96, 92, 93, 95, 94};
constexpr int kColourCount = sizeof(kColours) / sizeof(kColours[0]);

size_t Columns(int fd) {
  winsize size = {};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col
                                                                : 80;
}

// The beginning of a text, not ending within a UTF-8 character: a line that
// wraps cannot be cleared.
absl::string_view Shorten(absl::string_view text, size_t bytes) {
  if (text.size() <= bytes) return text;
  while (bytes > 0 &&
         (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) {
    --bytes;
  }
  return text.substr(0, bytes);
}

}  // namespace

void LineSplitter::Add(absl::string_view bytes, std::vector<Line>* lines) {
  for (const char c : bytes) {
    const bool after_return = std::exchange(after_return_, c == '\r');
    if (c == '\n' && after_return) {
      // "\r\n" is one end, and what it ended stays.
      if (!lines->empty()) lines->back().passing = false;
    } else if (c == '\n') {
      lines->push_back({std::exchange(partial_, {}), false});
    } else if (c == '\r') {
      if (!partial_.empty()) {
        lines->push_back({std::exchange(partial_, {}), true});
      }
    } else {
      partial_.push_back(c);
      if (partial_.size() == kMaxLine) {
        lines->push_back({std::exchange(partial_, {}), false});
      }
    }
  }
}

void LineSplitter::Finish(std::vector<Line>* lines) {
  if (!partial_.empty()) lines->push_back({std::exchange(partial_, {}), false});
}

void Sink::Write(absl::string_view text) {
  absl::StrAppend(&pending_, text);
  Flush();
}

bool Sink::Ready() const {
  pollfd wanted = {fd_, POLLOUT, 0};
  return ::poll(&wanted, 1, 0) == 1;
}

void Sink::Flush() {
  // A pipe that is ready takes PIPE_BUF bytes without blocking, whatever its
  // flags (which are shared with other processes, so they are left alone).
  size_t done = 0;
  while (done < pending_.size() && Ready()) {
    const ssize_t wrote =
        ::write(fd_, pending_.data() + done,
                std::min<size_t>(pending_.size() - done, PIPE_BUF));
    if (wrote > 0) {
      done += static_cast<size_t>(wrote);
    } else if (errno != EINTR) {
      if (errno != EAGAIN) done = pending_.size();
      break;
    }
  }
  pending_.erase(0, done);
}

std::string Screen::Prefix(absl::string_view name, int colour) const {
  std::string text(name);
  text.resize(std::max(width_, text.size()), ' ');
  if (!terminal_) return absl::StrCat(text, " | ");
  return absl::StrCat("\033[", kColours[colour % kColourCount], "m", text, " |",
                      kPlain, " ");
}

void Screen::PrintBottom() {
  sink_->Write(
      absl::StrCat(kClearLine, Shorten(bottom_, Columns(sink_->fd()) - 1)));
}

void Screen::Print(absl::string_view name, int colour,
                   const LineSplitter::Line& line) {
  if (terminal_ && line.passing) {
    bottom_ = line.text;
    return PrintBottom();
  }
  const bool below = !bottom_.empty();
  sink_->Write(absl::StrCat(below ? kClearLine : "", Prefix(name, colour),
                            line.text, "\n"));
  if (below) PrintBottom();
}

void Screen::Say(absl::string_view text) {
  Print("parapet", 0, {std::string(text), false});
}

void Screen::Settle() {
  if (!bottom_.empty()) sink_->Write("\n");
  bottom_.clear();
}

}  // namespace parapet
