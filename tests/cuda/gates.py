"""Static gates on what nvcc made of the kernels: they need neither a device nor a disassembler.

    gates.py ptx FILE                16-byte accesses, no generic ones, no contraction, no local memory,
                                     no flush to zero, no approximation, no float atomics
    gates.py ptxas NVCC FILE LIMIT ARCH...
                                     the PTX in FILE assembled for each ARCH: no stack, no spills, at
                                     most LIMIT registers where a kernel has no launch bound of its own
    gates.py exports LIBRARY         one exported symbol; no RUNPATH; no CUDA library is needed
    gates.py --self-test             breaks each rule once
"""

import re
import subprocess
import sys
import tempfile

ENTRY = "talus_backend_entry_v1"
REGISTERS = 65536  # of a multiprocessor

# What no kernel may contain.
FORBIDDEN = (
    (r"\b(?:ld|st)\.(?:volatile\.|relaxed\.\w+\.)?(?:v[24]\.)?[fubs]\d+", "generic access"),
    (r"\bfma\.", "fma"),
    (r"\bmad\.[\w.]*f(?:32|64)", "mad of floats"),
    (r"\.ftz\b", "flush to zero"),
    (r"\.approx\b", "approximate operation"),
    (r"\b(?:div|rcp|sqrt|add|sub|mul)\.(?!rn|full)\w*\.?f(?:32|64)", "other rounding than to nearest"),
    (r"\.full\b", "approximate division"),
    (r"\b(?:atom|red)\.[\w.]*\.f(?:16|32|64)", "float atomic"),
    (r"\.local\b", "local memory"),
    (r"\bcall\b", "call of a function"),
)
WIDE = re.compile(r"\b(?:ld|st)\.global(?:\.nc)?\.(?:v4\.[fub]32|v2\.[fub]64)")


def kernels(ptx):
    """(name, text) of each."""
    ptx = re.sub(r"//[^\n]*", "", ptx)
    for part in re.split(r"\.entry\s+", ptx)[1:]:
        yield part.split("(", 1)[0].strip(), part


def needs_wide(name):
    """Kernels that go over elements; the name is mangled."""
    return "update_kernel" in name or "sum_kernel" in name


def ptx_faults(ptx):
    found = list(kernels(ptx))
    if not found:
        yield "no kernel in this text"
    for name, body in found:
        for pattern, what in FORBIDDEN:
            hits = re.findall(pattern, body)
            if hits:
                yield f"{name}: {what}: {len(hits)}, such as {hits[0]}"
        if needs_wide(name) and not WIDE.search(body):
            yield f"{name}: no access of 16 bytes"


def ptxas_faults(arch, log, limit, ptx):
    """`log`: what `ptxas -v` says."""
    blocks = re.split(r"Function properties for ", log)[1:]
    if not blocks:
        yield f"{arch}: ptxas reports no kernel"
    bounds = dict(launch_limits(ptx))
    for block in blocks:
        name = block.split("\n", 1)[0].strip()
        stack, stores, loads = re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", block).groups()
        used = int(re.search(r"Used (\d+) registers", block)[1])
        ceiling = bounds.get(name) or limit
        print(f"{arch} {used:3d} of {ceiling:3d} registers  {name}")
        if (stack, stores, loads) != ("0", "0", "0"):
            yield f"{arch} {name}: stack {stack}, spills {stores} and {loads} bytes"
        if used > ceiling:
            yield f"{arch} {name}: {used} registers, ceiling {ceiling}"


def launch_limits(ptx):
    """What the launch bounds of a kernel leave a thread: (name, registers)."""
    for name, body in kernels(ptx):
        head = body.split("{", 1)[0]
        threads = re.search(r"\.maxntid\s+(\d+)", head)
        blocks = re.search(r"\.minnctapersm\s+(\d+)", head)
        if threads and blocks:
            yield name, REGISTERS // (int(threads[1]) * int(blocks[1])) // 8 * 8


def export_faults(symbols, dynamic):
    names = [line.split()[-1] for line in symbols.splitlines() if line.split()]
    names = [name.split("@")[0] for name in names if name not in ("_init", "_fini")]
    if names != [ENTRY]:
        yield f"exports {len(names)} symbols: {', '.join(names[:8])}"
    for line in dynamic.splitlines():
        if re.search(r"R(?:UN)?PATH", line) or "libcuda" in line:
            yield line.strip()


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def gate_ptx(path):
    with open(path, encoding="utf-8") as file:
        return list(ptx_faults(file.read()))


def gate_ptxas(nvcc, path, limit, *archs):
    with open(path, encoding="utf-8") as file:
        ptx = file.read()
    faults = []
    for arch in archs:
        with tempfile.NamedTemporaryFile(suffix=".cubin") as cubin:
            done = subprocess.run([nvcc, "-cubin", f"-arch=sm_{arch}", "-Xptxas", "-v",
                                   "-o", cubin.name, path], capture_output=True, text=True)
        faults += [done.stderr] if done.returncode else ptxas_faults(arch, done.stderr, int(limit), ptx)
    return faults


def gate_exports(library):
    return list(export_faults(output_of("nm", "-D", "--defined-only", library),
                              output_of("readelf", "-d", library)))


# ---- the self-test

GOOD_PTX = """.visible .entry update_kernel(.param .u64 p)
.maxntid 256
.minnctapersm 4
{
ld.param.u64 %rd1, [p]; ld.global.nc.v4.f32 {%f1,%f2,%f3,%f4}, [%rd1]; // fma.rn.f32 in a comment
add.rn.f32 %f1, %f1, %f2; div.rn.f32 %f1, %f1, %f2; mad.lo.s64 %rd2, %rd1, %rd1, %rd1;
st.global.v4.f32 [%rd1], {%f1,%f2,%f3,%f4}; ret; }
.visible .entry fold_kernel(.param .u64 p)
{ ld.shared.f64 %fd1, [%r1]; atom.global.add.u32 %r1, [%rd1], 1; ret; }
"""
BAD_PTX = (
    ("ld.global.nc.v4.f32", "ld.v4.f32", "generic access"),
    ("ld.shared.f64", "ld.f64", "generic access"),
    ("add.rn.f32 %f1, %f1, %f2", "fma.rn.f32 %f1, %f1, %f2, %f2", "fma"),
    ("add.rn.f32", "add.ftz.f32", "flush to zero"),
    ("add.rn.f32", "add.rz.f32", "other rounding"),
    ("div.rn.f32", "div.approx.f32", "approximate operation"),
    ("div.rn.f32", "div.full.f32", "approximate division"),
    ("atom.global.add.u32", "atom.global.add.f32", "float atomic"),
    ("ld.shared.f64", "ld.local.f64", "local memory"),
    ("ret; }\n.visible", "call f; ret; }\n.visible", "call of a function"),
)
GOOD_LOG = """ptxas info    : Function properties for update_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers
"""
BAD_LOG = (("0 bytes stack", "8 bytes stack", "stack 8"), ("0 bytes spill st", "4 bytes spill st", "spills 4"),
           ("Used 64", "Used 72", "72 registers, ceiling 64"), (GOOD_LOG, "", "no kernel"))
GOOD_SYMBOLS = f"0000 T _init\n0001 T {ENTRY}\n"
GOOD_DYNAMIC = " 0x01 (NEEDED) Shared library: [libc.so.6]\n"


def self_test():
    wrong = []

    def expect(faults, text, name):
        faults = list(faults)
        if text is None and faults or text and not any(text in f for f in faults):
            wrong.append(f"{name}: expected {text}, found {faults}")

    expect(ptx_faults(GOOD_PTX), None, "sound PTX")
    for old, new, text in BAD_PTX:
        expect(ptx_faults(GOOD_PTX.replace(old, new)), text, new)
    narrow = re.sub(r"\.v4\.f32 \{|\.v4(?=\.f32)", ".f32 {", GOOD_PTX)
    expect(ptx_faults(narrow), "no access of 16 bytes", "narrow PTX")
    expect(ptx_faults(""), "no kernel", "no PTX")
    expect(ptxas_faults("90", GOOD_LOG, 40, GOOD_PTX), None, "sound ptxas")
    for old, new, text in BAD_LOG:
        expect(ptxas_faults("90", GOOD_LOG.replace(old, new), 255, GOOD_PTX), text, new)
    expect(export_faults(GOOD_SYMBOLS, GOOD_DYNAMIC), None, "sound library")
    expect(export_faults(GOOD_SYMBOLS + "0002 W _ZNSt6vector\n", ""), "exports 2", "second symbol")
    expect(export_faults("", ""), "exports 0", "no symbol")
    expect(export_faults(GOOD_SYMBOLS, " (RUNPATH) Library runpath: [/x]\n"), "RUNPATH", "runpath")
    expect(export_faults(GOOD_SYMBOLS, GOOD_DYNAMIC.replace("libc.", "libcuda.")), "libcuda", "driver")
    print("\n".join(wrong) or "every broken rule was found")
    return bool(wrong)


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    gates = {"ptx": gate_ptx, "ptxas": gate_ptxas, "exports": gate_exports}
    if len(arguments) < 2 or arguments[0] not in gates:
        print(__doc__)
        return 2
    faults = gates[arguments[0]](*arguments[1:])
    for fault in faults:
        print("FAIL", fault)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
