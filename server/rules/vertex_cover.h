#ifndef PARAPET_SERVER_RULES_VERTEX_COVER_H_
#define PARAPET_SERVER_RULES_VERTEX_COVER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace parapet::rules {

// An undirected graph of a fixed set of vertices, some of which may have been
// removed.
class Graph {
 public:
  explicit Graph(int vertices);

  int size() const { return static_cast<int>(present_.size()); }
  void Join(int a, int b);
  bool Has(int vertex) const { return present_[vertex]; }
  int Degree(int vertex) const { return degree_[vertex]; }
  int64_t edges() const { return edges_; }
  // Removes a vertex with its edges.
  void Remove(int vertex);
  // Removes all neighbours of a vertex; returns how many there were.
  int RemoveNeighbours(int vertex);
  // The lowest vertex of the largest degree, of degree 1, or -1.
  int Busiest() const;
  int Leaf() const;
  int AnyNeighbour(int vertex) const;

 private:
  bool Joined(int a, int b) const {
    return adjacent_[static_cast<size_t>(a) * size() + b];
  }

  std::vector<bool> adjacent_, present_;
  std::vector<int> degree_;
  int64_t edges_ = 0;
};

// Whether some `limit` vertices touch every edge. A search tree of bounded
// depth: 1.47^limit leaves at most, since it branches on vertices of degree 3
// or more only. R. Niedermeier, Invitation to Fixed-Parameter Algorithms,
// Oxford 2006, chapter 8. Adds the vertices that the search took or left to
// *steps, if not null.
bool HasCover(Graph graph, int limit, int64_t* steps = nullptr);

}  // namespace parapet::rules

#endif  // PARAPET_SERVER_RULES_VERTEX_COVER_H_
