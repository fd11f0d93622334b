// The cosine of schedules, to the last bit on every machine: no cos of a C library.
#pragma once

namespace talus {

// cos x for |x| <= 2^30, else NaN: the nearest double, unless the cosine lies within 2^-40 of an ulp of
// the middle between two; so never more than an ulp from exact. cos 0 is 1.
double host_cos(double x);

}  // namespace talus
