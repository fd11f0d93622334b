"""README's table of rules and capi/COMING_FROM_TORCH.md against the library: what they name is there,
and no algorithm, alias, schedule or parameter of it is missing; the page's C is what was compiled.

    check_migration.py ROOT TALUS            ROOT of the source, TALUS the command
    check_migration.py ROOT TALUS --write    puts the library's table into README.md
"""
import json
import pathlib
import re
import subprocess
import sys

PAGE = "capi/COMING_FROM_TORCH.md"
EXAMPLES = "tests/migration_examples.c"
README_HEAD = "| rule | what it is | bytes of state |"
ABSENT = ("none", "not needed", "not there")  # what may stand in place of a name

root, talus = pathlib.Path(sys.argv[1]), sys.argv[2]
problems = []


def read_json(*arguments):
    return json.loads(subprocess.run([talus, "list", *arguments, "--json"], check=True,
                                     capture_output=True, text=True).stdout)


def state_text(state):
    least, most, per_tensor = (state[key] for key in ("default", "most", "per_tensor"))
    return (str(least) + (f" to {most}" if most != least else "") +
            (f" + {per_tensor} per tensor" if per_tensor else ""))


def readme_rows(entries):
    for entry in entries:
        alias = f"alias of `{entry['alias_of']}`: " if entry["alias_of"] else ""
        yield (f"| `{entry['name']}` | {alias}{entry['doc']} | "
               f"{state_text(entry['state_bytes'])} |")


def check_readme(entries, write):
    path = root / "README.md"
    text = path.read_text(encoding="utf-8")
    found = re.search(re.escape(README_HEAD) + r"\n\|[-|]+\|\n((?:\|.*\n)*)", text)
    if not found:
        problems.append(f"README.md: no table that begins with {README_HEAD}")
        return
    expected = "".join(row + "\n" for row in readme_rows(entries))
    if write:
        path.write_text(text[:found.start(1)] + expected + text[found.end(1):], encoding="utf-8")
    elif found[1] != expected:
        problems.append("README.md: the table of rules is not the library's (--write writes it):\n" +
                        expected)


def tables(text):
    """Title of each section and the cells of its rows, without the head."""
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        rows = [line.strip()[1:-1].split("|") for line in section.splitlines()
                if line.startswith("|")]
        yield section.splitlines()[0], [[cell.strip() for cell in row] for row in rows[2:]]


def names_in(cell):
    return re.findall(r"`([^`]+)`", cell)


class Migration:
    """A table of classes and one of their parameters, beside what the library lists."""

    def __init__(self, classes, parameters, rule_of, hypers):
        self.classes, self.parameters = classes, parameters
        self.rule_of = rule_of  # by name; itself where it is no alias
        self.hypers = hypers  # names, by rule or alias
        self.algorithm_of = {}  # by class
        self.told = {name: set() for name in rule_of}  # hyperparameters on the page

    def check(self):
        self.check_classes()
        self.check_parameters()
        self.check_complete()

    def check_classes(self):
        for theirs, here, _ in self.classes:
            names = names_in(here)
            if not names and here not in ABSENT:
                problems.append(f"{theirs}: {here!r} is neither a name nor one of {ABSENT}")
            for name in names:
                if name not in self.rule_of:
                    problems.append(f"{theirs}: the library has no {name}")
                for of in names_in(theirs) or [name]:
                    self.algorithm_of[of] = name
        missing = set(self.rule_of) - set(self.algorithm_of.values())
        problems.extend(f"no class for {name}" for name in sorted(missing))

    def check_parameters(self):
        for theirs, of, here, _ in self.parameters:
            classes = list(self.algorithm_of) if of == "every" else of.split(", ")
            names = names_in(here)
            if not names and here not in ABSENT:
                problems.append(f"{theirs}: {here!r} is neither a name nor one of {ABSENT}")
            for each in classes:
                self.check_parameter(theirs, each, names)

    def check_parameter(self, theirs, of, names):
        if of not in self.algorithm_of:
            problems.append(f"{theirs}: no class {of} in the table of classes")
            return
        algorithm = self.algorithm_of[of]
        if algorithm not in self.rule_of:  # told of above
            return
        rule = self.rule_of[algorithm]
        for name in names:
            is_call = name.startswith("talus_")  # looked up in the header with all others
            if not is_call and name not in self.hypers[algorithm] | self.hypers[rule]:
                problems.append(f"{theirs}: {algorithm} has no hyperparameter {name}")
            self.told[algorithm].add(name)
            self.told[rule].add(name)

    def check_complete(self):
        for name, hypers in self.hypers.items():
            for missing in sorted(hypers - self.told[name] - self.told[self.rule_of[name]]):
                problems.append(f"no row gives `{missing}` to {name}")


def check_methods(sections):
    calls = set(re.findall(r"\b(talus_\w+)\(", (root / "include/talus.h").read_text()))
    theirs = [row for title, rows in sections.items() if title.startswith("Attributes")
              for row in rows]
    if not theirs:
        problems.append("no table of attributes and methods")
    for name, here, _ in theirs:
        if here not in ABSENT and not all(call in calls for call in names_in(here) or [here]):
            problems.append(f"{name}: {here} is neither calls of talus.h nor one of {ABSENT}")


def schedule_parameters():
    """Names of parameters by kind, milestones among them."""
    kinds = [read_json(f"schedule/{kind['name']}") for kind in read_json("schedules")]
    return {kind["name"]: {parameter["name"] for parameter in kind["parameters"]} |
            ({"milestones"} if kind["milestones"] else set()) for kind in kinds}


def check_examples(page):
    source = (root / EXAMPLES).read_text(encoding="utf-8")
    compiled = re.findall(r"/\* ---- on the page \*/\n(.*?)/\* ---- \*/\n", source, re.S)
    shown = re.findall(r"```c\n(.*?)```", page, re.S)
    problems.extend(f"{PAGE}: not compiled in {EXAMPLES}:\n{block}" for block in shown
                    if block not in compiled)
    problems.extend(f"{EXAMPLES}: not on the page:\n{block}" for block in compiled
                    if block not in shown)
    if not compiled:
        problems.append(f"{EXAMPLES}: nothing between marks")


def check_page(entries):
    page = (root / PAGE).read_text(encoding="utf-8")
    sections = dict(tables(page))
    rule_of = {entry["name"]: entry["alias_of"] or entry["name"] for entry in entries}
    hypers = {name: {hyper["name"] for hyper in read_json(name)["hyperparameters"]}
              for name in rule_of}
    schedules = schedule_parameters()
    Migration(sections["Classes"], sections["Parameters of constructors"], rule_of, hypers).check()
    Migration(sections["Schedulers"], sections["Parameters of schedulers"],
              {kind: kind for kind in schedules}, schedules).check()
    check_methods(sections)
    check_examples(page)
    header = (root / "include/talus.h").read_text(encoding="utf-8")
    for name in set(re.findall(r"`((?:talus_|TALUS_)\w+)", page)):
        if not re.search(rf"\b{name}\b", header):
            problems.append(f"{name} is not in talus.h")


listed = read_json()
check_readme(listed, sys.argv[3:] == ["--write"])
check_page(listed)
for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)
