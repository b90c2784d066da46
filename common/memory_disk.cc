#include "common/memory_disk.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/status_macros.h"

namespace parapet {
namespace {

std::vector<std::string> Split(const std::string& path) {
  return absl::StrSplit(path, '/', absl::SkipEmpty());
}

absl::Status NotThere(const std::string& path) {
  return absl::NotFoundError(
      absl::StrCat("no such file or folder: '", path, "'"));
}

}  // namespace

// A file or a folder.
struct MemoryDisk::Node {
  // An entry that was made (`to`), removed (`from`) or renamed (both) since the
  // last sync.
  struct Change {
    std::string from, to;
    NodePtr node;
  };
  using Entries = std::map<std::string, NodePtr>;

  const bool is_folder;
  std::vector<std::byte> content;
  bool synced = false;
  Entries entries;  // as programs see them
  Entries lasting;  // as a crash leaves them, if it leaves no change
  std::vector<Change> changes;

  explicit Node(bool folder) : is_folder(folder) {}

  void Add(const std::string& name, NodePtr node) {
    entries[name] = node;
    changes.push_back({"", name, std::move(node)});
  }

  // Children first, as the system does it, so that a crash can leave a folder
  // half empty.
  // A copy of the name, since the caller's may be the key that is erased.
  void Remove(std::string name) {
    NodePtr node = entries.at(name);
    while (!node->entries.empty()) node->Remove(node->entries.begin()->first);
    entries.erase(name);
    changes.push_back({name, "", nullptr});
  }

  void Move(const std::string& from, const std::string& to) {
    NodePtr node = entries.at(from);
    entries.erase(from);
    entries[to] = node;
    changes.push_back({from, to, std::move(node)});
  }

  int64_t Bytes() const {
    int64_t sum = static_cast<int64_t>(content.size());
    for (const auto& [name, node] : entries) sum += node->Bytes();
    return sum;
  }

  void Apply(const Change& change) {
    if (!change.from.empty() && lasting.erase(change.from) == 0) return;
    if (!change.to.empty()) lasting[change.to] = change.node;
  }

  void Tear(Random& random) {
    content.resize(random.Below(content.size() + 1));
    if (content.empty() || random.Below(2) == 0) return;
    const size_t begin = random.Below(content.size());
    std::fill_n(content.begin() + begin,
                1 + random.Below(content.size() - begin), std::byte{0});
  }

  void Crash(Random& random) {
    if (!is_folder && !synced) Tear(random);
    synced = true;
    // Journals keep the order of changes; a file system without one need not.
    const bool ordered = random.Below(2) == 0;
    for (const Change& change : changes) {
      if (random.Below(2) == 0) {
        Apply(change);
      } else if (ordered) {
        break;
      }
    }
    changes.clear();
    entries = lasting;
    for (auto& [name, node] : entries) node->Crash(random);
  }
};

class MemoryDisk::Writer : public WritableFile {
 public:
  Writer(MemoryDisk* disk, NodePtr node, uint64_t life, std::string path)
      : disk_(disk),
        node_(std::move(node)),
        life_(life),
        path_(std::move(path)) {}
  absl::Status Append(absl::Span<const std::byte> bytes) override {
    return disk_->AppendTo(*node_, life_, path_, bytes);
  }
  absl::Status SyncAndClose() override {
    return disk_->Sync(*node_, life_, path_);
  }

 private:
  MemoryDisk* const disk_;
  const NodePtr node_;
  const uint64_t life_;
  const std::string path_;
};

class MemoryDisk::Reader : public ReadableFile {
 public:
  Reader(MemoryDisk* disk, NodePtr node, uint64_t life, std::string path)
      : disk_(disk),
        node_(std::move(node)),
        life_(life),
        path_(std::move(path)),
        size_(static_cast<int64_t>(node_->content.size())) {}
  int64_t size() const override { return size_; }
  absl::Status Read(int64_t offset, absl::Span<std::byte> out) const override {
    return disk_->ReadFrom(*node_, life_, path_, offset, out);
  }

 private:
  MemoryDisk* const disk_;
  const NodePtr node_;
  const uint64_t life_;
  const std::string path_;
  const int64_t size_;
};

MemoryDisk::MemoryDisk() : root_(std::make_shared<Node>(true)) {}
MemoryDisk::~MemoryDisk() = default;

absl::Status MemoryDisk::Enter(absl::string_view what,
                               const std::string& path) {
  const int64_t number = operations_++;
  if (stop_at_ >= 0 && number >= stop_at_) {
    return absl::UnavailableError(
        absl::StrCat("cannot ", what, " '", path, "': power is off"));
  }
  if (number == fail_at_) {
    return absl::InternalError(
        absl::StrCat("cannot ", what, " '", path, "': injected error"));
  }
  return absl::OkStatus();
}

MemoryDisk::NodePtr MemoryDisk::Find(const std::string& path) const {
  NodePtr node = root_;
  for (const std::string& name : Split(path)) {
    const auto found = node->entries.find(name);
    if (found == node->entries.end()) return nullptr;
    node = found->second;
  }
  return node;
}

absl::StatusOr<std::pair<MemoryDisk::NodePtr, std::string>>
MemoryDisk::FindParent(const std::string& path) const {
  const std::vector<std::string> names = Split(path);
  if (names.empty())
    return absl::InvalidArgumentError("the root has no parent");
  NodePtr node = Find(ParentPath(path) == "." ? "" : ParentPath(path));
  if (node == nullptr || !node->is_folder) return NotThere(ParentPath(path));
  return std::make_pair(node, names.back());
}

absl::StatusOr<std::unique_ptr<WritableFile>> MemoryDisk::Create(
    const std::string& path) {
  MutexLock lock(&mutex_);
  PARAPET_RETURN_IF_ERROR(Enter("create", path));
  PARAPET_ASSIGN_OR_RETURN(auto place, FindParent(path));
  NodePtr node = Find(path);
  if (node == nullptr) {
    node = std::make_shared<Node>(false);
    place.first->Add(place.second, node);
  }
  if (node->is_folder)
    return absl::InvalidArgumentError(absl::StrCat("'", path, "' is a folder"));
  node->content.clear();
  node->synced = false;
  return std::make_unique<Writer>(this, node, life_, path);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> MemoryDisk::Open(
    const std::string& path) {
  MutexLock lock(&mutex_);
  PARAPET_RETURN_IF_ERROR(Enter("open", path));
  NodePtr node = Find(path);
  if (node == nullptr) return NotThere(path);
  if (node->is_folder) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' is not a plain file"));
  }
  return std::make_unique<Reader>(this, node, life_, path);
}

absl::Status MemoryDisk::MakeDir(const std::string& path) {
  MutexLock lock(&mutex_);
  PARAPET_RETURN_IF_ERROR(Enter("create", path));
  NodePtr node = root_;
  for (const std::string& name : Split(path)) {
    NodePtr& entry = node->entries[name];
    if (entry == nullptr) {
      entry = std::make_shared<Node>(true);
      node->lasting[name] = entry;
    }
    if (!entry->is_folder) {
      return absl::AlreadyExistsError(
          absl::StrCat("'", path, "': ", name, " is not a folder"));
    }
    node = entry;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> MemoryDisk::List(
    const std::string& path) {
  MutexLock lock(&mutex_);
  PARAPET_RETURN_IF_ERROR(Enter("list", path));
  const NodePtr node = Find(path);
  if (node == nullptr || !node->is_folder) return NotThere(path);
  std::vector<std::string> names;
  for (const auto& [name, entry] : node->entries) names.push_back(name);
  return names;
}

absl::Status MemoryDisk::Rename(const std::string& from,
                                const std::string& to) {
  MutexLock lock(&mutex_);
  PARAPET_RETURN_IF_ERROR(Enter("rename", from));
  const NodePtr node = Find(from);
  if (node == nullptr) return NotThere(from);
  PARAPET_ASSIGN_OR_RETURN(auto source, FindParent(from));
  PARAPET_ASSIGN_OR_RETURN(auto target, FindParent(to));
  const NodePtr there = Find(to);
  if (there == node) return absl::OkStatus();
  if (there != nullptr &&
      (there->is_folder != node->is_folder || !there->entries.empty())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot rename '", from, "' to '", to, "': it is there and not empty"));
  }
  if (source.first == target.first) {
    source.first->Move(source.second, target.second);
    return absl::OkStatus();
  }
  source.first->entries.erase(source.second);
  source.first->changes.push_back({source.second, "", nullptr});
  target.first->Add(target.second, node);
  return absl::OkStatus();
}

absl::Status MemoryDisk::SyncDir(const std::string& path) {
  MutexLock lock(&mutex_);
  PARAPET_RETURN_IF_ERROR(Enter("sync", path));
  const NodePtr node = Find(path == "." ? "" : path);
  if (node == nullptr || !node->is_folder) return NotThere(path);
  node->lasting = node->entries;
  node->changes.clear();
  return absl::OkStatus();
}

absl::Status MemoryDisk::RemoveAll(const std::string& path) {
  MutexLock lock(&mutex_);
  PARAPET_RETURN_IF_ERROR(Enter("remove", path));
  if (Find(path) == nullptr) return absl::OkStatus();
  PARAPET_ASSIGN_OR_RETURN(auto place, FindParent(path));
  place.first->Remove(place.second);
  return absl::OkStatus();
}

absl::Status MemoryDisk::AppendTo(Node& node, uint64_t life,
                                  const std::string& path,
                                  absl::Span<const std::byte> bytes) {
  MutexLock lock(&mutex_);
  PARAPET_RETURN_IF_ERROR(Enter("write", path));
  if (life != life_)
    return absl::FailedPreconditionError("the file was open before a crash");
  const int64_t room = std::max<int64_t>(0, capacity_ - root_->Bytes());
  const size_t fits = std::min(bytes.size(), static_cast<size_t>(room));
  node.content.insert(node.content.end(), bytes.begin(), bytes.begin() + fits);
  if (fits == bytes.size()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot write '", path, "': the disk is full"));
}

absl::Status MemoryDisk::Sync(Node& node, uint64_t life,
                              const std::string& path) {
  MutexLock lock(&mutex_);
  PARAPET_RETURN_IF_ERROR(Enter("sync", path));
  if (life != life_)
    return absl::FailedPreconditionError("the file was open before a crash");
  node.synced = true;
  return absl::OkStatus();
}

absl::Status MemoryDisk::ReadFrom(const Node& node, uint64_t life,
                                  const std::string& path, int64_t offset,
                                  absl::Span<std::byte> out) {
  MutexLock lock(&mutex_);
  PARAPET_RETURN_IF_ERROR(Enter("read", path));
  if (life != life_)
    return absl::FailedPreconditionError("the file was open before a crash");
  const int64_t size = static_cast<int64_t>(node.content.size());
  if (offset < 0 || offset > size ||
      static_cast<int64_t>(out.size()) > size - offset) {
    return absl::DataLossError(absl::StrCat("'", path, "' ends at byte ", size,
                                            ", before byte ", offset, " + ",
                                            out.size()));
  }
  if (!out.empty())
    std::memcpy(out.data(), node.content.data() + offset, out.size());
  return absl::OkStatus();
}

int64_t MemoryDisk::operations() const {
  MutexLock lock(&mutex_);
  return operations_;
}

void MemoryDisk::FailAfter(int64_t n) {
  MutexLock lock(&mutex_);
  fail_at_ = operations_ + n;
}

void MemoryDisk::StopAfter(int64_t n) {
  MutexLock lock(&mutex_);
  stop_at_ = operations_ + n;
}

void MemoryDisk::ClearFaults() {
  MutexLock lock(&mutex_);
  stop_at_ = fail_at_ = -1;
}

void MemoryDisk::SetCapacity(int64_t bytes) {
  MutexLock lock(&mutex_);
  capacity_ = bytes;
}

void MemoryDisk::Crash(uint64_t seed) {
  MutexLock lock(&mutex_);
  Random random(seed, 0);
  root_->Crash(random);
  stop_at_ = fail_at_ = -1;
  ++life_;
}

bool MemoryDisk::FlipBits(const std::string& path, int64_t offset,
                          uint8_t mask) {
  MutexLock lock(&mutex_);
  const NodePtr node = Find(path);
  if (node == nullptr || offset >= static_cast<int64_t>(node->content.size()))
    return false;
  node->content[offset] ^= std::byte{mask};
  return true;
}

bool MemoryDisk::Truncate(const std::string& path, int64_t size) {
  MutexLock lock(&mutex_);
  const NodePtr node = Find(path);
  if (node == nullptr || size > static_cast<int64_t>(node->content.size()))
    return false;
  node->content.resize(size);
  return true;
}

}  // namespace parapet
