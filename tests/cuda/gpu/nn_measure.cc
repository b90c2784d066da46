#include <chrono>
#include <cstdio>
#include <functional>

#include "tests/cuda/gpu/nn_arrays.h"
#include "tests/cuda/gpu/nn_check.h"

namespace parapet::cuda {
namespace {

class NnMeter {
 public:
  NnMeter(Nn* nn, int64_t scale)
      : nn_(nn), scale_(scale), done_(nn->MakeEvent()) {}

  std::vector<std::string> Run() {
    for (const Number number : {Number::kFloat32, Number::kBf16})
      MeasureProducts(number);
    MeasureElements();
    if (nn_->has_convolutions()) MeasureConvolutions();
    if (!nn_->failure().empty()) lines_.push_back(nn_->failure());
    return std::move(lines_);
  }

 private:
  template <typename T>
  Nn::Memory Take(int64_t elements) {
    return nn_->AllocateDevice(elements * static_cast<int64_t>(sizeof(T)));
  }

  // Seconds of one of several in a row: they are submitted in advance, so that
  // the CPU is not measured.
  double Seconds(const std::function<void()>& work) {
    constexpr int kTimes = 10;
    work();
    Finish();
    const auto began = std::chrono::steady_clock::now();
    for (int i = 0; i < kTimes; ++i) work();
    Finish();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         began)
               .count() /
           kTimes;
  }

  void Finish() {
    nn_->Record(Lane::kCompute, done_);
    nn_->Finish(done_);
  }

  // A line, and what share it is of the best so far.
  void Note(const char* what, const char* number, double rate, const char* unit,
            double best) {
    char line[200];
    std::snprintf(line, sizeof(line), "%-34s %-9s %9.2f %s (%.0f %%)", what,
                  number, rate, unit, best > 0 ? 100 * rate / best : 100);
    lines_.emplace_back(line);
  }

  double ProductRate(const Product& p, Number number) {
    const int64_t bytes = number == Number::kBf16 ? 2 : 4;
    const Nn::Memory a = nn_->AllocateDevice(p.m * p.k * bytes),
                     b = nn_->AllocateDevice(p.k * p.n * bytes),
                     c = Take<float>(p.m * p.n);
    if (a == nullptr || b == nullptr || c == nullptr) return 0;
    const double seconds = Seconds([&] {
      nn_->Multiply(p, number, a.get(), b.get(), static_cast<float*>(c.get()));
    });
    return 2e-12 * static_cast<double>(p.m) * static_cast<double>(p.n) *
           static_cast<double>(p.k) / seconds;
  }

  // The large square product is what the library reaches at best.
  void MeasureProducts(Number number) {
    const char* const name = number == Number::kBf16 ? "bfloat16" : "float32";
    const int64_t side = scale_, layer = (scale_ + 1) / 2,
                  batch = (scale_ + 7) / 8;
    const double best = ProductRate({side, side, side, false, false}, number);
    Note("product, square", name, best, "TFLOP/s", best);
    Note("a layer forward", name,
         ProductRate({batch, layer, layer, false, true}, number), "TFLOP/s",
         best);
    Note("a layer's weight gradient", name,
         ProductRate({layer, layer, batch, true, false}, number), "TFLOP/s",
         best);
    Note("a layer's input gradient", name,
         ProductRate({batch, layer, layer, false, false}, number), "TFLOP/s",
         best);
  }

  void NoteBytes(const char* what, int64_t bytes, double best,
                 const std::function<void()>& work) {
    Note(what, "", Rate(bytes, work), "GB/s", best);
  }
  double Rate(int64_t bytes, const std::function<void()>& work) {
    return 1e-9 * static_cast<double>(bytes) / Seconds(work);
  }

  // Beside a copy: RoundElement reads and writes each element, and does little
  // else.
  void MeasureElements() {
    const int64_t columns = (scale_ + 1) / 2, rows = scale_,
                  count = rows * columns;
    const Nn::Memory x = Take<float>(count), y = Take<float>(count),
                     b = Take<float>(columns);
    if (x == nullptr || y == nullptr || b == nullptr) return;
    auto* const in = static_cast<float*>(x.get());
    auto* const out = static_cast<float*>(y.get());
    auto* const bias = static_cast<float*>(b.get());
    const double copy = Rate(count * 8, [&] {
      nn_->Run(RoundElement{in, out}, count);
    });
    Note("rounding, as a copy", "", copy, "GB/s", copy);
    NoteBytes("bias and ReLU", count * 8, copy, [&] {
      nn_->Run(BiasElement{out, bias, columns, true}, count);
    });
    NoteBytes("column sums", count * 4, copy, [&] {
      nn_->Run(ColumnSums{in, rows, columns, bias});
    });
  }

  void MeasureConvolutions() {
    const ConvolutionSize s{(scale_ + 7) / 8, 16, 32, 14, 14};
    const PoolSize pool{s.count, s.outputs, s.height, s.width};
    const Nn::Memory x = Take<float>(s.count * s.inputs * 196),
                     w = Take<float>(s.outputs * s.inputs * 9),
                     y = Take<float>(pool.elements());
    if (x == nullptr || w == nullptr || y == nullptr) return;
    auto* const in = static_cast<float*>(x.get());
    auto* const weight = static_cast<float*>(w.get());
    auto* const out = static_cast<float*>(y.get());
    const double flops = 2e-12 * 9 * static_cast<double>(s.inputs) *
                         static_cast<double>(pool.elements());
    for (const Number number : {Number::kFloat32, Number::kBf16}) {
      const char* const name =
          number == Number::kBf16 ? "bf16 digits" : "float32";
      const auto note = [&](const char* what, double seconds) {
        Note(what, name, flops / seconds, "TFLOP/s", 0);
      };
      note("convolution",
           Seconds([&] { nn_->Convolve(s, number, in, weight, out); }));
      note("convolution's weight gradient", Seconds([&] {
             nn_->ConvolutionWeightGradient(s, number, in, out, weight);
           }));
      note("convolution's input gradient", Seconds([&] {
             nn_->ConvolutionInputGradient(s, number, out, weight, in);
           }));
    }
  }

  Nn* const nn_;
  const int64_t scale_;
  const int done_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> MeasureNn(Nn* nn, int64_t scale) {
  return NnMeter(nn, scale).Run();
}

}  // namespace parapet::cuda
