"""GLPK's program glpsol. What it prints was read on version 5.0."""

from __future__ import annotations

import math
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.result import Stop
from pipeplan.planners.backends.model import Floats, MatrixModel
from pipeplan.planners.backends.records import Answer, finite
from pipeplan.planners.backends.session import Session, Start, unbounded_or_infeasible
from pipeplan.planners.options import SolveOptions

from . import program

SOLUTION = "solution"
TREE_LINE = re.compile(r"^\+.*>=\s+(\S+)\s+\S+%?\s+\(", re.MULTILINE)


class Driver:
    def solve(self, model: MatrixModel, options: SolveOptions, start: Start | None, session: Session) -> Answer:
        with program.folder_with(model) as folder:
            run = program.run(_command(options, session), folder, options, session, signal.SIGTERM)
            _check_options(options, run)
            written = folder / SOLUTION
            kind, x = _read(written, model) if written.exists() else ("u", None)
        stop, message = _stop(kind, run, session)
        if stop == Stop.UNBOUNDED:
            return unbounded_or_infeasible(self, model, options, session)
        if stop == Stop.INFEASIBLE:
            return Answer(stop)
        bound = program.proven_bound(model, stop, x) if options.rel_gap == 0 else None
        return Answer(stop, x=x, bound=_tree_bound(run, model) if bound is None else bound, message=message)


def _command(options: SolveOptions, session: Session) -> list[str]:
    command = ["glpsol", "--freemps", program.MODEL, "-w", SOLUTION]
    left = session.solver_seconds_left()
    if left is not None:
        command += ["--tmlim", str(max(1, math.ceil(left)))]
    if options.rel_gap:
        command += ["--mipgap", repr(options.rel_gap)]
    for name, value in options.native.items():
        command += _words(name, value)
    return command


def _words(name: str, value: Any) -> list[str]:
    """Switches are given as true; all other options have a value."""
    if value is True:
        return [f"--{name}"]
    return [] if value is False else [f"--{name}", str(value)]


def _check_options(options: SolveOptions, run: program.Run) -> None:
    if run.code == 0:
        return
    for name, value in options.native.items():
        if re.search(rf"(?<![\w-])--{re.escape(name)}(?![\w-])", run.text):
            what = f"with the value {value!r} is no option of GLPK"
            raise InputError(f"native.{name}", what, "correct its name or value")


def _read(path: Path, model: MatrixModel) -> tuple[str, Floats | None]:
    """The status letter and the point: lines `s mip|bas ...`, `j COLUMN [STATE] VALUE ...`."""
    kind, x = "u", np.zeros(model.columns)
    basic = False
    for line in path.read_text().splitlines():
        words = line.split()
        if words[:1] == ["s"]:
            basic = words[1] == "bas"
            # A basic solution has a letter for primal and one for dual feasibility: both f means optimal.
            kind = ("o" if words[4:6] == ["f", "f"] else words[4]) if basic else words[4]
        elif words[:1] == ["j"]:
            x[int(words[1]) - 1] = float(words[3 if basic else 2])
    return kind, x if kind in ("o", "f") else None


def _stop(kind: str, run: program.Run, session: Session) -> tuple[Stop, str]:
    text = run.text
    if "UNBOUNDED" in text or "NO DUAL FEASIBLE" in text:
        return Stop.UNBOUNDED, ""
    if "NO PRIMAL FEASIBLE" in text or "NO FEASIBLE" in text or "NO INTEGER FEASIBLE" in text:
        return Stop.INFEASIBLE, ""
    if session.stop.is_set():
        return Stop.INTERRUPTED, ""
    if "TIME LIMIT EXCEEDED" in text or session.out_of_time():
        return Stop.TIME, ""
    if kind == "o" or "RELATIVE MIP GAP TOLERANCE REACHED" in text:
        return Stop.PROVEN, ""
    if kind == "n":
        return Stop.INFEASIBLE, ""
    last = text.strip().splitlines()[-1:] or ["nothing printed"]
    return Stop.ERROR, f"GLPK ended with code {run.code}: {last[0]}"


def _tree_bound(run: program.Run, model: MatrixModel) -> float | None:
    """The last bound in the lines about the search tree."""
    for word in reversed(TREE_LINE.findall(run.text)):
        try:
            value = finite(float(word))
        except ValueError:
            continue
        return None if value is None else value + model.offset
    return None
