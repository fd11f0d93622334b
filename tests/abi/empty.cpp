// A library with nothing in it: what the compiler and the linker put into every one.
extern "C" int empty_library() { return 0; }
