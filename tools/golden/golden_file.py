"""The golden files, tests/golden/<rule>.json: how they are merged and printed.

A file is {"rule", "cases": [...]}; its rule is that of the file in lib/rules. A case has
  source      "worked value", "torch <version>" or "transcription"
  algorithm   a name of the library, aliases included; hypers: what differs from its defaults
  tolerance   0: to the last bit; else relative, of each element; above 1e-14 "why" has the reason
  shape, p0   of the f64 parameter, row-major
  gradients   one a step; or rows: {"rows": [index, ...], "values": [[...], ...]} a step
  p           {"3": [...]} is the parameter after step 3
  state       after the last step; one number where the slot belongs to the tensor
and where needed
  unlisted    slots that the source does not tell
  needs       hyperparameters without which the case is left out, aloud
  scalars     what else the source tells of the last step

Schedules are in schedules.json (worked values) and schedules_torch.json: {"curves", "reports"}.
A curve has
  source, tolerance, why   as above
  schedule    {"kind"}, and where it has them "params", "milestones", "pieces" (schedules) and
              "function", which tests/schedule.h knows by this name
  base        the value of the hyperparameter
  t, value    value[i] at t[i]
and a sequence of reports to a plateau schedule has source, params, base and
  metric      one a report; null: not a number
  value, best {"4": 0.05} is so from the report 4 on, counted from 1; no best yet is infinite
  bad, cooling  after each report
Standard library only.
"""
import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden"
ORDER = ("source", "algorithm", "hypers", "needs", "tolerance", "why", "shape", "p0", "gradients",
         "rows", "p", "state", "unlisted", "scalars")
SOURCES = ("worked value", "torch", "transcription")  # by first words, in the order of a file
WIDTH = 100


def away_from_zero(draw, least, most):
    """A number of either sign; three decimals: short to print, and sums of a few do not all but
    cancel."""
    return round(least + (most - least) * draw.random(), 3) * (1 if draw.random() < .5 else -1)


def merge(rule, source, cases):
    """Replaces the cases of one source, the first words of theirs, in the file of a rule."""
    path = FOLDER / (rule + ".json")
    old = json.loads(path.read_text())["cases"] if path.exists() else []
    kept = [case for case in old if not case["source"].startswith(source)]
    place = lambda case: [case["source"].startswith(s) for s in SOURCES].index(True)
    every = sorted(kept + cases, key=place)
    FOLDER.mkdir(parents=True, exist_ok=True)
    path.write_text(text_of({"rule": rule, "cases": [in_order(case) for case in every]}) + "\n")


def write_schedules(stem, curves, reports):
    file = {"curves": curves, "reports": reports}
    (FOLDER / (stem + ".json")).write_text(text_of(file) + "\n")


def in_order(case):
    unknown = set(case) - set(ORDER)
    if unknown:
        raise ValueError(f"unknown keys {sorted(unknown)}")
    return {key: case[key] for key in ORDER if key in case}


def text_of(value, indent=0, used=0):
    """JSON, on one line where it fits; doubles come back from it bit for bit."""
    flat = json.dumps(value, allow_nan=False)
    if indent + used + len(flat) < WIDTH or not isinstance(value, (dict, list)):
        return flat
    pad, end = " " * (indent + 1), " " * indent
    if isinstance(value, dict):
        items = [json.dumps(key) + ": " + text_of(item, indent + 1, len(key) + 5)
                 for key, item in value.items()]
        return "{\n" + ",\n".join(pad + item for item in items) + "\n" + end + "}"
    if all(item is None or isinstance(item, (int, float)) for item in value):
        return filled(value, pad, end)
    return "[\n" + ",\n".join(pad + text_of(item, indent + 1) for item in value) + "\n" + end + "]"


def filled(numbers, pad, end):
    lines, line = [], pad
    for i, number in enumerate(numbers):
        item = json.dumps(number) + ("," if i + 1 < len(numbers) else "")
        if line != pad and len(line) + 1 + len(item) > WIDTH:
            lines.append(line)
            line = pad
        line += item if line == pad else " " + item
    return "\n".join(["["] + lines + [line]) + "\n" + end + "]"
