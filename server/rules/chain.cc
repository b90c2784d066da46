#include "server/rules/chain.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/rules/registry.h"

namespace parapet::rules {
namespace {

std::string NamesOf(const std::vector<StageInfo>& stages, bool mixing) {
  std::vector<std::string> names;
  for (const StageInfo& stage : stages) {
    if ((stage.kind == StageKind::kMixing) == mixing)
      names.push_back(stage.name);
  }
  return absl::StrJoin(names, ", ");
}

absl::Status UnknownName(const std::string& name,
                         const std::vector<StageInfo>& stages) {
  return absl::InvalidArgumentError(absl::StrCat(
      "there is no rule '", name, "'; expected one of ", NamesOf(stages, false),
      ", after any of ", NamesOf(stages, true)));
}

const StageInfo* Find(const std::string& name,
                      const std::vector<StageInfo>& stages) {
  for (const StageInfo& stage : stages) {
    if (stage.name == name) return &stage;
  }
  return nullptr;
}

// A rule ends a chain, and only a rule does.
absl::Status CheckPlace(const StageInfo& info, bool last,
                        const std::vector<StageInfo>& stages) {
  const bool rule = info.kind != StageKind::kMixing;
  if (rule && !last) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", info.name, "' is a rule and must come last; expected one of ",
        NamesOf(stages, true), " before another"));
  }
  if (!rule && last) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", info.name, "' comes before a rule, as in '",
                     info.name, " + trimmed_mean'; expected at the end one of ",
                     NamesOf(stages, false)));
  }
  return absl::OkStatus();
}

std::string TextOf(const Call& call) {
  if (call.arguments.empty()) return call.name;
  return absl::StrCat(
      call.name, "(",
      absl::StrJoin(call.arguments, ", ",
                    [](std::string* out, const Call::Argument& argument) {
                      absl::StrAppend(out, argument.key,
                                      argument.key.empty() ? "" : "=",
                                      argument.value);
                    }),
      ")");
}

absl::StatusOr<Chain::Link> MakeLink(const Call& call, const StageInfo& info) {
  absl::StatusOr<Options> options = Options::Create(call, info.options);
  if (!options.ok()) return options.status();
  return Chain::Link{call.name, TextOf(call), info.make(*options)};
}

std::string Seen(const std::vector<std::string>& before, int seen, int n,
                 absl::string_view what) {
  if (seen == n) return absl::StrCat("this ", what, " has ", n);
  return absl::StrCat("this ", what, " has ", n, ", of which ",
                      absl::StrJoin(before, " + "), " makes ", seen);
}

// After bucketing no row is any one worker's.
absl::Status CheckTrusted(const std::vector<Chain::Link>& links) {
  std::string merged;
  for (const Chain::Link& link : links) {
    if (link.stage->merges()) merged = link.name;
    if (link.stage->trusted() >= 0 && !merged.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          link.name, " trusts one worker's vector, and ", merged,
          " before it leaves none: expected another rule after ", merged));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Chain> Chain::Parse(absl::string_view text) {
  absl::StatusOr<std::vector<Call>> calls = ParseCalls(text);
  if (!calls.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rule '", text.substr(0, 80), "': ", calls.status().message()));
  }
  const std::vector<StageInfo> stages = AllStages();
  Chain chain;
  for (const Call& call : *calls) {
    const StageInfo* info = Find(call.name, stages);
    if (info == nullptr) return UnknownName(call.name, stages);
    if (absl::Status s = CheckPlace(*info, &call == &calls->back(), stages);
        !s.ok())
      return s;
    absl::StatusOr<Link> link = MakeLink(call, *info);
    if (!link.ok()) return link.status();
    chain.links_.push_back(*std::move(link));
    chain.needs_distances_ |= info->kind != StageKind::kCoordinate;
  }
  if (absl::Status s = CheckTrusted(chain.links_); !s.ok()) return s;
  return chain;
}

std::string Chain::text() const {
  return absl::StrJoin(links_, " + ", [](std::string* out, const Link& link) {
    absl::StrAppend(out, link.text);
  });
}

bool Chain::needs_previous() const {
  return links_.back().stage->needs_previous();
}

bool Chain::weighted() const {
  return links_.size() == 1 && links_[0].stage->weighted();
}

absl::Status Chain::CheckLimits(int n, int f, absl::string_view what) const {
  if (f < 0) return absl::FailedPreconditionError("f must be at least 0");
  int seen = n;
  std::vector<std::string> before;
  for (const Link& link : links_) {
    const int needed = link.stage->Needed(f);
    if (seen < needed) {
      return absl::FailedPreconditionError(
          absl::StrCat(link.text, " with f=", f, " needs at least ", needed,
                       seen == n ? " workers; " : " vectors; ",
                       Seen(before, seen, n, what)));
    }
    const std::string refusal = link.stage->Refusal(seen, f);
    if (!refusal.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(link.text, " ", refusal));
    }
    seen = link.stage->RowsOut(seen);
    before.push_back(link.text);
  }
  return absl::OkStatus();
}

absl::Status Chain::CheckJob(int n, int f) const {
  if (absl::Status s = CheckLimits(n, f); !s.ok()) return s;
  for (const Link& link : links_) {
    if (link.stage->trusted() < n) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(link.text, " trusts worker ", link.stage->trusted(),
                     "; this job has workers 0 to ", n - 1));
  }
  return absl::OkStatus();
}

std::vector<std::string> Chain::Warnings(int n, int f) const {
  std::vector<std::string> warnings;
  if (f == 0) return warnings;
  if (links_.back().name == "mean") {
    warnings.push_back(absl::StrCat("mean tolerates no liar, and f=", f,
                                    ": a single worker can move it anywhere"));
  }
  if (CheckLimits(n, f).ok() && !CheckLimits(n - f, f).ok()) {
    warnings.push_back(absl::StrCat(text(), " with ", n, " workers tolerates ",
                                    f, f == 1 ? " liar" : " liars",
                                    " but not as many that are silent: ",
                                    CheckLimits(n - f, f, "round").message()));
  }
  return warnings;
}

}  // namespace parapet::rules
