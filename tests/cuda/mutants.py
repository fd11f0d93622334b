"""Breaks the CUDA kernels and the plugin one line at a time, and looks for the test that fails.

    mutants.py BUILD [NAME...]    BUILD: a build folder with the CUDA tests built; NAME: part of a name

Each mutant is compiled from a copy of the sources by the build's own commands. The sound sources go
the same way first and must pass, so that a red test means the mutant. 0: every mutant was found.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile

SOURCE = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
COPIED = ("cuda", "include", "lib", "tests")

SHIM_KERNELS = "tests/cuda/libtalus_cuda_shim.so.p/emu_shim_kernels.cpp.o"
PTX_KERNELS = "cuda/libtalus_cuda_kernels.a.p/kernels.cu.o"
TRIAL_KERNELS = "tests/cuda/libtalus_cuda_trial_kernels.a.p/.._.._cuda_kernels.cu.o"
HOST = "cuda/libtalus_cuda_host.a.p/{}.o"

# How a kind is built and tested: the objects made anew, the plugin they go into, the test. A kind
# without a plugin is a gate on the text that its object is.
SHIM, PTX, TRIAL, CALLS, GATE = "shim", "ptx", "trial", "calls", "gate"
ORDERS = "orders"
KINDS = {
    SHIM: ("tests/cuda/libtalus_cuda_shim.so", "tests/cuda/test_plugin_bits_shim"),
    PTX: ("cuda/libtalus_cuda_emu.so", "tests/cuda/test_plugin_bits"),
    TRIAL: ("tests/cuda/libtalus_cuda_trial.so", "tests/cuda/test_trial_bits"),
    CALLS: ("cuda/libtalus_cuda_emu.so", "tests/cuda/test_plugin_calls"),
    ORDERS: ("tests/cuda/libtalus_cuda_shim.so", "tests/cuda/test_device_steps_shim"),
    GATE: (None, None),
}
GATE_TEXT = "tests/cuda/kernels.ptx"


class Mutant:
    """`old` of a file becomes `new`; file None: of the compiler's arguments."""

    def __init__(self, name, kind, objects, file, old, new):
        self.name, self.kind, self.objects = name, kind, objects
        self.file, self.old, self.new = file, old, new


def kernel(name, file, old, new):
    return Mutant(name, SHIM, [SHIM_KERNELS], "cuda/" + file, old, new)


def order(name, file, old, new):
    return Mutant(name, ORDERS, [SHIM_KERNELS], "cuda/" + file, old, new)


def trial(name, file, old, new):
    return Mutant(name, TRIAL, [TRIAL_KERNELS], "cuda/" + file, old, new)


def host(name, file, old, new):
    return Mutant(name, CALLS, [HOST.format(file)], "cuda/" + file, old, new)


SOUND = (Mutant("sound kernels by the host's compiler", SHIM, [SHIM_KERNELS], None, "", ""),
         Mutant("sound kernels of orders", ORDERS, [SHIM_KERNELS], None, "", ""),
         Mutant("sound kernels in PTX", PTX, [PTX_KERNELS], None, "", ""),
         Mutant("sound kernels of the trial rule", TRIAL, [TRIAL_KERNELS], None, "", ""),
         Mutant("sound launcher", CALLS, [HOST.format("ring.cpp")], None, "", ""),
         Mutant("sound text of PTX", GATE, [GATE_TEXT], None, "", ""))
MUTANTS = (
    kernel("the barrier of the fold is gone", "fold.inl", "    __syncthreads();\n", ""),
    kernel("vectors without a test of alignment", "pass.inl", "off != 0 || head > n", "head > n"),
    kernel("sums without a test of alignment", "sum.inl", "off == 0 ? n /", "true ? n /"),
    kernel("a tail that is one element too long", "pass.inl",
           "n - head - vectors * W}", "n - head - vectors * W + 1}"),
    kernel("a tail that is one element too short", "pass.inl",
           "i < cut.head + cut.tail", "i + 1 < cut.head + cut.tail"),
    kernel("a parameter without a gradient is updated", "pass.inl",
           "if (!tables.columns[kGradient * tables.tensors + piece.tensor]) continue;", ""),
    kernel("the scalars of the class before", "pass.inl", "if (scalar_class != loaded)",
           "if (loaded == kIdle)"),
    order("a step that is skipped is taken", "control.inl",
          "!tables.control || tables.control->live", "true"),
    order("the rows of one step fewer", "control.inl", "tables.control->candidate *", "0 *"),
    order("the factor of the clip is forgotten", "control.inl",
          "row.gradient_factor * tables.control->factor *", "row.gradient_factor *"),
    order("first values where steps were taken before", "begin.inl",
          "control.live && control.candidate == 0", "control.live"),
    trial("a fold over the tiles of another tensor", "fold.inl",
          "tables.partials + k * stride + first", "tables.partials + k * stride"),
    trial("a fold without its last tile", "fold.inl",
          "tables.tile_first[tensor + 1] - first;\n  const uint64_t stride",
          "tables.tile_first[tensor + 1] - first - (tables.tile_first[tensor + 1] > first);\n"
          "  const uint64_t stride"),
    trial("the part values of another tensor", "pass.inl",
          "int64_t(piece.tensor) * kMaxPartValues", "0 * kMaxPartValues"),
    trial("a tensor slot that keeps its first value", "fold.inl",
          "if (data[k]) *data[k] =", "if (data[k] && sums[0] < 0) *data[k] ="),
    Mutant("multiplications and additions are contracted", PTX, [PTX_KERNELS], None,
           "-fmad=false", "-fmad=true"),
    Mutant("contraction shows in the text", GATE, [GATE_TEXT], None, "-fmad=false", "-fmad=true"),
    Mutant("no hint of the address space", GATE, [GATE_TEXT], "cuda/kernels.cuh",
           "__builtin_assume(__isGlobal(p))", "((void)0)"),
    host("no event behind an upload", "ring.cpp",
         "e = cudaEventRecord(uploads_[next].passed, stream);", "e = cudaSuccess;"),
    host("an upload on another stream", "ring.cpp", "cudaMemcpyHostToDevice, stream)",
         "cudaMemcpyHostToDevice, nullptr)"),
    host("a launch on another stream", "launch.cpp", "arguments, 0, stream)", "arguments, 0, nullptr)"),
)


class Workshop:
    """A copy of the sources, and the build's commands bent to it."""

    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.copy = os.path.join(folder, "source")
        for name in COPIED:
            shutil.copytree(os.path.join(SOURCE, name), os.path.join(self.copy, name))

    def command(self, output):
        text = subprocess.run(["ninja", "-t", "commands", "-s", output], cwd=self.build, check=True,
                              capture_output=True, text=True).stdout
        if not text.strip():
            raise SystemExit(f"mutants: {self.build} does not build {output}")
        return shlex.split(text)

    def compile(self, output, change):
        """Returns where the object lies."""
        made = os.path.join(self.folder, os.path.basename(output))
        relative, out, skip = os.path.relpath(SOURCE, self.build), [], False
        for word in self.command(output):
            if skip or word in ("-MD", "-MQ", "-MF", "-MT"):
                skip = not skip and word != "-MD"
                continue
            if ",code=sm_" in word:  # the emulator reads PTX alone
                continue
            source = word.replace(relative, self.copy).replace(SOURCE, self.copy)
            out.append(change(made if word == output else source))
        subprocess.run(out, cwd=self.build, check=True)
        return made

    def link(self, plugin, objects):
        """`objects` take the places of those of the build. Returns the plugin's folder."""
        folder = os.path.join(self.folder, "plugin")
        os.makedirs(folder, exist_ok=True)
        made = {plugin: os.path.join(folder, "libtalus_cuda.so"), **objects}
        command = [made.get(word, word) for word in self.command(plugin)]
        subprocess.run(command, cwd=self.build, check=True)
        return folder

    def is_green(self, mutant):
        plugin, test = KINDS[mutant.kind]
        swap = lambda word: word
        if mutant.old and not mutant.file:
            swap = lambda word: word.replace(mutant.old, mutant.new)
        objects = {name: self.compile(name, swap) for name in mutant.objects}
        if plugin:
            folder = self.link(plugin, objects)
            command = [os.path.join(self.build, test), "--abort"]
            environment = {**os.environ, "TALUS_PLUGIN_PATH": folder}
        else:
            command = [sys.executable, "-B", os.path.join(SOURCE, "tests/cuda/gates.py"), "ptx",
                       objects[GATE_TEXT]]
            environment = None
        try:
            done = subprocess.run(command, env=environment, capture_output=True, timeout=600)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def run(self, mutant):
        if not mutant.file:
            return self.is_green(mutant)
        path = os.path.join(self.copy, mutant.file)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        if text.count(mutant.old) != 1:
            raise SystemExit(f"mutants: {mutant.file} has {text.count(mutant.old)} of: {mutant.old}")
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(mutant.old, mutant.new))
            return self.is_green(mutant)
        finally:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


def main(arguments):
    if not arguments or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    chosen = [m for m in MUTANTS if not arguments[1:] or any(a in m.name for a in arguments[1:])]
    kinds = {m.kind for m in chosen}
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        workshop = Workshop(os.path.abspath(arguments[0]), folder)
        for expected, mutants in ((True, SOUND), (False, chosen)):
            for mutant in mutants:
                if mutant.kind not in kinds:
                    continue
                green = workshop.run(mutant)
                wrong += green != expected
                print(f"{'ok  ' if green == expected else 'FAIL'} {mutant.name}: "
                      f"{'green' if green else 'red'}", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
