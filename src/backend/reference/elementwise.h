// Row kernels as plain loops: the definition of what cpu/elementwise.h computes, bit for bit where multiply-add is
// fused.
#pragma once
#include <cstdint>

#include "graph/ops/activation.h"

namespace tenon::reference {

using graph::Activation;

void rms_norm(const float* x, const float* weight, float offset, float eps, float* y, int64_t n);
void layer_norm(const float* x, const float* weight, const float* bias, float eps, float* y, int64_t n);
void rope(const float* x, const float* table, bool interleaved, int64_t rotary, int64_t heads, int64_t head_dim,
          float* y);
void activate(Activation f, const float* x, float* y, int64_t n);
void gated(Activation f, const float* gate, const float* up, float* y, int64_t n);
void softcap(const float* x, float cap, float* y, int64_t n);
int64_t argmax(const float* x, int64_t n);

}  // namespace tenon::reference
