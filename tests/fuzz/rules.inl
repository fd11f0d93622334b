// The rules of the fuzz targets that load: one, so that the library compiles in seconds.
#include "lib/rules/adam.inl"
