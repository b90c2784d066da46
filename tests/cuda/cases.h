#ifndef PARAPET_TESTS_CUDA_CASES_H_
#define PARAPET_TESTS_CUDA_CASES_H_

#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cuda/distance_tile.h"
#include "kernels/cuda/elements.h"
#include "kernels/cuda/reduce_plan.h"

// What the kernels are tried on: by the CPU in tests/cuda, by a GPU in
// tools/gpu_check. Only the standard library.
namespace parapet::cuda::testing {

// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  int Below(int n) {
    return static_cast<int>(Next() % static_cast<uint64_t>(n));
  }
  // In [-1, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1p-52 - 1; }

 private:
  uint64_t state_;
};

enum class Mix : uint8_t { kNone, kSelection, kOne, kEqual, kAny };

struct ReduceCase {
  Operation op = Operation::kMean;
  int rows = 1;
  int f = 0;
  Mix mix = Mix::kNone;
  int combinations = 0;  // where rows are mixed
  Stored stored = Stored::kFloat32;
  double scale = 1;  // of the rows
  int64_t elements = 1;
  bool bad_values = false;  // NaN and infinities in some rows
  bool ties = false;        // few different values
  bool huge = false;        // combinations overflow float32 on the way
  bool previous = true;
  int optimizer = -1;  // an Optimizer, or no step
  Stored published = Stored::kFloat32;
  uint64_t seed = 1;

  std::string Name() const {
    return "op " + std::to_string(static_cast<int>(op)) + ", rows " +
           std::to_string(rows) + ", f " + std::to_string(f) + ", mix " +
           std::to_string(static_cast<int>(mix)) + " of " +
           std::to_string(combinations) + ", stored " +
           std::to_string(static_cast<int>(stored)) + ", elements " +
           std::to_string(elements) + (bad_values ? ", bad values" : "") +
           (ties ? ", ties" : "") + (huge ? ", huge" : "") + ", optimizer " +
           std::to_string(optimizer) + ", seed " + std::to_string(seed);
  }
};

// A case's data, as the host has it. Rows are stored one after the other, each
// at a multiple of 16 bytes.
struct ReduceData {
  ReduceSpecification specification;
  std::vector<double> mixing;
  int64_t row_stride = 0;
  std::vector<unsigned char> rows;
  std::vector<float> previous, weights, moment1, moment2;

  const unsigned char* Row(int row) const {
    return rows.data() + row * row_stride;
  }
  // As float64: stored / scale.
  double Value(const ReduceCase& c, int row, int64_t j) const {
    return static_cast<double>(Widen(Row(row), c.stored, j)) / c.scale;
  }
};

inline float RandomValue(const ReduceCase& c, Random& random) {
  if (c.bad_values && random.Below(20) == 0) {
    const float bad[] = {std::numeric_limits<float>::quiet_NaN(), Infinity(),
                         -Infinity()};
    return bad[random.Below(3)];
  }
  if (c.ties) return static_cast<float>(random.Below(5) - 2);
  const double x = random.Uniform() * random.Uniform();
  return static_cast<float>(c.huge ? x * 3e38 : x * c.scale);
}

inline std::vector<float> RandomFloats(int64_t count, Random& random) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(random.Uniform());
  return values;
}

// Weights that sum to 1, of a column in two. `previous`: its column may have
// one.
inline void RandomCombination(const ReduceCase& c, Random& random,
                              double* weights) {
  double sum = 0;
  int used = 0;
  for (int k = 0; k <= c.rows; ++k) {
    weights[k] = 0;
    if (k == c.rows && (!c.previous || c.mix == Mix::kEqual)) continue;
    if (random.Below(2) == 0 && !(k == 0 && c.rows == 1)) continue;
    weights[k] = c.mix == Mix::kEqual ? 1 : 1 + random.Uniform() / 2;
    sum += weights[k];
    ++used;
  }
  if (used == 0) sum = weights[random.Below(c.rows)] = 1;
  for (int k = 0; k <= c.rows; ++k) weights[k] /= sum;
}

inline std::vector<double> RandomMixing(const ReduceCase& c, Random& random) {
  const int columns = c.rows + 2;
  std::vector<double> mixing(static_cast<size_t>(c.combinations) * columns);
  for (int r = 0; r < c.combinations; ++r) {
    double* weights = &mixing[static_cast<size_t>(r) * columns];
    if (c.mix == Mix::kSelection) {
      weights[random.Below(c.rows)] = 1;
    } else {
      RandomCombination(c, random, weights);
    }
  }
  return mixing;
}

inline ReduceData MakeData(const ReduceCase& c) {
  Random random(c.seed);
  ReduceData data;
  data.row_stride = (c.elements * SizeOf(c.stored) + 15) / 16 * 16;
  data.rows.resize(static_cast<size_t>(data.row_stride) * c.rows);
  for (int r = 0; r < c.rows; ++r) {
    unsigned char* row = data.rows.data() + r * data.row_stride;
    for (int64_t j = 0; j < c.elements; ++j)
      Narrow(RandomValue(c, random), row, c.stored, j);
  }
  data.previous = RandomFloats(c.elements, random);
  data.weights = RandomFloats(c.elements, random);
  data.moment1 = RandomFloats(c.elements, random);
  data.moment2 = RandomFloats(c.elements, random);
  for (float& value : data.moment2) value = value * value;
  if (c.mix != Mix::kNone) data.mixing = RandomMixing(c, random);
  ReduceSpecification& s = data.specification;
  s.op = c.op;
  s.f = c.f;
  s.scale = 0.25;
  s.mixed_rows = c.mix == Mix::kNone ? 0 : c.combinations;
  s.has_previous = c.previous;
  for (int r = 0; r < c.rows; ++r)
    s.rows.push_back({c.scale, r % 5 == 4 ? 0.0 : 1.0 + r % 3});
  return data;
}

// The mixing points into the data it came with.
inline ReducePlan PlanOf(const ReduceData& data) {
  ReduceSpecification specification = data.specification;
  specification.mixing = data.mixing.data();
  return ReducePlan(specification);
}

inline StepNumbers NumbersFor(int optimizer) {
  return {.kind = static_cast<Optimizer>(optimizer),
          .decay = true,
          .gradient_scale = 0.5f,
          .weight_decay = 1e-2f,
          .shrink = 0.999f,
          .lr = 0.1f,
          .momentum = 0.9f,
          .beta1 = 0.9f,
          .one_minus_beta1 = 0.1f,
          .beta2 = 0.999f,
          .one_minus_beta2 = 0.001f,
          .step_size = 0.05f,
          .root_bias2 = 0.7f,
          .epsilon = 1e-8f};
}

// Rows, f and combinations for an operation: f as large as it may be, or less.
inline ReduceCase CaseOf(Operation op, int rows, Mix mix, Random& random) {
  ReduceCase c;
  c.op = op;
  c.rows = rows;
  c.mix = mix;
  if (mix != Mix::kNone) c.combinations = 1 + random.Below(rows + 2);
  if (mix == Mix::kOne) c.combinations = 1;
  const int values = mix == Mix::kNone ? rows : c.combinations;
  const bool both_ends =
      op == Operation::kTrimmedMean || op == Operation::kPhocas;
  if (op != Operation::kMean)
    c.f = random.Below(both_ends ? (values + 1) / 2 : values);
  c.elements = 1 + random.Below(70);
  c.stored = static_cast<Stored>(random.Below(3));
  if (c.stored == Stored::kFloat16) c.scale = random.Below(2) ? 1024 : 3;
  c.optimizer = random.Below(6) - 1;
  c.published = static_cast<Stored>(random.Below(3));
  c.seed = random.Next();
  return c;
}

// Every operation over every way to mix, for some numbers of rows: those around
// the limits of kernels, and one among them.
inline std::vector<ReduceCase> AllReduceCases(int times) {
  Random random(7);
  std::vector<ReduceCase> cases;
  const int sizes[] = {1,  2,  3,  4,  5,  7,  8,  9,   15,  16, 17,
                       24, 31, 32, 33, 63, 64, 65, 100, 257, 300};
  for (int rows : sizes) {
    for (int op = 0; op < 6; ++op) {
      for (int mix = 0; mix < 5; ++mix) {
        for (int t = 0; t < times; ++t) {
          ReduceCase c = CaseOf(static_cast<Operation>(op), rows,
                                static_cast<Mix>(mix), random);
          c.bad_values = c.mix == Mix::kNone && t % 2 == 1;
          c.ties = t % 3 == 2;
          cases.push_back(c);
        }
      }
    }
  }
  for (int rows : {2, 9, 33, 70}) {
    ReduceCase c = CaseOf(Operation::kMedian, rows, Mix::kAny, random);
    c.stored = Stored::kFloat32;
    c.huge = true;
    cases.push_back(c);
  }
  return cases;
}

struct DistanceCase {
  int rows = 1;
  int64_t elements = 1;
  int64_t leaf = 1;
  Stored stored = Stored::kFloat32;
  double scale = 1;
  bool previous = true;
  bool bad_values = false;
  bool tiny = false;   // differences whose squares are below float32
  bool equal = false;  // some rows are the same
  uint64_t seed = 1;

  // Rows of a scale that is not a power of two are staged as float32.
  Stored staged_type() const {
    return DividesExactly(scale) ? stored : Stored::kFloat32;
  }
  std::string Name() const {
    return "rows " + std::to_string(rows) + ", elements " +
           std::to_string(elements) + ", leaf " + std::to_string(leaf) +
           ", stored " + std::to_string(static_cast<int>(stored)) +
           (previous ? ", previous" : "") + (bad_values ? ", bad values" : "") +
           (tiny ? ", tiny" : "") + (equal ? ", equal" : "");
  }
};

struct DistanceData {
  int64_t row_stride = 0;
  std::vector<unsigned char> rows;    // as received
  std::vector<unsigned char> staged;  // entries point into it
  std::vector<float> previous;
  std::vector<RowEntry> entries;
};

inline float DistanceValue(const DistanceCase& c, Random& random) {
  if (c.bad_values && random.Below(200) == 0) return -Infinity();
  const double x = random.Uniform();
  return static_cast<float>(c.tiny ? x * 1e-25 : x * c.scale);
}

inline DistanceData MakeData(const DistanceCase& c) {
  Random random(c.seed);
  DistanceData data;
  data.row_stride = (c.elements * SizeOf(c.stored) + 15) / 16 * 16;
  data.rows.resize(static_cast<size_t>(data.row_stride) * c.rows);
  for (int r = 0; r < c.rows; ++r) {
    unsigned char* row = data.rows.data() + r * data.row_stride;
    for (int64_t j = 0; j < c.elements; ++j)
      Narrow(DistanceValue(c, random), row, c.stored, j);
    if (c.equal && r % 3 == 1)
      std::memcpy(row, row - data.row_stride,
                  static_cast<size_t>(data.row_stride));
  }
  const bool decodes = c.staged_type() != c.stored;
  const int64_t stride =
      decodes ? (c.elements * 4 + 15) / 16 * 16 : data.row_stride;
  data.staged = data.rows;
  if (decodes) data.staged.resize(static_cast<size_t>(stride) * c.rows);
  for (int r = 0; r < c.rows; ++r) {
    data.entries.push_back(MakeRowEntry(r * stride, decodes ? 1 : c.scale, 1));
    for (int64_t j = 0; decodes && j < c.elements; ++j)
      DecodeAt(data.rows.data() + r * data.row_stride, c.stored,
               ScaleToDecode(c.scale), j,
               reinterpret_cast<float*>(data.staged.data() + r * stride));
  }
  data.previous = RandomFloats(c.elements, random);
  return data;
}

inline std::vector<DistanceCase> AllDistanceCases() {
  std::vector<DistanceCase> cases;
  uint64_t seed = 1;
  for (int rows : {1, 2, 3, 6, 7, 8, 16, 17, 18, 19, 30, 31, 33, 64, 65}) {
    for (int64_t elements :
         {int64_t{1}, int64_t{15}, int64_t{257}, int64_t{1500}}) {
      DistanceCase c;
      c.rows = rows;
      c.elements = elements;
      c.leaf = seed % 3 == 0 ? 512 : seed % 3 == 1 ? 300 : 4096;
      c.stored = static_cast<Stored>(seed % 3);
      if (c.stored == Stored::kFloat16) c.scale = seed % 2 ? 1024 : 3;
      c.previous = seed % 4 != 0;
      c.bad_values = seed % 5 == 0;
      c.tiny = c.stored == Stored::kFloat32 && seed % 2 == 0;
      c.equal = seed % 7 < 3;
      c.seed = seed++;
      cases.push_back(c);
    }
  }
  return cases;
}

}  // namespace parapet::cuda::testing

#endif  // PARAPET_TESTS_CUDA_CASES_H_
