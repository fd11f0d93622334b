// Arithmetic on PTX values, held as the 64 bits of a register: conversions, comparison, operations.
#pragma once
#include "tests/cuda/emu/ptx/module.h"

namespace ptx {

[[noreturn]] void unsupported(const Instruction& ins);  // throws Fault

float as_f32(uint64_t bits);
double as_f64(uint64_t bits);
uint64_t bits_of(float f);
uint64_t bits_of(double d);

uint64_t truncate(uint64_t value, Type t);  // keeps the low size_of(t) bytes
uint64_t extend(uint64_t value, Type t);    // sign- or zero-extends from size_of(t) bytes

// To nearest, ties to even; every NaN becomes 0x7fff, as on the device.
uint64_t f32_to_bf16(float f);
uint64_t f32_to_f16(float f);
float f16_to_f32(uint64_t bits);

bool compare(const Instruction& ins, uint64_t a, uint64_t b);
bool less(Type t, uint64_t a, uint64_t b);
uint64_t unary(const Instruction& ins, uint64_t a);
uint64_t binary(const Instruction& ins, uint64_t a, uint64_t b);
uint64_t ternary(const Instruction& ins, uint64_t a, uint64_t b, uint64_t c);
uint64_t convert(const Instruction& ins, uint64_t a, uint64_t b);  // b: for packed destinations

}  // namespace ptx
