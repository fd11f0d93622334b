"""The code on a page is what was compiled, and its links lead somewhere.

    check_page.py PAGE SOURCE...      each block stands in one of the sources, however indented
"""
import pathlib
import re
import sys

page = pathlib.Path(sys.argv[1])
text = page.read_text(encoding="utf-8")
problems = []


def outdented(code):
    return re.sub(r"^ +", "", code, flags=re.M).strip()


sources = [outdented(pathlib.Path(path).read_text(encoding="utf-8")) for path in sys.argv[2:]]
blocks = re.findall(r"^```\w+\n(.*?)^```", text, re.S | re.M)
for block in blocks:
    if not any(outdented(block) in source for source in sources):
        problems.append(f"in none of the sources:\n{block}")
if not blocks:
    problems.append("no code")
for link in re.findall(r"\]\(([^)#:]+)\)", text):
    if not (page.parent / link).exists():
        problems.append(f"link to {link}, which is not there")

for problem in problems:
    print(f"{page.name}:", problem)
sys.exit(1 if problems else 0)
