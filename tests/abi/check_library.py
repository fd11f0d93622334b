"""Looks at libtalus.so from outside, with binutils: what it exports, needs, and runs when loaded.

    check_library.py symbols LIBRARY SYMBOLS.TXT [--update]
    check_library.py undefined LIBRARY
    check_library.py load LIBRARY EMPTY_LIBRARY

`load` compares with a library that is compiled and linked alike but has nothing in it.
"""
import re
import shutil
import subprocess
import sys

# A library that never prints, ends the process or takes signals has no use for these. abort is
# absent from the list: the C++ runtime's own inline code may call it, on states that cannot be.
FORBIDDEN = """printf vprintf fprintf vfprintf dprintf vdprintf puts fputs fputc putc putchar fwrite
    perror writev syslog vsyslog exit _exit _Exit quick_exit atexit at_quick_exit on_exit
    raise kill signal sigaction setlocale srand rand system popen __printf_chk __vprintf_chk __fprintf_chk
    __vfprintf_chk __assert_fail _ZSt4cout _ZSt4cerr _ZSt4clog _ZNSt8ios_base4InitC1Ev""".split()


def lines_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def exported(library):
    names = set()
    for line in lines_of("nm", "-D", "--defined-only", "--format=posix", library):
        name, kind = line.split()[:2]
        if kind != "A":  # the version node itself
            names.add(name.split("@")[0])
    return sorted(names)


def check_symbols(library, path, update=None):
    got = exported(library)
    if update == "--update":
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(name + "\n" for name in got))
        return []
    with open(path, encoding="utf-8") as file:
        expected = file.read().split()
    extra, missing = sorted(set(got) - set(expected)), sorted(set(expected) - set(got))
    return ([f"exported, but not in the list: {name}" for name in extra] +
            [f"in the list, but not exported: {name}" for name in missing])


def check_undefined(library):
    needed = {line.split()[0].split("@")[0]
              for line in lines_of("nm", "-D", "--undefined-only", "--format=posix", library)}
    if not needed:
        return ["no undefined symbol at all: nm has not read the library"]
    return [f"needs {name}" for name in sorted(needed & set(FORBIDDEN))]


def section_sizes(library):
    sizes = {}
    for line in lines_of("readelf", "--section-headers", "--wide", library):
        found = re.match(r"\s*\[\s*\d+\]\s+(\.\S+)\s+\S+\s+\S+\s+\S+\s+([0-9a-f]+)", line)
        if found:
            sizes[found.group(1)] = int(found.group(2), 16)
    return sizes


def check_load(library, empty):
    got, expected = section_sizes(library), section_sizes(empty)
    wrong = [f"{name} is {got.get(name, 0)} bytes, of an empty library {expected.get(name, 0)}: "
             "something runs when the library is loaded or unloaded"
             for name in (".init_array", ".fini_array", ".ctors", ".dtors")
             if got.get(name, 0) != expected.get(name, 0)]
    if expected.get(".init_array", 0) == 0:
        wrong.append("the empty library has no .init_array: readelf has not been understood")
    flags = " ".join(line for line in lines_of("readelf", "--dynamic", "--wide", library)
                     if "FLAGS" in line or "TEXTREL" in line)
    if "TEXTREL" in flags:
        wrong.append("the library has text relocations")
    for line in lines_of("readelf", "--program-headers", "--wide", library):
        if "GNU_STACK" in line and "RWE" in line:
            wrong.append("the library asks for an executable stack")
    return wrong


for tool in ("nm", "readelf"):
    if shutil.which(tool) is None:
        print(f"SKIPPED: no {tool}")
        sys.exit(77)
problems = globals()["check_" + sys.argv[1]](*sys.argv[2:])
for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)
