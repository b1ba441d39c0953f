"""How far runs go beyond their time limit: wall time less the limit and less what was compiled, in a new process each.

    python benchmarks/overrun.py [--time-limit 5] [--methods 3] [--only NAME] [--method NAME] [--cold run|shared|warm]
                                 [--page FILE]

By default every packaged instance is planned by the default method of its kind and two quick planners, in the order of
the registry; `--methods 0` takes all. `--cold run` gives every run an empty folder for machine code, `shared` one empty
folder to all of them, so that each method compiles once; `warm` leaves what is there. Start-up and output count: it is
what a user waits for. On a machine with other work, `work` (of the run and its solvers) says whether the run itself was
late. `--page` writes the table as a page of the documentation. The exit code is 1 where a run is later than allowed,
fails, or where the default method has no verified plan.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pipeplan.cli.exits import NO_PLAN, OK
from pipeplan.formulations.registry import FORMULATIONS, Entry
from pipeplan.instances.catalogue import load_packaged, packaged_names
from pipeplan.instances.registry import Problem
from pipeplan.planners.registry import EXACT, default_method, methods_of
from pipeplan.planners.run.choose import lacks

SHARE, SECONDS = 0.1, 1.0
"""A run may take this share of its limit, and these seconds, beyond it."""
NEEDS_A_FILE = ("expert", "latency-expert")
HANGS_S = 300.0
"""So long after its limit a run is ended: it would not end by itself."""
LOOK_S = 0.05
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Run:
    """One run in a process of its own, in seconds."""

    instance: str
    method: str
    limit: float
    wall: float
    work: float
    """Of its processors, before its clock starts and beyond its limit."""
    compiled: float
    code: int
    stop: str
    verified: bool
    must_plan: bool

    @property
    def overrun(self) -> float:
        """Below 0 where the run ended before its limit."""
        return self.wall - self.limit - self.compiled

    @property
    def is_late(self) -> bool:
        return min(self.overrun, self.work) > SHARE * self.limit + SECONDS

    @property
    def is_right(self) -> bool:
        """Only a method that promises a plan fails where there is none."""
        return (self.code == OK and self.verified) or (self.code == NO_PLAN and not self.must_plan)


def main() -> int:
    arguments = _arguments()
    shared = tempfile.TemporaryDirectory() if arguments.cold == "shared" else nullcontext(None)
    runs = []
    print(_line("instance", "method", "wall", "compile", "overrun", "work", "stop", ""))
    with shared as folder:
        for problem, entry, must_plan in _cases(arguments.methods, arguments.only, arguments.method):
            run = _timed(problem, entry, arguments.time_limit, arguments.cold, folder, must_plan)
            runs.append(run)
            print(_row(run), flush=True)
    print(_summary(runs))
    if arguments.page is not None:
        arguments.page.write_text(_page(runs, arguments), encoding="utf-8")
    return int(any(run.is_late or not run.is_right for run in runs))


def _summary(runs: Sequence[Run]) -> str:
    late, wrong = sum(run.is_late for run in runs), sum(not run.is_right for run in runs)
    return (
        f"Of {len(runs)} runs, {late} went more than {SHARE:.0%} + {SECONDS:g} s beyond the limit, "
        f"and {wrong} ended without the answer that they owe"
    )


COLUMNS = ("instance", "method", "seconds in all", "of them compiling", "beyond the limit", "stop")


def _page(runs: Sequence[Run], arguments: argparse.Namespace) -> str:
    command = f"benchmarks/overrun.py --time-limit {arguments.time_limit:g} --cold {arguments.cold}"
    head = f"""# How far runs go beyond their time limit

Each packaged instance was planned by the default method of its kind and by quick planners, each run in a
process of its own with a limit of {arguments.time_limit:g} s and an empty folder for machine code, so that each
run compiled all that it needed. The time for compiling does not count against the limit. The start of Python,
judging the plan and printing it do. Where the time beyond the limit is below 0, the run ended before its limit.

Made by `python {command}` on {date.today():%Y-%m-%d}. {_summary(runs)}.

"""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    for run in runs:
        numbers = (f"{value:.1f}" for value in (run.wall, run.compiled, run.overrun))
        lines.append("| " + " | ".join((run.instance, run.method, *numbers, run.stop)) + " |")
    return head + "\n".join(lines) + "\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time-limit", type=float, default=5.0)
    parser.add_argument("--methods", type=int, default=3, help="of each instance, the default one first; 0: all")
    parser.add_argument("--only", default="", help="instances with this in their name")
    parser.add_argument("--method", default="", help="methods with this in their name")
    parser.add_argument("--cold", choices=("run", "shared", "warm"), default="run")
    parser.add_argument("--page", type=Path, help="a Markdown file to write")
    return parser.parse_args()


def _cases(most: int, instance: str, method: str) -> Iterator[tuple[Problem, Entry, bool]]:
    """Problem, method, and whether the method owes a plan."""
    for name in packaged_names():
        problem = load_packaged(name)
        if instance in name:
            default = default_method(problem.kind, problem.extensions)
            for entry in methods_for(problem)[: most or None]:
                if method in entry.name:
                    yield problem, entry, entry is default


def methods_for(problem: Problem) -> list[Entry]:
    """Those that can plan it: the default one, then quick planners, then those that prove."""
    able = [x for x in methods_of(problem.kind) if lacks(x, problem) is None and x.name not in NEEDS_A_FILE]
    default = default_method(problem.kind, problem.extensions)
    return sorted(able, key=lambda entry: (entry is not default, entry.exact))


def _timed(problem: Problem, entry: Entry, limit: float, cold: str, shared: str | None, must_plan: bool) -> Run:
    own = tempfile.TemporaryDirectory() if cold == "run" else nullcontext(shared)
    with own as folder, tempfile.TemporaryFile() as output:
        environment = os.environ | ({} if folder is None else {"NUMBA_CACHE_DIR": folder})
        command = _command(problem, entry, limit)
        process = subprocess.Popen(command, stdout=output, env=environment, start_new_session=True)
        looks = list(_looks(process, limit))
        output.seek(0)
        text = output.read()
    found = json.loads(text) if text.startswith(b"{") else {"stop": "nothing", "seconds": {}, "verified": False}
    compiled, wall = found["seconds"].get("compile", 0.0), looks[-1][0]
    starts = max(0.0, wall - compiled - found["seconds"].get("total", 0.0))
    ends = starts + compiled + limit
    return Run(
        instance=problem.name,
        method=entry.name,
        limit=limit,
        wall=wall,
        work=_until(looks, starts) + looks[-1][1] - _until(looks, ends),
        compiled=compiled,
        code=process.returncode,
        stop=found["stop"],
        verified=found["verified"],
        must_plan=must_plan,
    )


def _command(problem: Problem, entry: Entry, limit: float) -> list[str]:
    flag = "--formulation" if entry.name in FORMULATIONS else "--planner"
    assert entry.name != EXACT, "it is asked by the names of its formulations"
    own = [flag, entry.name, "--time-limit", f"{limit}s", "--json", "--progress", "none"]
    return [sys.executable, "-m", "pipeplan", "solve", problem.name, *own]


def _looks(process: subprocess.Popen[bytes], limit: float) -> Iterator[tuple[float, float]]:
    """Now and then until the end: seconds since the start, and what all processes of the run have worked."""
    begun, work = time.monotonic(), 0.0
    while process.poll() is None:
        since = time.monotonic() - begun
        if since > limit + HANGS_S:
            process.kill()
        work = max(work, _work(process.pid))
        yield since, work
        time.sleep(LOOK_S)
    yield time.monotonic() - begun, work


def _until(looks: list[tuple[float, float]], moment: float) -> float:
    """What was worked by then."""
    return max((work for since, work in looks if since <= moment), default=0.0)


def _work(group: int) -> float:
    """Seconds that the living processes of a group have worked, with those of their children that have ended."""
    return sum(_work_of(path, group) for path in Path("/proc").glob("[0-9]*/stat"))


def _work_of(path: Path, group: int) -> float:
    try:
        fields = path.read_text().rpartition(")")[2].split()
    except OSError:  # it has just ended
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS if int(fields[2]) == group else 0.0


def _row(run: Run) -> str:
    numbers = (f"{value:.1f}" for value in (run.wall, run.compiled, run.overrun, run.work))
    faults = [*(["LATE"] if run.is_late else []), *([] if run.is_right else [f"EXIT {run.code}"])]
    return _line(run.instance, run.method, *numbers, run.stop, " ".join(faults))


def _line(instance: str, method: str, *cells: str) -> str:
    *numbers, stop, faults = cells
    return f"{instance:24} {method:20} {''.join(f'{cell:>9}' for cell in numbers)}  {stop:11} {faults}".rstrip()


if __name__ == "__main__":
    sys.exit(main())
