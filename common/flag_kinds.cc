#include "common/flag_kinds.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "common/flags.h"

namespace parapet {
namespace {

constexpr int kMaxThreads = 1024;

}  // namespace

void SeedFlag(FlagSet* set, uint64_t* seed) {
  set->Add("seed", "N", absl::StrCat(*seed), "of everything random",
           [seed](const std::string& text) {
             if (absl::SimpleAtoi(text, seed)) return absl::OkStatus();
             return absl::InvalidArgumentError(
                 "must be a whole number from 0 to 2^64 - 1");
           });
}

void SecretFlag(FlagSet* set, std::optional<uint64_t>* secret) {
  set->Add("rule_secret", "N", "",
           "shuffles bucketing; of the lead, drawn anew if not given",
           [secret](const std::string& text) {
             uint64_t value = 0;
             if (!absl::SimpleAtoi(text, &value)) {
               return absl::InvalidArgumentError(
                   "must be a whole number from 0 to 2^64 - 1");
             }
             *secret = value;
             return absl::OkStatus();
           });
}

void QuorumFlag(FlagSet* set, int* quorum) {
  set->Add(
      "quorum", "all|K", "all",
      "workers a round waits for before --deadline runs",
      [quorum](const std::string& text) {
        *quorum = 0;
        if (text == "all" || (absl::SimpleAtoi(text, quorum) && *quorum >= 1)) {
          return absl::OkStatus();
        }
        return absl::InvalidArgumentError(
            "must be all or a number of workers from 1");
      });
}

void ThreadsFlag(FlagSet* set, const char* name, const char* help, int* value,
                 int least) {
  set->Add(name, "N|auto", "auto", help,
           [value, least](const std::string& text) {
             if (text == "auto") {
               *value = kAuto;
               return absl::OkStatus();
             }
             const absl::StatusOr<int64_t> count = ParseCount(text);
             if (!count.ok() || *count < least || *count > kMaxThreads) {
               return absl::InvalidArgumentError(absl::StrCat(
                   "must be auto, or from ", least, " to ", kMaxThreads));
             }
             *value = static_cast<int>(*count);
             return absl::OkStatus();
           });
}

void DeviceFlag(FlagSet* set, const char* name, const char* help,
                std::string* value) {
  set->Add(name, "auto|cpu|cuda:N", *value, help,
           [value](const std::string& text) {
             uint32_t gpu = 0;
             if (text != "auto" && text != "cpu" &&
                 !(absl::StartsWith(text, "cuda:") &&
                   absl::SimpleAtoi(text.substr(5), &gpu))) {
               return absl::InvalidArgumentError(
                   "must be auto, cpu or cuda:N with a GPU's number");
             }
             *value = text;
             return absl::OkStatus();
           });
}

}  // namespace parapet
