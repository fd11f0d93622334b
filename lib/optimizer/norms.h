// Norms over gradients of one or several optimizers, and what clipping makes of them.
#pragma once
#include <span>

#include "lib/optimizer/optimizer.h"

namespace talus {

Status check_norm_type(double type, const char* what);  // 1, 2, infinity
Sum sum_of(double norm_type);                           // what measure adds up for it

// Of all tensors of all of them in order, as one tree.
Status grad_norm(std::span<Optimizer* const> of, const NormScope& scope, void* stream,
                 double* norm);
// And the next step of each is clipped by it, or skipped where it is not finite.
Status clip_grad_norm(std::span<Optimizer* const> of, const NormScope& scope, double max_norm,
                      void* stream, double* norm);

}  // namespace talus
