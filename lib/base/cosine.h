#pragma once
#include <cmath>
namespace talus { inline double host_cos(double x) { return std::cos(x); } }
