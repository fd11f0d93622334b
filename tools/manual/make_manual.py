"""Writes talus.1 from the command's own help: make_manual.py TALUS OUTPUT"""
import datetime
import os
import re
import sys

import read_help

ENVIRONMENT = [
    ("TALUS_CPU_TARGET", "The instruction set to use, of those that talus info shows; without it, the strongest."),
    ("TALUS_PLUGIN_PATH", "Folders in which the CUDA plugin is looked for first, absolute, separated by colons."),
]


def escaped(text):
    """As it stands: no hyphen is made typographic, no line is a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    text = text.replace("^", "\\(ha").replace("~", "\\(ti")
    return "\\&" + text if text.startswith(".") else text


def bold(text):
    return f"\\fB{escaped(text)}\\fR"


def entry_lines(entry):
    """Choices are told in the text, where a line can be broken, and REQUIRED by the usage."""
    value = re.sub(r":\{[^}]*\}", "", entry.value).replace(" REQUIRED", "")
    out = [".TP", ", ".join(map(bold, entry.names)) + (f" \\fI{escaped(value)}\\fR" if value else ""),
           escaped(entry.text)]
    return out + ([escaped("(one of " + ", ".join(entry.choices) + ")")] if entry.choices else [])


def footer_lines(lines):
    """Prose is filled; examples and what is indented stand as they are."""
    out, literal = [], False
    for line in lines:
        is_literal = line.startswith("  ")
        if is_literal != literal:
            out.append(".EX" if is_literal else ".EE")
        if out and not is_literal and re.match(r"(Examples?|Exit codes):", line):
            out.append(".PP")
        literal = is_literal
        out.append(escaped(line))
    return out + ([".EE"] if literal else [])


def usage_lines(usage):
    name = re.match(r"talus \S+", usage)[0]
    return [".PP", bold(name) + escaped(usage[len(name):])]


def subcommand_lines(name, page):
    out = [f".SS talus {escaped(name)}", escaped(page.text) + ".", *usage_lines(page.usage)]
    for entry in page.entries("Positionals") + page.entries("Options"):
        if "--help" not in entry.names:
            out += entry_lines(entry)
    return out + [".PP", *footer_lines(page.footer)]


def unbroken(lines):
    """Names are never broken, so that they can be searched for; each new paragraph forgets it."""
    out, is_tag = [], False
    for line in lines:
        out.append(line)
        if is_tag or line.startswith((".PP", ".SS", ".SH")):
            out.append(".nh")
        is_tag = line == ".TP"
    return out


def manual(command):
    date = datetime.datetime.fromtimestamp(
        int(os.environ.get("SOURCE_DATE_EPOCH", datetime.datetime.now().timestamp())), datetime.timezone.utc)
    name, _, what = command.main.text.partition(": ")
    summary, _, rest = what.partition(". ")
    footer = command.main.footer
    codes = [line for line in footer if not line.startswith("Example")]
    out = [f'.TH {name.upper()} 1 {date:%Y-%m-%d} "{name} {command.version}" "User Commands"',
           ".ad l",
           ".SH NAME", f"{name} \\- {escaped(summary)}",
           ".SH SYNOPSIS", bold(name), "[\\fIOPTIONS\\fR]", "\\fISUBCOMMAND\\fR ...",
           ".SH DESCRIPTION", escaped(rest)]
    for entry in command.main.entries("Options"):
        out += entry_lines(entry)
    out.append(".SH COMMANDS")
    for entry in command.main.entries("Subcommands"):
        out += subcommand_lines(entry.names[0], command.pages[entry.names[0]])
    out += [".SH EXIT STATUS", *map(escaped, codes), ".SH ENVIRONMENT"]
    for variable, text in ENVIRONMENT:
        out += [".TP", bold(variable), escaped(text)]
    return "\n".join(unbroken(out)) + "\n"


def main(talus, output):
    with open(output, "w", encoding="utf-8") as file:
        file.write(manual(read_help.read_command(talus)))


main(*sys.argv[1:])
