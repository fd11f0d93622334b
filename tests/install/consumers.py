"""What the tests of installing share: commands that say what went wrong, and the consumer built in each way."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

CONSUMER = pathlib.Path(__file__).parent / "consumer"
VERSION = "0.1.0"
ABI_MAJOR = "0"
ANSWER = "256 0.5 1.5 2.5\n"  # version 0.1.0 as a number, and what a step leaves


def expect(got, expected, what):
    if got != expected:
        sys.exit(f"{what}: got {got!r}, expected {expected!r}")


def skip(why):
    print(f"SKIPPED: {why}")
    sys.exit(77)


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            skip(f"no {program} on this machine")


def run(*command, code=0, **environment):
    """Returns standard output. The folders of the build, which meson test names for the loader, are left out."""
    base = {name: value for name, value in os.environ.items()
            if name not in ("LD_LIBRARY_PATH", "DESTDIR", "TALUS_PLUGIN_PATH", "MAKEFLAGS")}
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env={**base, **environment})
    if (done.returncode != 0) != (code != 0):
        sys.exit(f"{' '.join(map(str, command))}: exit status {done.returncode}, expected {code}\n"
                 f"{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout if code == 0 else done.stdout + done.stderr


@contextlib.contextmanager
def scratch():
    with tempfile.TemporaryDirectory(prefix="talus-install-") as folder:
        yield pathlib.Path(folder)


class Place:
    """Where a build was installed to: DESTDIR and what lies in it."""

    def __init__(self, destdir, prefix, libdir, includedir):
        self.destdir, self.prefix = destdir, pathlib.Path(f"{destdir}{prefix}")
        self.libdir, self.includedir = self.prefix / libdir, self.prefix / includedir

    def files(self):
        return sorted(str(path.relative_to(self.prefix)) for path in self.destdir.rglob("*")
                      if path.is_symlink() or not path.is_dir())

    def pkg_config(self, *arguments):
        """Sees talus.pc alone, as on a machine without what talus was built with."""
        return run("pkg-config", *arguments, "talus", PKG_CONFIG_LIBDIR=str(self.libdir / "pkgconfig"),
                   PKG_CONFIG_PATH="", PKG_CONFIG_SYSROOT_DIR=str(self.destdir)).split()

    def run(self, *command):
        return run(*command, LD_LIBRARY_PATH=str(self.libdir))


def install(meson, build, destdir):
    """What `ninja uninstall` goes by is left as it was: that is of the user's own installation."""
    log = pathlib.Path(build) / "meson-logs/install-log.txt"
    before = log.read_bytes() if log.exists() else None
    try:
        run(meson, "install", "-C", build, "--no-rebuild", DESTDIR=str(destdir))
        return log.read_text(encoding="utf-8")
    finally:
        if before is None:
            log.unlink(missing_ok=True)
        else:
            log.write_bytes(before)


def with_pkg_config(place, cc, output, *pkg_config_arguments):
    flags = place.pkg_config("--cflags", "--libs", *pkg_config_arguments)
    run(*cc, "-std=c99", "-Wall", "-Werror", "-pedantic-errors", CONSUMER / "main.c", "-o", output, *flags)
    expect(place.run(output), ANSWER, f"{output}, built with {' '.join(flags)}")


def cmake_configure(folder, prefix, wanted, code=0, **variables):
    return run("cmake", "-G", "Ninja", "-S", CONSUMER, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}",
               f"-DTALUS_WANTED={wanted}", *(f"-D{name}={value}" for name, value in variables.items()), code=code)


def with_cmake(place, folder, wanted=VERSION, **variables):
    cmake_configure(folder, place.prefix, wanted, **variables)
    run("ninja", "-C", folder)
    expect(place.run(folder / "consumer"), ANSWER, f"the consumer of CMake, {variables}")


def subproject(meson, source, folder, *options):
    """Sets up the consumer with talus below it."""
    shutil.copytree(CONSUMER, folder)
    (folder / "subprojects/talus").symlink_to(source)
    run(meson, "setup", folder / "build", folder, "--wrap-mode=nodownload", "--force-fallback-for=talus",
        "-Dtalus:cuda=disabled", *options)
    return folder / "build"


def needed(program):
    """The libraries that an executable or library asks the loader for."""
    return [line.split("[")[1].rstrip("]") for line in run("readelf", "-d", program).splitlines()
            if "(NEEDED)" in line]
