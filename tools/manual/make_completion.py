"""Writes completion from the command's own help: make_completion.py TALUS bash|zsh|fish OUTPUT"""
import sys

import read_help


def flags(page):
    return [name for entry in page.entries("Options") for name in entry.names]


def positional_words(command, name):
    """What may stand where no option does; nothing where that is a file."""
    return [word for entry in command.pages[name].entries("Positionals")
            for word in command.words.get((name, entry.names[0]), [])]


def takes_file(page):
    return any(entry.names[0] != "NAME" for entry in page.entries("Positionals"))


# ---- bash

# Where no word fits, readline offers files.
BASH = """# bash completion of talus {version}, made from its --help.
_talus() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} words=
  if ((COMP_CWORD == 1)); then
    words='{first}'
  else
    case ${{COMP_WORDS[1]}} in
{cases}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}}
complete -o default -F _talus talus
"""


def bash_case(command, name):
    page = command.pages[name]
    out = [f"      {name})", "        case $previous in"]
    others = []
    for entry in page.entries("Options"):
        words = command.words.get((name, entry.names[-1]))
        if words:
            out.append(f"          {'|'.join(entry.names)}) words='{' '.join(words)}' ;;")
        elif entry.value:
            others += entry.names
    if others:
        out.append(f"          {'|'.join(others)}) ;;")
    if takes_file(page):
        out.append(f"          *) [[ $word != -* ]] || words='{' '.join(flags(page))}' ;;")
    else:
        out.append(f"          *) words='{' '.join(flags(page) + positional_words(command, name))}' ;;")
    return out + ["        esac", "        ;;"]


def bash(command):
    cases = [line for name in command.pages for line in bash_case(command, name)]
    first = [*command.pages, *flags(command.main)]
    return BASH.format(version=command.version, first=" ".join(first), cases="\n".join(cases))


# ---- zsh

ZSH = """#compdef talus
# zsh completion of talus {version}, made from its --help.
_talus() {{
  local -a commands=(
{commands}
  )
  if ((CURRENT == 2)); then
    _describe command commands
    _arguments {main}
    return
  fi
  local command=$words[2]
  shift words
  ((CURRENT -= 1))
  case $command in
{cases}
  esac
}}
_talus "$@"
"""


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def zsh_text(text):
    for special in "\\:[]":
        text = text.replace(special, "\\" + special)
    return text


def zsh_option(command, name, entry):
    words = command.words.get((name, entry.names[-1]))
    value = "" if not entry.value else ":value:" + (f"({' '.join(words)})" if words else "_files")
    again = "*" if entry.value.endswith(" ...") else ""
    return [quoted(f"{again}{each}[{zsh_text(entry.text)}]{value}") for each in entry.names]


def zsh_case(command, name):
    page = command.pages[name]
    specs = [spec for entry in page.entries("Options") for spec in zsh_option(command, name, entry)]
    for entry in page.entries("Positionals"):
        words = command.words.get((name, entry.names[0]))
        specs.append(quoted(f":{entry.names[0]}:" + (f"({' '.join(words)})" if words else "_files")))
    return [f"    {name}) _arguments \\", *[f"      {spec} \\" for spec in specs[:-1]], f"      {specs[-1]} ;;"]


def zsh(command):
    commands = [f"    {quoted(entry.names[0] + ':' + zsh_text(entry.text))}"
                for entry in command.main.entries("Subcommands")]
    options = [spec for entry in command.main.entries("Options") for spec in zsh_option(command, "", entry)]
    cases = [line for name in command.pages for line in zsh_case(command, name)]
    return ZSH.format(version=command.version, commands="\n".join(commands), main=" ".join(options),
                      cases="\n".join(cases))


# ---- fish

def fish_quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def fish_option(condition, entry, words):
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in entry.names)
    # -F: files, where the subcommand itself takes none.
    value = "" if not entry.value else f" -x -a {fish_quoted(' '.join(words))}" if words else " -r -F"
    return f"complete -c talus -n '{condition}' {names} -d {fish_quoted(entry.text)}{value}"


def fish(command):
    out = [f"# fish completion of talus {command.version}, made from its --help."]
    for entry in command.main.entries("Subcommands"):
        out.append(f"complete -c talus -n __fish_use_subcommand -f -a {entry.names[0]} -d {fish_quoted(entry.text)}")
    out += [fish_option("__fish_use_subcommand", entry, None) for entry in command.main.entries("Options")]
    for name, page in command.pages.items():
        condition = f"__fish_seen_subcommand_from {name}"
        words = positional_words(command, name)
        if words or not takes_file(page):
            out.append(f"complete -c talus -n '{condition}' -f -a {fish_quoted(' '.join(words))}")
        out += [fish_option(condition, entry, command.words.get((name, entry.names[-1])))
                for entry in page.entries("Options")]
    return "\n".join(out) + "\n"


def main(talus, shell, output):
    with open(output, "w", encoding="utf-8") as file:
        file.write({"bash": bash, "zsh": zsh, "fish": fish}[shell](read_help.read_command(talus)))


main(*sys.argv[1:])
