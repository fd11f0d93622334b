"""Derives the presets of `talus bench` from the published numbers of each architecture.

    make_presets.py FOLDER            writes FOLDER/<name>.json
    make_presets.py --check FOLDER    1 if a file there is not what would be written

A preset is {"name", "source", "tensors"}. An item of "tensors" is [name, [extent, ...]], or
{"repeat": n, "tensors": [...]} for n copies, with {} in a name replaced by 0 .. n - 1. Names and
shapes are facts of the architectures; no weights and no code of theirs are used.
"""
import json
import os
import sys


def affine(name, out, *inputs):
    """A weight and a bias."""
    return [[name + ".weight", [out, *inputs]], [name + ".bias", [out]]]


def gpt2(width=768, layers=12, vocabulary=50257, context=1024):
    block = (affine("h.{}.ln_1", width)
             + [["h.{}.attn.c_attn.weight", [width, 3 * width]],
                ["h.{}.attn.c_attn.bias", [3 * width]]]
             + [["h.{}.attn.c_proj.weight", [width, width]], ["h.{}.attn.c_proj.bias", [width]]]
             + affine("h.{}.ln_2", width)
             + [["h.{}.mlp.c_fc.weight", [width, 4 * width]], ["h.{}.mlp.c_fc.bias", [4 * width]]]
             + [["h.{}.mlp.c_proj.weight", [4 * width, width]], ["h.{}.mlp.c_proj.bias", [width]]])
    return [["wte.weight", [vocabulary, width]], ["wpe.weight", [context, width]],
            {"repeat": layers, "tensors": block}, *affine("ln_f", width)]


def bottleneck(name, inputs, width, downsamples):
    outputs = 4 * width
    tensors = []
    for i, (out, into, kernel) in enumerate(
            ((width, inputs, 1), (width, width, 3), (outputs, width, 1)), start=1):
        tensors += [[f"{name}.conv{i}.weight", [out, into, kernel, kernel]],
                    *affine(f"{name}.bn{i}", out)]
    if downsamples:
        tensors += [[f"{name}.downsample.0.weight", [outputs, inputs, 1, 1]],
                    *affine(f"{name}.downsample.1", outputs)]
    return tensors


def resnet50(blocks=(3, 4, 6, 3), classes=1000):
    tensors = [["conv1.weight", [64, 3, 7, 7]], *affine("bn1", 64)]
    inputs = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for block in range(count):
            tensors += bottleneck(f"layer{stage + 1}.{block}", inputs, width, block == 0)
            inputs = 4 * width
    return tensors + affine("fc", classes, inputs)


def vit_b16(width=768, layers=12, hidden=3072, patch=16, image=224, classes=1000):
    layer = "encoder.layers.{}."
    block = (affine(layer + "ln_1", width)
             + [[layer + "self_attention.in_proj_weight", [3 * width, width]],
                [layer + "self_attention.in_proj_bias", [3 * width]]]
             + affine(layer + "self_attention.out_proj", width, width)
             + affine(layer + "ln_2", width)
             + affine(layer + "mlp.0", hidden, width) + affine(layer + "mlp.3", width, hidden))
    tokens = (image // patch) ** 2 + 1
    return [["class_token", [1, 1, width]], *affine("conv_proj", width, 3, patch, patch),
            ["encoder.pos_embedding", [1, tokens, width]], {"repeat": layers, "tensors": block},
            *affine("encoder.ln", width), *affine("heads.head", classes, width)]


def llama(width=2048, layers=16, hidden=8192, kv_heads=8, head=64, vocabulary=128256):
    layer = "model.layers.{}."
    block = [[layer + "self_attn.q_proj.weight", [width, width]],
             [layer + "self_attn.k_proj.weight", [kv_heads * head, width]],
             [layer + "self_attn.v_proj.weight", [kv_heads * head, width]],
             [layer + "self_attn.o_proj.weight", [width, width]],
             [layer + "mlp.gate_proj.weight", [hidden, width]],
             [layer + "mlp.up_proj.weight", [hidden, width]],
             [layer + "mlp.down_proj.weight", [width, hidden]],
             [layer + "input_layernorm.weight", [width]],
             [layer + "post_attention_layernorm.weight", [width]]]
    return [["model.embed_tokens.weight", [vocabulary, width]],
            {"repeat": layers, "tensors": block}, ["model.norm.weight", [width]]]


def equal(count, size):
    return [{"repeat": count, "tensors": [["tensor.{}", [size]]]}]


# Name: (where the list comes from, tensors, count of tensors, count of parameters). The counts are
# those published, or counted by others from the models: they check what is derived here.
PRESETS = {
    "gpt2": ("derived from the sizes of GPT-2 124M in Radford et al. 2019, embedding tied to head",
             gpt2(), 148, 124439808),
    "resnet50": ("derived from the 50-layer column of table 1 in He et al. 2016",
                 resnet50(), 161, 25557032),
    "vit_b16": ("derived from ViT-Base, patch 16, image 224, in table 1 of Dosovitskiy et al. 2021",
                vit_b16(), 152, 86567656),
    "llama3.2-1b": ("derived from the published sizes of Llama 3.2 1B, embedding tied to the head",
                    llama(), 146, 1235814400),
    "flat100m": ("synthetic: one tensor, the memory roof", equal(1, 100_000_000), 1, 100_000_000),
    "10000x1000": ("synthetic: many small tensors", equal(10000, 1000), 10000, 10_000_000),
    "1000x17": ("synthetic: tiny tensors of an odd size, the cost per tensor",
                equal(1000, 17), 1000, 17_000),
    "rows10m": ("synthetic: an embedding table for gradients of rows",
                [["table", [10_000_000, 16]]], 1, 160_000_000),
}


def count(tensors):
    """(tensors, parameters) of a list."""
    total = [0, 0]
    for item in tensors:
        if isinstance(item, dict):
            inner = count(item["tensors"])
            total = [t + item["repeat"] * i for t, i in zip(total, inner)]
        else:
            elements = 1
            for extent in item[1]:
                elements *= extent
            total = [total[0] + 1, total[1] + elements]
    return total


def format_items(tensors, indent):
    """One tensor a line."""
    lines = []
    for item in tensors:
        if isinstance(item, dict):
            inner = format_items(item["tensors"], indent + "  ")
            start = f'{indent}{{"repeat": {item["repeat"]}, "tensors": ['
            lines.append(f"{start}\n{inner}\n{indent}]}}")
        else:
            lines.append(indent + json.dumps(item))
    return ",\n".join(lines)


def format_preset(name):
    source, tensors, tensor_count, parameters = PRESETS[name]
    got = count(tensors)
    if got != [tensor_count, parameters]:
        sys.exit(f"{name}: got {got} tensors and parameters, expected {tensor_count}, {parameters}")
    return (f'{{\n"name": {json.dumps(name)},\n"source": {json.dumps(source)},\n'
            f'"tensors": [\n{format_items(tensors, "  ")}\n]\n}}\n')


def main(arguments):
    check = arguments[:1] == ["--check"]
    if len(arguments) != 1 + check:
        sys.exit(__doc__)
    for name in PRESETS:
        path, text = os.path.join(arguments[-1], name + ".json"), format_preset(name)
        if not check:
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)
        else:
            with open(path, encoding="utf-8") as file:
                if file.read() != text:
                    sys.exit(f"{path}: not what make_presets.py writes")


if __name__ == "__main__":
    main(sys.argv[1:])
