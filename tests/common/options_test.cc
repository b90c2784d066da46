#include "common/options.h"

#include <gtest/gtest.h>

namespace parapet {
namespace {

using Kind = OptionSpec::Kind;

TEST(OptionsTest, SplitsCalls) {
  const std::vector<Call> calls =
      *ParseCalls("a + b_1(2) +c( x = 1e+3 , word )");
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].name, "a");
  EXPECT_EQ(calls[1].arguments[0].key, "");
  EXPECT_EQ(calls[1].arguments[0].value, "2");
  EXPECT_EQ(calls[2].arguments[0].key, "x");
  EXPECT_EQ(calls[2].arguments[0].value, "1e+3");
  EXPECT_EQ(calls[2].arguments[1].value, "word");
}

TEST(OptionsTest, RefusesBadText) {
  for (const char* text : {"", "+", "a+", "a(", "a)", "a(b", "a((1))", "a(1)b",
                           "a(,)", "a(=1)", "a(x=)", "a b", "a(1))", "\xff"}) {
    EXPECT_FALSE(ParseCalls(text).ok()) << text;
  }
}

TEST(OptionsTest, BareValuesGoInOrder) {
  const std::vector<OptionSpec> specs = {{.name = "flag", .kind = Kind::kFlag},
                                         {.name = "x"},
                                         {.name = "k", .kind = Kind::kInteger}};
  const Options options =
      *Options::Create((*ParseCalls("f(1.5, flag, 7)"))[0], specs);
  EXPECT_TRUE(options.Has("flag"));
  EXPECT_EQ(options.Number("x", 0), 1.5);
  EXPECT_EQ(options.Integer("k", 0), 7);
  EXPECT_EQ(options.Integer("other", 3), 3);
  EXPECT_FALSE(Options::Create((*ParseCalls("f(1, 2, 3)"))[0], specs).ok());
  EXPECT_FALSE(Options::Create((*ParseCalls("f(x=1, x=2)"))[0], specs).ok());
  EXPECT_FALSE(Options::Create((*ParseCalls("f(x=inf)"))[0], specs).ok());
}

TEST(OptionsTest, WhatIsNotGivenIsTheFallback) {
  const std::vector<OptionSpec> specs = {
      {.name = "tau", .above = 0, .fallback = "1.5"},
      {.name = "k", .kind = Kind::kInteger, .least = 2}};
  const Options neither = *Options::Create((*ParseCalls("f"))[0], specs);
  EXPECT_EQ(neither.Number("tau"), 1.5);
  EXPECT_FALSE(neither.Has("k"));
  const Options both = *Options::Create((*ParseCalls("f(3, 4)"))[0], specs);
  EXPECT_EQ(both.Number("tau"), 3);
  EXPECT_EQ(both.Integer("k"), 4);
  EXPECT_EQ(specs[1].Expected(), "a whole number from 2 to 65535");
  EXPECT_FALSE(Options::Create((*ParseCalls("f(k=1)"))[0], specs).ok());
  EXPECT_FALSE(Options::Create((*ParseCalls("f(k=65536)"))[0], specs).ok());
}

}  // namespace
}  // namespace parapet
