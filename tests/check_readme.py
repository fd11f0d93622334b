"""README.md against what it speaks of: its C is what was compiled, the map names every folder,
and every algorithm that the library knows is there. Arguments: source root, talus library."""
import ctypes
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
readme = (root / "README.md").read_text(encoding="utf-8")
problems = []


def body(text):
    """The code behind the opening comment."""
    return text.split("*/\n", 1)[1].strip()


example = body((root / "tests/readme_example.c").read_text(encoding="utf-8"))
blocks = [b.strip() for b in re.findall(r"```c\n(.*?)```", readme, re.S)]
if example not in blocks:
    problems.append("no C block equals tests/readme_example.c")

# Other blocks are pieces of what is compiled for the page on migration, indented less.
compiled = re.sub(r"^ +", "", (root / "tests/migration_examples.c").read_text(encoding="utf-8"),
                  flags=re.M)
for block in blocks:
    if block != example and re.sub(r"^ +", "", block, flags=re.M) not in compiled:
        problems.append(f"not compiled in tests/migration_examples.c:\n{block}")

for folder in sorted(p for p in root.glob("lib/*/") if p.is_dir()):
    if f"lib/{folder.name}/" not in readme:
        problems.append(f"the map does not name lib/{folder.name}/")

lib = ctypes.CDLL(sys.argv[2])
lib.talus_name_at.restype = ctypes.c_char_p
for name_list in (b"algorithms", b"aliases"):
    for i in range(lib.talus_name_count(name_list)):
        name = lib.talus_name_at(name_list, i).decode()
        if f"`{name}`" not in readme:
            problems.append(f"`{name}` is not mentioned")

# Every status has a row with its remedy.
rows = {name for row in re.findall(r"^\| (`TALUS_E_[^|]*)\|", readme, re.M)
        for name in re.findall(r"`(\w+)`", row)}
header = (root / "include/talus.h").read_text(encoding="utf-8")
for name in re.findall(r"#define (TALUS_E_\w+)", header):
    if name not in rows:
        problems.append(f"{name} has no remedy")

for link in re.findall(r"\]\(([^)#:]+)\)", readme):
    if not (root / link).exists():
        problems.append(f"link to {link}, which is not there")

for problem in problems:
    print("README.md:", problem)
sys.exit(1 if problems else 0)
