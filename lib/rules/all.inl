// The registry: adding an optimizer is one line here. Each file ends with TALUS_RULE(X); positions
// are internal, the C ABI addresses rules by name.
#include "lib/rules/adam.inl"
#include "lib/rules/sgd.inl"
#include "lib/rules/sparse_adam.inl"
#include "lib/rules/lion.inl"
#include "lib/rules/rmsprop.inl"
#include "lib/rules/rprop.inl"
#include "lib/rules/adadelta.inl"
#include "lib/rules/adagrad.inl"
#include "lib/rules/adamax.inl"
#include "lib/rules/asgd.inl"
#include "lib/rules/nadam.inl"
#include "lib/rules/radam.inl"
