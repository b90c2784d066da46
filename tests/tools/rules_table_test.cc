#include "tools/rules_table.h"

#include <sstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/rules/chain.h"
#include "server/rules/registry.h"

namespace parapet {
namespace {

using ::testing::HasSubstr;

std::string Printed(const std::vector<std::string>& args) {
  std::ostringstream out, err;
  EXPECT_EQ(RunRules(args, out, err), 0) << err.str();
  return out.str();
}

TEST(RulesTableTest, HasALineForEach) {
  const std::string table = Printed({}), markdown = Printed({"--markdown"});
  for (const rules::StageInfo& info : rules::AllStages()) {
    EXPECT_THAT(table, HasSubstr("\n" + info.name)) << info.name;
    EXPECT_THAT(markdown, HasSubstr("\n| `" + info.Signature() + "` | "));
  }
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);)
    EXPECT_LE(line.size(), 150u) << line;
}

TEST(RulesTableTest, Json) {
  const nlohmann::json all = nlohmann::json::parse(Printed({"--json"}));
  ASSERT_EQ(all.size(), rules::AllStages().size());
  int exchanges = 0;
  for (const nlohmann::json& one : all) {
    for (const char* field :
         {"name", "kind", "signature", "formula", "limits", "cost", "paper"}) {
      EXPECT_TRUE(one[field].is_string()) << one << field;
    }
    exchanges += one["exchange"].get<bool>() ? 1 : 0;
    if (one["name"] != "centered_clip") continue;
    EXPECT_EQ(one["signature"], "centered_clip(tau=1, iterations=3)");
    EXPECT_EQ(one["options"][0]["default"], "1");
    EXPECT_EQ(one["options"][0]["expected"], "a number above 0");
  }
  EXPECT_EQ(exchanges, 17);
}

TEST(RulesTableTest, ExamplesAndDefaultsAreChains) {
  for (const rules::StageInfo& info : rules::AllStages()) {
    EXPECT_TRUE(rules::Chain::Parse(info.ExampleChain()).ok())
        << info.ExampleChain();
  }
}

TEST(RulesTableTest, RefusesWhatItDoesNotKnow) {
  std::ostringstream out, err;
  EXPECT_EQ(RunRules({"--yaml"}, out, err), 2);
  EXPECT_EQ(RunRules({"--json", "--markdown"}, out, err), 2);
}

}  // namespace
}  // namespace parapet
