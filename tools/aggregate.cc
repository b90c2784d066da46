#include "tools/aggregate.h"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/flags.h"
#include "common/npy.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/audit.h"
#include "server/rules/local_round.h"
#include "tools/command_line.h"

namespace parapet {
namespace {

using nlohmann::json;
using rules::Chain;
using rules::LocalOutcome;
using rules::Plan;
using rules::StageNote;

constexpr int64_t kMaxElements = int64_t{1} << 32;  // 16 GiB of float32
// Mixing rows takes up to n^4 operations: seconds at this many.
constexpr int kMaxRows = 512;
constexpr int kMaxShards = 1024;

struct Flags {
  std::string input, previous, output = "-", rule = "mean";
  int byzantine = 0;
  int shards = 1;
  uint64_t seed = 1;
  bool explain = false;
};

// What there is to aggregate.
struct Inputs {
  NpyArray rows;  // n x d
  std::vector<float> prev;
  int64_t n() const { return rows.shape[0]; }
  int64_t d() const { return rows.shape[1]; }
};

std::string ShapeText(const NpyArray& array) {
  return absl::StrCat("(", absl::StrJoin(array.shape, ", "), ")");
}

void WarnOfOverflow(const NpyArray& array, const std::string& path,
                    std::ostream& err) {
  if (array.overflowed == 0) return;
  err << "parapet aggregate: " << array.overflowed << " values of '" << path
      << "' are too large for float32 and count as infinite\n";
}

absl::StatusOr<Inputs> Load(Disk& disk, const Flags& flags, std::ostream& err) {
  Inputs inputs;
  PARAPET_ASSIGN_OR_RETURN(inputs.rows,
                           ReadNpy(disk, flags.input, kMaxElements));
  WarnOfOverflow(inputs.rows, flags.input, err);
  if (inputs.rows.shape.size() != 2 || inputs.d() == 0) {
    return absl::DataLossError(absl::StrCat(
        "'", flags.input, "': has the shape ", ShapeText(inputs.rows),
        "; expected two dimensions, a row for each worker and a "
        "column for each coordinate"));
  }
  if (inputs.n() > kMaxRows) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "'", flags.input, "': has ", inputs.n(), " rows; at most ", kMaxRows));
  }
  if (flags.previous.empty()) return inputs;
  PARAPET_ASSIGN_OR_RETURN(NpyArray previous,
                           ReadNpy(disk, flags.previous, kMaxElements));
  WarnOfOverflow(previous, flags.previous, err);
  const auto size = static_cast<int64_t>(previous.values.size());
  if (previous.shape.empty() || previous.shape.back() != size ||
      size != inputs.d()) {
    return absl::DataLossError(absl::StrCat(
        "'", flags.previous, "': has the shape ", ShapeText(previous),
        "; the rows have ", inputs.d(), " coordinates"));
  }
  const bool finite =
      std::all_of(previous.values.begin(), previous.values.end(),
                  [](float value) { return std::isfinite(value); });
  if (!finite) {
    return absl::DataLossError(
        absl::StrCat("'", flags.previous, "': has a value that is not finite"));
  }
  inputs.prev = std::move(previous.values);
  return inputs;
}

LocalOutcome Compute(const Chain& chain, const Flags& flags,
                     const Inputs& inputs) {
  std::vector<const float*> rows;
  for (int64_t i = 0; i < inputs.n(); ++i)
    rows.push_back(&inputs.rows.values[i * inputs.d()]);
  const std::unique_ptr<Device> device = MakeCpuDevice();
  rules::LocalRound round{device.get(), rows, inputs.d()};
  round.prev = inputs.prev.empty() ? nullptr : inputs.prev.data();
  round.f = flags.byzantine;
  round.shards = flags.shards;
  round.shuffle = rules::SecretShuffle(flags.seed, 0);
  return rules::RunLocally(chain, round);
}

// Who was left out of what, and why.
void NameLeftOut(const LocalOutcome& outcome, std::ostream& err) {
  for (const rules::LeftOut& one : outcome.plan.left_out)
    err << "row " << one.worker << " is left out: it " << one.why << "\n";
  const ReduceReport& report = outcome.report;
  for (size_t i = 0; i < report.bad_values.size(); ++i) {
    if (report.bad_values[i] == 0) continue;
    err << "row " << i << " is left out at " << report.bad_values[i]
        << (report.bad_values[i] == 1 ? " coordinate" : " coordinates")
        << ": its values there are not finite\n";
  }
  if (outcome.plan.bad && !outcome.plan.limits_failed)
    err << "the round is bad, its aggregate 0: " << outcome.plan.why_bad
        << "\n";
  if (report.bad_coordinates > 0) {
    err << "the round is bad: " << report.bad_coordinates
        << " coordinates, the first of them " << report.first_bad
        << ", are 0 for want of finite values\n";
  }
}

// The last stage's scores by row of the input: null for one that it did not
// see; none if it has none, or saw buckets.
json ScoresByRow(const Plan& plan) {
  if (plan.notes.empty() || plan.notes.back().buckets ||
      plan.notes.back().scores.empty())
    return json::array();
  const StageNote& note = plan.notes.back();
  json scores(plan.workers.size(), nullptr);
  for (size_t k = 0; k < note.rows.size(); ++k)
    scores[note.rows[k]] = note.scores[k];
  return scores;
}

json SelectedRows(const Plan& plan) {
  if (plan.notes.empty() || plan.notes.back().buckets) return json::array();
  return plan.notes.back().selected;
}

json Explain(const Chain& chain, const Flags& flags, const Inputs& inputs,
             const LocalOutcome& outcome) {
  const Plan& plan = outcome.plan;
  json left_out = json::array(), stages = json::array();
  for (const rules::LeftOut& one : plan.left_out) {
    left_out.push_back(
        {{"row", one.worker},
         {"fault",
          one.fault == rules::Fault::kAbsurd ? "absurd" : "not finite"},
         {"why", one.why}});
  }
  for (const StageNote& note : plan.notes) stages.push_back(StageJson(note));
  return {{"rule", chain.text()},
          {"byzantine", flags.byzantine},
          {"n", inputs.n()},
          {"d", inputs.d()},
          {"scores", ScoresByRow(plan)},
          {"selected", SelectedRows(plan)},
          {"weights", plan.bad ? std::vector<double>(inputs.n())
                               : rules::WorkerWeights(plan)},
          {"left_out", left_out},
          {"bad", plan.bad || outcome.report.bad_coordinates > 0},
          {"why_bad", plan.why_bad},
          {"bad_values", outcome.report.bad_values},
          {"bad_coordinates", outcome.report.bad_coordinates},
          {"stages", stages}};
}

absl::Status Write(Disk& disk, const Flags& flags,
                   const std::vector<float>& values, std::ostream& out) {
  if (flags.output != "-") {
    const auto d = static_cast<int64_t>(values.size());
    return WriteNpy(disk, flags.output, {d}, values);
  }
  for (float value : values) out << absl::StrFormat("%.9g\n", value);
  return absl::OkStatus();
}

int Say(const absl::Status& status, int code, std::ostream& err) {
  err << "parapet aggregate: " << status.message() << "\n";
  return code;
}

int CodeOf(const absl::Status& status) {
  return absl::IsDataLoss(status) || absl::IsNotFound(status) ||
                 absl::IsInvalidArgument(status) ||
                 absl::IsResourceExhausted(status)
             ? 5
             : kExitFailed;
}

int Run(Disk& disk, const Flags& flags, std::ostream& out, std::ostream& err) {
  const absl::StatusOr<Chain> chain = Chain::Parse(flags.rule);
  if (!chain.ok()) return Say(chain.status(), kExitUsage, err);
  const absl::StatusOr<Inputs> inputs = Load(disk, flags, err);
  if (!inputs.ok()) return Say(inputs.status(), CodeOf(inputs.status()), err);
  const int n = static_cast<int>(inputs->n());
  if (absl::Status s = chain->CheckJob(n, flags.byzantine); !s.ok())
    return Say(s, kExitUsage, err);
  if (chain->links().back().name == "mean" && flags.byzantine > 0)
    err << "warning: " << chain->Warnings(n, flags.byzantine)[0] << "\n";
  const LocalOutcome outcome = Compute(*chain, flags, *inputs);
  NameLeftOut(outcome, err);
  if (outcome.plan.limits_failed) {
    return Say(absl::FailedPreconditionError(outcome.plan.why_bad), kExitTooFew,
               err);
  }
  if (absl::Status s = Write(disk, flags, outcome.values, out); !s.ok())
    return Say(s, kExitFailed, err);
  if (flags.explain)
    out << Explain(*chain, flags, *inputs, outcome).dump() << "\n";
  out.flush();
  if (!out.good())
    return Say(absl::UnavailableError("standard output is closed or full"),
               kExitFailed, err);
  return kExitDone;
}

void AddFlags(CLI::App* app, Flags* flags) {
  app->add_option("--input", flags->input,
                  "NumPy file (.npy) of float32 or float64, a row for each "
                  "worker")
      ->required();
  app->add_option("--rule", flags->rule,
                  "as for parapet run, e.g. \"nnm + trimmed_mean\"");
  app->add_option("--byzantine", flags->byzantine, "rows that may lie")
      ->check(CLI::Range(0, kMaxRows));
  app->add_option("--shards", flags->shards,
                  "servers to share the vector among; the result is the same")
      ->check(CLI::Range(1, kMaxShards));
  app->add_option(
      "--previous", flags->previous,
      "NumPy file: the aggregate of the round before; without it 0");
  app->add_option("--output", flags->output,
                  "NumPy file to write float32 to; -: text on standard output");
  app->add_option("--seed", flags->seed, "of the permutation of bucketing");
  app->add_flag("--explain", flags->explain,
                "a line of JSON at the end of standard output: scores, "
                "selected rows, weights, what each stage saw");
}

}  // namespace

int RunAggregate(Disk& disk, const std::vector<std::string>& args,
                 std::ostream& out, std::ostream& err) {
  CLI::App app("What a rule makes of the rows of a NumPy file.",
               "parapet aggregate");
  Flags flags;
  AddFlags(&app, &flags);
  if (const auto ended = ParseArgs(&app, args, out, err)) return *ended;
  return Run(disk, flags, out, err);
}

int RunAggregate(int argc, char** argv) {
  const std::unique_ptr<Disk> disk = MakePosixDisk();
  return RunAggregate(*disk, ArgsOf(argc, argv), std::cout, std::cerr);
}

}  // namespace parapet
