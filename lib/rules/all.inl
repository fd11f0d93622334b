// The registry: adding an optimizer is one line here. Each file ends with TALUS_RULE(X); positions
// are internal, the C ABI addresses rules by name.
#include "lib/rules/adam.inl"
#include "lib/rules/sgd.inl"
#include "lib/rules/lamb.inl"
#include "lib/rules/lars.inl"
#include "lib/rules/novograd.inl"
