#include "common/manifest.h"

#include <string>

#include "common/hash.h"
#include "common/json_parse.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/checkpoint_testing.h"

namespace parapet {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

Manifest Good() {
  Manifest manifest;
  manifest.version = ~uint64_t{0};
  manifest.layout_hash = ToyLayout().hash();
  manifest.tensors = ToyTensors();
  manifest.files = {{"server-0.safetensors", 8, 1},
                    {"worker-3.safetensors", 1 << 20, ~uint64_t{0}}};
  return manifest;
}

json GoodJson() { return json::parse(ManifestText(Good()).value()); }

// With the hash made to fit, so that what comes after its check is reached.
std::string Sealed(json object) {
  object.erase("hash");
  const std::string text = object.dump();
  object["hash"] = HexText(HashBytes(text.data(), text.size()));
  return object.dump();
}

TEST(ManifestTest, ComesBack) {
  const Manifest found = ParseManifest(ManifestText(Good()).value()).value();
  EXPECT_EQ(found.version, ~uint64_t{0});
  EXPECT_EQ(found.files, Good().files);
  EXPECT_EQ(found.lead_state, "");
  EXPECT_TRUE(ParseManifest(Sealed(GoodJson())).ok());
}

TEST(ManifestTest, AnAlteredOneIsNoticed) {
  json object = GoodJson();
  object["epoch"] = 1;
  const absl::Status status = ParseManifest(object.dump()).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("altered"));
}

struct Change {
  const char* words;  // of the refusal
  void (*make)(json&);
};

constexpr Change kChanges[] = {
    {"'format' is missing", [](json& m) { m.erase("format"); }},
    {"its format is", [](json& m) { m["format"] = "parapet snapshot 2"; }},
    {"'version'", [](json& m) { m["version"] = -1; }},
    {"'version'", [](json& m) { m["version"] = 1.5; }},
    {"'version'", [](json& m) { m["version"] = "1"; }},
    {"'version' is missing", [](json& m) { m.erase("version"); }},
    {"'layout_hash'", [](json& m) { m["layout_hash"] = 5; }},
    {"'layout_hash'", [](json& m) { m["layout_hash"] = "12"; }},
    {"'layout_hash'", [](json& m) { m["layout_hash"] = "0x00000000000000"; }},
    {"'layout_hash' is not that",
     [](json& m) { m["layout_hash"] = "0000000000000001"; }},
    {"'tensors'", [](json& m) { m["tensors"] = json::object(); }},
    {"'name'", [](json& m) { m["tensors"] = {1}; }},
    {"no name of its own", [](json& m) { m["tensors"][1]["name"] = "scale"; }},
    {"'shape'", [](json& m) { m["tensors"][1]["shape"] = {-1}; }},
    {"too many elements",
     [](json& m) {
       m["tensors"][1]["shape"] = {1ll << 40, 1ll << 40};
     }},
    {"no parameter", [](json& m) { m["tensors"] = json::array(); }},
    {"'job'", [](json& m) { m["job"] = json::array(); }},
    {"'weights_hash'", [](json& m) { m["weights_hash"] = "000000000000000G"; }},
    {"'epoch'", [](json& m) { m["epoch"] = nullptr; }},
    {"'term'", [](json& m) { m["term"] = true; }},
    {"'files' is empty", [](json& m) { m["files"] = json::array(); }},
    {"'files'", [](json& m) { m["files"] = "server-0.safetensors"; }},
    {"twice", [](json& m) { m["files"][1] = m["files"][0]; }},
    {"'bytes'", [](json& m) { m["files"][0]["bytes"] = -8; }},
    {"cannot have",
     [](json& m) { m["files"][0]["bytes"] = uint64_t{1} << 63; }},
    {"'hash'", [](json& m) { m["files"][0]["hash"] = 1; }},
    {"'lead_state'", [](json& m) { m["lead_state"] = json::object(); }},
    {"deeper", [](json& m) { m["x"] = json::parse("[[[[[[[[[]]]]]]]]]"); }},
};

TEST(ManifestTest, NonsenseIsRefusedInWords) {
  for (const Change& change : kChanges) {
    json object = GoodJson();
    change.make(object);
    const absl::Status status = ParseManifest(Sealed(object)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status))
        << change.words << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(change.words));
  }
}

TEST(ManifestTest, TextThatIsNoManifestIsRefused) {
  for (const char* text : {"", "null", "[]", "{}", "{\"format\":", "\xff",
                           "{\"a\":1,\"a\":1}", "1e999"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseManifest(text).status())) << text;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(
      ParseManifest(std::string(1000000, '[')).status()));
}

TEST(ManifestTest, FileNamesArePlain) {
  for (const char* name :
       {"", ".", "..", "../x.safetensors", "/x.safetensors", "a/b.safetensors",
        "a\\b.safetensors", ".safetensors", ".x.safetensors", "-x.safetensors",
        "manifest.json", "x.SAFETENSORS", "a b.safetensors",
        "\xc3\xa4.safetensors", "x.safetensors\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CheckFileName(name))) << name;
    Manifest manifest = Good();
    manifest.files[0].name = name;
    EXPECT_FALSE(ManifestText(manifest).ok()) << name;
  }
  EXPECT_FALSE(CheckFileName(std::string(300, 'x') + ".safetensors").ok());
  EXPECT_FALSE(CheckFileName(absl::string_view("a\0.safetensors", 14)).ok());
  EXPECT_TRUE(CheckFileName("worker-12.safetensors").ok());
}

TEST(ManifestTest, TextThatIsNotUtf8IsRefusedWhenWriting) {
  Manifest manifest = Good();
  manifest.job = "\xff";
  EXPECT_TRUE(absl::IsInvalidArgument(ManifestText(manifest).status()));
}

TEST(JsonParseTest, DepthCountsBracketsOutsideStringsOnly) {
  EXPECT_TRUE(ParseJson("[[1]]", 2).ok());
  EXPECT_FALSE(ParseJson("[[1]]", 1).ok());
  EXPECT_TRUE(ParseJson(R"(["[[[[", "\"[[["])", 1).ok());
  EXPECT_TRUE(
      ParseJson(R"([{"a":1},{"a":1}])", 2).ok());  // one key in two objects
  EXPECT_FALSE(ParseJson(R"([{"a":{"b":1,"b":2}}])", 3).ok());
}

TEST(JsonParseTest, PrintableTextIsShortAndPlain) {
  EXPECT_EQ(PrintableText("a\x1b[2J\n\xc3", 100), "a\\x1b[2J\\x0a\\xc3");
  EXPECT_EQ(PrintableText("abcdef", 3), "abc...");
  EXPECT_EQ(PrintableText("abc", 3), "abc");
}

}  // namespace
}  // namespace parapet
