/* A tensor of the network as talus is told of it. */
#ifndef TALUS_EXAMPLES_DIGITS_TENSOR_H
#define TALUS_EXAMPLES_DIGITS_TENSOR_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <talus.h>

#include "perceptron.h"

/* data and grad: of the whole network, its elements being of element_bytes; grad may be NULL. */
static talus_param describe_tensor(const Tensor *tensor, int32_t dtype, size_t element_bytes,
                                   void *data, void *grad) {
  size_t offset = (size_t)tensor->first * element_bytes;
  talus_param param;
  memset(&param, 0, sizeof param);
  param.struct_size = sizeof param;
  param.dtype = dtype;
  param.data = (char *)data + offset;
  param.grad = grad ? (char *)grad + offset : NULL;
  param.name = tensor->name;
  param.shape = tensor->shape;
  param.ndim = tensor->ndim;
  return param;
}

#endif
