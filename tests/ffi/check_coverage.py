"""Every function of talus.h is named in a layer over it, so can be reached there.

    check_coverage.py TALUS_H FILE...
"""
import pathlib
import re
import sys

header = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")
functions = re.findall(r"^TALUS_API [^;(]*?\b(talus_\w+)\(", header, re.M)
layer = "".join(pathlib.Path(path).read_text(encoding="utf-8") for path in sys.argv[2:])
missing = [name for name in functions if not re.search(rf"\b{name}\b", layer)]
if len(functions) < 50:
    missing.append(f"(only {len(functions)} functions were found in {sys.argv[1]})")
for name in missing:
    print("not covered:", name)
sys.exit(1 if missing else 0)
