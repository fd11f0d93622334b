"""Static gates on what nvcc made of the kernels: they need neither a device nor a disassembler.

    gates.py ptx FILE                of PTX, or a library that has some: 16-byte accesses, no generic
                                     ones, no contraction, no local memory, no flush to zero, no
                                     approximation, no float atomics
    gates.py code LIBRARY            the machine code in it, for each architecture: no stack, so no
                                     spills, and no more registers than CEILINGS
    gates.py sizes NVCC ROOT ARCH... the same of the kernels in the sources at ROOT, compiled for each
                                     ARCH (90; ptx90 is PTX): CPU seconds, KB, most registers
    gates.py exports LIBRARY         one exported symbol; no RUNPATH; no CUDA library is needed
    gates.py --self-test             breaks each rule once
"""

import os
import re
import subprocess
import sys
import tempfile

import machine_code

ENTRY = "talus_backend_entry_v1"
# What a thread of each kind of kernel may have: what cuda/tuning.h leaves it. 80: 3 blocks of 256 on a
# multiprocessor, 128: 2 of them, or 4 of 128. Nobody trains in f64 for its speed; blocks of rows are
# one warp.
CEILINGS = {"all f32": 80, "mixed dtypes": 128, "f64": 255, "sums": 128, "rows": 128, "folds": 128,
            "other": 64}
# nvcc's arguments, for sizes alone: the build's are in cuda/meson.build.
COMPILE = ("-std=c++20", "-O3", "-fmad=false", "-ftz=false", "-prec-div=true", "-prec-sqrt=true")

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


def kind_of(name):
    """Of a kernel, by its mangled name: which instance of which template."""
    if re.search(r"rows_(?:sum_)?kernelI", name):
        return "rows"
    if "fold_kernel" in name:
        return "folds"
    found = re.search(r"(update|sum)_kernelI.*([fd])Lb([01])EEEv", name)
    if not found:
        return "other"
    if found[2] == "d":
        return "f64"
    return "sums" if found[1] == "sum" else "all f32" if found[3] == "1" else "mixed dtypes"


def code_faults(arch, kernels):
    """`kernels`: {name: (registers, stack bytes)}; what has no registers of its own is a subroutine."""
    if not any(registers for registers, _ in kernels.values()):
        yield f"{arch}: no kernel"
    for name, (registers, stack) in kernels.items():
        ceiling = CEILINGS[kind_of(name)]
        if stack != 0:
            yield f"{arch} {name}: {stack} bytes of stack"
        if (registers or 0) > ceiling:
            yield f"{arch} {name}: {registers} registers, ceiling {ceiling}"


def log_faults(arch, log, kernels):
    """`log`: what `ptxas -v` says, held against what was read from its code."""
    for block in re.split(r"Function properties for ", log)[1:]:
        name = block.split("\n", 1)[0].strip()
        stack, stores, loads = re.search(
            r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", block).groups()
        used = re.search(r"Used (\d+) registers", block)
        if (stores, loads) != ("0", "0"):
            yield f"{arch} {name}: spills {stores} and {loads} bytes"
        if used and kernels.get(name) != [int(used[1]), int(stack)]:
            yield f"{arch} {name}: {used[1]} registers, {stack} stack; read: {kernels.get(name)}"


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
    """A file of PTX, or a library that has some, not compressed."""
    data = machine_code.read(path)
    texts = [data]
    if data.startswith(b"\x7fELF"):
        texts = [text for kind, _, _, text in machine_code.parts(data) if kind == machine_code.PTX]
    return list(ptx_faults("\n".join(text.decode().rstrip("\0") for text in texts)))


def judge(arch, kernels):
    """Prints what was found in the code for an architecture, and returns the faults."""
    for name, (registers, _) in kernels.items():
        if registers:
            print(f"{arch} {registers:3d} of {CEILINGS[kind_of(name)]:3d} registers  {name}")
    return list(code_faults(arch, kernels))


def gate_code(library):
    """Every architecture in it."""
    codes, faults = {}, []
    for kind, arch, _, part in machine_code.parts(machine_code.read(library)):
        if kind == machine_code.ELF:
            codes.setdefault(arch, {}).update(machine_code.kernels(part))
    for arch, kernels in codes.items():
        faults += judge(f"sm_{arch}", kernels)
    return faults if codes else ["no machine code in this library"]


def compile_for(arch, command, out):
    """(faults, summary) of the kernels for one ARCH; the file `out` has them then."""
    if arch.startswith("ptx"):
        subprocess.run([*command, "-ptx", f"-arch=compute_{arch[3:]}", "-o", out], check=True)
        return gate_ptx(out), ""
    log = subprocess.run([*command, "-cubin", f"-arch=sm_{arch}", "-Xptxas", "-v", "-o", out],
                         check=True, stderr=subprocess.PIPE, text=True).stderr
    kernels = machine_code.kernels(machine_code.read(out))
    most = max((registers or 0 for registers, _ in kernels.values()), default=0)
    return (judge(f"sm_{arch}", kernels) + list(log_faults(f"sm_{arch}", log, kernels)),
            f", {most} registers at most")


def child_seconds():
    """Of a processor, spent by the programs that were run: what a busy machine does not change."""
    times = os.times()
    return times.children_user + times.children_system


def gate_sizes(nvcc, root, *archs):
    command = [nvcc, *COMPILE, "-I", root, "-I", os.path.join(root, "include"),
               os.path.join(root, "cuda/kernels.cu")]
    faults, rows = [], []
    for arch in archs:
        with tempfile.TemporaryDirectory() as folder:
            out, start = os.path.join(folder, "out"), child_seconds()
            found, summary = compile_for(arch, command, out)
            faults += found
            rows.append(f"{arch}: {child_seconds() - start:.1f} s, "
                        f"{os.path.getsize(out) / 1000:.0f} KB{summary}")
    print("\n".join(rows))
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
DIRECT, MIXED, WIDE_KERNEL, SUMS, ROWS = (
    "update_kernelI1RfLb1EEEv", "update_kernelI1RfLb0EEEv", "update_kernelI1RdLb0EEEv",
    "sum_kernelI1RfLb1EEEv", "rows_kernelI1RfEEv")
GOOD_CODE = {DIRECT: [80, 0], MIXED: [128, 0], WIDE_KERNEL: [255, 0], SUMS: [128, 0], ROWS: [128, 0],
             "fold_kernel": [128, 0], "norm_kernel": [64, 0],
             "division": [None, 0]}
BAD_CODE = ((DIRECT, [81, 0], "81 registers, ceiling 80"), (MIXED, [136, 0], "ceiling 128"),
            (SUMS, [136, 0], "ceiling 128"), (ROWS, [136, 0], "ceiling 128"),
            ("fold_kernel", [136, 0], "ceiling 128"), ("norm_kernel", [72, 0], "ceiling 64"),
            (DIRECT, [64, 8], "8 bytes of stack"), ("division", [None, 16], "16 bytes of stack"))
GOOD_LOG = f"""ptxas info    : Function properties for {DIRECT}
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 80 registers, used 1 barriers
"""
BAD_LOG = (("0 bytes spill st", "4 bytes spill st", "spills 4"), ("Used 80", "Used 72", "read: [80, 0]"),
           ("0 bytes stack", "8 bytes stack", "8 stack"))
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
    expect(code_faults("90", GOOD_CODE), None, "sound code")
    for name, numbers, text in BAD_CODE:
        expect(code_faults("90", {**GOOD_CODE, name: numbers}), text, f"{name} {numbers}")
    expect(code_faults("90", {"division": [None, 0]}), "no kernel", "no code")
    expect(log_faults("90", GOOD_LOG, GOOD_CODE), None, "sound ptxas")
    for old, new, text in BAD_LOG:
        expect(log_faults("90", GOOD_LOG.replace(old, new), GOOD_CODE), text, new)
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
    gates = {"ptx": gate_ptx, "code": gate_code, "sizes": gate_sizes, "exports": gate_exports}
    if len(arguments) < 2 or arguments[0] not in gates:
        print(__doc__)
        return 2
    faults = gates[arguments[0]](*arguments[1:])
    for fault in faults:
        print("FAIL", fault)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
