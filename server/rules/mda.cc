#include <algorithm>

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
double LeastDiameter(const Distances& distances, int f) {
  std::vector<double> sorted = {0};
  for (int i = 0; i < distances.n(); ++i) {
    for (int j = 0; j < i; ++j) sorted.push_back(distances(i, j));
  }
  std::sort(sorted.begin(), sorted.end());
  return *std::partition_point(
      sorted.begin(), sorted.end(), [&](double diameter) {
        return !HasCover(FartherThan(distances, diameter), f);
      });
}

// The lexicographically first `count` vectors without an edge among them: each
// is taken whenever a cover of at most f by the others still exists.
std::vector<int> FirstIndependent(Graph graph, int f, int count) {
  std::vector<int> taken;
  for (int i = 0; static_cast<int>(taken.size()) < count; ++i) {
    if (!graph.Has(i)) continue;
    Graph rest = graph;
    const int covered = rest.RemoveNeighbours(i);
    if (covered <= f && HasCover(rest, f - covered)) {
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

class Mda : public Stage {
 public:
  absl::StatusOr<Decision> Decide(const View& view) const override {
    const double diameter = LeastDiameter(view.distances, view.f);
    Decision decision;
    decision.selected = FirstIndependent(FartherThan(view.distances, diameter),
                                         view.f, view.n() - view.f);
    decision.mixing = MeanOf(decision.selected, view.n());
    return decision;
  }
};

}  // namespace

StageInfo MdaStage() {
  return {.name = "mda",
          .kind = StageKind::kDistance,
          .formula = "mean of the n-f vectors of least diameter",
          .limits = "n > 2f",
          .cost = "n^2 d + 1.4^f n^2",
          .paper =
              "El Mhamdi, Guerraoui, Guirguis, Hoang, Rouault, Genuinely "
              "distributed Byzantine machine learning, PODC 2020",
          .options = {},
          .make = [](const Options&) { return std::make_unique<Mda>(); }};
}

}  // namespace parapet::rules
