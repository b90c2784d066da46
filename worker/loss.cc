#include "worker/loss.h"

#include <cmath>
#include <vector>

namespace parapet {
namespace {

int64_t IndexOfLargest(const float* outputs, int64_t classes) {
  int64_t largest = 0;
  for (int64_t c = 1; c < classes; ++c) {
    if (outputs[c] > outputs[largest]) largest = c;
  }
  return largest;
}

// Fills exp(output - largest) and returns their sum.
double Exponentials(const float* outputs, double largest,
                    std::vector<double>* exponentials) {
  double sum = 0;
  for (size_t c = 0; c < exponentials->size(); ++c) {
    (*exponentials)[c] = std::exp(outputs[c] - largest);
    sum += (*exponentials)[c];
  }
  return sum;
}

}  // namespace

PassResult SoftmaxCrossEntropy(const float* outputs, const int32_t* labels,
                               int64_t count, int64_t classes,
                               float* gradient) {
  PassResult result;
  result.samples = count;
  std::vector<double> exponentials(classes);
  for (int64_t s = 0; s < count; ++s, outputs += classes) {
    const int32_t label = labels[s];
    const int64_t best = IndexOfLargest(outputs, classes);
    const double largest = outputs[best];
    const double sum = Exponentials(outputs, largest, &exponentials);
    result.loss_sum += std::log(sum) + largest - outputs[label];
    // Where outputs are NaN there is no largest one.
    if (best == label && !std::isnan(sum)) ++result.correct;
    if (gradient == nullptr) continue;
    const double scale = 1 / (sum * static_cast<double>(count));
    exponentials[label] -= sum;
    for (double value : exponentials)
      *gradient++ = static_cast<float>(value * scale);
  }
  return result;
}

}  // namespace parapet
