"""Doxygen over the public headers, without a warning: check_doxygen.py SOURCE

Every name of talus.h is documented, and the HTML of both headers has what the headers say. Exit status 77:
no Doxygen on this machine."""
import html
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def doxygen(source, settings):
    text = (source / "tools/packaging/Doxyfile").read_text(encoding="utf-8")
    done = subprocess.run(["doxygen", "-"], input=text + "\n" + settings, text=True, capture_output=True, cwd=source)
    if done.returncode or done.stderr:
        sys.exit(f"doxygen: exit status {done.returncode}, expected 0 and no warning\n{done.stdout}{done.stderr}")


def shown(folder):
    """The words of all pages, without markup."""
    pages = [path.read_text(encoding="utf-8") for path in sorted((folder / "manual").glob("*.html"))]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", "\n".join(pages))).split())


def main(source):
    source = pathlib.Path(source).resolve()
    if not shutil.which("doxygen"):
        print("SKIPPED: no doxygen on this machine")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="talus-doxygen-") as folder:
        # The C header alone, where a name without a comment is an error.
        doxygen(source, f"OUTPUT_DIRECTORY = {folder}\nINPUT = include/talus.h\nWARN_IF_UNDOCUMENTED = YES\n"
                        "INLINE_SIMPLE_STRUCTS = NO\nGENERATE_HTML = NO\nGENERATE_XML = YES\nPREDEFINED = TALUS_API=\n")
        doxygen(source, f"OUTPUT_DIRECTORY = {folder}\n")
        words = shown(pathlib.Path(folder))
    header = (source / "include/talus.h").read_text(encoding="utf-8")
    names = set(re.findall(r"^TALUS_API [^(]*?(talus_\w+)\(", header, re.M))
    missing = sorted(name for name in names if f" {name} (" not in words)
    if missing or len(names) < 50:
        sys.exit(f"of {len(names)} functions of talus.h these are not in the manual: {missing}")
    for part in ("Takes text and detail of this thread's last failure.", "an allocation failed"):
        if part not in words:
            sys.exit(f"not in the manual: {part!r}")


main(*sys.argv[1:])
