#include "common/job.h"

#include <charconv>

#include "absl/strings/str_cat.h"

namespace parapet {
namespace {

// Collects "flag=value" lines.
class Lines {
 public:
  void Add(absl::string_view flag, absl::string_view value) {
    absl::StrAppend(&text_, flag, "=", value, "\n");
  }
  void Add(absl::string_view flag, int64_t value) {
    Add(flag, absl::StrCat(value));
  }
  void Add(absl::string_view flag, uint64_t value) {
    Add(flag, absl::StrCat(value));
  }
  void Add(absl::string_view flag, int value) {
    Add(flag, absl::StrCat(value));
  }
  // The shortest text that reads back as the same double: two processes agree
  // exactly or not at all.
  void Add(absl::string_view flag, double value) {
    char digits[32];
    const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
    Add(flag, absl::string_view(digits, static_cast<size_t>(end - digits)));
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

void AddWhat(const JobConfig& job, Lines* lines) {
  lines->Add("job_id", job.job_id);
  lines->Add("servers", job.servers);
  lines->Add("workers", job.workers);
  lines->Add("evaluators", job.evaluators);
  lines->Add("model", job.model);
  lines->Add("data", job.data);
  lines->Add("data_split", job.data_split);
  lines->Add("train_samples", job.train_samples);
  lines->Add("batch", job.batch);
  lines->Add("epochs", job.epochs);
  lines->Add("rounds", job.rounds);
  lines->Add("seed", job.seed);
}

void AddOptimizer(const OptimizerConfig& optimizer, Lines* lines) {
  lines->Add("optimizer", NameOf(optimizer.kind));
  lines->Add("momentum", optimizer.momentum);
  lines->Add("beta1", optimizer.beta1);
  lines->Add("beta2", optimizer.beta2);
  lines->Add("epsilon", optimizer.epsilon);
  lines->Add("weight_decay", optimizer.weight_decay);
}

void AddSchedule(const ScheduleConfig& schedule, Lines* lines) {
  lines->Add("lr", schedule.lr);
  lines->Add("schedule", NameOf(schedule.kind));
  lines->Add("warmup", schedule.warmup);
  lines->Add("step_gamma", schedule.step_gamma);
  lines->Add("step_epochs", schedule.step_epochs);
  lines->Add("scale_lr",
             absl::string_view(schedule.scale_lr ? "true" : "false"));
}

void AddRounds(const JobConfig& job, Lines* lines) {
  lines->Add("clip_norm", job.clip_norm);
  lines->Add("worker_momentum", job.worker_momentum);
  lines->Add("rule", job.rule);
  lines->Add("byzantine", job.byzantine);
  lines->Add("hash_every", job.hash_every);
  lines->Add("max_bad_rounds", job.max_bad_rounds);
  lines->Add("wire", NameOf(job.wire));
  lines->Add("wire_scale", job.wire_scale);
  lines->Add("chunk", job.chunk);
  lines->Add("connections", job.connections);
}

}  // namespace

absl::string_view NameOf(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kSgd:
      return "sgd";
    case OptimizerKind::kMomentum:
      return "momentum";
    case OptimizerKind::kNesterov:
      return "nesterov";
    case OptimizerKind::kAdam:
      return "adam";
    case OptimizerKind::kAdamW:
      return "adamw";
  }
  return "?";
}

absl::string_view NameOf(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kConstant:
      return "constant";
    case ScheduleKind::kCosine:
      return "cosine";
    case ScheduleKind::kStep:
      return "step";
  }
  return "?";
}

std::string JobConfig::ToText() const {
  Lines lines;
  AddWhat(*this, &lines);
  AddOptimizer(optimizer, &lines);
  AddSchedule(schedule, &lines);
  AddRounds(*this, &lines);
  // Only tests set it; left out otherwise, so that the text is a flag file that
  // `parapet run` reads.
  if (leaf != JobConfig().leaf) lines.Add("leaf", leaf);
  return lines.Take();
}

}  // namespace parapet
