"""The targets of one library: `digest` compares the bits of each with the scalar lane's, `object` looks
for what would break them: a fused multiply-add, and code of a SIMD region that could be linked for
everyone (a weak symbol outside the namespace of its target, the ODR trap).
Arguments: digest BITS_DIGEST | object LIBTALUS_SO LIBTALUS_CORE_A"""
import re
import shutil
import subprocess
import sys

from on_target import FLAGS, has


def skip(reason):
    print("SKIPPED:", reason)
    sys.exit(77)


def digest(program):
    found = {}
    for target, flag in FLAGS.items():
        if target in ("ssse3", "sse4") or not has(flag):  # not in a release
            continue
        found[target] = subprocess.run([program], env={"TALUS_CPU_TARGET": target}, check=True,
                                       capture_output=True, text=True).stdout.strip()
        print(f"{target:8} {found[target]}")
    if len(found) < 2:
        skip("this CPU has the scalar target alone")
    return len(set(found.values())) == 1 and len(found["scalar"]) == 16


def no_fused(library):
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", library], check=True,
                             capture_output=True, text=True).stdout
    fused = re.findall(r"\bvfn?m(?:add|sub)\w*", listing)
    if fused:
        print(f"{library}: {len(fused)} fused instructions, {sorted(set(fused))[:4]}")
    return not fused and "%zmm" in listing  # the AVX-512 kernels are in what was read


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
        sys.exit(0 if digest(sys.argv[2]) else 1)
    if not shutil.which("objdump"):
        skip("no objdump")
    results = [no_fused(sys.argv[2]), no_stray_symbols(sys.argv[3])]
    sys.exit(0 if all(results) else 1)
