"""Prints what to build for some tests: `meson test` builds every test program, whatever it will run.

    test_targets.py BUILD-FOLDER [--suite SUITE]... NAME...
"""
import json
import os
import pathlib
import sys

folder = pathlib.Path(sys.argv[1])
names = sys.argv[2:]
suites = set()
while names[:1] == ["--suite"]:
    suites.add(names[1])
    names = names[2:]


def read(what):
    return json.loads((folder / f"meson-info/intro-{what}.json").read_text(encoding="utf-8"))


def is_wanted(test):
    return test["name"] in names or suites.intersection(
        each.split(":")[-1] for each in test["suite"])


needed = {target for test in read("tests") if is_wanted(test) for target in test["depends"]}
if not needed:
    sys.exit(f"{sys.argv[2:]}: no test that needs a program")
for target in read("targets"):
    if target["id"] in needed:
        for name in target["filename"]:
            print(os.path.relpath(name, folder.resolve()))
