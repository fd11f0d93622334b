"""What `meson install` leaves, used by programs that know talus only from there.

    check_install.py installed BUILD SOURCE CC     pkg-config and CMake
    check_install.py subproject BUILD SOURCE CC    talus as a Meson subproject; minutes
    check_install.py static BUILD SOURCE CC        a static library; minutes
    check_install.py dist BUILD SOURCE CC          the tarball of `meson dist` builds on its own; minutes

A program that is not there is skipped aloud; exit status 77 where nothing was left to check.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
CONSUMER = HERE / "consumer"
PLAIN = ["--buildtype=release", "-Ddebug=false", "-Dtests=disabled", "-Dtools=disabled", "-Dcuda=disabled",
         "--libdir=lib", "--prefix=/usr/local"]
EXPECTED = ["{libdir}/libtalus.so", "{libdir}/libtalus.so.0", "{includedir}/talus.h", "{includedir}/talus.hpp",
            "{libdir}/pkgconfig/talus.pc", "{libdir}/cmake/talus/talusConfig.cmake"]
OF_COMMAND = ["{bindir}/talus", "{mandir}/man1/talus.1", "{datadir}/bash-completion/completions/talus",
              "{datadir}/zsh/site-functions/_talus", "{datadir}/fish/vendor_completions.d/talus.fish"]
FOREIGN = {"tests", "build", "catch2", "gtest"}  # names that no installed path may have


def run(*command, may_fail=False, **environment):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, **{k: str(v) for k, v in environment.items()}})
    if done.returncode and not may_fail:
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}\n"
                 f"{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done


def there(program):
    if shutil.which(program):
        return True
    print(f"SKIPPED: no {program} on this machine")
    return False


def install(build, into):
    """Returns the option values of the build as paths below `into`."""
    run("meson", "install", "-C", build, "--no-rebuild", "--destdir", into)
    options = {each["name"]: each["value"]
               for each in json.loads(run("meson", "introspect", "--buildoptions", build).stdout)}
    prefix = into / options["prefix"].lstrip("/")
    return {name: prefix / options[name] for name in ("libdir", "includedir", "bindir", "mandir", "datadir")} | {
        "prefix": prefix, "into": into}


def check_files(places):
    wanted = EXPECTED + (OF_COMMAND if (places["bindir"] / "talus").exists() else [])
    for name in wanted:
        path = pathlib.Path(name.format(**places))
        if not path.exists():
            sys.exit(f"{path}: was not installed")
    for path in places["prefix"].rglob("*"):
        if FOREIGN & set(path.relative_to(places["prefix"]).parts):
            sys.exit(f"{path}: is no part of talus")


def pkg_config(places, *arguments):
    return run("pkg-config", *arguments, "talus", PKG_CONFIG_PATH=places["libdir"] / "pkgconfig",
               PKG_CONFIG_SYSROOT_DIR=places["into"], PKG_CONFIG_LIBDIR="/nowhere").stdout.split()


def start(program, places):
    print(run(program, LD_LIBRARY_PATH=places["libdir"]).stdout, end="")


def check_pkg_config(places, cc, scratch, *how):
    flags = pkg_config(places, *how, "--cflags", "--libs")
    if not how and set(flags) & {"-lstdc++", "-lc++", "-lcudart", "-lcuda"}:
        sys.exit(f"talus.pc: what links the shared library needs no more, got {flags}")
    if pkg_config(places, "--variable=abi_major") != ["0"]:
        sys.exit("talus.pc: no abi_major")
    program = scratch / ("static" if how else "shared")
    run(cc, CONSUMER / "main.c", "-o", program, *flags)
    start(program, places)


def configure_cmake(places, scratch, wanted):
    return run("cmake", "-G", "Ninja", "-S", CONSUMER, "-B", scratch, f"-DCMAKE_PREFIX_PATH={places['prefix']}",
               f"-DTALUS_WANTED={wanted}", may_fail=True)


def check_cmake(places, scratch):
    for wanted in ("", "0.1", "0.1.0;EXACT"):
        done = configure_cmake(places, scratch / "cmake", wanted)
        if done.returncode:
            sys.exit(f"find_package(talus {wanted}): {done.stdout}{done.stderr}")
    run("ninja", "-C", scratch / "cmake")
    start(scratch / "cmake" / "consumer", places)
    for wanted in ("9.0", "0.2", "0.0.9"):
        done = configure_cmake(places, scratch / f"refused{wanted}", wanted)
        if not done.returncode or "talus" not in done.stderr:
            sys.exit(f"find_package(talus {wanted}) was not refused: {done.stdout}{done.stderr}")


def installed(build, source, cc, scratch):
    places = install(build, scratch / "root")
    check_files(places)
    checked = False
    if there("pkg-config"):
        check_pkg_config(places, cc, scratch)
        checked = True
    if there("cmake"):
        check_cmake(places, scratch)
        checked = True
    return checked


def build_from(source, build, *options):
    run("meson", "setup", build, source, *PLAIN, *options)
    run("ninja", "-C", build)


def subproject(build, source, cc, scratch):
    shutil.copytree(CONSUMER, scratch / "consumer")
    (scratch / "consumer/subprojects/talus").symlink_to(source)
    run("meson", "setup", scratch / "build", scratch / "consumer", "--buildtype=release", "-Dtalus:cuda=disabled",
        PKG_CONFIG_LIBDIR="/nowhere")
    run("ninja", "-C", scratch / "build", "consumer")
    start(scratch / "build" / "consumer", {"libdir": ""})
    return True


def static(build, source, cc, scratch):
    build_from(source, scratch / "build", "-Ddefault_library=static")
    places = install(scratch / "build", scratch / "root")
    if (places["libdir"] / "libtalus.so").exists():
        sys.exit("a shared library beside a static one")
    check_pkg_config(places, cc, scratch, "--static")
    if there("cmake"):
        done = configure_cmake(places, scratch / "cmake", "0.1")
        if done.returncode:
            sys.exit(f"find_package(talus) of a static library: {done.stdout}{done.stderr}")
        run("ninja", "-C", scratch / "cmake")
        start(scratch / "cmake" / "consumer", places)
    return True


def dist(build, source, cc, scratch):
    if not there("git") or run("git", "-C", source, "rev-parse", "HEAD", may_fail=True).returncode:
        print("SKIPPED: not a git checkout")
        return False
    run("meson", "setup", scratch / "build", source, *PLAIN)
    run("meson", "dist", "-C", scratch / "build", "--no-tests", "--allow-dirty", "--formats", "gztar")
    archive, = (scratch / "build/meson-dist").glob("*.tar.gz")
    if not pathlib.Path(f"{archive}.sha256sum").exists():
        sys.exit(f"{archive}: no SHA-256 beside it")
    shutil.unpack_archive(archive, scratch / "unpacked", filter="data")
    folder, = (scratch / "unpacked").iterdir()
    build_from(folder, scratch / "again")
    places = install(scratch / "again", scratch / "root")
    check_files(places)
    check_pkg_config(places, cc, scratch)
    return True


def main(what, build, source, cc):
    kinds = {each.__name__: each for each in (installed, subproject, static, dist)}
    with tempfile.TemporaryDirectory(prefix="talus-install-") as folder:
        checked = kinds[what](pathlib.Path(build), pathlib.Path(source), cc, pathlib.Path(folder))
    return 0 if checked else 77


sys.exit(main(*sys.argv[1:]))
