"""Counts the tests of a meson JSON log, and says aloud what was skipped and what failed.

    testlog.py LABEL LOG    report on standard output; its last line is 'PASSED FAILED SKIPPED'

A Catch2 program counts its test cases, any other test counts one. Standard library only.
"""

import json
import re
import sys
from typing import NamedTuple

TAIL_LINES = 60
CATCH2_SKIPPED_ALL = 4  # the exit status of a Catch2 program whose cases were all skipped

SUMMARY = re.compile(r"^test cases: (.+)$", re.M)
ALL_PASSED = re.compile(r"^All tests passed \(.* in (\d+) test cases?\)$", re.M)
# A heading between two rules of dashes (a case, then its sections), then one skip below it.
HEADING = re.compile(r"^-{70,}\n(.+?)\n-{70,}$", re.M | re.S)
SKIP = re.compile(r"SKIPPED:\n(?:explicitly with message:\n((?:  .*\n?)+))?")
UNITTEST_SKIP = re.compile(r"^(\S+) .*\.\.\. skipped (['\"])(.*)\2$", re.M)


class Counts(NamedTuple):
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other):
        return Counts(*(a + b for a, b in zip(self, other)))


def catch2_counts(output):
    """The counts of Catch2's summary line, or None where there is no such line."""
    if match := ALL_PASSED.search(output):
        return Counts(passed=int(match[1]))
    if not (match := SUMMARY.search(output)):
        return None
    fields = (field.strip().split(" ", 1) for field in match[1].split("|"))
    found = {field[1]: int(field[0]) for field in fields if len(field) == 2}
    passed = found.get("passed", 0) + found.get("failed as expected", 0)
    return Counts(passed, found.get("failed", 0), found.get("skipped", 0))


def unwrap(text):
    return " ".join(line.strip() for line in text.split("\n")).strip()


def catch2_skips(output):
    """(case, reason) of every case that Catch2 skipped."""
    headings = list(HEADING.finditer(output))
    ends = [heading.start() for heading in headings[1:]] + [len(output)]
    skips = []
    for heading, end in zip(headings, ends):
        for skip in SKIP.finditer(output, heading.end(), end):
            skips.append((unwrap(heading[1]), unwrap(skip[1] or "no reason given")))
    return skips


def unittest_skips(output):
    return [(match[1], match[3]) for match in UNITTEST_SKIP.finditer(output)]


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def count(test, output):
    catch2 = catch2_counts(output)
    all_skipped = test["returncode"] == CATCH2_SKIPPED_ALL and catch2 and not catch2.failed
    if test["result"] not in ("OK", "SKIP", "EXPECTEDFAIL") and not all_skipped:
        # A program can also fail outside its cases: a leak, a crash, a timeout.
        counts = catch2 or Counts()
        return counts._replace(failed=max(1, counts.failed))
    if catch2:
        return catch2
    if test["result"] == "SKIP":
        return Counts(skipped=1)
    return Counts(passed=1, skipped=len(unittest_skips(output)))


def report_skips(name, test, output):
    skips = catch2_skips(output) + unittest_skips(output)
    if not skips and test["result"] == "SKIP":
        skips = [("", last_line(output))]
    for case, reason in skips:
        print(f"  skipped: {name}: {case + ': ' if case else ''}{reason}")


def report_failure(name, test, output):
    print(f"  FAILED: {name}: {test['result'].lower()}, exit status {test['returncode']}")
    for line in output.splitlines()[-TAIL_LINES:]:
        print(f"    | {line}")


def main(label, log):
    total = Counts()
    with open(log, encoding="utf-8") as lines:
        for line in lines:
            test = json.loads(line)
            name = f"{label}: {test['name'].rpartition(' / ')[2]}"
            output = (test.get("stdout") or "") + (test.get("stderr") or "")
            counts = count(test, output)
            total += counts
            if counts.skipped:
                report_skips(name, test, output)
            if counts.failed:
                report_failure(name, test, output)
    print(*total)


if __name__ == "__main__":
    main(*sys.argv[1:])
