#include "worker/pool.h"

namespace parapet {
namespace {

// Two rows of an image in, one out. kBlock is the block size, or 0 if it is
// known at run time only.
template <int kBlock>
void ForwardRow(const float* __restrict in, int64_t columns, int64_t row,
                int64_t any_block, float* __restrict out,
                int32_t* __restrict chosen) {
  const int64_t block = kBlock == 0 ? any_block : kBlock;
  for (int64_t x = 0; x < columns;
       ++x, in += 2 * block, out += block, chosen += block) {
    for (int64_t b = 0; b < block; ++b) {
      const float window[4] = {in[b], in[block + b], in[row + b],
                               in[row + block + b]};
      float best = window[0];
      int32_t at = 0;
      for (int32_t k = 1; k < 4; ++k) {
        const bool better = (window[k] > best) | (window[k] != window[k]);
        best = better ? window[k] : best;
        at = better ? k : at;
      }
      out[b] = best <= 0 ? 0.0f : best;
      chosen[b] = best <= 0 ? 4 : at;
    }
  }
}

template <int kBlock>
void BackwardRow(const float* __restrict out_gradient,
                 const int32_t* __restrict chosen, int64_t columns, int64_t row,
                 int64_t any_block, float* __restrict in_gradient) {
  const int64_t block = kBlock == 0 ? any_block : kBlock;
  for (int64_t x = 0; x < columns; ++x) {
    for (int64_t b = 0; b < block; ++b) {
      const float gradient = out_gradient[b];
      const int32_t at = chosen[b];
      in_gradient[b] = at == 0 ? gradient : 0.0f;
      in_gradient[block + b] = at == 1 ? gradient : 0.0f;
      in_gradient[row + b] = at == 2 ? gradient : 0.0f;
      in_gradient[row + block + b] = at == 3 ? gradient : 0.0f;
    }
    in_gradient += 2 * block;
    out_gradient += block;
    chosen += block;
  }
}

// Calls row(input offset, output offset) for each row of the output.
template <typename Row>
void ForEachRow(const PoolShape& shape, const Row& row) {
  const int64_t columns = shape.width / 2 * shape.block;
  int64_t out = 0;
  for (int64_t image = 0; image < shape.images; ++image) {
    for (int64_t y = 0; y < shape.height / 2; ++y, out += columns) {
      row((image * shape.height + 2 * y) * shape.width * shape.block, out);
    }
  }
}

template <int kBlock>
void Forward(const PoolShape& shape, const float* in, float* out,
             int32_t* chosen) {
  ForEachRow(shape, [&](int64_t from, int64_t to) {
    ForwardRow<kBlock>(in + from, shape.width / 2, shape.width * shape.block,
                       shape.block, out + to, chosen + to);
  });
}

template <int kBlock>
void Backward(const PoolShape& shape, const float* out_gradient,
              const int32_t* chosen, float* in_gradient) {
  ForEachRow(shape, [&](int64_t to, int64_t from) {
    BackwardRow<kBlock>(out_gradient + from, chosen + from, shape.width / 2,
                        shape.width * shape.block, shape.block,
                        in_gradient + to);
  });
}

}  // namespace

void PoolForward(const PoolShape& shape, const float* in, float* out,
                 int32_t* chosen) {
  if (shape.block == 8) return Forward<8>(shape, in, out, chosen);
  if (shape.block == 16) return Forward<16>(shape, in, out, chosen);
  Forward<0>(shape, in, out, chosen);
}

void PoolBackward(const PoolShape& shape, const float* out_gradient,
                  const int32_t* chosen, float* in_gradient) {
  if (shape.block == 8)
    return Backward<8>(shape, out_gradient, chosen, in_gradient);
  if (shape.block == 16)
    return Backward<16>(shape, out_gradient, chosen, in_gradient);
  Backward<0>(shape, out_gradient, chosen, in_gradient);
}

}  // namespace parapet
