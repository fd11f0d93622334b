// The PTX interpreter itself, on small texts written by hand.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <bit>
#include <cmath>
#include <limits>

#include "tests/cuda/emu/ptx/arithmetic.h"
#include "tests/cuda/emu/ptx/machine.h"

using Catch::Matchers::ContainsSubstring;

namespace {

std::string kernel(const std::string& body, const std::string& before = "") {
  return ".version 8.0\n.target sm_90\n" + before + ".visible .entry k(.param .u64 k_p)\n{\n" +
         body + "\nret;\n}\n";
}

void parse(const std::string& text) {
  ptx::Module module(text);
  for (const auto& name : module.names()) module.kernel(name);
}

void run(const std::string& text, void* memory, size_t bytes, unsigned block = 1, unsigned grid = 1,
         uint64_t seed = 0) {
  ptx::Module module(text);
  ptx::MemoryMap map;
  map.add(memory, bytes);
  ptx::Machine machine(module.kernel("k"), map);
  machine.set_argument(0, memory);
  machine.shuffle_order(seed);
  machine.launch(grid, block);
}

// The 64 bits that `body` leaves in %rd9, with a and b in %rd1 and %rd2.
uint64_t result_of(const std::string& body, uint64_t a = 0, uint64_t b = 0) {
  uint64_t memory[3] = {a, b, 0};
  run(kernel("ld.param.u64 %rd0, [k_p]; ld.global.v2.u64 {%rd1, %rd2}, [%rd0];" + body +
             "st.global.u64 [%rd0+16], %rd9;"),
      memory, sizeof memory);
  return memory[2];
}

const std::string kAddress =  // %rd2: the address of the thread's own u32
    "ld.param.u64 %rd1, [k_p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;"
    "add.u64 %rd2, %rd1, %rd2;";

}  // namespace

TEST_CASE("ptx: f64 arithmetic rounds as IEEE double") {
  double x[4] = {0.1, 3.0, 0, 0};
  run(kernel(R"(ld.param.u64 %rd1, [k_p]; ld.global.v2.f64 {%fd1, %fd2}, [%rd1];
    mul.rn.f64 %fd3, %fd1, %fd2; add.rn.f64 %fd3, %fd3, 0d3FF0000000000000;
    div.rn.f64 %fd4, %fd3, %fd2; sqrt.rn.f64 %fd4, %fd4; neg.f64 %fd5, %fd4;
    st.global.f64 [%rd1+16], %fd5; cvt.rn.f32.f64 %f1, %fd4; cvt.f64.f32 %fd6, %f1;
    st.global.f64 [%rd1+24], %fd6;)"),
      x, sizeof x);
  const double expected = std::sqrt((0.1 * 3.0 + 1.0) / 3.0);
  CHECK(x[2] == -expected);
  CHECK(x[3] == double(float(expected)));
}

TEST_CASE("ptx: a fused multiply and add rounds once, a multiplication and an addition twice") {
  const float a = 1 + 0x1p-12f, square = 1 + 0x1p-11f;  // a * a is square + 2^-24: a tie
  const std::string load = "cvt.u32.u64 %r1, %rd1; cvt.u32.u64 %r2, %rd2;";
  const std::string store = "cvt.u64.u32 %rd9, %r3;";
  CHECK(ptx::as_f32(result_of(load + "fma.rn.f32 %r3, %r1, %r1, %r2;" + store, ptx::bits_of(a),
                              ptx::bits_of(-square))) == 0x1p-24f);
  CHECK(ptx::as_f32(result_of(load + "mul.rn.f32 %r3, %r1, %r1; add.rn.f32 %r3, %r3, %r2;" + store,
                              ptx::bits_of(a), ptx::bits_of(-square))) == 0.0f);
}

TEST_CASE("ptx: min and max leave a NaN out and know the sign of zero") {
  const auto both = [](const char* op, double a, double b) {
    return ptx::as_f64(
        result_of(std::string(op) + ".f64 %rd9, %rd1, %rd2;", ptx::bits_of(a), ptx::bits_of(b)));
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(both("max", nan, 2) == 2);
  CHECK(both("min", 2, nan) == 2);
  CHECK(std::signbit(both("min", 0.0, -0.0)));
  CHECK(std::signbit(both("min", -0.0, 0.0)));
  CHECK_FALSE(std::signbit(both("max", -0.0, 0.0)));
  CHECK_FALSE(std::signbit(both("max", 0.0, -0.0)));
}

TEST_CASE("ptx: comparisons with a NaN follow their names") {
  const uint64_t nan = ptx::bits_of(std::numeric_limits<double>::quiet_NaN());
  const uint64_t one = ptx::bits_of(1.0);
  const auto holds = [](const std::string& name, uint64_t a, uint64_t b) {
    return result_of("setp." + name + ".f64 %p1, %rd1, %rd2; selp.b64 %rd9, 1, 0, %p1;", a, b);
  };
  for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge", "num"}) {
    INFO(name);
    CHECK(holds(name, nan, one) == 0);
  }
  for (const char* name : {"equ", "neu", "ltu", "leu", "gtu", "geu", "nan"}) {
    INFO(name);
    CHECK(holds(name, one, nan) == 1);
  }
  CHECK(holds("le", one, one) == 1);
  CHECK(holds("lt", one, one) == 0);
}

TEST_CASE("ptx: integers wrap, extend and shift by their types") {
  CHECK(result_of("add.s32 %r1, -1, -1; cvt.s64.s32 %rd9, %r1;") == uint64_t(-2));
  CHECK(result_of("add.u32 %r1, 4294967295, 2; cvt.u64.u32 %rd9, %r1;") == 1);
  CHECK(result_of("mul.wide.s32 %rd9, -3, 5;") == uint64_t(-15));
  CHECK(result_of("mul.hi.u64 %rd9, %rd1, %rd2;", uint64_t(1) << 63, 6) == 3);
  CHECK(result_of("mad.wide.u32 %rd9, 4294967295, 2, %rd1;", 5) == 2 * 4294967295ull + 5);
  CHECK(result_of("shr.s32 %r1, -8, 1; cvt.s64.s32 %rd9, %r1;") == uint64_t(-4));
  CHECK(result_of("shl.b32 %r1, 1, 40; cvt.u64.u32 %rd9, %r1;") == 0);
  CHECK(result_of("bfe.u32 %r1, 0xabcd, 4, 8; cvt.u64.u32 %rd9, %r1;") == 0xbc);
  CHECK(result_of("bfi.b32 %r1, 0xff, 0x1000, 4, 4; cvt.u64.u32 %rd9, %r1;") == 0x10f0);
  CHECK(result_of("prmt.b32 %r1, 0x44332211, 0x88776655, 0x5410; cvt.u64.u32 %rd9, %r1;") ==
        0x66552211);
  CHECK(result_of("lop3.b32 %r1, 12, 10, 6, 0x96; cvt.u64.u32 %rd9, %r1;") == (12 ^ 10 ^ 6));
  CHECK(result_of("shf.l.wrap.b32 %r1, 0x80000000, 1, 1; cvt.u64.u32 %rd9, %r1;") == 3);
  CHECK(result_of("clz.b32 %r1, 255; cvt.u64.u32 %rd9, %r1;") == 24);
  CHECK(result_of("mov.b64 {%r1, %r2}, %rd1; mov.b64 %rd9, {%r2, %r1};", 1ull << 32) == 1);
  CHECK(result_of("mov.b64 {_, %r2}, %rd1; cvt.u64.u32 %rd9, %r2;", 7ull << 32) == 7);
}

TEST_CASE("ptx: 16-bit conversions: ties to even, infinity, subnormals, NaN") {
  CHECK(ptx::f32_to_bf16(ptx::as_f32(0x3f808000)) == 0x3f80);
  CHECK(ptx::f32_to_bf16(ptx::as_f32(0x3f818000)) == 0x3f82);
  CHECK(ptx::f32_to_bf16(ptx::as_f32(0x7f7fffff)) == 0x7f80);
  CHECK(ptx::f32_to_bf16(ptx::as_f32(0x7f800001)) == 0x7fff);
  CHECK(ptx::f32_to_bf16(ptx::as_f32(0x00008001)) == 0x0001);
  CHECK(ptx::f32_to_f16(1 + 0x1p-11f) == 0x3c00);
  CHECK(ptx::f32_to_f16(1 + 0x3p-11f) == 0x3c02);
  CHECK(ptx::f32_to_f16(65519.0f) == 0x7bff);
  CHECK(ptx::f32_to_f16(-65520.0f) == 0xfc00);
  CHECK(ptx::f32_to_f16(0x1p-25f) == 0);
  CHECK(ptx::f32_to_f16(0x1.8p-25f) == 1);
  CHECK(ptx::f32_to_f16(2047 * 0x1p-25f) == 0x0400);  // rounds up to the smallest normal one
  for (uint64_t bits = 0; bits < 0x7c01; ++bits)
    REQUIRE(ptx::f32_to_f16(ptx::f16_to_f32(bits)) == bits);
}

TEST_CASE("ptx: shared memory declared at file scope and inside the kernel") {
  const std::string declaration = ".shared .align 8 .b8 sm[256];\n";
  for (const bool inside : {false, true}) {
    uint64_t out[32] = {};
    const std::string body = R"(ld.param.u64 %rd1, [k_p]; mov.u32 %r1, %tid.x; mov.u32 %r2, sm;
      shl.b32 %r3, %r1, 3; add.u32 %r4, %r2, %r3; cvt.u64.u32 %rd2, %r1;
      st.shared.u64 [%r4], %rd2; bar.sync 0; sub.u32 %r5, 248, %r3; add.u32 %r5, %r2, %r5;
      ld.shared.u64 %rd3, [%r5]; cvt.u64.u32 %rd4, %r3; add.u64 %rd5, %rd1, %rd4;
      st.global.u64 [%rd5], %rd3;)";
    run(kernel((inside ? declaration : "") + body, inside ? "" : declaration), out, sizeof out, 32);
    for (uint64_t i = 0; i < 32; ++i) REQUIRE(out[i] == 31 - i);
  }
}

TEST_CASE("ptx: shared memory is NaN at the start of every block") {
  float out[2] = {};
  run(kernel(R"(.shared .align 4 .b8 sm[4]; ld.param.u64 %rd1, [k_p]; mov.u32 %r1, %ctaid.x;
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2; ld.shared.f32 %f1, [sm];
    st.global.f32 [%rd2], %f1; st.shared.f32 [sm], 0f3F800000;)"),
      out, sizeof out, 1, 2);
  CHECK(std::isnan(out[0]));
  CHECK(std::isnan(out[1]));
}

TEST_CASE("ptx: shuffles follow their way, width and mask") {
  const auto lanes = [](const std::string& shuffle) {
    std::vector<uint32_t> out(32);
    run(kernel(kAddress + shuffle + "st.global.u32 [%rd2], %r2;"), out.data(), 128, 32);
    return out;
  };
  const auto down = lanes("shfl.sync.down.b32 %r2|%p1, %r1, 8, 31, -1;");
  const auto butterfly = lanes("shfl.sync.bfly.b32 %r2, %r1, 5, 31, -1;");
  const auto narrow = lanes("shfl.sync.down.b32 %r2, %r1, 4, 0x181f, -1;");  // width 8
  const auto broadcast = lanes("shfl.sync.idx.b32 %r2, %r1, 3, 31, -1;");
  for (uint32_t i = 0; i < 32; ++i) {
    CHECK(down[i] == (i + 8 < 32 ? i + 8 : i));
    CHECK(butterfly[i] == (i ^ 5));
    CHECK(narrow[i] == (i % 8 + 4 < 8 ? i + 4 : i));
    CHECK(broadcast[i] == 3);
  }
}

TEST_CASE("ptx: a branch table jumps by its index, and no further than it is long") {
  const std::string body = R"({ L_table: .branchtargets L_a, L_b; cvt.u32.u64 %r1, %rd1;
    brx.idx %r1, L_table; }
    L_a: mov.u64 %rd9, 10; bra L_end; L_b: mov.u64 %rd9, 20; L_end:)";
  CHECK(result_of(body, 0) == 10);
  CHECK(result_of(body, 1) == 20);
  CHECK_THROWS_WITH(result_of(body, 2), ContainsSubstring("beyond the branch table"));
}

TEST_CASE("ptx: the order of blocks can be shuffled, and each runs once") {
  uint32_t memory[65] = {};  // [0]: a counter; [1 + block]: its turn
  const std::string text = kernel(R"(ld.param.u64 %rd1, [k_p]; mov.u32 %r1, %ctaid.x;
    mul.wide.u32 %rd2, %r1, 4; add.u64 %rd2, %rd1, %rd2; atom.global.add.u32 %r2, [%rd1], 1;
    st.global.u32 [%rd2+4], %r2;)");
  run(text, memory, sizeof memory, 1, 64);
  for (uint32_t i = 0; i < 64; ++i) REQUIRE(memory[1 + i] == i);
  memory[0] = 0;
  run(text, memory, sizeof memory, 1, 64, 5);
  uint32_t sum = 0, moved = 0;
  for (uint32_t i = 0; i < 64; ++i) {
    sum += memory[1 + i];
    moved += memory[1 + i] != i;
  }
  CHECK(sum == 63 * 32);
  CHECK(moved > 32);
}

TEST_CASE("ptx: an access outside of its memory or off its alignment stops the kernel") {
  float x[8] = {};
  const auto access = [&](const std::string& body) {
    run(kernel("ld.param.u64 %rd1, [k_p]; .shared .align 4 .b8 sm[8]; " + body), x, sizeof x);
  };
  CHECK_NOTHROW(access("ld.global.f32 %f1, [%rd1+28];"));
  CHECK_THROWS_WITH(access("ld.global.f32 %f1, [%rd1+32];"), ContainsSubstring("out-of-bounds"));
  CHECK_THROWS_WITH(access("st.global.f32 [%rd1+-4], 0f00000000;"),
                    ContainsSubstring("out-of-bounds"));
  CHECK_THROWS_WITH(access("ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1+20];"),
                    ContainsSubstring("misaligned 16-byte"));
  CHECK_THROWS_WITH(access("ld.global.u16 %rs1, [%rd1+1];"),
                    ContainsSubstring("misaligned 2-byte"));
  CHECK_THROWS_WITH(access("ld.shared.f32 %f1, [sm+8];"), ContainsSubstring("shared memory range"));
  CHECK_THROWS_WITH(access("ld.f32 %f1, [%rd1];"), ContainsSubstring("generic address"));
  CHECK_THROWS_WITH(access("div.u32 %r1, 1, 0;"), ContainsSubstring("division by zero"));
  CHECK_THROWS_WITH(access("trap;"), ContainsSubstring("[k, block 0, thread 0]"));
}

TEST_CASE("ptx: threads of a block that part before a barrier or shuffle stop the kernel") {
  uint32_t x[64] = {};
  const auto block = [&](const std::string& body) { run(kernel(kAddress + body), x, 256, 64); };
  CHECK_NOTHROW(block("bar.sync 0;"));
  CHECK_THROWS_WITH(block("setp.eq.s32 %p1, %r1, 3; @%p1 bra L; bar.sync 0; L:"),
                    ContainsSubstring("divergent"));
  CHECK_THROWS_WITH(
      block("setp.eq.s32 %p1, %r1, 3; @%p1 bra L; bar.sync 0; bra M; L: bar.sync 0; M:"),
      ContainsSubstring("divergent barrier within a warp"));
  CHECK_THROWS_WITH(
      block("setp.eq.s32 %p1, %r1, 3; @%p1 bra L; shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; L:"),
      ContainsSubstring("divergent"));
  CHECK_THROWS_WITH(block("setp.ge.s32 %p1, %r1, 16; @%p1 bra L;"
                          "shfl.sync.down.b32 %r2, %r1, 1, 31, 0xffff; L:"),
                    ContainsSubstring("outside the mask"));
}

TEST_CASE("ptx: two threads that touch shared memory without a barrier between race") {
  uint32_t x[64] = {};
  const auto exchange = [&](const std::string& between, const std::string& offset) {
    run(kernel(kAddress +
               ".shared .align 4 .b8 sm[256]; shl.b32 %r2, %r1, 2; mov.u32 %r3, sm;"
               "add.u32 %r4, %r3, %r2; st.shared.u32 [%r4], %r1;" +
               between + "xor.b32 %r5, %r2, " + offset +
               "; add.u32 %r5, %r3, %r5;"
               "ld.shared.u32 %r6, [%r5]; st.global.u32 [%rd2], %r6;"),
        x, sizeof x, 64);
  };
  CHECK_THROWS_WITH(exchange("", "4"), ContainsSubstring("race"));
  CHECK_THROWS_WITH(exchange("bar.warp.sync -1;", "128"), ContainsSubstring("race"));
  CHECK_NOTHROW(exchange("bar.warp.sync -1;", "4"));
  CHECK_NOTHROW(exchange("bar.sync 0;", "128"));
  CHECK_THROWS_WITH(exchange("bar.sync 0; st.shared.u32 [%r4], %r1;", "128"),
                    ContainsSubstring("race"));  // a write that another thread has not read yet
}

TEST_CASE(
    "ptx: threads and blocks that touch global memory in no order race, where that is asked") {
  uint32_t x[64] = {};
  const auto launch = [&](const std::string& body, unsigned grid, unsigned block) {
    ptx::Module module(kernel(kAddress + body));
    ptx::MemoryMap map;
    map.add(x, sizeof x);
    ptx::Machine machine(module.kernel("k"), map);
    machine.set_argument(0, &x[0]);
    machine.check_global_races();
    machine.launch(grid, block);
  };
  const std::string neighbour =
      "xor.b32 %r3, %r1, 1; mul.wide.u32 %rd3, %r3, 4;"
      "add.u64 %rd3, %rd1, %rd3; ld.global.u32 %r4, [%rd3];";
  CHECK_THROWS_WITH(launch("st.global.u32 [%rd2], %r1;" + neighbour, 1, 64),
                    ContainsSubstring("race in global"));
  CHECK_NOTHROW(launch("st.global.u32 [%rd2], %r1; bar.sync 0;" + neighbour, 1, 64));
  CHECK_NOTHROW(launch(neighbour, 3, 64));
  CHECK_THROWS_WITH(launch("st.global.u32 [%rd2], %r1;", 2, 64),
                    ContainsSubstring("race in global"));
  CHECK_THROWS_WITH(
      launch(neighbour + "bar.sync 0; setp.eq.u32 %p1, %r1, 0; mov.u32 %r5, %ctaid.x;"
                         "setp.eq.and.u32 %p1, %r5, 1, %p1; @%p1 st.global.u32 [%rd2], %r1;",
             2, 64),
      ContainsSubstring("race in global"));
}

TEST_CASE("ptx: what is not modelled is refused, not ignored") {
  const auto refused = [](const std::string& body, const std::string& before = "") {
    try {
      parse(kernel(body, before));
    } catch (const ptx::ParseError& e) {
      return std::string(e.what());
    }
    return std::string("parsed");
  };
  CHECK_THAT(refused("add.ftz.f32 %f1, %f1, %f1;"), ContainsSubstring("modifier .ftz"));
  CHECK_THAT(refused("add.rz.f32 %f1, %f1, %f1;"), ContainsSubstring("modifier .rz"));
  CHECK_THAT(refused("cvt.sat.f32.f32 %f1, %f1;"), ContainsSubstring("modifier .sat"));
  CHECK_THAT(refused("tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [t, {%r1}];"),
             ContainsSubstring("unknown opcode"));
  CHECK_THAT(refused("call.uni (retval0), f, (param0);"), ContainsSubstring("unknown opcode"));
  CHECK_THAT(refused("mov.u32 %r1, %ctaid.y;"), ContainsSubstring("special register"));
  CHECK_THAT(refused("mov.u64 %rd1, somewhere;"), ContainsSubstring("unknown symbol"));
  CHECK_THAT(refused("bra L_nowhere;"), ContainsSubstring("label L_nowhere"));
  CHECK_THAT(refused("bar.sync 1;"), ContainsSubstring("barrier other than 0"));
  CHECK_THAT(refused("bar.sync 0, 64;"), ContainsSubstring("barrier other than 0"));
  CHECK_THAT(refused(".local .align 8 .b8 depot[16];"), ContainsSubstring("directive .local"));
  CHECK_THAT(refused("ld.local.f32 %f1, [%rd1];"), ContainsSubstring("modifier .local"));
  CHECK_THAT(refused("", ".extern .shared .align 16 .b8 dyn[];\n"), ContainsSubstring("dynamic"));
  CHECK_THROWS_WITH(result_of("add.rn.f16 %rs1, %rs1, %rs1; mov.u64 %rd9, 0;"),
                    ContainsSubstring("not supported"));
}

TEST_CASE("ptx: a block larger than the launch bounds is refused") {
  uint32_t x[64] = {};
  const std::string text =
      ".visible .entry k(.param .u64 .ptr .global .align 16 k_p)\n.maxntid 32\n.minnctapersm "
      "4\n{\nret;\n}\n";
  CHECK_NOTHROW(run(text, x, sizeof x, 32));
  CHECK_THROWS_WITH(run(text, x, sizeof x, 64), ContainsSubstring("launch bounds"));
}
