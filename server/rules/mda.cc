#include "server/rules/mda.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/rules/registry.h"
#include "server/rules/selection.h"
#include "server/rules/vertex_cover.h"

namespace parapet::rules {
namespace {

// Vectors farther apart than `diameter` are joined: a set without an edge has
// at most that diameter, and n-f vectors without one exist if f cover all
// edges.
Graph FartherThan(const Distances& distances, double diameter) {
  Graph graph(distances.n());
  for (int i = 0; i < distances.n(); ++i) {
    for (int j = 0; j < i; ++j) {
      if (distances(i, j) > diameter) graph.Join(i, j);
    }
  }
  return graph;
}

// The least diameter of any n-f vectors, by bisection over the distances that
// there are.
double LeastDiameter(const Distances& distances, int f, int64_t* steps) {
  std::vector<double> sorted = {0};
  for (int i = 0; i < distances.n(); ++i) {
    for (int j = 0; j < i; ++j) sorted.push_back(distances(i, j));
  }
  std::sort(sorted.begin(), sorted.end());
  return *std::partition_point(
      sorted.begin(), sorted.end(), [&](double diameter) {
        return !HasCover(FartherThan(distances, diameter), f, steps);
      });
}

// The lexicographically first `count` vectors without an edge among them: each
// is taken whenever a cover of at most f by the others still exists.
std::vector<int> FirstIndependent(Graph graph, int f, int count,
                                  int64_t* steps) {
  std::vector<int> taken;
  for (int i = 0; static_cast<int>(taken.size()) < count; ++i) {
    if (!graph.Has(i)) continue;
    Graph rest = graph;
    const int covered = rest.RemoveNeighbours(i);
    if (covered <= f && HasCover(rest, f - covered, steps)) {
      graph = rest;
      f -= covered;
      taken.push_back(i);
    } else {
      graph.Remove(i);
      --f;
    }
  }
  return taken;
}

// 1.47^24 leaves of a search tree take milliseconds, and there are 2 n such
// trees at most.
constexpr int kMaxF = 24;

class Mda : public Stage {
 public:
  std::string Refusal(int n, int f) const override {
    if (f <= kMaxF) return "";
    return absl::StrCat("with f=", f, " would search trees of 1.47^", f,
                        " leaves; at most f=", kMaxF);
  }
  absl::StatusOr<Decision> Decide(const View& view) const override {
    Decision decision;
    decision.selected = FindLeastDiameter(view.distances, view.f).selected;
    decision.mixing = MeanOf(decision.selected, view.n());
    return decision;
  }
};

}  // namespace

MdaSearch FindLeastDiameter(const Distances& distances, int f) {
  MdaSearch search;
  const double diameter = LeastDiameter(distances, f, &search.steps);
  search.selected = FirstIndependent(FartherThan(distances, diameter), f,
                                     distances.n() - f, &search.steps);
  return search;
}

StageInfo MdaStage() {
  return {.name = "mda",
          .kind = StageKind::kDistance,
          .formula = "mean of the n-f vectors of least diameter",
          .limits = "n > 2f, f <= 24",
          .cost = "n^2 d + 1.47^f n^2",
          .paper =
              "El Mhamdi, Guerraoui, Guirguis, Hoang, Rouault, Genuinely "
              "distributed Byzantine machine learning, PODC 2020",
          .options = {},
          .make = [](const Options&) { return std::make_unique<Mda>(); }};
}

}  // namespace parapet::rules
