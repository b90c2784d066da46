#include "tools/load_plot.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace parapet {
namespace {

constexpr int kWidth = 760, kHeight = 436;
constexpr double kLeft = 64, kRight = 744;  // of both panels
constexpr size_t kDotted = 20;              // intervals that get a dot each
constexpr size_t kFew = 8;                  // intervals that are not joined
constexpr double kMostTicks = 8;

struct Panel {
  double top, bottom;
  double low, high;  // of values
  bool logarithmic;

  double Y(double value) const {
    const auto scale = [this](double v) {
      return logarithmic ? std::log10(std::max(v, low)) : v;
    };
    const double part =
        (scale(value) - scale(low)) / (scale(high) - scale(low));
    return bottom - std::clamp(part, 0.0, 1.0) * (bottom - top);
  }
};

std::string Text(double x, double y, const std::string& anchor,
                 const std::string& words) {
  return absl::StrFormat(
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y,
      anchor, absl::StrReplaceAll(words, {{"&", "&amp;"}, {"<", "&lt;"}}));
}

std::string Line(double x1, double y1, double x2, double y2) {
  return absl::StrFormat(
      "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
      "stroke=\"#ddd\"/>\n",
      x1, y1, x2, y2);
}

using ValueOf = std::function<double(const LoadTimeline::Interval&)>;

struct Look {
  const char* colour;
  const char* dashes = "none";
};

bool Empty(const LoadTimeline::Interval& interval) {
  return interval.round.count() == 0;
}

// Intervals in most of which a round ended: else throughput would be a comb.
LoadTimeline Readable(LoadTimeline timeline) {
  const auto& all = timeline.intervals();
  const auto gaps = [&all] {
    return static_cast<size_t>(std::count_if(all.begin(), all.end(), Empty));
  };
  while (all.size() > kFew && gaps() * 4 > all.size()) timeline.Halve();
  return timeline;
}

// A line through the intervals, or those in which something happened: where
// nothing did there is no latency.
std::string Curve(const LoadTimeline& timeline, const Panel& panel,
                  const Look& look, const ValueOf& value, bool all_of_them) {
  std::string points, dots;
  const auto& all = timeline.intervals();
  const double step =
      (kRight - kLeft) / static_cast<double>(std::max<size_t>(1, all.size()));
  for (size_t i = 0; i < all.size(); ++i) {
    if (Empty(all[i]) && !all_of_them) continue;
    const double x = kLeft + step * (static_cast<double>(i) + 0.5);
    const double y = panel.Y(value(all[i]));
    absl::StrAppendFormat(&points, "%.1f,%.1f ", x, y);
    if (all.size() <= kDotted)
      absl::StrAppendFormat(
          &dots, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n", x,
          y, look.colour);
  }
  return absl::StrCat("<polyline fill=\"none\" stroke=\"", look.colour,
                      "\" stroke-width=\"1.5\" stroke-dasharray=\"",
                      look.dashes, "\" points=\"", points, "\"/>\n", dots);
}

double Milliseconds(const LoadTimeline::Interval& interval, double q) {
  return absl::ToDoubleMilliseconds(interval.round.Quantile(q));
}

double Largest(const LoadTimeline& timeline, const ValueOf& value) {
  double largest = 0;
  for (const auto& interval : timeline.intervals())
    largest = std::max(largest, value(interval));
  return largest;
}

double RoundUp(double value) {
  if (value <= 0) return 1;
  const double unit = std::pow(10.0, std::floor(std::log10(value)));
  for (const double times : {1.0, 2.0, 5.0}) {
    if (value <= unit * times) return unit * times;
  }
  return unit * 10;
}

// Where lines across are: at each power of ten, and at 2 and 5 times it if they
// are few; or at fifths.
std::vector<double> LinesOf(const Panel& panel) {
  std::vector<double> lines;
  if (!panel.logarithmic) {
    for (int i = 0; i <= 5; ++i) lines.push_back(panel.high * i / 5);
    return lines;
  }
  const bool few = panel.high / panel.low < 500;
  for (double power = panel.low; power < panel.high * 1.01; power *= 10) {
    for (const double times : {1.0, 2.0, 5.0}) {
      if (times == 1 || (few && power * times < panel.high))
        lines.push_back(power * times);
    }
  }
  return lines;
}

std::string Grid(const Panel& panel) {
  std::string svg;
  for (const double value : LinesOf(panel)) {
    absl::StrAppend(&svg, Line(kLeft, panel.Y(value), kRight, panel.Y(value)),
                    Text(kLeft - 6, panel.Y(value) + 4, "end",
                         absl::StrFormat("%g", value)));
  }
  return svg;
}

// Round numbers of seconds, and what they are.
std::string TimeAxis(const LoadTimeline& timeline) {
  const double seconds = absl::ToDoubleSeconds(timeline.length()) *
                         static_cast<double>(timeline.intervals().size());
  std::string svg =
      Text((kLeft + kRight) / 2, 426, "middle", "seconds since the start");
  if (seconds <= 0) return svg;
  const double step = RoundUp(seconds / kMostTicks);
  for (int i = 0; i * step <= seconds * 1.001; ++i) {
    const double x = kLeft + (kRight - kLeft) * (i * step) / seconds;
    absl::StrAppend(&svg, Line(x, 390, x, 394),
                    Text(x, 408, "middle", absl::StrFormat("%g", i * step)));
  }
  return svg;
}

std::string LatencyPanel(const LoadTimeline& timeline) {
  struct Percentile {
    const char* name;
    Look look;
    double q;
  };
  // The largest is dashed, for it often hides what is below it.
  static constexpr Percentile kAll[] = {{"p50", {"#1f77b4"}, 0.5},
                                        {"p90", {"#2ca02c"}, 0.9},
                                        {"p99", {"#ff7f0e"}, 0.99},
                                        {"max", {"#d62728", "3,4"}, 1}};
  double low = 1e300;
  for (const auto& interval : timeline.intervals()) {
    if (interval.round.count() > 0)
      low = std::min(low, Milliseconds(interval, 0.5));
  }
  const double high =
      Largest(timeline, [](const auto& i) { return Milliseconds(i, 1); });
  Panel panel{48, 210, 0.1, 1, true};
  if (high > 0) {
    panel.low = std::pow(10.0, std::floor(std::log10(std::max(low, 1e-3))));
    panel.high = std::pow(10.0, std::floor(std::log10(high)) + 1);
  }
  std::string svg = absl::StrCat(
      Grid(panel), Text(kLeft, 40, "start", "latency of a round, ms"));
  double x = kRight - 200;
  for (const Percentile& p : kAll) {
    const double q = p.q;
    absl::StrAppend(
        &svg,
        Curve(
            timeline, panel, p.look,
            [q](const auto& interval) { return Milliseconds(interval, q); },
            false),
        absl::StrFormat("<rect x=\"%.1f\" y=\"32\" width=\"10\" height=\"8\" "
                        "fill=\"%s\"/>\n",
                        x, p.look.colour),
        Text(x + 14, 40, "start", p.name));
    x += 50;
  }
  return svg;
}

std::string ThroughputPanel(const LoadTimeline& timeline) {
  const double seconds = absl::ToDoubleSeconds(timeline.length());
  const ValueOf rate = [seconds](const LoadTimeline::Interval& interval) {
    return static_cast<double>(interval.bytes) / seconds / 1e9;
  };
  const Panel panel{250, 390, 0, RoundUp(Largest(timeline, rate)), false};
  return absl::StrCat(
      Grid(panel),
      Text(kLeft, 242, "start", "throughput, GB/s in both directions together"),
      Curve(timeline, panel, {"#9467bd"}, rate, true));
}

}  // namespace

std::string LoadPlot(const LoadTimeline& all, const std::string& title) {
  const LoadTimeline timeline = Readable(all);
  return absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ",
      kHeight,
      "\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"", kWidth,
      "\" height=\"", kHeight, "\" fill=\"white\"/>\n",
      Text(kLeft, 20, "start", title), LatencyPanel(timeline),
      ThroughputPanel(timeline), TimeAxis(timeline), "</svg>\n");
}

}  // namespace parapet
