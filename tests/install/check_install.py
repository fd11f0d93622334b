"""Installs a build into a temporary folder and uses it as a stranger would.

    check_install.py files|pkg-config|cmake|subproject MESON BUILD SOURCE PREFIX LIBDIR INCLUDEDIR
        [--tools] [--cuda] [--static] --cc COMPILER...

--tools, --cuda, --static: what else this build has.
"""
import json
import pathlib
import sys

import consumers
from consumers import ABI_MAJOR, VERSION, expect, need, run, scratch


def expected_files(libdir, includedir, extras):
    so = f"libtalus.so.{ABI_MAJOR}"
    names = [f"{includedir}/talus.h", f"{includedir}/talus.hpp", f"{libdir}/pkgconfig/talus.pc",
             f"{libdir}/cmake/talus/talusConfig.cmake", f"{libdir}/cmake/talus/talusConfigVersion.cmake",
             f"{libdir}/libtalus.so", f"{libdir}/{so}", f"{libdir}/{so}.0.0"]
    if "--static" in extras:
        names.append(f"{libdir}/libtalus.a")
    if "--cuda" in extras:
        names.append(f"{libdir}/talus/libtalus_cuda.so")
    if "--tools" in extras:
        names += ["bin/talus", "share/man/man1/talus.1", "share/bash-completion/completions/talus",
                  "share/fish/vendor_completions.d/talus.fish", "share/zsh/site-functions/_talus"]
    return names


def check_files(case):
    """What is there and nothing else; the names of the library; the command; what uninstalling goes by."""
    place = case.place
    presets = "share/talus/presets/"
    got = place.files()
    expect([name for name in got if not name.startswith(presets)],
           sorted(expected_files(case.libdir, case.includedir, case.extras)), "installed files")
    expect(any(name.startswith(presets) for name in got), "--tools" in case.extras, "presets of bench")
    logged = {line for line in case.log.splitlines() if not line.startswith("#")}
    expect({str(place.prefix / name) for name in got} - logged, set(), "files that uninstall does not know")

    link = place.libdir / "libtalus.so"
    expect(str(link.readlink()), f"libtalus.so.{ABI_MAJOR}", "libtalus.so")
    expect(str((place.libdir / f"libtalus.so.{ABI_MAJOR}").readlink()), f"libtalus.so.{ABI_MAJOR}.0.0", "the SONAME's link")
    for name in ("pkgconfig/talus.pc", "cmake/talus/talusConfig.cmake"):
        text = (place.libdir / name).read_text(encoding="utf-8")
        for path in (case.build, case.source):
            expect(str(path) in text, False, f"{path} in {name}")
    if "--tools" in case.extras:
        check_command(case)


def check_command(case):
    talus = case.place.prefix / "bin/talus"
    # What lies beside it is found without help, but in /usr, which the loader knows.
    start = case.place.run if case.prefix == "/usr" else run
    expect(start(talus, "--version"), f"talus {VERSION}\n", "the installed command")
    if "--cuda" in case.extras:
        info = start(talus, "info", "--json")
        plugin = case.place.libdir / "talus/libtalus_cuda.so"
        expect(str(plugin) in info, True, f"{plugin} in talus info\n{info}")


def check_pkg_config(case):
    need("pkg-config")
    place = case.place
    expect(place.pkg_config("--modversion"), [VERSION], "version")
    expect(place.pkg_config("--variable=abi_major"), [ABI_MAJOR], "abi_major")
    expect(place.pkg_config("--libs"), [f"-L{place.libdir}", "-ltalus"], "libs: no C++ or CUDA library")
    with scratch() as folder:
        program = folder / "consumer"
        consumers.with_pkg_config(place, case.cc, program)
        expect([name for name in consumers.needed(program) if "talus" in name],
               [f"libtalus.so.{ABI_MAJOR}"], "what the consumer needs")


# What find_package is asked for, and whether 0.1.0 serves: while 0.x, its own minor version alone.
ASKED = {"": True, "0.1": True, "0.1.0": True, "0.1.0;EXACT": True, "0.1...0.3": True, "0.0...<0.2": True,
         "9.0": False, "1.0": False, "0.2": False, "0.0": False, "0": False, "0.1.1": False, "0.1;EXACT": True,
         "0.1.1;EXACT": False, "0.0...<0.1": False, "0.2...0.3": False}


def check_cmake(case):
    need("cmake", "ninja")
    place = case.place
    with scratch() as folder:
        consumers.with_cmake(place, folder / "build")
        for i, (wanted, serves) in enumerate(ASKED.items()):
            text = consumers.cmake_configure(folder / f"asked{i}", place.prefix, wanted, code=0 if serves else 1)
            if not serves and f"talusConfig.cmake, version: {VERSION}" not in text:
                sys.exit(f"find_package(talus {wanted}): refused without the version found:\n{text}")
        # As where /lib is a link to /usr/lib.
        (folder / "link").symlink_to(place.libdir)
        consumers.with_cmake(place, folder / "linked", talus_DIR=folder / "link/cmake/talus")
        # Nothing in the package says where it was installed.
        place.prefix = place.prefix.rename(folder / "moved")
        place.libdir = place.prefix / case.libdir
        consumers.with_cmake(place, folder / "of-moved")


def check_subproject(case):
    """As a parent sets it up: found, with no target that is not the library. tests/install/check_packaging.py builds it."""
    with scratch() as folder:
        build = consumers.subproject(case.meson, case.source, folder / "consumer")
        targets = json.loads(run(case.meson, "introspect", "--targets", build))
        names = {each["name"] for each in targets}
        expect(names, {"consumer", "talus", "talus_core", "talus_kernels_scalar", "talus_kernels_simd"}, "targets")
        expect(json.loads(run(case.meson, "introspect", "--tests", build)), [], "tests of the subproject")


class Case:
    def __init__(self, meson, build, source, prefix, libdir, includedir, rest):
        split = rest.index("--cc")
        self.meson, self.build, self.source = meson, pathlib.Path(build), pathlib.Path(source)
        self.prefix, self.libdir, self.includedir = prefix, libdir, includedir
        self.extras, self.cc = rest[:split], rest[split + 1:]


def main(what, *arguments):
    case = Case(*arguments[:6], list(arguments[6:]))
    if what == "subproject":
        return check_subproject(case)
    with scratch() as destdir:
        case.log = consumers.install(case.meson, case.build, destdir)
        case.place = consumers.Place(destdir, case.prefix, case.libdir, case.includedir)
        {"files": check_files, "pkg-config": check_pkg_config, "cmake": check_cmake}[what](case)


main(*sys.argv[1:])
