"""Reads what `talus --help` and `talus COMMAND --help` print: the source of the man page and of completion.

A line that is not understood ends the program: a page with a hole would be worse than none.
"""
import json
import re
import subprocess
import sys
from typing import NamedTuple

COLUMN = 30  # where descriptions begin
HEADINGS = ("Positionals:", "Options:", "Subcommands:")


class Entry(NamedTuple):
    """An option, a positional or a subcommand."""
    names: list  # ["-h", "--help"], ["FILE"]
    value: str   # of an option, as shown: "TEXT:{f32,f64}=f32 ..."; "" for a flag
    text: str

    @property
    def choices(self):
        found = re.search(r"\{([^}]*)\}", self.value)
        return found[1].split(",") if found else []


class Page(NamedTuple):
    text: str       # what it does
    usage: str      # "talus list [OPTIONS] [NAME]"
    sections: dict  # "Options" and so on: a list of Entry
    footer: list    # lines

    def entries(self, section):
        return self.sections.get(section, [])


class Command(NamedTuple):
    version: str
    main: Page
    pages: dict   # of each subcommand
    words: dict   # (subcommand, option or positional): what may stand there


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout


def read_name(shown):
    names, _, value = shown.partition(" ")
    return names.split(","), value.strip()


def read_entries(lines):
    """Takes the lines of one section from the front."""
    entries = []
    while lines and lines[0].startswith("  "):
        line = lines.pop(0)
        two = re.fullmatch(r"  (\S.*?) {2,}(\S.*)", line)
        if two:
            shown, text = two[1], two[2]
        elif lines and lines[0].startswith(" " * COLUMN):
            shown, text = line.strip(), lines.pop(0).strip()
        elif len(line) > COLUMN and line[COLUMN - 1] == " ":
            shown, text = line[:COLUMN].strip(), line[COLUMN:]
        else:
            sys.exit(f"no description found in this line of help: {line!r}")
        while lines and lines[0].startswith(" " * COLUMN):
            text += " " + lines.pop(0).strip()
        entries.append(Entry(*read_name(shown), text))
    return entries


def read_page(text):
    lines = text.rstrip("\n").split("\n")
    about = []
    while lines and not lines[0].startswith("Usage: "):
        about.append(lines.pop(0))
    if not lines:
        sys.exit(f"no line 'Usage: ' in this help:\n{text}")
    usage = lines.pop(0).removeprefix("Usage: ")
    sections = {}
    while lines and (not lines[0] or lines[0] in HEADINGS):
        heading = lines.pop(0)
        if heading:
            sections[heading[:-1]] = read_entries(lines)
    for line in lines:
        if line.startswith("  -"):
            sys.exit(f"an option outside of {', '.join(HEADINGS)} in this help: {line!r}")
    return Page(" ".join(about), usage, sections, lines)


def names_of(talus, *what):
    return [each["name"] for each in json.loads(run(talus, "list", *what, "--json"))]


def read_words(talus):
    rules, kinds = names_of(talus), names_of(talus, "schedules")
    return {("list", "NAME"): rules + ["schedules", "scaler", "settings"] + [
                "schedule/" + kind for kind in kinds],
            ("schedule", "NAME"): kinds,
            ("bench", "--rule"): rules}


def read_command(talus):
    main = read_page(run(talus, "--help"))
    pages = {entry.names[0]: read_page(run(talus, entry.names[0], "--help"))
             for entry in main.entries("Subcommands")}
    if not pages:
        sys.exit("talus --help names no subcommand")
    words = read_words(talus)
    for name, page in pages.items():
        for entry in page.entries("Options"):
            if entry.choices:
                words[name, entry.names[-1]] = entry.choices
    return Command(run(talus, "--version").strip().removeprefix("talus "), main, pages, words)
