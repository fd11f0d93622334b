"""Converts optimizer state between PyTorch or apex and talus.

    convert_torch.py optimizer.pt state.safetensors --algorithm adamw --names names.txt
    convert_torch.py state.safetensors optimizer.pt                # for load_state_dict
    convert_torch.py state.safetensors flat.pt --to flat           # for set_optimizer_state_dict

The direction follows from what IN is. A state_dict of PyTorch numbers its parameters: their names
are its own (`param_names`), those of --names FILE, one a line in the optimizer's order, or follow
from the shapes in --model FILE.safetensors where none is in doubt. It never names its class; one
that fits alone is taken, else --algorithm must tell. IN is read with torch.load(weights_only=True):
no code in it is run.

Needs PyTorch >= 2.6 and nothing else:

    python3 -m venv VENV && VENV/bin/pip install torch numpy
    VENV/bin/python tools/convert_torch.py ...

numpy makes digests faster. Exit status: 0 done, 1 refused (what does not fit is named, OUT is as it
was), 2 usage, 3 no PyTorch.
"""
import argparse
import math
import sys

from convert import safetensors_file, talus_file
from convert.algorithms import CLASSES
from convert.refusal import Refusal

try:
    from convert import from_torch, tensors, to_torch
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    sys.exit(print("convert_torch.py: PyTorch is not there", file=sys.stderr) or 3)


def hyper(text):
    name, _, value = text.partition("=")
    if not name or not math.isfinite(float(value)):
        raise ValueError
    return name, float(value)


def steps(text):
    if not 0 <= (count := int(text)) < 1 << 53:
        raise ValueError
    return count


def read_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", metavar="IN")
    parser.add_argument("target", metavar="OUT")
    parser.add_argument("--algorithm", metavar="NAME", help="the class: " + ", ".join(CLASSES))
    parser.add_argument("--names", metavar="FILE", help="names, one a line, in its order")
    to_ours = parser.add_argument_group("from PyTorch")
    to_ours.add_argument("--model", metavar="FILE", help="its parameters, as safetensors")
    to_ours.add_argument("--param-dtype", metavar="DTYPE", choices=list(tensors.DTYPES),
                         help="of all parameters, where neither model nor state tells, such as F32")
    to_ours.add_argument("--hyper", metavar="NAME=VALUE", type=hyper, action="append", default=[],
                         help="what an optimizer of apex does not save")
    to_ours.add_argument("--steps", metavar="N", type=steps,
                         help="steps taken, where the class does not count them")
    to_ours.add_argument("--ignore", metavar="KEY", action="append", default=[],
                         help="a key of param_groups that is your own")
    to_ours.add_argument("--no-digest", action="store_true", help="leave out talus.digest")
    to_theirs = parser.add_argument_group("to PyTorch")
    to_theirs.add_argument("--to", choices=["torch", "flat"],
                           help="a state_dict (the default), or one that is flattened")
    result = parser.parse_args(arguments)
    result.hyper = dict(result.hyper)
    return result


def convert(arguments):
    if safetensors_file.is_container(arguments.source):
        checkpoint, left = talus_file.read(arguments.source, tensors.from_bytes)
        content = to_torch.convert(checkpoint, left, arguments)
        safetensors_file.replace_whole(arguments.target, lambda file: file.write(content))
        return
    if arguments.source.endswith(".index.json"):
        raise Refusal(f"{arguments.source}: a checkpoint of several files; save one file")
    if arguments.to:
        raise Refusal(f"--to {arguments.to}: {arguments.source} is PyTorch's already")
    checkpoint = from_torch.convert(arguments.source, arguments)
    talus_file.write(arguments.target, checkpoint, tensors.entry, not arguments.no_digest)


def main(arguments):
    try:
        convert(read_arguments(arguments))
    except (Refusal, OSError) as error:
        print(f"convert_torch.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
