#include "server/audit.h"

#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/json_parse.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

using nlohmann::json;

constexpr const char* kReasons[] = {"missing", "not_finite", "absurd"};
// The record, a list, an entry of it, and a list of that.
constexpr int kDepth = 4;

// An array of objects, each made from an element.
template <typename T, typename Make>
json ListOf(const std::vector<T>& elements, Make make) {
  json list = json::array();
  for (const T& element : elements) list.push_back(make(element));
  return list;
}

json RecordJson(const RoundRecord& r) {
  json line = {{"round", r.round},
               {"rule", r.rule},
               {"f", r.f},
               {"participants", r.participants},
               {"abstained", r.abstained},
               {"bad_coordinates", r.bad_coordinates},
               {"carried", r.carried},
               {"why_bad", r.why_bad},
               {"weights", r.weights}};
  line["left_out"] = ListOf(r.left_out, [](const auto& left) -> nlohmann::json {
    return {{"worker", left.worker},
            {"reason", NameOf(left.reason)},
            {"why", left.why}};
  });
  line["exceptions"] =
      ListOf(r.exceptions, [](const auto& e) -> nlohmann::json {
        return {{"server", e.shard},
                {"worker", e.what.worker},
                {"first_turn", e.what.first_turn},
                {"last_turn", e.what.last_turn}};
      });
  line["bad_values"] =
      ListOf(r.bad_values, [](const auto& b) -> nlohmann::json {
        return {{"worker", b.worker}, {"values", b.values}};
      });
  line["strikes"] = ListOf(r.strikes, [](const auto& s) -> nlohmann::json {
    return {{"worker", s.worker}, {"code", NameOf(s.code)}, {"count", s.count}};
  });
  line["stages"] = ListOf(r.stages, StageJson);
  line["suspicion"] = ListOf(r.suspicion, [](const auto& s) -> nlohmann::json {
    return {{"worker", s.worker}, {"rate", s.rate}};
  });
  return line;
}

// ---- Reading ----------------------------------------------------------------

absl::Status Bad(const char* key) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", key, "' of an audit line is not as it should be"));
}

absl::StatusOr<const json*> Array(const json& object, const char* key) {
  PARAPET_ASSIGN_OR_RETURN(const json* array, JsonMember(object, key));
  if (!array->is_array()) return Bad(key);
  return array;
}

absl::StatusOr<bool> Bool(const json& object, const char* key) {
  PARAPET_ASSIGN_OR_RETURN(const json* value, JsonMember(object, key));
  if (!value->is_boolean()) return Bad(key);
  return value->get<bool>();
}

template <typename T>
absl::Status ReadCounts(const json& object, const char* key,
                        std::vector<T>* out) {
  PARAPET_ASSIGN_OR_RETURN(const std::vector<int64_t> counts,
                           JsonCounts(object, key));
  for (int64_t count : counts) {
    if (count > std::numeric_limits<int32_t>::max()) return Bad(key);
    out->push_back(static_cast<T>(count));
  }
  return absl::OkStatus();
}

absl::StatusOr<double> Number(const json& value, const char* key) {
  if (value.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (!value.is_number()) return Bad(key);
  return value.get<double>();
}

absl::Status ReadNumbers(const json& object, const char* key,
                         std::vector<double>* out) {
  PARAPET_ASSIGN_OR_RETURN(const json* array, Array(object, key));
  for (const json& value : *array) {
    PARAPET_ASSIGN_OR_RETURN(out->emplace_back(), Number(value, key));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint32_t> Id(const json& object, const char* key) {
  PARAPET_ASSIGN_OR_RETURN(const uint64_t id, JsonUint(object, key));
  if (id > std::numeric_limits<int32_t>::max()) return Bad(key);
  return static_cast<uint32_t>(id);
}

absl::Status ReadLeftOut(const json& from, RoundRecord* record) {
  PARAPET_ASSIGN_OR_RETURN(const json* list, Array(from, "left_out"));
  for (const json& object : *list) {
    RoundRecord::LeftOut& left = record->left_out.emplace_back();
    PARAPET_ASSIGN_OR_RETURN(left.worker, Id(object, "worker"));
    PARAPET_ASSIGN_OR_RETURN(left.why, JsonString(object, "why"));
    PARAPET_ASSIGN_OR_RETURN(const std::string reason,
                             JsonString(object, "reason"));
    size_t index = 0;
    while (index < std::size(kReasons) && reason != kReasons[index]) ++index;
    if (index == std::size(kReasons)) return Bad("reason");
    left.reason = static_cast<RoundRecord::Reason>(index);
  }
  return absl::OkStatus();
}

absl::Status ReadExceptions(const json& from, RoundRecord* record) {
  PARAPET_ASSIGN_OR_RETURN(const json* list, Array(from, "exceptions"));
  for (const json& object : *list) {
    RoundRecord::Exception& e = record->exceptions.emplace_back();
    PARAPET_ASSIGN_OR_RETURN(const uint32_t server, Id(object, "server"));
    e.shard = static_cast<int>(server);
    PARAPET_ASSIGN_OR_RETURN(e.what.worker, Id(object, "worker"));
    PARAPET_ASSIGN_OR_RETURN(e.what.first_turn, JsonUint(object, "first_turn"));
    PARAPET_ASSIGN_OR_RETURN(e.what.last_turn, JsonUint(object, "last_turn"));
  }
  return absl::OkStatus();
}

absl::Status ReadStages(const json& from, RoundRecord* record) {
  PARAPET_ASSIGN_OR_RETURN(const json* list, Array(from, "stages"));
  for (const json& object : *list) {
    rules::StageNote& note = record->stages.emplace_back();
    PARAPET_ASSIGN_OR_RETURN(note.stage, JsonString(object, "stage"));
    PARAPET_ASSIGN_OR_RETURN(note.buckets, Bool(object, "buckets"));
    PARAPET_RETURN_IF_ERROR(ReadCounts(object, "rows", &note.rows));
    PARAPET_RETURN_IF_ERROR(ReadCounts(object, "selected", &note.selected));
    PARAPET_RETURN_IF_ERROR(ReadNumbers(object, "scores", &note.scores));
    PARAPET_RETURN_IF_ERROR(ReadNumbers(object, "trust", &note.trust));
  }
  return absl::OkStatus();
}

absl::Status ReadOfWorkers(const json& from, RoundRecord* record) {
  PARAPET_ASSIGN_OR_RETURN(const json* bad, Array(from, "bad_values"));
  for (const json& object : *bad) {
    ShardDoneMessage::Bad& b = record->bad_values.emplace_back();
    PARAPET_ASSIGN_OR_RETURN(b.worker, Id(object, "worker"));
    PARAPET_ASSIGN_OR_RETURN(b.values, JsonUint(object, "values"));
  }
  PARAPET_ASSIGN_OR_RETURN(const json* suspicion, Array(from, "suspicion"));
  for (const json& object : *suspicion) {
    RoundRecord::Suspicion& s = record->suspicion.emplace_back();
    PARAPET_ASSIGN_OR_RETURN(s.worker, Id(object, "worker"));
    PARAPET_ASSIGN_OR_RETURN(const json* rate, JsonMember(object, "rate"));
    PARAPET_ASSIGN_OR_RETURN(s.rate, Number(*rate, "rate"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Code> CodeOf(const std::string& name) {
  for (auto code = Code::kProtocol; code <= Code::kStopped;
       code = static_cast<Code>(static_cast<int>(code) + 1)) {
    if (name == NameOf(code)) return code;
  }
  return Bad("code");
}

absl::Status ReadStrikes(const json& from, RoundRecord* record) {
  if (!from.contains("strikes")) return absl::OkStatus();
  PARAPET_ASSIGN_OR_RETURN(const json* list, Array(from, "strikes"));
  for (const json& object : *list) {
    ShardDoneMessage::Strike& s = record->strikes.emplace_back();
    PARAPET_ASSIGN_OR_RETURN(s.worker, Id(object, "worker"));
    PARAPET_ASSIGN_OR_RETURN(const std::string code,
                             JsonString(object, "code"));
    PARAPET_ASSIGN_OR_RETURN(s.code, CodeOf(code));
    PARAPET_ASSIGN_OR_RETURN(s.count, JsonUint(object, "count"));
  }
  return absl::OkStatus();
}

absl::StatusOr<AuditJob> ReadJob(const json& from) {
  AuditJob job;
  PARAPET_ASSIGN_OR_RETURN(job.job, JsonString(from, "job"));
  PARAPET_ASSIGN_OR_RETURN(job.from, JsonUint(from, "from"));
  PARAPET_ASSIGN_OR_RETURN(job.rule, JsonString(from, "rule"));
  PARAPET_ASSIGN_OR_RETURN(const uint32_t f, Id(from, "f"));
  job.f = static_cast<int>(f);
  PARAPET_ASSIGN_OR_RETURN(const uint32_t workers, Id(from, "workers"));
  job.workers = static_cast<int>(workers);
  return job;
}

absl::Status ReadRecord(const json& from, RoundRecord* record) {
  PARAPET_ASSIGN_OR_RETURN(record->round, JsonUint(from, "round"));
  PARAPET_ASSIGN_OR_RETURN(record->rule, JsonString(from, "rule"));
  PARAPET_ASSIGN_OR_RETURN(const uint32_t f, Id(from, "f"));
  record->f = static_cast<int>(f);
  PARAPET_RETURN_IF_ERROR(
      ReadCounts(from, "participants", &record->participants));
  PARAPET_RETURN_IF_ERROR(ReadCounts(from, "abstained", &record->abstained));
  PARAPET_ASSIGN_OR_RETURN(record->bad_coordinates,
                           JsonUint(from, "bad_coordinates"));
  PARAPET_ASSIGN_OR_RETURN(record->carried, Bool(from, "carried"));
  PARAPET_ASSIGN_OR_RETURN(record->why_bad, JsonString(from, "why_bad"));
  PARAPET_RETURN_IF_ERROR(ReadNumbers(from, "weights", &record->weights));
  PARAPET_RETURN_IF_ERROR(ReadLeftOut(from, record));
  PARAPET_RETURN_IF_ERROR(ReadExceptions(from, record));
  PARAPET_RETURN_IF_ERROR(ReadStages(from, record));
  PARAPET_RETURN_IF_ERROR(ReadStrikes(from, record));
  return ReadOfWorkers(from, record);
}

}  // namespace

const char* NameOf(RoundRecord::Reason reason) {
  return kReasons[static_cast<size_t>(reason)];
}

json StageJson(const rules::StageNote& note) {
  return {{"stage", note.stage},       {"rows", note.rows},
          {"buckets", note.buckets},   {"scores", note.scores},
          {"selected", note.selected}, {"trust", note.trust}};
}

std::string AuditLine(const RoundRecord& record) {
  return JsonText(RecordJson(record));
}

std::string AuditLostLine(uint64_t rounds) {
  return JsonText(json{{"lost", rounds}});
}

std::string AuditJobLine(const AuditJob& job) {
  return JsonText(json{{"job", job.job},
                       {"from", job.from},
                       {"rule", job.rule},
                       {"f", job.f},
                       {"workers", job.workers}});
}

absl::StatusOr<AuditEntry> ParseAuditLine(absl::string_view line) {
  PARAPET_ASSIGN_OR_RETURN(const json object, ParseJson(line, kDepth));
  AuditEntry entry;
  if (object.is_object() && object.contains("lost")) {
    PARAPET_ASSIGN_OR_RETURN(entry.lost, JsonUint(object, "lost"));
    if (entry.lost == 0) return Bad("lost");
    return entry;
  }
  if (object.is_object() && object.contains("job")) {
    PARAPET_ASSIGN_OR_RETURN(entry.job, ReadJob(object));
    return entry;
  }
  PARAPET_RETURN_IF_ERROR(ReadRecord(object, &entry.record));
  return entry;
}

}  // namespace parapet
