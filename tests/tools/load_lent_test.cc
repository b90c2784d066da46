#include "tools/load_lent.h"

#include <numeric>
#include <string>
#include <vector>

#include "common/net/shm_transport.h"
#include "common/net/zmq_transport.h"
#include "gtest/gtest.h"

namespace parapet {
namespace {

std::shared_ptr<std::vector<std::byte>> MakeTable(size_t bytes) {
  auto table = std::make_shared<std::vector<std::byte>>(bytes);
  for (size_t i = 0; i < bytes; ++i)
    (*table)[i] = static_cast<std::byte>(i * 7 % 251);
  return table;
}

TEST(LoadLentTest, LendsPiecesOfItsTablesOnly) {
  const auto transport = net::MakeShmTransport({});
  const auto first = MakeTable(1000), second = MakeTable(500);
  LoadLent lent;
  lent.Add(*first, transport.get());
  lent.Add(*second, transport.get());
  for (const auto& table : {first, second}) {
    const Payload piece(table, table->data() + 123, 77);
    const Payload copy = lent.Lend(piece);
    EXPECT_NE(copy.data(), piece.data());
    EXPECT_EQ(copy.ToString(), piece.ToString());
    // One copy for all.
    EXPECT_EQ(lent.Lend(piece).data(), copy.data());
  }
  const Payload other = Payload::FromString("not of a table");
  EXPECT_EQ(lent.Lend(other).data(), other.data());
  EXPECT_TRUE(lent.Lend(Payload()).empty());
}

TEST(LoadLentTest, LeavesPayloadsWhereTheTransportLendsNothing) {
  const auto transport = net::MakeZmqTransport({});
  const auto table = MakeTable(100);
  LoadLent lent;
  lent.Add(*table, transport.get());
  const Payload piece(table, table->data() + 10, 20);
  EXPECT_EQ(lent.Lend(piece).data(), piece.data());
}

}  // namespace
}  // namespace parapet
