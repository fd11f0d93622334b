"""What the checks of tools/convert_torch.py share: running it, and running checks by name."""
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import traceback

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
TORCH_PYTHON = "TALUS_TORCH_PYTHON"
SKIP = 77
sys.path.insert(0, str(TOOLS))
sys.dont_write_bytecode = True


def skip(reason):
    print("SKIPPED: " + reason)
    sys.exit(SKIP)


def need_torch(python=None):
    """Goes on in the Python of that name, or of TALUS_TORCH_PYTHON, where this one has no torch."""
    try:
        import torch
        return torch
    except ModuleNotFoundError:
        python = python or os.environ.get(TORCH_PYTHON)
    if not python:
        skip(f"no PyTorch; {TORCH_PYTHON} may name a Python that has it")
    if os.environ.get("TALUS_TORCH_TRIED") == python:
        skip(f"no PyTorch in {python}")
    os.environ["TALUS_TORCH_TRIED"] = python
    try:
        os.execv(python, [python, "-B", *sys.argv])
    except OSError as error:
        skip(f"{python}: {error.strerror}")


def run_tool(*arguments):
    """Exit status, and what it said."""
    import convert_torch
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        status = convert_torch.main([str(argument) for argument in arguments])
    return status, said.getvalue()


def convert(*arguments):
    status, said = run_tool(*arguments)
    assert status == 0, said
    return said


def refuse(wanted, source, target, *arguments):
    """wanted: what the refusal must say, all of it. Nothing may be left of the target."""
    target = pathlib.Path(target)
    status, said = run_tool(source, target, *arguments)
    assert status == 1, f"status {status}, expected a refusal that says {wanted}: {said}"
    for text in wanted if isinstance(wanted, tuple) else (wanted,):
        assert text in said, f"expected {text!r} in: {said}"
    assert not target.exists(), f"{target} is there"
    left = [name for name in os.listdir(target.parent) if name.endswith(".tmp")]
    assert not left, f"left behind: {left}"


def write_model(path, shapes, dtype="F32"):
    """Parameters of zeros, as safetensors."""
    from convert import safetensors_file
    count = safetensors_file.byte_count
    entries = [safetensors_file.Entry(name, dtype, shape, bytes(count(dtype, shape)))
               for name, shape in shapes.items()]
    head, order = safetensors_file.lay_out(entries, {})
    safetensors_file.replace_whole(path, lambda file: [
        file.write(part) for part in [head, *(entry.data for entry in order)]])
    return path


def run_checks(checks):
    """Each check takes a folder of its own; its docstring is its name."""
    failed = 0
    for check in checks:
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(pathlib.Path(folder))
            except Exception:  # the next one may still tell something
                failed += 1
                print(f"FAILED: {check.__doc__}")
                traceback.print_exc(file=sys.stdout)
    print(f"{len(checks) - failed} checks passed, {failed} failed")
    return 1 if failed else 0


def checks_of(module):
    return [value for name, value in module.items() if name.startswith("check_")]
