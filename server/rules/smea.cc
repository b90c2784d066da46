#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "server/rules/gram.h"
#include "server/rules/registry.h"
#include "server/rules/selection.h"

namespace parapet::rules {
namespace {

constexpr double kMaxSubsets = 5e4;
// Of the eigensolver, at the worst: some seconds. (Most subsets are spared it.)
constexpr double kMaxMultiplications = 1e9;
constexpr double kTie =
    1e-9;  // top eigenvalues this close, relatively, are equal

double Subsets(int n, int f) {
  double count = 1;
  for (int k = 1; k <= f; ++k) count = count * (n - f + k) / k;
  return count;
}

// The next subset of 0 .. n-1 of the same size in lexicographic order; false
// after the last.
bool NextSubset(std::vector<int>& subset, int n) {
  const int size = static_cast<int>(subset.size());
  int at = size - 1;
  while (at >= 0 && subset[at] == n - size + at) --at;
  if (at < 0) return false;
  ++subset[at];
  for (int k = at + 1; k < size; ++k) subset[k] = subset[k - 1] + 1;
  return true;
}

// Finds the top eigenvalue of subsets' covariances (times the size of a subset,
// the same for all), sparing most of them the eigensolver.
class TopEigenvalues {
 public:
  explicit TopEigenvalues(const Distances& distances)
      : distances_(distances), guess_(Eigen::VectorXd::Ones(distances.n())) {
    for (int i = 0; i < distances.n(); i += 2) guess_[i] = -1;
  }

  // Or any number above `limit` if it is above that.
  double UnlessAbove(const std::vector<int>& subset, double limit) {
    const auto size = static_cast<Eigen::Index>(subset.size());
    const Eigen::MatrixXd gram =
        CentredGram(SubMatrix(distances_, subset),
                    Eigen::VectorXd::Constant(size, 1.0 / subset.size()));
    const double bound = LowerBound(gram, subset) * (1 - kTie);
    if (bound > limit) return bound;
    const Eigenpair top = TopEigenpair(gram);
    for (Eigen::Index k = 0; k < size; ++k) guess_[subset[k]] = top.vector[k];
    return std::max(0.0, top.value);
  }

 private:
  // Rayleigh's quotient, never above the top eigenvalue but for rounding, after
  // a few steps of the power method from the last eigenvector that was found:
  // that of another subset is seldom far from it.
  double LowerBound(const Eigen::MatrixXd& gram,
                    const std::vector<int>& subset) const {
    Eigen::VectorXd v(gram.rows());
    for (Eigen::Index k = 0; k < v.size(); ++k) v[k] = guess_[subset[k]];
    for (int step = 0; step < 3; ++step) {
      const double norm = v.norm();
      if (!(norm > 0)) return 0;
      v = gram * (v / norm);
    }
    const double square = v.squaredNorm();
    return square > 0 ? v.dot(gram * v) / square : 0;
  }

  const Distances& distances_;
  Eigen::VectorXd guess_;
};

class Smea : public Stage {
 public:
  std::string Refusal(int n, int f) const override {
    const double subsets = Subsets(n, f);
    if (subsets > kMaxSubsets) {
      return absl::StrFormat(
          "with f=%d would try %.0f subsets of %d vectors; at most %.0f", f,
          subsets, n, kMaxSubsets);
    }
    const double each = std::pow(n - f, 3);
    if (subsets * each <= kMaxMultiplications) return "";
    return absl::StrFormat(
        "with f=%d would do %.1e multiplications for %.0f subsets of %d "
        "vectors; at most %.0e",
        f, subsets * each, subsets, n, kMaxMultiplications);
  }

  absl::StatusOr<Decision> Decide(const View& view) const override {
    std::vector<int> subset = Everyone(view.n() - view.f);
    double least = std::numeric_limits<double>::infinity();
    // In lexicographic order, each of those that were the least or tied with it
    // when they were met.
    std::vector<std::pair<double, std::vector<int>>> candidates;
    TopEigenvalues top_eigenvalues(view.distances);
    do {
      const double top =
          top_eigenvalues.UnlessAbove(subset, least * (1 + kTie));
      if (top > least * (1 + kTie)) continue;
      candidates.emplace_back(top, subset);
      least = std::min(least, top);
      // Nothing is less than 0, and the first of equals is taken.
    } while (least > 0 && NextSubset(subset, view.n()));
    Decision decision;
    decision.selected = FirstWithin(candidates, least * (1 + kTie));
    decision.mixing = MeanOf(decision.selected, view.n());
    return decision;
  }

 private:
  static std::vector<int> FirstWithin(
      const std::vector<std::pair<double, std::vector<int>>>& candidates,
      double limit) {
    for (const auto& [top, subset] : candidates) {
      if (top <= limit) return subset;
    }
    return {};  // never: the least is among them
  }
};

}  // namespace

StageInfo SmeaStage() {
  return {.name = "smea",
          .kind = StageKind::kDistance,
          .formula =
              "mean of the n-f vectors whose covariance has the least top "
              "eigenvalue",
          .limits = "n > 2f, at most 50000 subsets and 1e9 subsets (n-f)^3",
          .cost = "n^2 d + subsets n^3",
          .paper =
              "Allouah, Guerraoui, Gupta, Pinot, Stephan, On the "
              "privacy-robustness-utility trilemma in distributed learning, "
              "ICML 2023",
          .options = {},
          .make = [](const Options&) { return std::make_unique<Smea>(); }};
}

}  // namespace parapet::rules
