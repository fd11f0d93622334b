"""Builds talus again in the ways that others pack it; minutes each.

    check_packaging.py static|subproject|dist MESON SOURCE --cc COMPILER...

static      a static library for embedders, then both kinds from one build
subproject  the library inside a parent's build, static and shared
dist        the archive of a release, which builds, tests and installs on its own
"""
import hashlib
import os
import pathlib
import sys
import tarfile

import consumers
from consumers import ABI_MAJOR, ANSWER, VERSION, CONSUMER, expect, need, run, scratch, skip

# Bits do not depend on these, and it builds in a third of the time.
QUICK = ["--buildtype=plain", "-Doptimization=1", "-Ddebug=false"]
LIBRARY_ALONE = ["-Dtests=disabled", "-Dtools=disabled", "-Dcuda=disabled"]
PREFIX, LIBDIR = "/usr/local", "lib"
JOBS = f"-j{min(2, os.cpu_count() or 1)}"


def build_and_install(case, source, build, destdir, *options):
    run(case.meson, "setup", build, source, f"--prefix={PREFIX}", f"--libdir={LIBDIR}", *options)
    run("ninja", "-C", build, JOBS)
    consumers.install(case.meson, build, destdir)
    return consumers.Place(destdir, PREFIX, LIBDIR, "include")


def has_talus_inside(program):
    expect([name for name in consumers.needed(program) if "talus" in name], [], f"what {program} needs")


def embed(case, place, folder):
    """An engine with talus inside of it shows none of its names to others."""
    engine = folder / "libengine.so"
    run(*case.cc, "-shared", "-fPIC", "-Wl,--no-undefined", CONSUMER / "main.c", "-o", engine,
        *place.pkg_config("--static", "--cflags", "--libs"))
    names = run("nm", "-D", "--defined-only", engine)
    expect([name for name in names.split() if "talus" in name.lower()], [], "names of talus in the engine")


def check_static(case):
    need("pkg-config", "cmake", "readelf", "nm")
    with scratch() as folder:
        place = build_and_install(case, case.source, folder / "build", folder / "static",
                                  "-Ddefault_library=static", *QUICK, *LIBRARY_ALONE)
        expect(place.files(), ["include/talus.h", "include/talus.hpp", "lib/cmake/talus/talusConfig.cmake",
                               "lib/cmake/talus/talusConfigVersion.cmake", "lib/libtalus.a", "lib/pkgconfig/talus.pc"],
               "installed files of a static build")
        expect("-DTALUS_STATIC" in place.pkg_config("--cflags"), True, "TALUS_STATIC in Cflags")
        consumers.with_pkg_config(place, case.cc, folder / "consumer", "--static")
        has_talus_inside(folder / "consumer")
        consumers.with_cmake(place, folder / "cmake")
        has_talus_inside(folder / "cmake/consumer")
        embed(case, place, folder)
        check_both(case, folder)


def check_both(case, folder):
    run(case.meson, "configure", folder / "build", "-Ddefault_library=both")
    run("ninja", "-C", folder / "build", JOBS)
    consumers.install(case.meson, folder / "build", folder / "both")
    place = consumers.Place(folder / "both", PREFIX, LIBDIR, "include")
    for name in ("lib/libtalus.a", f"lib/libtalus.so.{ABI_MAJOR}"):
        expect(name in place.files(), True, f"{name} of a build of both")
    consumers.with_pkg_config(place, case.cc, folder / "linked")
    consumers.with_cmake(place, folder / "cmake-shared")
    for program in ("linked", "cmake-shared/consumer"):
        expect([name for name in consumers.needed(folder / program) if "talus" in name],
               [f"libtalus.so.{ABI_MAJOR}"], f"what {program} needs")
    run(*case.cc, CONSUMER / "main.c", "-o", folder / "chosen", *place.pkg_config("--cflags"),
        f"-L{place.libdir}", "-Wl,-Bstatic", "-ltalus", "-Wl,-Bdynamic", "-lstdc++", "-lm", "-pthread", "-ldl")
    expect(run(folder / "chosen"), ANSWER, "a consumer that has chosen the archive")
    has_talus_inside(folder / "chosen")
    consumers.with_cmake(place, folder / "cmake-static", TALUS_TARGET="talus::talus_static")
    has_talus_inside(folder / "cmake-static/consumer")


def check_subproject(case):
    options = [f"-Dtalus:{option.removeprefix('-D')}" if option.startswith("-D") else
               option.replace("--", "-Dtalus:") for option in QUICK]
    with scratch() as folder:
        build = consumers.subproject(case.meson, case.source, folder / "parent", *options, "-Ddefault_library=static")
        run("ninja", "-C", build, JOBS)
        expect(run(build / "consumer"), ANSWER, "a consumer with the subproject inside")
        has_talus_inside(build / "consumer")
        run(case.meson, "configure", build, "-Dtalus:default_library=shared")
        run("ninja", "-C", build, JOBS)
        expect(run(build / "consumer"), ANSWER, "a consumer of the subproject's shared library")
        expect([name for name in consumers.needed(build / "consumer") if "talus" in name],
               [f"libtalus.so.{ABI_MAJOR}"], "what the consumer needs")


def make_archives(case, folder):
    if not (case.source / ".git").exists():
        skip("not a git checkout")
    run(case.meson, "setup", folder / "plain", case.source, *LIBRARY_ALONE)
    run(case.meson, "dist", "-C", folder / "plain", "--no-tests", "--allow-dirty", "--formats", "gztar,xztar")
    made = folder / "plain/meson-dist"
    for kind in ("gz", "xz"):
        name = f"talus-{VERSION}.tar.{kind}"
        digest = hashlib.sha256((made / name).read_bytes()).hexdigest()
        expect((made / f"{name}.sha256sum").read_text(encoding="utf-8").split(), [digest, f"*{name}"],
               f"the digest beside {name}")
    return made / f"talus-{VERSION}.tar.xz"


def check_dist(case):
    """What HEAD has: changes that are not committed are not in a release."""
    need("git")
    with scratch() as folder:
        with tarfile.open(make_archives(case, folder)) as archive:
            archive.extractall(folder)
        source, build = folder / f"talus-{VERSION}", folder / "build"
        for name in ("LICENSE", "README.md", "CHANGELOG.md", "tools/check", "capi/examples/data/digits.csv"):
            expect((source / name).is_file(), True, f"{name} in the archive")
        place = build_and_install(case, source, build, folder / "root", *QUICK, "-Dtests=disabled", "-Dcuda=disabled")
        tests = run(case.meson, "test", "-C", build, "--no-rebuild", "--suite", "examples", "--suite", "command",
                    "--timeout-multiplier", "4")
        if "Fail:               0" not in tests or " OK " not in tests:
            sys.exit(f"tests of the archive:\n{tests[-3000:]}")
        consumers.with_pkg_config(place, case.cc, folder / "consumer")
        for path in place.prefix.rglob("*.pc"):
            expect(str(folder) in path.read_text(encoding="utf-8"), False, f"the folder of the build in {path}")


class Case:
    def __init__(self, meson, source, rest):
        split = rest.index("--cc")
        self.meson, self.source, self.cc = meson, pathlib.Path(source), rest[split + 1:]


def main(what, meson, source, *rest):
    {"static": check_static, "subproject": check_subproject,
     "dist": check_dist}[what](Case(meson, source, list(rest)))


main(*sys.argv[1:])
