"""COIN-OR CBC, the program. What it prints was read on version 2.10."""

from __future__ import annotations

import re
import signal
import subprocess
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

WRONG_OPTION = re.compile(r"No match for|illegal|Possible options", re.IGNORECASE)


class Driver:
    def solve(self, model: MatrixModel, options: SolveOptions, start: Start | None, session: Session) -> Answer:
        for name, value in options.native.items():
            _check_native(name, value)
        with program.folder_with(model) as folder:
            command = _command(options, session)
            if start is not None and start.x is not None:
                _write_start(start.x, folder / "start")
                command[2:2] = ["-mipstart", "start"]
            run = program.run(command, folder, options, session, signal.SIGINT)
            status = (folder / "solution").read_text().partition("\n")[0] if (folder / "solution").exists() else ""
            stop, message = _stop(status, run, session)
            if stop == Stop.UNBOUNDED:
                return unbounded_or_infeasible(self, model, options, session)
            x = _read_point(folder / "point", model) if _has_solution(status) else None
        bound = None if "within gap tolerance" in run.text else program.proven_bound(model, stop, x)
        if bound is None and stop != Stop.INFEASIBLE:
            bound = _printed(r"^Lower bound:\s+(\S+)", run.text, model.offset)
        nodes = _printed(r"^Enumerated nodes:\s+(\d+)", run.text, 0.0)
        return Answer(stop, x=x, bound=bound, nodes=None if nodes is None else int(nodes), message=message)


def _command(options: SolveOptions, session: Session) -> list[str]:
    command = ["cbc", program.MODEL, "-timeMode", "elapsed"]
    left = session.solver_seconds_left()
    if left is not None:
        command += ["-sec", f"{max(left, 0.01):.3f}"]
    if options.threads is not None and options.threads > 1:
        command += ["-threads", str(options.threads)]
    seed = str(options.seed % (2**31))
    command += ["-ratioGap", repr(options.rel_gap), "-allowableGap", repr(max(options.abs_gap, 1e-10))]
    command += ["-randomSeed", seed, "-randomCbcSeed", seed]
    for name, value in options.native.items():
        command += [f"-{name}", _word(value)]
    return [*command, "-solve", "-solution", "solution", "-saveSolution", "point"]


def _word(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def _check_native(name: str, value: Any) -> None:
    """CBC goes on after an option that it does not know; so each is tried alone first."""
    trial = subprocess.run(["cbc", f"-{name}", _word(value), "-quit"], capture_output=True, text=True, timeout=60)
    if WRONG_OPTION.search(trial.stdout):
        raise InputError(
            f"native.{name}", f"with the value {value!r} is no option of CBC", "correct its name or value"
        )


def _stop(status: str, run: program.Run, session: Session) -> tuple[Stop, str]:
    """The first line of the solution file says it all, but for who stopped the run."""
    if status.startswith("Optimal"):
        return Stop.PROVEN, ""
    if status.startswith("Unbounded") or "infeasible or unbounded" in run.text:
        return Stop.UNBOUNDED, ""
    if status.startswith(("Infeasible", "Integer infeasible")):
        return Stop.INFEASIBLE, ""
    if session.stop.is_set():
        return Stop.INTERRUPTED, ""
    if status.startswith("Stopped on time") or session.out_of_time():
        return Stop.TIME, ""
    if status.startswith("Stopped"):
        return Stop.TIME, "CBC stopped at a limit of the native options"
    last = run.text.strip().splitlines()[-1:] or ["nothing printed"]
    return Stop.ERROR, f"CBC ended with code {run.code}: {status or last[0]}"


def _has_solution(status: str) -> bool:
    return status.startswith(("Optimal", "Stopped")) and "no integer solution" not in status


def _write_start(x: Floats, path: Path) -> None:
    lines = (f"{j} x{j} {value!r} 0\n" for j, value in enumerate(x.tolist()))
    path.write_text("Feasible - objective value 0\n" + "".join(lines))


def _read_point(path: Path, model: MatrixModel) -> Floats | None:
    """The binary solution (the readable one has 8 digits): 2 counts, objective, then rows twice, columns twice."""
    if not path.exists():
        return None
    data = path.read_bytes()
    rows, columns = np.frombuffer(data, np.int32, 2).tolist()
    numbers = np.frombuffer(data, np.float64, offset=16)
    return np.array(numbers[2 * rows : 2 * rows + columns]) if columns == model.columns else None


def _printed(pattern: str, text: str, plus: float) -> float | None:
    found = re.findall(pattern, text, re.MULTILINE)
    value = finite(float(found[-1])) if found else None
    return None if value is None else value + plus
