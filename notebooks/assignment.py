"""An assignment: the memory of 1F1B and of GPipe by hand, against `plan simulate`. README.md says how to give it.

`python assignment.py hand-out ada bob` writes a pipeline, its plan and an empty sheet for each name,
which decides the numbers. A sheet that is there is never written over.
`python assignment.py grade ada.csv bob.csv` counts the right numbers of each sheet, and says what was expected.
"""

import argparse
import csv
import math
import random
import sys
from itertools import pairwise
from pathlib import Path

import pipeplan
from pipeplan.instances.staging.problem import Edge

MIB = 2**20
COLUMNS = ("1f1b_in_flight", "1f1b_memory_mib", "gpipe_in_flight", "gpipe_memory_mib")


def pipeline_of(name):
    """The pipeline of a student, one layer for each stage, and its plan."""
    draw = random.Random(name)
    depth = draw.randint(4, 6)
    layers = []
    for number in range(depth):
        held, fixed = draw.randint(3, 20) * MIB, draw.randint(40, 90) * MIB
        way = pipeplan.Configuration("plain", draw.randint(2, 9), 0, memory_per_batch=held, memory_fixed=fixed)
        layers.append(pipeplan.Layer(f"stage-{number}", {1: (way,)}))
    edges = [Edge(a.id, b.id, 0) for a, b in pairwise(layers)]
    problem = pipeplan.StagingProblem(
        tuple(layers), tuple(edges), depth, 2.0**30, depth + draw.randint(0, 4), 2.0**34, name=name
    )
    return problem, pipeplan.StagedPlan(
        tuple(pipeplan.PlannedStage((layer.id,), 1, 1, {layer.id: "plain"}) for layer in layers)
    )


def right_sheet(name):
    """What the simulator finds for each stage."""
    problem, plan = pipeline_of(name)
    runs = [pipeplan.simulate(problem, plan, schedule=schedule).stages for schedule in ("1f1b", "gpipe")]
    return [
        [number for stage in stages for number in (stage.peak_in_flight, stage.memory_bytes / MIB)]
        for stages in zip(*runs, strict=True)
    ]


def hand_out(names, folder):
    for name in names:
        problem, plan = pipeline_of(name)
        pipeplan.save(problem, folder / f"{name}.json")
        pipeplan.save(plan, folder / f"{name}-plan.json")
        rows = [[number, *[""] * len(COLUMNS)] for number in range(problem.devices)]
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as sheet:
            csv.writer(sheet).writerows([["stage", *COLUMNS], *rows])
        print(f"{name}: {problem.devices} stages, {problem.micro_batches} micro-batches; fill in {name}.csv")


def grade(sheet):
    """Prints the points of a sheet, with what was expected; are they all there?"""
    right = right_sheet(sheet.stem)
    given = _rows(sheet)
    wrong = []
    for number, numbers in enumerate(right):
        for column, expected in zip(COLUMNS, numbers, strict=True):
            got = (given.get(str(number), {}).get(column) or "").strip()
            if not math.isclose(_number(got), expected, rel_tol=1e-6):
                wrong.append(f"  stage {number}, {column}: expected {expected:g}, got {got or 'nothing'}")
    points = len(right) * len(COLUMNS)
    print(f"{sheet.stem}: {points - len(wrong)} of {points}", *wrong, sep="\n")
    return not wrong


def _rows(sheet):
    """By stage; a spreadsheet may have saved it with semicolons, where the comma is the decimal sign."""
    with sheet.open(newline="", encoding="utf-8-sig") as opened:
        lines = opened.read().splitlines()
    head = lines[0] if lines else ""
    mark = next((mark for mark in (";", "\t") if mark in head), ",")
    missing = [column for column in ("stage", *COLUMNS) if column not in head.replace('"', "").split(mark)]
    if missing:
        raise SystemExit(
            f"{sheet} has no column {missing[0]}; its first line must be that of the sheet handed out."
        )
    return {(row["stage"] or "").strip(): row for row in csv.DictReader(lines, delimiter=mark)}


def _number(text):
    try:
        return float(text.replace(",", "."))
    except ValueError:
        return math.nan


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    out = commands.add_parser("hand-out", help="write a pipeline, a plan and an empty sheet for each name")
    out.add_argument("names", nargs="+", metavar="NAME")
    out.add_argument("-o", "--folder", type=Path, default=Path())
    graded = commands.add_parser("grade", help="count the right numbers of sheets; exit code 1 if one is wrong")
    graded.add_argument("sheets", nargs="+", metavar="SHEET.csv", type=Path)
    asked = parser.parse_args(words)
    if asked.command == "hand-out":
        for name in asked.names:
            if name != Path(name).name:
                parser.error(f"{name} is no name; it becomes that of files, so leave out / and folders")
            if (sheet := asked.folder / f"{name}.csv").exists():
                parser.error(f"{sheet} is there, and may be filled in; remove it to hand it out again")
        asked.folder.mkdir(exist_ok=True)
        hand_out(asked.names, asked.folder)
        return 0
    missing = [str(sheet) for sheet in asked.sheets if not sheet.is_file()]
    if missing:
        parser.error(f"there is no file {missing[0]}")
    return int(sum(map(grade, asked.sheets)) < len(asked.sheets))


if __name__ == "__main__":
    sys.exit(main())
