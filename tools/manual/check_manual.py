"""The man page and completions that were made, read by the programs that they are for.

    check_manual.py page TALUS.1 TALUS        mandoc and man, where there
    check_manual.py bash|zsh|fish FILE TALUS  the shell itself; not there: exit status 77
    check_manual.py self                      help that is not understood is an error
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import read_help


def expect(got, expected, what):
    if got != expected:
        sys.exit(f"{what}: got {got!r}, expected {expected!r}")


def skip(what):
    print(f"SKIPPED: no {what} on this machine")
    sys.exit(77)


def output_of(*command, **how):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, **how)
    if done.returncode or done.stderr:
        sys.exit(f"{' '.join(command)[:200]}: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def shown(page):
    """The page as each reader shows it, at several widths."""
    texts = []
    if shutil.which("mandoc"):
        output_of("mandoc", "-T", "lint", "-W", "warning", page)
        texts.append(output_of("mandoc", "-T", "ascii", page))
    if shutil.which("man") and shutil.which("groff"):
        texts += [output_of("man", "--warnings", "-E", "ascii", "-P", "cat", "-l", page,
                            env={**os.environ, "MANWIDTH": width, "GROFF_NO_SGR": "1"})
                  for width in ("60", "80", "100", "120")]
    return texts or skip("mandoc or man")


def check_page(page, talus):
    for text in shown(page):
        check_text(page, text, talus)


def check_text(page, text, talus):
    flat = " ".join(re.sub(".\b", "", text).split())
    for name, help_page in read_help.read_command(talus).pages.items():
        of_command = flat[flat.index(help_page.usage):]
        end = " ".join(" ".join(help_page.footer).split())[-60:]
        if end not in of_command:
            sys.exit(f"{page}: the end of the help of {name} is not there: {end!r}")
        of_command = of_command[:of_command.index(end)]
        for entry in help_page.entries("Options") + help_page.entries("Positionals"):
            if "--help" not in entry.names and not (
                    entry.names[-1] in of_command and entry.text in of_command):
                sys.exit(f"{page}: {entry.names[-1]} of {name}, or its text, is not there")


# What is typed, and what the shell must offer among other things; "" offers files.
OFFERED = [
    (["talus", "sel"], "selftest"),
    (["talus", "bench", "--param", "b"], "bf16"),
    (["talus", "bench", "--che"], "--check-finite"),
    (["talus", "list", "fused_ad"], "fused_adagrad"),
    (["talus", "schedule", "cosine_"], "cosine_restarts"),
    (["talus", "inspect", "--a"], "--all"),
]


def complete_in_bash(file, words):
    script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _talus; '
              'printf "%s\\n" "${COMPREPLY[@]}"')
    return output_of("bash", "-c", script, "bash", file, *words).split()


def complete_in_fish(file, words):
    script = "source $argv[1]; complete -C \"$argv[2]\""
    out = output_of("fish", "--no-config", "-c", script, file, " ".join(words),
                    env={**os.environ, "HOME": "/nonexistent"})
    return [line.split("\t")[0] for line in out.splitlines()]


def complete_in_zsh(file, words):
    """zsh completes at a terminal alone: its two builders are replaced by what shows what they were given."""
    script = ('_describe() { print -l -- ${(P)2} }; _arguments() { print -l -- "$@" }; file=$1; shift; '
              'words=("$@"); CURRENT=$#; source $file')
    return output_of("zsh", "-f", "-c", script, "zsh", file, *words)


def check_shell(shell, file, talus):
    if not shutil.which(shell):
        skip(shell)
    output_of(shell, "-n", file)
    for words, expected in OFFERED:
        what = f"{' '.join(words)}, completed by {shell}"
        if shell == "zsh":
            if not re.search(r"(?<![\w-])" + re.escape(expected) + r"(?![\w-])", complete_in_zsh(file, words)):
                sys.exit(f"{what}: {expected} is not offered")
            continue
        got = {"bash": complete_in_bash, "fish": complete_in_fish}[shell](file, words)
        if expected not in got or any(not each.startswith(words[-1]) for each in got):
            sys.exit(f"{what}: got {got}, expected {expected!r} and what begins like {words[-1]!r}")
    if shell == "bash":
        expect(complete_in_bash(file, ["talus", "inspect", ""]), [], "talus inspect: files alone")
        expect(complete_in_bash(file, ["talus", "bench", "--plot", ""]), [], "--plot: files alone")


def check_self():
    for text, part in [("x\n", "Usage"),
                       ("x\nUsage: talus x\n\nOptions:\n  --undescribed\n", "no description"),
                       ("x\nUsage: talus x\n\nOdd things:\n  --option                    does\n", "outside")]:
        try:
            read_help.read_page(text)
        except SystemExit as error:
            if part in str(error):
                continue
        sys.exit(f"help that is not understood was read: {text!r}")
    page = read_help.read_page("x does.\nUsage: talus x\n\nOptions:\n  -a,--all                    All of\n"
                               "                              it\n  --much A:{b,c}=b ...\n"
                               "                              Text\n\nThe end\n")
    expect([tuple(each) for each in page.entries("Options")],
           [(["-a", "--all"], "", "All of it"), (["--much"], "A:{b,c}=b ...", "Text")], "entries")
    expect((page.footer, page.entries("Options")[1].choices), (["The end"], ["b", "c"]), "the rest")


def main(what, *arguments):
    if what == "self":
        check_self()
    elif what == "page":
        check_page(*arguments)
    else:
        check_shell(what, *arguments)


main(*sys.argv[1:])
