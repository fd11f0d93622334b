"""The targets of one library: `digest` compares the bits of each with the scalar lane's, `object` looks
for what would break them: a fused multiply-add, and code of a SIMD region that could be linked for
everyone (a weak symbol outside the namespace of its target, the ODR trap).
Arguments: digest BITS_DIGEST TARGET... | object OBJDUMP LIBTALUS_SO LIBTALUS_CORE_A"""
import os
import re
import subprocess
import sys

from on_target import EMULATOR, FLAGS, has

# By objdump's name of the format: fused instructions, and a sign that the SIMD kernels were read.
# The fnmsub of doubles is the one std::fma of lib/base/power.h.
INSTRUCTIONS = {"elf64-x86-64": (r"\bvfn?m(?:add|sub)\w*", "%ymm"),
                "elf64-littleaarch64": (r"\b(?:fn?madd|fmsub|fml[as]\w*)\b|\bfnmsub\ts", "N_NEON")}


def skip(reason):
    print("SKIPPED:", reason)
    sys.exit(77)


def digest(program, targets):
    found = {}
    for target in targets:
        if not has(FLAGS[target]):
            continue
        environment = {**os.environ, "TALUS_CPU_TARGET": target}
        found[target] = subprocess.run(EMULATOR + [program], env=environment, check=True,
                                       capture_output=True, text=True).stdout.strip()
        print(f"{target:8} {found[target]}")
    if len(found) < 2:
        skip("this CPU has the scalar target alone")
    return len(set(found.values())) == 1 and len(found["scalar"]) == 16


def no_fused(objdump, library):
    listing = subprocess.run([objdump, "-d", "--no-show-raw-insn", library], check=True,
                             capture_output=True, text=True).stdout
    pattern, evidence = INSTRUCTIONS[re.search(r"file format (\S+)", listing)[1]]
    fused = re.findall(pattern, listing)
    if fused:
        print(f"{library}: {len(fused)} fused instructions, {sorted(set(fused))[:4]}")
    return not fused and evidence in listing


def no_stray_symbols(archive):
    listing = subprocess.run(["nm", "-C", archive], check=True, capture_output=True, text=True).stdout
    good, member = True, ""
    for line in listing.splitlines():
        if line.endswith(".o:"):
            member = line
        found = re.match(r"[0-9a-f]+ [WVu] (.*)", line)
        if found and "kernels_simd" in member and not re.search(r"\bN_[A-Z0-9]+\b", found[1]):
            print(f"{member} weak symbol outside the namespace of a target: {found[1]}")
            good = False
    return good and "kernels_simd" in listing


if __name__ == "__main__":
    if sys.argv[1] == "digest":
        sys.exit(0 if digest(sys.argv[2], sys.argv[3:]) else 1)
    results = [no_fused(sys.argv[2], sys.argv[3]), no_stray_symbols(sys.argv[4])]
    sys.exit(0 if all(results) else 1)
