"""What these scripts refuse, and what they tell beside their work."""
import sys


class Refusal(Exception):
    """A file or an argument that does not fit; the text says what, where, got and expected."""


def note(text):
    print("note: " + text, file=sys.stderr)


def listing(names, most=8):
    """'a', 'b' and 3 more."""
    names = list(names)
    text = ", ".join(repr(name) for name in names[:most])
    return text if len(names) <= most else f"{text} and {len(names) - most} more"
