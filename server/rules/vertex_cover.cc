#include "server/rules/vertex_cover.h"

#include <utility>

namespace parapet::rules {

Graph::Graph(int vertices)
    : adjacent_(static_cast<size_t>(vertices) * vertices),
      present_(vertices, true),
      degree_(vertices) {}

void Graph::Join(int a, int b) {
  adjacent_[static_cast<size_t>(a) * size() + b] = true;
  adjacent_[static_cast<size_t>(b) * size() + a] = true;
  ++degree_[a];
  ++degree_[b];
  ++edges_;
}

void Graph::Remove(int vertex) {
  for (int other = 0; other < size(); ++other) {
    if (present_[other] && Joined(vertex, other)) --degree_[other];
  }
  edges_ -= degree_[vertex];
  degree_[vertex] = 0;
  present_[vertex] = false;
}

int Graph::RemoveNeighbours(int vertex) {
  int removed = 0;
  for (int other = 0; other < size(); ++other) {
    if (!present_[other] || !Joined(vertex, other)) continue;
    Remove(other);
    ++removed;
  }
  return removed;
}

int Graph::Busiest() const {
  int busiest = -1;
  for (int vertex = 0; vertex < size(); ++vertex) {
    if (present_[vertex] && (busiest < 0 || degree_[vertex] > degree_[busiest]))
      busiest = vertex;
  }
  return busiest;
}

int Graph::Leaf() const {
  for (int vertex = 0; vertex < size(); ++vertex) {
    if (present_[vertex] && degree_[vertex] == 1) return vertex;
  }
  return -1;
}

int Graph::AnyNeighbour(int vertex) const {
  for (int other = 0; other < size(); ++other) {
    if (present_[other] && Joined(vertex, other)) return other;
  }
  return -1;
}

bool HasCover(Graph graph, int limit, int64_t* steps) {
  while (graph.edges() > 0 && limit > 0) {
    if (steps != nullptr) ++*steps;
    const int busiest = graph.Busiest();
    // `limit` vertices touch at most so many edges.
    if (graph.edges() > int64_t{limit} * graph.Degree(busiest)) return false;
    const int leaf = graph.Leaf();
    if (leaf >= 0) {
      graph.Remove(
          graph.AnyNeighbour(leaf));  // never worse than the leaf itself
    } else if (graph.Degree(busiest) <= 2 || graph.Degree(busiest) > limit) {
      graph.Remove(busiest);  // on a cycle any vertex will do; too many
                              // neighbours leave no choice
    } else {
      Graph without = graph;
      without.Remove(busiest);
      if (HasCover(std::move(without), limit - 1, steps)) return true;
      limit -= graph.RemoveNeighbours(busiest);
      continue;
    }
    --limit;
  }
  return graph.edges() == 0;
}

}  // namespace parapet::rules
