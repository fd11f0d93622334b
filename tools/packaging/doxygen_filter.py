"""Shows Doxygen the comments of talus.h and talus.hpp, which are written for readers of the file:
doxygen_filter.py FILE

- A comment above a declaration or behind it documents it. One above several lines documents each.
- `a, b; /* text */` documents a and b.
- What every struct begins with is explained at the top of talus.h, and the same in all.
"""
import re
import sys

EVERYWHERE = {"struct_size": "Bytes of the struct, as the caller knows it.", "reserved": "0.",
              "user": "Given to the functions."}
# TYPE NAME, NAME; with a comment behind it or none
SEVERAL = re.compile(r"^( +)((?:const )?[\w:]+ [*]*)(\w+(?:,\s+\**\w+)+);( */\*.*?\*/)?$", re.M | re.S)
FIELD = re.compile(r"^ +(?:[\w ]+\**)(struct_size|reserved|user);$", re.M)
DECLARATIONS = ("TALUS_API ", "#define TALUS_", "typedef ")


def split_fields(body):
    """One declaration a line."""
    def one_each(found):
        indent, kind, names, comment = found.groups()
        names = [name.strip() for name in names.split(",")]
        return "\n".join(f"{indent}{kind}{name};{comment or ''}" for name in names)
    body = SEVERAL.sub(one_each, body)
    lines = body.split("\n")
    for i, line in enumerate(lines):
        found = FIELD.match(line)
        if found and not lines[i - 1].lstrip().startswith(("/*", "*")):
            lines[i] += f" /* {EVERYWHERE[found[1]]} */"
    return "\n".join(lines)


def repeat_comments(text):
    """The comment above a run of declarations, above each; a run ends at an empty line."""
    out, comment, is_open, is_new = [], [], False, False
    for line in text.split("\n"):
        if is_open or line.startswith("/* "):
            comment = comment + [line] if is_open else [line]
            is_open, is_new = not line.endswith("*/"), True
        elif not line:
            comment = []
        elif line.startswith(DECLARATIONS):
            if not is_new and comment and "/*" not in line:
                out += comment
            is_new = False
        out.append(line)
    return "\n".join(out)


def c_header(text):
    text = re.sub(r"(?<= \{\n)(?:(?!\n\}).)*(?=\n\} talus_\w+;)", lambda body: split_fields(body[0]), text, flags=re.S)
    text = repeat_comments(text)
    text = re.sub(r"^( *)/\* (?!----)", r"\1/** ", text, flags=re.M)
    text = re.sub(r"^(.*\S +)/\* ", r"\1/**< ", text, flags=re.M)
    return text.replace("/** ", "/** \\file\n", 1)


def cpp_header(text):
    text = re.sub(r"^( *)// (?!----)", r"\1/// ", text, flags=re.M)
    text = re.sub(r"^(.*\S +)// ", r"\1///< ", text, flags=re.M)
    return text.replace("/// ", "/// \\file\n/// ", 1)


def main(name):
    with open(name, encoding="utf-8") as file:
        text = file.read()
    sys.stdout.write(cpp_header(text) if name.endswith(".hpp") else c_header(text))


main(sys.argv[1])
