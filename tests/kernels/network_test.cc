#include "kernels/cpu/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

namespace parapet {
namespace {

template <class T>
void Apply(const std::vector<Comparator>& network, std::vector<T>* values) {
  for (const Comparator c : network) {
    if ((*values)[c.high] < (*values)[c.low])
      std::swap((*values)[c.low], (*values)[c.high]);
  }
}

// A network that sorts every sequence of zeros and ones sorts everything
// (Knuth, The Art of Computer Programming 3, 5.3.4, theorem Z); the same holds
// for the places that a pruned one is for.
TEST(NetworkTest, SelectsFromZerosAndOnes) {
  for (int rows = 1; rows <= 12; ++rows) {
    for (int first = 0; first < rows; ++first) {
      for (int last = first; last < rows; ++last) {
        const auto network = SelectionNetwork(rows, first, last);
        for (int bits = 0; bits < 1 << rows; ++bits) {
          std::vector<int> values(rows);
          for (int r = 0; r < rows; ++r) values[r] = bits >> r & 1;
          std::vector<int> sorted = values;
          std::sort(sorted.begin(), sorted.end());
          Apply(network, &values);
          for (int r = first; r <= last; ++r)
            ASSERT_EQ(values[r], sorted[r]) << rows << " " << bits;
        }
      }
    }
  }
}

TEST(NetworkTest, SortsManyRows) {
  std::mt19937_64 random(1);
  for (int rows : {13, 31, 32, 33, 64, 100, 255, 256, 700}) {
    std::vector<double> values(rows);
    for (double& value : values) value = static_cast<double>(random());
    Apply(SelectionNetwork(rows, 0, rows - 1), &values);
    EXPECT_TRUE(std::is_sorted(values.begin(), values.end())) << rows;
  }
}

template <int kRows, int kFirst, int kLast>
void ExpectFixedIsTheSame() {
  using Fixed = FixedNetwork<kRows, kFirst, kLast>;
  const std::vector<Comparator> network =
      SelectionNetwork(kRows, kFirst, kLast);
  ASSERT_EQ(Fixed::size(), network.size());
  for (size_t c = 0; c < network.size(); ++c) {
    EXPECT_EQ(Fixed::at(c).low, network[c].low);
    EXPECT_EQ(Fixed::at(c).high, network[c].high);
    EXPECT_LT(network[c].low, network[c].high);
  }
}

TEST(NetworkTest, WhatIsKnownAtCompileTimeIsTheSame) {
  ExpectFixedIsTheSame<4, 0, 3>();
  ExpectFixedIsTheSame<8, 3, 4>();
  ExpectFixedIsTheSame<16, 0, 15>();
  ExpectFixedIsTheSame<32, 15, 16>();
}

TEST(NetworkTest, PruningSparesComparators) {
  EXPECT_EQ(SelectionNetwork(16, 0, 15).size(), 63u);
  EXPECT_EQ(SelectionNetwork(32, 0, 31).size(), 191u);
  EXPECT_LT(SelectionNetwork(16, 7, 8).size(), 63u);
  EXPECT_LT(SelectionNetwork(64, 31, 32).size(), 543u);
}

}  // namespace
}  // namespace parapet
