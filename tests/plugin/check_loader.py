"""Where the CUDA plugin is looked for, which one is taken, and what is said of one that is not.

    check_loader.py LOADER_CASE LIBTALUS FAKE STRANGER UNDEFINED

Each case is a process of its own, for the answer is kept: it loads a copy of the library in a folder
without any plugin and does what its arguments say. FAKE answers as a CUDA plugin would, STRANGER has
no entry, UNDEFINED needs a symbol that is nowhere.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

NAME = "libtalus_cuda.so"
CASES = []


def case(function):
    CASES.append(function)
    return function


class House:
    """A folder with the library, and others that may have a plugin."""

    def __init__(self, root, programs):
        self.root = pathlib.Path(root)
        self.loader_case, self.library, self.fake, self.stranger, self.undefined = programs
        self.lib = self.folder("lib")
        shutil.copy(self.library, self.lib / "libtalus.so")

    def folder(self, name, plugin=None):
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        if plugin:
            shutil.copy(plugin, folder / NAME)
        return folder

    def run(self, *commands, cwd=None, library=None, **environment):
        """The lines of a process, without what each begins with: its command."""
        clean = {k: v for k, v in os.environ.items()
                 if not k.startswith("TALUS_") and k != "LD_LIBRARY_PATH"}
        done = subprocess.run([self.loader_case, library or self.lib / "libtalus.so", *commands],
                              capture_output=True, text=True, timeout=60, cwd=cwd or self.root,
                              env={**clean, **{k: str(v) for k, v in environment.items()}})
        lines = done.stdout.splitlines()
        expect(done.returncode == 0 and done.stderr == "" and len(lines) == len(commands),
               f"{commands}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return [line[len(command) + 1:].strip() for line, command in zip(lines, commands)]

    def taken(self, **how):
        """The file of the plugin in use, "" for none."""
        return self.run("list=plugins", **how)[0].split(" ")[0]


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def expect_parts(text, *parts):
    for part in parts:
        expect(str(part) in text, f"expected {str(part)!r} in\n    {text}")


@case
def nothing_is_loaded_before_the_first_question_for_a_device(house):
    plugin = house.folder("env", house.fake) / NAME
    lines = house.run(f"mapped={plugin}", "cpu", "list=features", f"mapped={plugin}", "cuda=0",
                      f"mapped={plugin}", TALUS_PLUGIN_PATH=plugin.parent)
    expect([lines[i] for i in (0, 3, 5)] == ["0", "0", "1"], lines)
    expect(lines[1].startswith("TALUS_OK") and lines[4].startswith("TALUS_OK"), lines)


@case
def the_api_comes_before_the_variable_before_the_own_folder_before_talus_below_it(house):
    own = house.folder("lib/talus", house.fake)
    expect(house.taken() == str(own / NAME), house.taken())
    own = house.folder("lib", house.fake)
    expect(house.taken() == str(own / NAME), house.taken())
    second, first = house.folder("b", house.fake), house.folder("a")
    both = f":{first}::{second}:"
    expect(house.taken(TALUS_PLUGIN_PATH=both) == str(second / NAME), "an empty folder is passed")
    house.folder("a", house.fake)
    expect(house.taken(TALUS_PLUGIN_PATH=both) == str(first / NAME), "the first folder counts")
    api = house.folder("api", house.fake)
    lines = house.run(f"path={house.root}/none:{api}", "list=plugins", TALUS_PLUGIN_PATH=both)
    expect_parts(lines[1], api / NAME, "CUDA: driver 13.2, runtime 13.0")
    lines = house.run(f"path={api}", "path=NULL", "list=plugins", TALUS_PLUGIN_PATH=both)
    expect_parts(lines[2], first / NAME)


@case
def the_loaders_own_path_comes_last(house):
    last, own = house.folder("ld", house.fake), house.lib / NAME
    expect(house.taken(LD_LIBRARY_PATH=last) == str(last / NAME), house.taken(LD_LIBRARY_PATH=last))
    house.folder("lib", house.fake)
    expect(house.taken(LD_LIBRARY_PATH=last) == str(own), "the own folder counts")


@case
def the_working_directory_is_never_looked_into(house):
    here = house.folder("here", house.fake)
    for variable in ("", ":", ".", "./", "here", "here:"):
        lines = house.run("cuda=0", f"mapped={here / NAME}", cwd=here, TALUS_PLUGIN_PATH=variable)
        expect(lines[0].startswith("TALUS_E_UNSUPPORTED") and lines[1] == "0", (variable, lines))
    lines = house.run("cuda=0", cwd=house.root, TALUS_PLUGIN_PATH="here")
    expect_parts(lines[0], "here (not absolute: left out)")
    for relative in ("here", ".", f"{here}:here"):
        lines = house.run(f"path={relative}", "cuda=0", cwd=house.root)
        expect(lines[0].startswith("TALUS_E_ARGUMENT"), lines)
        expect(lines[1].startswith("TALUS_E_UNSUPPORTED"), lines)


@case
def a_library_that_was_loaded_by_a_relative_path_keeps_its_own_folder(house):
    house.folder("lib", house.fake)
    lines = house.run("chdir=/", "list=plugins", cwd=house.lib, library="./libtalus.so")
    expect_parts(lines[1], house.lib / NAME)


@case
def without_a_plugin_the_text_lists_where_it_was_looked_for_and_the_cpu_goes_on(house):
    api, env = house.folder("api"), house.folder("env")
    lines = house.run(f"path={api}", "cuda=0", "cpu", "feature", "cuda=7", "list=plugins",
                      "list=devices", TALUS_PLUGIN_PATH=env)
    expect_parts(lines[1], "TALUS_E_UNSUPPORTED", NAME, f"{api} (talus_set_plugin_path)",
                 f"{env} (TALUS_PLUGIN_PATH)", house.lib, house.lib / "talus", "No such file")
    expect(lines[2].startswith("TALUS_OK"), lines)
    text = lines[1].split(" ", 1)[1]
    expect(lines[3] == "0 " + text, "the reason of talus_has_feature is that of talus_create")
    expect(lines[4].endswith(text), "the same text at every later request")
    expect(lines[5] == lines[6] == "", "no plugin and no device is listed")


@case
def the_first_answer_is_kept_and_a_path_that_comes_later_is_refused(house):
    late = house.folder("late", house.fake)
    lines = house.run("cuda=0", f"path={late}", f"set=TALUS_PLUGIN_PATH={late}", "cuda=0", "feature")
    expect(lines[1].startswith("TALUS_E_STATE"), lines)
    expect(lines[0] == lines[3] and lines[4] == "0 " + lines[0].split(" ", 1)[1], lines)


@case
def a_plugin_of_another_build_is_refused_with_its_file_and_both_values(house):
    env = house.folder("env", house.fake)
    for what, parts in {"abi": ("boundary",), "size": ("bytes", "expected version"),
                        "version": ("version 0.1.1", "expected version 0.1.0"),
                        "refuse": ("refuses boundary", "expected 0.1.0")}.items():
        lines = house.run("cuda=0", "cpu", "cuda=0", TALUS_PLUGIN_PATH=env, TALUS_FAKE=what)
        expect_parts(lines[0], "TALUS_E_UNSUPPORTED", env / NAME, *parts)
        expect(lines[1].startswith("TALUS_OK") and lines[2] == lines[0], lines)


@case
def a_stranger_and_a_file_that_cannot_be_loaded_are_refused_and_none_stands_in(house):
    env, good = house.folder("env"), house.folder("good", house.fake)
    (env / "text").write_text("no library")
    for plugin, parts in ((house.stranger, ("no plugin of this library", "talus_backend_entry_v1")),
                          (house.undefined, ("cannot be loaded", "talus_fake_is_nowhere")),
                          (env / "text", ("cannot be loaded", "too short"))):
        shutil.copy(plugin, env / NAME)
        lines = house.run("cuda=0", "cpu", f"mapped={good / NAME}", TALUS_PLUGIN_PATH=f"{env}:{good}")
        expect_parts(lines[0], "TALUS_E_UNSUPPORTED", env / NAME, *parts)
        expect(lines[1].startswith("TALUS_OK") and lines[2] == "0", lines)


@case
def what_a_device_lacks_is_told_in_the_plugins_words_and_the_cpu_goes_on(house):
    env = house.folder("env", house.fake)
    for what, status, text in (("no_driver", "TALUS_E_UNSUPPORTED", "no driver (fake)"),
                               ("old_driver", "TALUS_E_UNSUPPORTED", "old driver (fake)"),
                               ("no_device", "TALUS_E_UNSUPPORTED", "no device (fake)"),
                               ("device_error", "TALUS_E_DEVICE", "count failed (fake)")):
        lines = house.run("cuda=0", "feature", "cpu", "cuda=0", "list=plugins", "list=devices",
                          TALUS_PLUGIN_PATH=env, TALUS_FAKE=what)
        expect_parts(lines[0], status, text)
        expect_parts(lines[1], "0 ", text)
        expect(lines[2].startswith("TALUS_OK") and lines[3] == lines[0], lines)
        expect_parts(lines[4], env / NAME, f"CUDA: {text}")
        expect(lines[5] == "", "devices that are not usable")


@case
def an_ordinal_that_is_not_there_is_refused(house):
    env = house.folder("env", house.fake)
    lines = house.run("cuda=1", "cuda=2", "cuda=-1", "list=devices", TALUS_PLUGIN_PATH=env)
    expect(lines[0].startswith("TALUS_OK"), lines)
    expect_parts(lines[1], "TALUS_E_ARGUMENT", "device_id is 2, expected 0 .. 1")
    expect_parts(lines[2], "TALUS_E_ARGUMENT", "device_id is -1, expected 0 .. 1")
    expect_parts(lines[3], "cuda:0 (Fake 0, compute capability 9.0, 0.1 GiB)", "cuda:1 (Fake 1")


@case
def no_symbol_of_the_plugin_leaks_and_it_stays_when_the_library_goes(house):
    plugin = house.folder("env", house.fake) / NAME
    lines = house.run("cuda=0", "symbol=talus_fake_log", "symbol=talus_backend_entry_v1", "close",
                      f"mapped={plugin}", f"mapped={house.lib / 'libtalus.so'}",
                      f"unload={plugin}", f"mapped={plugin}",
                      TALUS_PLUGIN_PATH=plugin.parent)
    expect(lines[0].startswith("TALUS_OK"), lines)
    expect(lines[1:] == ["0", "0", "0", "1", "0", "0", "1"], lines)


def main(programs):
    failed = 0
    for function in CASES:
        with tempfile.TemporaryDirectory() as root:
            try:
                function(House(os.path.realpath(root), programs))
            except AssertionError as error:
                failed += 1
                print(f"FAILED: {function.__name__.replace('_', ' ')}\n    {error}")
    print(f"{len(CASES) - failed} of {len(CASES)} cases passed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main([os.path.abspath(program) for program in sys.argv[1:]]))
