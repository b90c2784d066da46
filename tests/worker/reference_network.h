#ifndef PARAPET_TESTS_WORKER_REFERENCE_NETWORK_H_
#define PARAPET_TESTS_WORKER_REFERENCE_NETWORK_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "common/layout.h"
#include "worker/model.h"

namespace parapet {

// The networks of worker/model.h once more: naive loops in float64, straight
// from the definitions.
class ReferenceNetwork {
 public:
  ReferenceNetwork(const Layout& layout, const InputShape& input)
      : layout_(layout), input_(input) {}

  // Sum of the losses; fills the gradient of their mean.
  double Train(const std::vector<double>& weights, const Batch& batch) {
    gradient.assign(layout_.elements(), 0);
    margin = std::numeric_limits<double>::infinity();
    double loss = 0;
    for (int64_t s = 0; s < batch.count; ++s) {
      const float* x = batch.inputs + s * input_.features();
      loss += Sample(weights, {x, x + input_.features()}, batch.labels[s],
                     batch.count);
    }
    return loss;
  }

  std::vector<double> gradient;
  // How far the nearest ReLU was from its kink, and the nearest maximum from
  // another one: within that the network is smooth, and float32 cannot take
  // another branch.
  double margin = 0;

 private:
  using Values = std::vector<double>;

  struct Activation {
    Values in, raw, out;  // before the layer, before ReLU and pool, behind them
    int64_t channels, height, width;  // of `in`
  };

  double Sample(const Values& w, const Values& x, int label, int64_t count) {
    std::vector<Activation> all;
    int64_t channels = input_.channels, height = input_.height,
            width = input_.width;
    Values at = x;
    const size_t layers = layout_.tensors().size() / 2;
    for (size_t i = 0; i < layers; ++i) {
      Activation a{at, {}, {}, channels, height, width};
      if (IsConvolution(i)) {
        a.raw = Convolve(w, i, a);
        channels = Weight(i).shape[0];
        a.out = Pool(a, channels);
        height /= 2;
        width /= 2;
      } else {
        a.raw = Multiply(w, i, at);
        a.out = a.raw;
        if (i + 1 < layers) Relu(&a.out);
      }
      at = a.out;
      all.push_back(a);
    }
    double sum = 0;
    for (double y : at) sum += std::exp(y - at[label]);
    Values g = at;
    for (double& y : g)
      y = std::exp(y - at[label]) / sum / static_cast<double>(count);
    g[label] -= 1.0 / static_cast<double>(count);
    for (size_t i = layers; i-- > 0;)
      g = Backward(w, i, all[i], g, i + 1 == layers);
    return std::log(sum);
  }

  const Tensor& Weight(size_t i) const { return layout_.tensors()[2 * i]; }
  const Tensor& Bias(size_t i) const { return layout_.tensors()[2 * i + 1]; }
  bool IsConvolution(size_t i) const { return Weight(i).shape.size() == 4; }

  void Relu(Values* values) {
    for (double& v : *values) {
      margin = std::min(margin, std::fabs(v));
      v = std::max(v, 0.0);
    }
  }

  Values Multiply(const Values& w, size_t i, const Values& x) const {
    const int64_t outputs = Weight(i).shape[0], inputs = Weight(i).shape[1];
    Values y(outputs);
    for (int64_t o = 0; o < outputs; ++o) {
      y[o] = w[Bias(i).offset + o];
      for (int64_t k = 0; k < inputs; ++k)
        y[o] += w[Weight(i).offset + o * inputs + k] * x[k];
    }
    return y;
  }

  // Calls term(position of output, of weight, of input) for every product of a
  // convolution.
  template <typename Term>
  void ForEachProduct(size_t i, const Activation& a, const Term& term) const {
    const int64_t outputs = Weight(i).shape[0];
    for (int64_t o = 0; o < outputs; ++o)
      for (int64_t y = 0; y < a.height; ++y)
        for (int64_t x = 0; x < a.width; ++x)
          for (int64_t c = 0; c < a.channels; ++c)
            for (int64_t ky = 0; ky < 3; ++ky)
              for (int64_t kx = 0; kx < 3; ++kx) {
                const int64_t iy = y + ky - 1, ix = x + kx - 1;
                if (iy < 0 || iy >= a.height || ix < 0 || ix >= a.width)
                  continue;
                term(
                    (o * a.height + y) * a.width + x,
                    Weight(i).offset + ((o * a.channels + c) * 3 + ky) * 3 + kx,
                    (c * a.height + iy) * a.width + ix);
              }
  }

  Values Convolve(const Values& w, size_t i, const Activation& a) const {
    const int64_t outputs = Weight(i).shape[0], plane = a.height * a.width;
    Values raw(outputs * plane);
    for (int64_t k = 0; k < outputs * plane; ++k)
      raw[k] = w[Bias(i).offset + k / plane];
    ForEachProduct(i, a, [&](int64_t out, int64_t weight, int64_t in) {
      raw[out] += w[weight] * a.in[in];
    });
    return raw;
  }

  // Positions in `raw` of the window of pooled element p.
  static std::vector<int64_t> Window(const Activation& a, int64_t p) {
    const int64_t columns = a.width / 2, rows = a.height / 2;
    const int64_t c = p / (rows * columns), y = p / columns % rows,
                  x = p % columns;
    const int64_t at = (c * a.height + 2 * y) * a.width + 2 * x;
    return {at, at + 1, at + a.width, at + a.width + 1};
  }

  Values Pool(const Activation& a, int64_t channels) {
    Values out(channels * (a.height / 2) * (a.width / 2));
    for (size_t p = 0; p < out.size(); ++p) {
      Values window;
      for (int64_t at : Window(a, p))
        window.push_back(std::max(a.raw[at], 0.0));
      for (int64_t at : Window(a, p))
        margin = std::min(margin, std::fabs(a.raw[at]));
      std::sort(window.begin(), window.end());
      if (window[3] > 0) margin = std::min(margin, window[3] - window[2]);
      out[p] = window[3];
    }
    return out;
  }

  Values RawGradient(size_t i, const Activation& a, const Values& g,
                     bool last) const {
    Values raw(a.raw.size());
    for (size_t p = 0; p < g.size(); ++p) {
      if (!IsConvolution(i)) {
        raw[p] = last || a.raw[p] > 0 ? g[p] : 0;
        continue;
      }
      for (int64_t at : Window(a, p)) {
        if (a.out[p] > 0 && a.raw[at] == a.out[p]) raw[at] += g[p];
      }
    }
    return raw;
  }

  // Adds to the gradient, returns that of the layer's input.
  Values Backward(const Values& w, size_t i, const Activation& a,
                  const Values& g, bool last) {
    const Values raw = RawGradient(i, a, g, last);
    const int64_t outputs = Weight(i).shape[0],
                  plane = static_cast<int64_t>(raw.size()) / outputs;
    for (size_t k = 0; k < raw.size(); ++k)
      gradient[Bias(i).offset + k / plane] += raw[k];
    Values below(a.in.size());
    const auto add = [&](int64_t out, int64_t weight, int64_t in) {
      gradient[weight] += raw[out] * a.in[in];
      below[in] += raw[out] * w[weight];
    };
    if (IsConvolution(i)) {
      ForEachProduct(i, a, add);
    } else {
      const int64_t inputs = Weight(i).shape[1];
      for (int64_t k = 0; k < outputs * inputs; ++k) {
        add(k / inputs, Weight(i).offset + k, k % inputs);
      }
    }
    return below;
  }

  const Layout& layout_;
  const InputShape input_;
};

}  // namespace parapet

#endif  // PARAPET_TESTS_WORKER_REFERENCE_NETWORK_H_
