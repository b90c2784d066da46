#include "tests/cuda/gpu/nn_check.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <utility>

#include "tests/cuda/gpu/nn_arrays.h"

namespace parapet::cuda {
namespace {

using Doubles = std::vector<double>;

// One block's threads, one after the other.
class SerialTeam {
 public:
  explicit SerialTeam(int threads) : threads_(threads) {}
  int threads() const { return threads_; }
  template <typename Phase>
  void Each(const Phase& phase) const {
    for (int t = 0; t < threads_; ++t) phase(t);
  }

 private:
  const int threads_;
};

template <typename Scratch, typename Work>
void RunSerially(const Work& work, int threads) {
  Scratch scratch{};
  for (int64_t item = 0; item < work.items(); ++item)
    work(SerialTeam(threads), item, &scratch);
}

class NnChecker {
 public:
  explicit NnChecker(Nn* nn) : nn_(nn), arrays_(nn) {}

  std::vector<NnLine> Run() {
    CheckProducts();
    CheckElements();
    CheckPools();
    CheckSums();
    CheckLosses();
    if (nn_->has_convolutions()) CheckConvolutions();
    return std::move(lines_);
  }

 private:
  // Ends a check: `wrong` says what was found.
  void Note(const std::string& what, std::string wrong) {
    // Memory that was submitted stays until then.
    nn_->Drain();
    const std::string worse = arrays_.TakeWrong();
    if (!worse.empty()) wrong = worse;
    lines_.push_back(
        {wrong.empty(), wrong.empty() ? what : what + ": " + wrong});
  }

  template <typename T>
  static std::string DifferentBits(const std::vector<T>& got,
                                   const std::vector<T>& expected) {
    for (size_t i = 0; i < expected.size(); ++i)
      if (std::memcmp(&got[i], &expected[i], sizeof(T)) != 0)
        return "element " + std::to_string(i) + " is not the CPU's";
    return "";
  }

  // Each must be within its tolerance.
  static std::string TooFar(const std::vector<float>& got,
                            const Doubles& expected, const Doubles& tolerance) {
    for (size_t i = 0; i < expected.size(); ++i) {
      if (std::fabs(got[i] - expected[i]) <= tolerance[i]) continue;
      return "element " + std::to_string(i) + " is " + std::to_string(got[i]) +
             ", not " + std::to_string(expected[i]) + " within " +
             std::to_string(tolerance[i]);
    }
    return "";
  }

  // ---- Products. A float32 sum of k exact products, in any order, is off by
  // at most k 2^-24 of the sum of their magnitudes, to first order; products
  // that are rounded add 2^-24. Tensor cores, which do the short formats, cut
  // their sums off instead of rounding them, two bits lower or so.

  static double Unit(Number number) {
    return number == Number::kBf16 ? 0x1p-22 : 0x1p-24;
  }

  void CheckProducts() {
    for (const auto& [m, n, k] :
         {Size{1, 1, 1}, Size{7, 13, 5}, Size{64, 10, 785}, Size{33, 129, 257}})
      for (const int mode : {0, 1, 2, 3})
        for (const Number number : {Number::kFloat32, Number::kBf16})
          CheckProduct({m, n, k, (mode & 1) != 0, (mode & 2) != 0}, number);
  }

  struct Size {
    int64_t m, n, k;
  };

  void CheckProduct(const Product& p, Number number) {
    std::vector<float> a = random_.Floats(p.m * p.k),
                       b = random_.Floats(p.k * p.n);
    const NnArray<float> c = arrays_.Poisoned<float>(p.m * p.n);
    Multiply(p, number, &a, &b, c);
    Doubles expected(p.m * p.n), tolerance(p.m * p.n);
    for (int64_t i = 0; i < p.m * p.n; ++i) {
      const auto [sum, magnitude] = Entry(p, a, b, i / p.n, i % p.n);
      expected[i] = sum;
      tolerance[i] = static_cast<double>(p.k + 1) * Unit(number) * magnitude;
    }
    Note("product " + std::to_string(p.m) + " x " + std::to_string(p.n) +
             " x " + std::to_string(p.k) + (p.transpose_a ? " a'" : " a") +
             (p.transpose_b ? " b'" : " b") + NameOf(number),
         TooFar(arrays_.Receive(c), expected, tolerance));
  }

  static const char* NameOf(Number number) {
    return number == Number::kBf16 ? " bfloat16" : " float32";
  }

  static std::pair<double, double> Entry(const Product& p,
                                         const std::vector<float>& a,
                                         const std::vector<float>& b, int64_t i,
                                         int64_t j) {
    double sum = 0, magnitude = 0;
    for (int64_t l = 0; l < p.k; ++l) {
      const double term = double{a[p.transpose_a ? l * p.m + i : i * p.k + l]} *
                          b[p.transpose_b ? j * p.k + l : l * p.n + j];
      sum += term;
      magnitude += std::fabs(term);
    }
    return {sum, magnitude};
  }

  // Rounds a and b if the product does.
  void Multiply(const Product& p, Number number, std::vector<float>* a,
                std::vector<float>* b, const NnArray<float>& c) {
    if (number == Number::kFloat32) {
      const NnArray<float> x = arrays_.Send(*a), y = arrays_.Send(*b);
      nn_->Multiply(p, number, x.data(), y.data(), c.data());
      nn_->Drain();
      return;
    }
    const NnArray<Bf16> x = arrays_.Send(Narrow(a)),
                        y = arrays_.Send(Narrow(b));
    nn_->Multiply(p, number, x.data(), y.data(), c.data());
    nn_->Drain();
  }

  static std::vector<Bf16> Narrow(std::vector<float>* values) {
    std::vector<Bf16> narrow;
    for (float& v : *values) {
      narrow.push_back(NarrowBFloat16(v));
      v = WidenBFloat16(narrow.back());
    }
    return narrow;
  }

  // ---- Elements: the CPU's bits

  void CheckElements() {
    for (const int64_t rows : {1, 33})
      for (const int64_t columns : {1, 10, 129, 4099}) CheckRows(rows, columns);
  }

  void CheckRows(int64_t rows, int64_t columns) {
    const int64_t count = rows * columns;
    const std::string size =
        " of " + std::to_string(rows) + " x " + std::to_string(columns);
    const std::vector<float> values = random_.Floats(count, true),
                             fine = random_.Floats(count),
                             bias = random_.Floats(columns);
    CheckRounding(fine, size);
    for (const bool relu : {false, true})
      CheckBias(fine, bias, columns, relu, size);
    std::vector<float> expected = fine;
    for (int64_t i = 0; i < count; ++i)
      MaskElement{values.data(), expected.data()}(i);
    const NnArray<float> at = arrays_.Send(values),
                         gradient = arrays_.Send(fine);
    nn_->Run(MaskElement{at.data(), gradient.data()}, count);
    Note("mask" + size, DifferentBits(arrays_.Receive(gradient), expected));
  }

  void CheckBias(const std::vector<float>& values,
                 const std::vector<float>& bias, int64_t columns, bool relu,
                 const std::string& size) {
    const auto count = static_cast<int64_t>(values.size());
    std::vector<float> expected = values;
    for (int64_t i = 0; i < count; ++i)
      BiasElement{expected.data(), bias.data(), columns, relu}(i);
    const NnArray<float> at = arrays_.Send(values), b = arrays_.Send(bias);
    nn_->Run(BiasElement{at.data(), b.data(), columns, relu}, count);
    Note((relu ? "bias and ReLU" : "bias") + size,
         DifferentBits(arrays_.Receive(at), expected));
  }

  void CheckRounding(std::vector<float> values, const std::string& size) {
    const auto count = static_cast<int64_t>(values.size());
    const NnArray<float> in = arrays_.Send(values),
                         rounded = arrays_.Poisoned<float>(count);
    const NnArray<Bf16> narrow = arrays_.Poisoned<Bf16>(count);
    nn_->Run(NarrowElement{in.data(), narrow.data()}, count);
    nn_->Run(RoundElement{in.data(), rounded.data()}, count);
    const std::vector<Bf16> expected = Narrow(&values);
    Note("to bfloat16" + size,
         DifferentBits(arrays_.Receive(narrow), expected));
    Note("rounding" + size, DifferentBits(arrays_.Receive(rounded), values));
  }

  // ---- Pools and the sums over channels: the CPU's bits

  void CheckPools() {
    for (const PoolSize& size :
         {PoolSize{1, 1, 2, 2}, PoolSize{3, 5, 5, 7}, PoolSize{64, 16, 28, 28},
          PoolSize{2, 3, 9, 1}})
      CheckPool(size);
  }

  void CheckPool(const PoolSize& s) {
    const std::vector<float> raw = random_.Floats(s.elements(), true),
                             bias = random_.Floats(s.channels, true),
                             gradient = random_.Floats(s.pooled());
    std::vector<float> out(s.pooled()), back(s.elements()), sums(s.channels);
    std::vector<uint8_t> chosen(s.pooled());
    for (int64_t i = 0; i < s.pooled(); ++i)
      PoolElement{s, raw.data(), bias.data(), out.data(), chosen.data()}(i);
    for (int64_t i = 0; i < s.elements(); ++i)
      UnpoolElement{s, gradient.data(), chosen.data(), back.data()}(i);
    RunSerially<SumScratch>(
        ChannelSums{s, gradient.data(), chosen.data(), sums.data()}, kMaxTeam);

    const NnArray<float> x = arrays_.Send(raw), b = arrays_.Send(bias),
                         g = arrays_.Send(gradient),
                         y = arrays_.Poisoned<float>(s.pooled()),
                         z = arrays_.Poisoned<float>(s.elements()),
                         t = arrays_.Poisoned<float>(s.channels);
    const NnArray<uint8_t> c = arrays_.Poisoned<uint8_t>(s.pooled());
    nn_->Run(PoolElement{s, x.data(), b.data(), y.data(), c.data()},
             s.pooled());
    nn_->Run(UnpoolElement{s, g.data(), c.data(), z.data()}, s.elements());
    nn_->Run(ChannelSums{s, g.data(), c.data(), t.data()});
    const std::string size =
        " of " + std::to_string(s.count) + " x " + std::to_string(s.channels) +
        " x " + std::to_string(s.height) + " x " + std::to_string(s.width);
    Note("pool" + size, DifferentBits(arrays_.Receive(y), out) +
                            DifferentBits(arrays_.Receive(c), chosen));
    Note("pool's gradient" + size, DifferentBits(arrays_.Receive(z), back));
    Note("channel sums" + size, DifferentBits(arrays_.Receive(t), sums));
  }

  // ---- Column sums: float64, rounded once

  void CheckSums() {
    for (const int64_t rows : {1, 7, 64, 1000})
      for (const int64_t columns : {1, 10, 33, 4099}) {
        const std::vector<float> values = random_.Floats(rows * columns);
        std::vector<float> cpu(columns);
        RunSerially<SumScratch>(
            ColumnSums{values.data(), rows, columns, cpu.data()}, kMaxTeam);
        Doubles expected(columns), tolerance(columns);
        for (int64_t i = 0; i < rows * columns; ++i)
          expected[i % columns] += values[i];
        for (int64_t c = 0; c < columns; ++c)
          tolerance[c] = std::fabs(expected[c]) * 0x1p-24 +
                         static_cast<double>(rows * rows) * 0x1p-53;
        const NnArray<float> in = arrays_.Send(values),
                             sums = arrays_.Poisoned<float>(columns);
        nn_->Run(ColumnSums{in.data(), rows, columns, sums.data()});
        const std::vector<float> got = arrays_.Receive(sums);
        Note("column sums of " + std::to_string(rows) + " x " +
                 std::to_string(columns),
             DifferentBits(got, cpu) + TooFar(got, expected, tolerance));
      }
  }

  // ---- The loss. A GPU's exp and log may be off by some units in the last
  // place of float64; the gradient is rounded to float32 once.

  void CheckLosses() {
    for (const int64_t count : {1, 64, 1025})
      for (const int64_t classes : {2, 10, 33, 1000}) CheckLoss(count, classes);
  }

  void CheckLoss(int64_t count, int64_t classes) {
    const std::vector<float> outputs = random_.Floats(count * classes, true);
    std::vector<int32_t> labels(count);
    for (int32_t& label : labels)
      label =
          static_cast<int32_t>(random_.Below(static_cast<uint32_t>(classes)));
    Doubles gradient(count * classes), tolerance(count * classes);
    const LossTotal expected = ReferenceLoss(outputs, labels, &gradient);
    for (size_t i = 0; i < gradient.size(); ++i)
      tolerance[i] = std::fabs(gradient[i]) * 0x1p-23 + 0x1p-50;

    const NnArray<float> y = arrays_.Send(outputs),
                         g = arrays_.Poisoned<float>(count * classes);
    const NnArray<int32_t> l = arrays_.Send(labels);
    const NnArray<LossTotal> each = arrays_.Poisoned<LossTotal>(count),
                             total = arrays_.Poisoned<LossTotal>(1);
    nn_->Run(
        SoftmaxLoss{y.data(), l.data(), count, classes, g.data(), each.data()});
    nn_->Run(SumLosses{each.data(), count, total.data()});
    const LossTotal got = arrays_.Receive(total).front();
    const bool near =
        std::fabs(got.loss - expected.loss) <=
        expected.loss * static_cast<double>(count + classes) * 0x1p-50;
    std::string wrong;
    if (!near) wrong = "the loss is " + std::to_string(got.loss);
    if (got.correct != expected.correct)
      wrong = std::to_string(got.correct) + " are correct";
    Note("loss of " + std::to_string(count) + " x " + std::to_string(classes),
         wrong + TooFar(arrays_.Receive(g), gradient, tolerance));
  }

  static LossTotal ReferenceLoss(const std::vector<float>& outputs,
                                 const std::vector<int32_t>& labels,
                                 Doubles* gradient) {
    const auto count = static_cast<int64_t>(labels.size());
    const int64_t classes = static_cast<int64_t>(outputs.size()) / count;
    LossTotal total{0, 0};
    for (int64_t s = 0; s < count; ++s) {
      const float* const y = outputs.data() + s * classes;
      int64_t best = 0;
      double sum = 0;
      for (int64_t c = 0; c < classes; ++c) {
        if (y[c] > y[best]) best = c;
        sum += std::exp(double{y[c]});
      }
      total.loss += std::log(sum) - y[labels[s]];
      total.correct += best == labels[s];
      for (int64_t c = 0; c < classes; ++c)
        (*gradient)[s * classes + c] =
            (std::exp(double{y[c]}) / sum - (c == labels[s] ? 1 : 0)) /
            static_cast<double>(count);
    }
    return total;
  }

  // ---- Convolutions, as products are

  void CheckConvolutions() {
    for (const ConvolutionSize& size :
         {ConvolutionSize{1, 1, 1, 2, 2}, ConvolutionSize{3, 5, 7, 9, 11},
          ConvolutionSize{16, 1, 16, 28, 28},
          ConvolutionSize{9, 16, 32, 14, 14}})
      for (const Number number : {Number::kFloat32, Number::kBf16})
        CheckConvolution(size, number);
  }

  // The sums over the products of one of the three directions, and their
  // magnitudes.
  struct Sums {
    explicit Sums(int64_t elements) : sum(elements), magnitude(elements) {}
    void Add(int64_t at, double term) {
      sum[at] += term;
      magnitude[at] += std::fabs(term);
    }
    // `terms`: at most so many for each.
    Doubles Tolerance(int64_t terms, double unit) const {
      Doubles tolerance = magnitude;
      for (double& t : tolerance) t *= static_cast<double>(terms + 1) * unit;
      return tolerance;
    }
    Doubles sum, magnitude;
  };

  void CheckConvolution(const ConvolutionSize& s, Number number) {
    const int64_t plane = s.height * s.width;
    std::vector<float> x = random_.Floats(s.count * s.inputs * plane),
                       w = random_.Floats(s.outputs * s.inputs * 9),
                       g = random_.Floats(s.count * s.outputs * plane);
    if (number == Number::kBf16)
      for (auto* values : {&x, &w, &g}) Narrow(values);
    Sums out(static_cast<int64_t>(g.size())),
        weight(static_cast<int64_t>(w.size())),
        in(static_cast<int64_t>(x.size()));
    ForEachTerm(s, [&](int64_t o, int64_t k, int64_t i) {
      out.Add(o, double{w[k]} * x[i]);
      weight.Add(k, double{g[o]} * x[i]);
      in.Add(i, double{g[o]} * w[k]);
    });
    const NnArray<float> xs = arrays_.Send(x), ws = arrays_.Send(w),
                         gs = arrays_.Send(g),
                         y = arrays_.Poisoned<float>(out.sum.size()),
                         dw = arrays_.Poisoned<float>(weight.sum.size()),
                         dx = arrays_.Poisoned<float>(in.sum.size());
    nn_->Convolve(s, number, xs.data(), ws.data(), y.data());
    nn_->ConvolutionWeightGradient(s, number, xs.data(), gs.data(), dw.data());
    nn_->ConvolutionInputGradient(s, number, gs.data(), ws.data(), dx.data());
    const std::string size =
        " of " + std::to_string(s.count) + " x " + std::to_string(s.inputs) +
        " to " + std::to_string(s.outputs) + " x " + std::to_string(s.height) +
        " x " + std::to_string(s.width) + NameOf(number);
    Note("convolution" + size,
         TooFar(arrays_.Receive(y), out.sum,
                out.Tolerance(s.inputs * 9, Unit(number))));
    Note("convolution's weight gradient" + size,
         TooFar(arrays_.Receive(dw), weight.sum,
                weight.Tolerance(s.count * plane, Unit(number))));
    Note("convolution's input gradient" + size,
         TooFar(arrays_.Receive(dx), in.sum,
                in.Tolerance(s.outputs * 9, Unit(number))));
  }

  // Calls term(output, weight, input) for each product.
  template <typename Term>
  static void ForEachTerm(const ConvolutionSize& s, const Term& term) {
    const int64_t plane = s.height * s.width;
    for (int64_t o = 0; o < s.count * s.outputs * plane; ++o) {
      const int64_t sample = o / plane / s.outputs,
                    channel = o / plane % s.outputs;
      for (int64_t k = 0; k < s.inputs * 9; ++k) {
        const int64_t y = o % plane / s.width + k % 9 / 3 - 1;
        const int64_t x = o % s.width + k % 3 - 1;
        if (y < 0 || y >= s.height || x < 0 || x >= s.width) continue;
        term(o, channel * s.inputs * 9 + k,
             ((sample * s.inputs + k / 9) * s.height + y) * s.width + x);
      }
    }
  }

  Nn* const nn_;
  NnArrays arrays_;
  NnRandom random_{42};
  std::vector<NnLine> lines_;
};

}  // namespace

std::vector<NnLine> CheckNn(Nn* nn) { return NnChecker(nn).Run(); }

}  // namespace parapet::cuda
