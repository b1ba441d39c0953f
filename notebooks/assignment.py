"""An assignment: the memory of 1F1B and of GPipe by hand, against `plan simulate`. README.md says how to give it.

`python assignment.py hand-out ada bob` writes a pipeline, its plan and an empty sheet for each name,
which decides the numbers. A sheet that is there is never written over.
`python assignment.py grade SHEET.csv ...` counts the right numbers of each sheet, with a hint for each wrong one. The
sheet says whose it is, whatever its file is called by now. `--explain` adds what was expected, and `--marks marks.csv`
writes a table.
`python assignment.py key ada bob` prints the right numbers, for the teacher.
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
WHOSE = ("name", "problem")
"""Columns of each line of a sheet, so that a file that was renamed is graded by the right pipeline."""
HINTS = {
    "1f1b_in_flight": "how many forward passes does this stage run before its first backward pass?",
    "gpipe_in_flight": "when does the first backward pass start under GPipe?",
    "1f1b_memory_mib": "what does the stage always hold, and what for each micro-batch in flight?",
    "gpipe_memory_mib": "what does the stage always hold, and what for each micro-batch in flight?",
}


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
        rows = [[name, problem.hash, number, *[""] * len(COLUMNS)] for number in range(problem.devices)]
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as sheet:
            csv.writer(sheet).writerows([[*WHOSE, "stage", *COLUMNS], *rows])
        print(f"{name}: {problem.devices} stages, {problem.micro_batches} micro-batches; fill in {name}.csv")


def key(names):
    """Prints the right numbers of each name as a filled sheet."""
    writer = csv.writer(sys.stdout)
    writer.writerow(["name", "stage", *COLUMNS])
    for name in names:
        writer.writerows([name, i, *(f"{number:g}" for number in row)] for i, row in enumerate(right_sheet(name)))


def grade(sheet, explain):
    """Prints the points of a sheet and which numbers are wrong; returns its name, its points and how many there are."""
    given = _rows(sheet)
    whose = {(row["name"].strip(), row["problem"].strip()) for row in given.values()}
    if len(whose) != 1:
        raise SystemExit(f"{sheet} names {len(whose)} pipelines; its lines must be those of one sheet handed out.")
    ((name, problem),) = whose
    if pipeline_of(name)[0].hash != problem:
        raise SystemExit(
            f"{sheet} says that it is {name}'s, but its pipeline is another's; hand out {name}'s again."
        )
    right = right_sheet(name)
    wrong = []
    for number, numbers in enumerate(right):
        for column, expected in zip(COLUMNS, numbers, strict=True):
            got = (given.get(str(number), {}).get(column) or "").strip()
            if not math.isclose(_number(got), expected, rel_tol=1e-6):
                told = (
                    f"expected {expected:g}, got {got or 'nothing'}"
                    if explain
                    else f"not {got or 'empty'}; {HINTS[column]}"
                )
                wrong.append(f"  stage {number}, {column}: {told}")
    points = len(right) * len(COLUMNS)
    print(f"{name}: {points - len(wrong)} of {points}", *wrong, sep="\n")
    return name, points - len(wrong), points


def write_marks(path, marks):
    with path.open("w", newline="", encoding="utf-8") as table:
        csv.writer(table).writerows([["name", "points", "of"], *marks])


def _rows(sheet):
    """By stage; a spreadsheet may have saved it with semicolons, where the comma is the decimal sign."""
    with sheet.open(newline="", encoding="utf-8-sig") as opened:
        lines = opened.read().splitlines()
    head = lines[0] if lines else ""
    mark = next((mark for mark in (";", "\t") if mark in head), ",")
    missing = [column for column in (*WHOSE, "stage", *COLUMNS) if column not in head.replace('"', "").split(mark)]
    if missing:
        raise SystemExit(
            f"{sheet} has no column {missing[0]}; its first line must be that of the sheet handed out."
        )
    return {(row["stage"] or "").strip(): row for row in csv.DictReader(lines, delimiter=mark) if row["stage"]}


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
    graded.add_argument("--explain", action="store_true", help="say what was expected")
    graded.add_argument("--marks", type=Path, metavar="marks.csv", help="write names and points as a table")
    keys = commands.add_parser("key", help="print the right numbers, for the teacher")
    keys.add_argument("names", nargs="+", metavar="NAME")
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
    if asked.command == "key":
        key(asked.names)
        return 0
    missing = [str(sheet) for sheet in asked.sheets if not sheet.is_file()]
    if missing:
        parser.error(f"there is no file {missing[0]}")
    marks = [grade(sheet, asked.explain) for sheet in asked.sheets]
    if asked.marks:
        write_marks(asked.marks, marks)
    return int(any(points < most for _, points, most in marks))


if __name__ == "__main__":
    sys.exit(main())
