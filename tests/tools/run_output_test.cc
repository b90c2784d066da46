#include "tools/run_output.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tools/run_plan.h"

namespace parapet {
namespace {

// "text" for a line that stays, "~text" for one that passes.
std::vector<std::string> Lines(const std::vector<std::string>& pieces) {
  LineSplitter splitter;
  std::vector<LineSplitter::Line> lines;
  for (const std::string& piece : pieces) splitter.Add(piece, &lines);
  splitter.Finish(&lines);
  std::vector<std::string> texts;
  for (const auto& line : lines)
    texts.push_back((line.passing ? "~" : "") + line.text);
  return texts;
}

using Texts = std::vector<std::string>;

TEST(LineSplitterTest, PutsPiecesTogether) {
  EXPECT_EQ(Lines({"a\nb", "c", "\n\nd"}), (Texts{"a", "bc", "", "d"}));
  EXPECT_EQ(Lines({}), Texts{});
  EXPECT_EQ(Lines({"a\n"}), Texts{"a"});
}

TEST(LineSplitterTest, ReturnsMakePassingLines) {
  EXPECT_EQ(Lines({"10 %\r20 ", "%\r\rdone\n"}),
            (Texts{"~10 %", "~20 %", "done"}));
  EXPECT_EQ(Lines({"dos\r\nlines\r\n"}), (Texts{"dos", "lines"}));
}

TEST(LineSplitterTest, LongLinesComeInPieces) {
  const std::string piece(LineSplitter::kMaxLine, 'x');
  EXPECT_EQ(Lines({piece + piece + "y\n"}), (Texts{piece, piece, "y"}));
}

class SinkTest : public ::testing::Test {
 protected:
  SinkTest() {
    EXPECT_EQ(::pipe(fds_), 0);
    ::fcntl(fds_[0], F_SETFL, O_NONBLOCK);
  }
  ~SinkTest() override {
    ::close(fds_[0]);
    ::close(fds_[1]);
  }
  std::string Drain() {
    std::string all(1 << 20, '\0');
    size_t size = 0;
    ssize_t got;
    while ((got = ::read(fds_[0], all.data() + size, all.size() - size)) > 0)
      size += static_cast<size_t>(got);
    all.resize(size);
    return all;
  }
  int fds_[2];
};

TEST_F(SinkTest, NeverWaitsForItsReader) {
  Sink sink(fds_[1]);
  const std::string much(300'000, 'x');  // a pipe holds 64 KiB
  sink.Write(much);                      // would block for ever
  EXPECT_FALSE(sink.empty());
  EXPECT_FALSE(sink.full());
  std::string got;
  while (!sink.empty()) {
    got += Drain();
    sink.Flush();
  }
  got += Drain();
  EXPECT_TRUE(got == much);
}

TEST_F(SinkTest, SaysWhenItIsFull) {
  Sink sink(fds_[1]);
  sink.Write(std::string(Sink::kFull + 100'000, 'x'));
  EXPECT_TRUE(sink.full());
}

TEST_F(SinkTest, AReaderThatIsGoneCostsNothing) {
  ::signal(SIGPIPE, SIG_IGN);
  Sink sink(fds_[1]);
  ::close(fds_[0]);
  sink.Write("x");
  EXPECT_TRUE(sink.empty());
  fds_[0] = ::dup(fds_[1]);
  ::signal(SIGPIPE, SIG_DFL);
}

TEST_F(SinkTest, TheScreenKeepsProgressAtTheBottom) {
  Sink sink(fds_[1]);
  Screen screen(&sink, true, 8);
  screen.Print("server 0", 0, {"round 1", true});
  EXPECT_EQ(Drain(), "\r\033[Kround 1");
  screen.Print("w", 1, {"log", false});
  EXPECT_EQ(Drain(), "\r\033[K\033[32mw        |\033[0m log\n\r\033[Kround 1");
  screen.Settle();
  EXPECT_EQ(Drain(), "\n");
  screen.Print("w", 1, {"end", false});
  EXPECT_EQ(Drain(), "\033[32mw        |\033[0m end\n");
}

TEST_F(SinkTest, ProgressIsCutToTheTerminalBetweenCharacters) {
  Sink sink(fds_[1]);  // no terminal: 80 columns are assumed
  Screen screen(&sink, true, 8);
  screen.Print("server 0", 0, {std::string(78, 'x') + "\xc3\xa9", true});
  EXPECT_EQ(Drain(), "\r\033[K" + std::string(78, 'x'));
}

TEST_F(SinkTest, ElsewhereProgressIsLines) {
  Sink sink(fds_[1]);
  Screen screen(&sink, false, 8);
  screen.Print("server 0", 3, {"round 1", true});
  screen.Say("hello");
  EXPECT_EQ(Drain(), "server 0 | round 1\nparapet  | hello\n");
}

TEST(TraceFileTest, EachProcessHasItsOwn) {
  const RunMember member{RunRole::kWorker, 3, "worker 3"};
  EXPECT_EQ(TraceFile("/a.b/t.json", member), "/a.b/t-worker-3.json");
  EXPECT_EQ(TraceFile("/a.b/t", member), "/a.b/t-worker-3");
  EXPECT_EQ(TraceFile("t.json", member), "t-worker-3.json");
}

}  // namespace
}  // namespace parapet
