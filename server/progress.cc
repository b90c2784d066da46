#include "server/progress.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/json_parse.h"

namespace parapet {
namespace {

constexpr absl::Duration kTerminalEvery = absl::Milliseconds(200);
constexpr absl::Duration kPlainEvery = absl::Seconds(5);

}  // namespace

ProgressStyle ParseProgressStyle(const std::string& name, bool is_terminal) {
  if (name == "none") return ProgressStyle::kNone;
  if (name == "terminal") return ProgressStyle::kTerminal;
  if (name == "plain") return ProgressStyle::kPlain;
  if (name == "json") return ProgressStyle::kJson;
  return is_terminal ? ProgressStyle::kTerminal : ProgressStyle::kPlain;
}

std::string ProgressLine(const Lead::Progress& p) {
  std::string line = absl::StrCat("round ", p.version);
  if (p.total > 0) absl::StrAppend(&line, "/", p.total);
  absl::StrAppendFormat(&line, "  epoch %d  loss %.4f", p.epoch + 1, p.loss);
  if (p.accuracy)
    absl::StrAppendFormat(&line, "  accuracy %.2f %%", 100 * *p.accuracy);
  absl::StrAppendFormat(&line, "  %.0f samples/s", p.samples_per_second);
  if (!p.left_out.empty()) {
    absl::StrAppend(&line, "  left out: worker ",
                    absl::StrJoin(p.left_out, ", "));
  }
  if (!p.suspects.empty()) {
    absl::StrAppend(
        &line, "  suspect: ",
        absl::StrJoin(p.suspects, ", ", [](std::string* out, const auto& s) {
          absl::StrAppendFormat(out, "worker %d (%.0f %%)", s.worker,
                                100 * s.rate);
        }));
  }
  return line;
}

nlohmann::json ProgressJson(const Lead::Progress& p) {
  nlohmann::json json = {
      {"round", p.version},    {"rounds", p.total},
      {"epoch", p.epoch},      {"loss", p.loss},
      {"members", p.members},  {"samples_per_second", p.samples_per_second},
      {"left_out", p.left_out}};
  if (p.accuracy) json["test_accuracy"] = *p.accuracy;
  json["suspects"] = nlohmann::json::object();
  for (const auto& s : p.suspects)
    json["suspects"][absl::StrCat(s.worker)] = s.rate;
  return json;
}

void ProgressPrinter::Show(const Lead::Progress& progress, absl::Time now) {
  if (style_ == ProgressStyle::kNone || now < next_) return;
  next_ =
      now + (style_ == ProgressStyle::kTerminal ? kTerminalEvery : kPlainEvery);
  if (style_ == ProgressStyle::kTerminal) {
    std::fprintf(stderr, "\r\033[K%s", ProgressLine(progress).c_str());
    open_line_ = true;
  } else if (style_ == ProgressStyle::kPlain) {
    std::fprintf(stderr, "%s\n", ProgressLine(progress).c_str());
  } else {
    std::printf("%s\n", JsonText(ProgressJson(progress)).c_str());
  }
  std::fflush(style_ == ProgressStyle::kJson ? stdout : stderr);
}

void ProgressPrinter::ShowEvaluation(const EvalReportMessage& report,
                                     bool last) {
  if (style_ == ProgressStyle::kNone || style_ == ProgressStyle::kJson) return;
  End();
  const auto samples = static_cast<double>(report.samples);
  std::fprintf(stderr,
               "version %llu%s: test accuracy %.2f %%, test loss %.4f (%llu "
               "samples, %.1f s)\n",
               static_cast<unsigned long long>(report.version),
               last ? " (the last)" : "",
               100.0 * static_cast<double>(report.correct) / samples,
               report.loss_sum / samples,
               static_cast<unsigned long long>(report.samples), report.seconds);
  std::fflush(stderr);
}

void ProgressPrinter::End() {
  if (open_line_) std::fputs("\n", stderr);
  open_line_ = false;
}

nlohmann::json SummaryJson(const JobSummary& s) {
  nlohmann::json json = {
      {"final_loss", s.final_loss},
      {"test_accuracy", nullptr},
      {"rounds", s.rounds},
      {"samples", s.samples},
      {"samples_per_second", s.samples_per_second},
      {"bytes_pushed", s.bytes_pushed},
      {"bytes_published", s.bytes_published},
      {"weights_hash", absl::StrFormat("%016x", s.weights_hash)},
      {"skipped_evaluations", s.skipped_evaluations},
      {"complete", s.complete},
      {"words", s.words}};
  if (s.test_accuracy) json["test_accuracy"] = *s.test_accuracy;
  if (s.test_loss) json["test_loss"] = *s.test_loss;
  for (int i = 0; i < kPhases; ++i)
    json["phases"][NameOf(static_cast<Phase>(i))] = s.phases[i];
  json["left_out"] = nlohmann::json::object();
  for (const auto& [worker, rounds] : s.left_out)
    json["left_out"][absl::StrCat(worker)] = rounds;
  json["strikes"] = nlohmann::json::object();
  for (const auto& [worker, rounds] : s.strikes)
    json["strikes"][absl::StrCat(worker)] = rounds;
  json["suspicion"] = nlohmann::json::object();
  for (const auto& [worker, rate] : s.suspicion)
    json["suspicion"][absl::StrCat(worker)] = rate;
  return json;
}

}  // namespace parapet
