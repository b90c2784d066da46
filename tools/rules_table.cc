#include "tools/rules_table.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/flags.h"
#include "nlohmann/json.hpp"
#include "server/rules/registry.h"
#include "tools/command_line.h"

namespace parapet {
namespace {

using rules::StageInfo;
using rules::StageKind;

struct Column {
  const char* title;
  size_t width;  // of the table on a terminal [characters]
  std::string (*text)(const StageInfo&);
};

const Column kColumns[] = {
    {"name", 26, [](const StageInfo& info) { return info.Signature(); }},
    {"formula", 34, [](const StageInfo& info) { return info.formula; }},
    {"limits", 16, [](const StageInfo& info) { return info.limits; }},
    {"cost", 16, [](const StageInfo& info) { return info.cost; }},
    {"exchange", 8,
     [](const StageInfo& info) -> std::string {
       return info.exchange() ? "yes" : "no";
     }},
    {"paper", 38, [](const StageInfo& info) { return info.paper; }},
};

std::vector<std::string> Wrap(const std::string& text, size_t width) {
  std::vector<std::string> lines(1);
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    std::string& line = lines.back();
    if (line.empty() || line.size() + 1 + word.size() <= width) {
      absl::StrAppend(&line, line.empty() ? "" : " ", word);
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

// One line of the table, over as many lines of text as its longest cell needs.
void PrintCells(const std::vector<std::string>& cells, std::ostream& out) {
  std::vector<std::vector<std::string>> wrapped;
  size_t height = 0;
  for (size_t c = 0; c < cells.size(); ++c) {
    wrapped.push_back(Wrap(cells[c], kColumns[c].width));
    height = std::max(height, wrapped.back().size());
  }
  for (size_t line = 0; line < height; ++line) {
    std::string text;
    for (size_t c = 0, end = 0; c < cells.size(); ++c) {
      if (line < wrapped[c].size()) {
        text.resize(std::max(end, text.size()), ' ');
        absl::StrAppend(&text, wrapped[c][line]);
      }
      end += kColumns[c].width + 2;
    }
    out << text << "\n";
  }
}

std::vector<std::string> Cells(const StageInfo& info) {
  std::vector<std::string> cells;
  for (const Column& column : kColumns) cells.push_back(column.text(info));
  return cells;
}

std::vector<StageInfo> Some(bool mixing) {
  std::vector<StageInfo> stages = rules::AllStages();
  std::erase_if(stages, [mixing](const StageInfo& info) {
    return (info.kind == StageKind::kMixing) != mixing;
  });
  return stages;
}

std::vector<std::string> Titles() {
  std::vector<std::string> titles;
  for (const Column& column : kColumns) titles.emplace_back(column.title);
  return titles;
}

void PrintTable(std::ostream& out) {
  PrintCells(Titles(), out);
  for (const bool mixing : {false, true}) {
    out << (mixing ? "\nBefore a rule, as in 'nnm + trimmed_mean':\n\n"
                   : "\nRules:\n\n");
    for (const StageInfo& info : Some(mixing)) PrintCells(Cells(info), out);
  }
  out << "\nn workers, f of them may lie (--byzantine), vectors of d elements. "
         "D_ij = ||x_i - x_j||^2.\nExchange: servers must send each other "
         "distances before they can take a step.\n";
}

void PrintMarkdown(std::ostream& out) {
  for (const bool mixing : {false, true}) {
    std::vector<std::string> titles = Titles();
    titles[0] = mixing ? "step" : "rule";
    out << (mixing ? "\n" : "") << "| " << absl::StrJoin(titles, " | ")
        << " |\n|"
        << absl::StrJoin(std::vector<std::string>(titles.size(), "---"), "|")
        << "|\n";
    for (const StageInfo& info : Some(mixing)) {
      std::vector<std::string> cells = Cells(info);
      for (std::string& cell : cells)
        cell = absl::StrReplaceAll(cell, {{"|", "\\|"}, {"*", "\\*"}});
      cells[0] = absl::StrCat("`", info.Signature(), "`");
      out << "| " << absl::StrJoin(cells, " | ") << " |\n";
    }
  }
}

nlohmann::json ToJson(const OptionSpec& option) {
  nlohmann::json json = {{"name", option.name}, {"required", option.required}};
  if (option.kind != OptionSpec::Kind::kFlag)
    json["expected"] = option.Expected();
  if (!option.fallback.empty()) json["default"] = option.fallback;
  return json;
}

nlohmann::json ToJson(const StageInfo& info) {
  nlohmann::json options = nlohmann::json::array();
  for (const OptionSpec& option : info.options)
    options.push_back(ToJson(option));
  return {{"name", info.name},
          {"kind", info.kind == StageKind::kCoordinate ? "coordinate"
                   : info.kind == StageKind::kDistance ? "distance"
                                                       : "before a rule"},
          {"signature", info.Signature()},
          {"options", options},
          {"formula", info.formula},
          {"limits", info.limits},
          {"cost", info.cost},
          {"exchange", info.exchange()},
          {"paper", info.paper}};
}

void PrintJson(std::ostream& out) {
  nlohmann::json all = nlohmann::json::array();
  for (const StageInfo& info : rules::AllStages()) all.push_back(ToJson(info));
  out << all.dump(2) << "\n";
}

}  // namespace

int RunRules(const std::vector<std::string>& args, std::ostream& out,
             std::ostream& err) {
  CLI::App app("Lists the rules for --rule and the steps before them.",
               "parapet rules");
  bool json = false, markdown = false;
  CLI::Option* as_json =
      app.add_flag("--json", json, "print an array of objects");
  app.add_flag("--markdown", markdown, "print tables as docs/rules.md has them")
      ->excludes(as_json);
  if (const auto ended = ParseArgs(&app, args, out, err)) return *ended;
  if (json) {
    PrintJson(out);
  } else if (markdown) {
    PrintMarkdown(out);
  } else {
    PrintTable(out);
  }
  return kExitDone;
}

int RunRules(int argc, char** argv) {
  return RunRules(ArgsOf(argc, argv), std::cout, std::cerr);
}

}  // namespace parapet
