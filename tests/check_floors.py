"""Checks who includes whom: the floors of the house, ground first, as the table below lists them.

    check_floors.py SOURCE_ROOT    prints each violation as file:line: text; 1 if there is one
    check_floors.py --self-test    breaks each rule once in a small tree and looks for the fault
"""

import os
import re
import sys
import tempfile

BELOW = "itself and every floor above this line"
ANY = "anything"

# Room                what it may include, beside itself
HOUSE = {
    "include": (),
    "lib/base": BELOW,
    "lib/rules": BELOW,
    "lib/table": BELOW,
    "lib/cpu": BELOW,
    "lib/device": BELOW,
    "lib/schedule": BELOW,
    "lib/optimizer": BELOW,
    "lib/checkpoint": BELOW,
    "lib/comm": BELOW,
    "capi": BELOW,
    # Annexes: a plugin that sees no CPU code, and those who use the library as anyone does.
    "cuda": ("include", "lib/base", "lib/rules", "lib/table"),
    "capi/examples": ("include",),
    "tools": ("include",),
    # Device memory for the command comes from the plugin, which has the runtime.
    "tools/device": ("include", "lib/table", "lib/device", "tools"),
    # What shows and compares checkpoints reads the files themselves, without an optimizer.
    "tools/checkpoint": ("include", "lib/base", "lib/checkpoint", "tools"),
    # The bench runs roof kernels over the plan and threads of a step, so it looks inside.
    "tools/bench": ("include", "lib/base", "lib/rules", "lib/table", "lib/cpu", "lib/optimizer",
                    "tools"),
    # Programs of tools/gpu-check: the bench asks the library for its launches.
    "tools/gpu": ("include", "lib/device", "lib/optimizer", "tools"),
    "tests": ANY,
}
# What these reach, also by way of others, is never the library: it is held against them.
INDEPENDENT = {"tests/reference": ("lib/", "capi/", "cuda/")}
# Here an include is written from the project root; elsewhere from the own folder or include/ too.
FROM_ROOT = ("lib/", "capi/")
FREE_OF_ROOT = ("capi/examples/",)
# The only files that name Highway: its names stay in one lane.
HIGHWAY = ("lib/cpu/lane_hwy.inl", "lib/cpu/kernels_simd.cpp", "tools/bench/roof_kernels_simd.cpp")
# Of the standard library a rule uses no more: pow and friends differ by C library, max drops NaN.
RULE_NAMES = ("std::sqrt",)

SOURCES = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".inl")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]', re.MULTILINE)
TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)


def without_comments(text):
    """Blanks comments, so that what they mention is no include; lines keep their numbers."""
    blank = lambda m: re.sub(r"[^\n]", " ", m[0]) if m[0][0] == "/" else m[0]
    return TOKEN.sub(blank, text)


class Tree:
    """The sources under a root: their texts, rooms and includes."""

    def __init__(self, root):
        self.root = root
        self.text = {path: self.read(path) for path in sorted(self.find())}
        self.includes = {path: list(self.includes_of(path)) for path in self.text}

    def find(self):
        for folder, folders, files in os.walk(self.root):
            at = os.path.relpath(folder, self.root).replace(os.sep, "/")
            folders[:] = [f for f in folders if not self.is_foreign(os.path.join(folder, f), at)]
            for name in files:
                if name.endswith(SOURCES):
                    yield name if at == "." else f"{at}/{name}"

    @staticmethod
    def is_foreign(folder, parent):
        """Build folders, hidden ones, and other people's sources."""
        name = os.path.basename(folder)
        built = any(os.path.exists(os.path.join(folder, mark))
                    for mark in ("meson-private", "CACHEDIR.TAG"))
        return built or name.startswith(".") or (name == "subprojects" and parent == ".")

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return without_comments(file.read())

    def includes_of(self, path):
        """(line, quoted, name as written, the project's file or None)."""
        for m in INCLUDE.finditer(self.text[path]):
            line = self.text[path].count("\n", 0, m.start()) + 1
            yield line, m[1] == '"', m[2], self.resolve(path, m[2])

    def resolve(self, path, name):
        folders = ["", "include/"]
        if not is_from_root(path):
            folders.insert(0, os.path.dirname(path) + "/")
        for folder in folders:
            target = os.path.normpath(folder + name)
            if target in self.text or os.path.exists(os.path.join(self.root, target + ".in")):
                return target
        return None

    def reaches(self, start, prefixes):
        """Whether `start` or anything that it includes lies under one of the prefixes."""
        seen, open_paths = {start}, [start]
        while open_paths:
            path = open_paths.pop()
            if path.startswith(prefixes):
                return True
            for _, _, _, target in self.includes.get(path, ()):
                if target and target not in seen:
                    seen.add(target)
                    open_paths.append(target)
        return False


def is_from_root(path):
    return path.startswith(FROM_ROOT) and not path.startswith(FREE_OF_ROOT)


def room_of(path):
    """The innermost room; None for a source that has found none."""
    folders = os.path.dirname(path).split("/")
    for depth in range(len(folders), 0, -1):
        room = "/".join(folders[:depth])
        if room in HOUSE:
            return room
    return None


def may_include(path, target):
    room, other, allowed = room_of(path), room_of(target), HOUSE[room_of(path)]
    if allowed == ANY:
        return True
    if allowed == BELOW:
        rooms = list(HOUSE)
        return other in rooms[:rooms.index(room) + 1]
    if room in ("tools", "capi/examples") and other == room:  # programs share no code
        return target.startswith(os.path.dirname(path) + "/")
    return other == room or other in allowed


def room_faults(tree):
    for path in tree.text:
        if room_of(path) is None:
            yield path, 1, "lies in no room; rooms: " + ", ".join(HOUSE)


def floor_faults(tree):
    for path, includes in tree.includes.items():
        for line, _, name, target in includes:
            if target is None or room_of(path) is None or room_of(target) is None:
                continue
            if not may_include(path, target):
                yield path, line, f'{room_of(path)} may not include "{name}" of {room_of(target)}'


def unresolved_faults(tree):
    for path, includes in tree.includes.items():
        for line, quoted, name, target in includes:
            if quoted and target is None and not name.startswith("hwy/"):
                how = "from the project root" if is_from_root(path) else "from here or include/"
                yield path, line, f'"{name}" is no file, {how}'


def independence_faults(tree):
    for path, includes in tree.includes.items():
        for folder, prefixes in INDEPENDENT.items():
            if not path.startswith(folder + "/"):
                continue
            for line, _, name, target in includes:
                if target and tree.reaches(target, prefixes):
                    yield path, line, f'"{name}" leads to the library, {folder} may not'


def highway_faults(tree):
    for path, includes in tree.includes.items():
        for line, _, name, _ in includes:
            if name.startswith("hwy/") and path not in HIGHWAY:
                yield path, line, f"<{name}> belongs into {' or '.join(HIGHWAY)}"


def rule_faults(tree):
    for path, text in tree.text.items():
        if not (path.startswith("lib/rules/") and path.endswith(".inl")):
            continue
        for number, line in enumerate(text.split("\n"), 1):
            for name in re.findall(r"\bstd::\w+", line):
                if name not in RULE_NAMES:
                    yield path, number, f"a rule uses {name}, allowed: {', '.join(RULE_NAMES)}"


def cycle_faults(tree):
    """Each file that is included by what it includes, once, where the circle closes."""
    done, stack = set(), []

    def visit(path):
        stack.append(path)
        for line, _, _, target in tree.includes.get(path, ()):
            if target in stack:
                circle = stack[stack.index(target):] + [target]
                yield path, line, "include cycle: " + " -> ".join(circle)
            elif target and target not in done:
                yield from visit(target)
        stack.pop()
        done.add(path)

    for path in tree.includes:
        if path not in done:
            yield from visit(path)


CHECKS = (room_faults, floor_faults, unresolved_faults, independence_faults, highway_faults,
          rule_faults, cycle_faults)


def faults_of(root):
    tree = Tree(root)
    if not tree.text:
        return [f"{root}: no sources here"]
    found = sorted({fault for check in CHECKS for fault in check(tree)})
    return [f"{path}:{line}: {text}" for path, line, text in found]


# ---- the self-test

GOOD = {
    "include/talus.h": "#include <stdint.h>\n",
    "lib/base/a.h": "#include <talus.h>\n",
    "lib/rules/rule.h": '#include "lib/base/a.h"\n',
    "lib/rules/x.inl": '// std::pow and "x" differ\nauto a = std::sqrt(2.0);\n',
    "lib/table/t.h": '/* #include "lib/cpu/k.h"\n */\n#include "lib/rules/rule.h"\n',
    "lib/cpu/lane_hwy.inl": "#include <hwy/highway.h>\n",
    "lib/cpu/k.h": '#include "lib/table/t.h"\n',
    "lib/optimizer/o.cpp": '#include "lib/cpu/k.h"\n#include "lib/rules/x.inl"\n',
    "lib/comm/c.h": '#include "lib/checkpoint/s.h"\n',
    "lib/checkpoint/s.h": "",
    "capi/build_info.h.in": "",
    "capi/names.cpp": '#include "capi/build_info.h"\n#include "lib/comm/c.h"\n',
    "capi/examples/half.h": "#include <talus.h>\n",
    "capi/examples/host.c": '#include "half.h"\n',
    "cuda/kernel.cu": '#include "lib/rules/x.inl"\n#include "cuda/tuning.h"\n',
    "cuda/tuning.h": "",
    "tools/command/main.cpp": '#include "command.hpp"\n',
    "tools/command/command.hpp": "#include <talus.h>\n",
    "tools/gpu/probe.h": "",
    "tests/numbers.h": '#include "talus.h"\n',
    "tests/inside.h": '#include "lib/cpu/k.h"\n',
    "tests/reference/x.hpp": '#include "tests/numbers.h"\n',
    "build/meson-private/x.h": '#include "nowhere.h"\n',
}
# A name, the files that break one rule, and the lines that must be reported, no more and no less.
BAD = (
    ("a floor includes the one above",
     {"lib/base/a.h": '#include <talus.h>\n#include "lib/table/t.h"\n',
      "lib/table/t.h": ""}, ["lib/base/a.h:2: lib/base may not include"]),
    ("the ground includes the library",
     {"include/talus.h": '#include "lib/base/b.h"\n', "lib/base/b.h": ""},
     ["include/talus.h:1: include may not include", "tests/reference/x.hpp:1:"]),
    ("a later room is above the optimizer",
     {"lib/optimizer/o.cpp": '#include "lib/checkpoint/s.h"\n'},
     ["lib/optimizer/o.cpp:1: lib/optimizer may not include"]),
    ("the plugin includes CPU code", {"cuda/kernel.cu": '\n#include "lib/cpu/k.h"\n'},
     ["cuda/kernel.cu:2: cuda may not include"]),
    ("the library includes the plugin", {"capi/names.cpp": '#include "cuda/tuning.h"\n'},
     ["capi/names.cpp:1: capi may not include"]),
    ("an example looks inside", {"capi/examples/host.c": '#include "lib/base/a.h"\n'},
     ["capi/examples/host.c:1: capi/examples may not include"]),
    ("a tool looks inside", {"tools/command/main.cpp": '#include "capi/boundary.h"\n',
                             "capi/boundary.h": ""},
     ["tools/command/main.cpp:1: tools may not include"]),
    ("a tool includes another", {"tools/command/main.cpp": '#include "tools/gpu/probe.h"\n'},
     ["tools/command/main.cpp:1: tools may not include"]),
    ("a tool includes tests", {"tools/command/main.cpp": '#include "tests/numbers.h"\n'},
     ["tools/command/main.cpp:1: tools may not include"]),
    ("a reference includes the library", {"tests/reference/x.hpp": '#include "lib/base/a.h"\n'},
     ["tests/reference/x.hpp:1: \"lib/base/a.h\" leads to the library"]),
    ("a reference reaches the library", {"tests/reference/x.hpp": '#include "tests/inside.h"\n'},
     ["tests/reference/x.hpp:1: \"tests/inside.h\" leads to the library"]),
    ("an include leads nowhere", {"tests/numbers.h": '#include "tests/gone.h"\n'},
     ['tests/numbers.h:1: "tests/gone.h" is no file']),
    ("an include is written from its own folder", {"lib/cpu/k.cpp": '#include "k.h"\n'},
     ['lib/cpu/k.cpp:1: "k.h" is no file, from the project root']),
    ("headers include each other",
     {"lib/base/a.h": '#include "lib/base/b.h"\n', "lib/base/b.h": '\n#include "lib/base/a.h"\n'},
     ["lib/base/b.h:2: include cycle: lib/base/a.h -> lib/base/b.h -> lib/base/a.h"]),
    ("Highway is named elsewhere", {"lib/cpu/k.cpp": "#include <hwy/base.h>\n"},
     ["lib/cpu/k.cpp:1: <hwy/base.h> belongs into"]),
    ("a rule uses the C library", {"lib/rules/x.inl": "\nx = std::pow(2.0, std::sqrt(y));\n"},
     ["lib/rules/x.inl:2: a rule uses std::pow"]),
    ("a source lies between the rooms", {"lib/late.cpp": ""}, ["lib/late.cpp:1: lies in no room"]),
    ("a source lies in a new room", {"lib/new/late.inl": ""},
     ["lib/new/late.inl:1: lies in no room"]),
    ("a source lies outside", {"late.h": ""}, ["late.h:1: lies in no room"]),
)


def faults_with(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in {**GOOD, **files}.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        return faults_of(root)


def self_test():
    wrong = []
    for name, files, expected in (("nothing is broken", {}, []), *BAD):
        found = faults_with(files)
        if len(found) != len(expected) or any(
                not f.startswith(e) for f, e in zip(found, expected)):
            wrong.append(f"{name}: expected {expected}, found {found}")
    print("\n".join(wrong) or f"{len(BAD)} broken trees found, and the sound one passed")
    return bool(wrong)


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    if len(arguments) != 1:
        print(__doc__)
        return 2
    faults = faults_of(arguments[0])
    print("\n".join(faults) or "every include stays on its floor")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
