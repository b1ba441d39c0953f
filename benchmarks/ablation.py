"""What each group of stages of the searches is worth: all of one idea switched off at once, on inputs of its method.

    python benchmarks/ablation.py [--of METHOD] [--group WORD] [--row WORD] [--time-limit S]
    python benchmarks/ablation.py --table

A *stage* is a heuristic, a reduction or a bound; a *group* has all stages of one idea. `ablation_stages.py` lists
groups as data: functions or constants by their addresses, and what stands in their place while they are off. The
product knows nothing of it. Each run is a process of its own, which exchanges what is there and then plans one input.
What came of it is kept at once in `ablation.jsonl`, one line each, and a run that is there is not made again: so the
program may be interrupted and goes on. After two inputs that miss a group no more are planned without it.

The rule: a group stays only if without it at least two inputs, one of them published or packaged, lose their proof, 1 %
of value or gap, or take twice the processor time or counted work. Earlier runs had single stages off: an input that
missed one of them misses its group.

`--table` plans nothing and writes the page `benchmarks/results/ablation.md` from what is kept.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from ablation_stages import GONE, GROUPS, NOT_WEIGHED, ROWS, Gone, Group, Row

import pipeplan
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.result import relative_gap
from pipeplan.studies.journal import Journal

HERE = Path(__file__).parent
RUNS = HERE / "ablation.jsonl"
PAGE = HERE / "results" / "ablation.md"

# With all stages, for the noise.
REPEATED = 2
# Inputs that have to miss a group.
ENOUGH = 2
# Processor time, or counted work, that is so many times as much counts.
TIMES = 2.0
# A difference of less processor time than this is noise.
LEAST_S = 0.3
# Shares of the value, and of gaps, that count.
SHARE = 0.01
# Of the limit: runs that waited longer for a processor and were cut off are made again, at most so often in all.
DISTURBED, TRIES = 0.15, 2
# How a run stops whose input the method does not take.
REFUSED = "refused"
# For what a run does beyond its limit.
GRACE_S = 120.0
# Counters that say how much was done. Others say how large a model is, or what was learnt.
WORK = (
    "probes",
    "decisions",
    "pairs",
    "runs",
    "steps",
    "schedules",
    "models",
    "states",
    "rows",
    "columns",
    "nonzeros",
)


@dataclass(frozen=True)
class Run:
    """One line of what is kept. Values are in the problem's time unit."""

    row: str
    stage: str
    """Name of the group that was off, or in earlier runs of a single stage; empty: none."""
    number: int
    limit_s: float
    stop: str
    value: float | None
    bound: float | None
    seconds: float
    cpu: float
    """Seconds of processors, those of solvers included."""
    counters: Mapping[str, int] = field(default_factory=dict)
    calls: int = 0
    """How often what stood in the stage's place was called; constants are not called."""
    waited: float = 0.0
    """Seconds in which others had the processors."""

    @property
    def gap(self) -> float | None:
        return relative_gap(self.value, self.bound)

    def stands_for(self, limit_s: float) -> bool:
        """Would it be the same within this limit, as far as can be told?"""
        return self.limit_s == limit_s or (self.ended and self.limit_s < limit_s)

    @property
    def ended(self) -> bool:
        """Did the search end by itself?"""
        return self.stop not in ("time", "error", "memory", "killed", REFUSED)


# ---- one run, in a process of its own --------------------------------------------------------------------


def holder_of(address: str) -> tuple[Any, str]:
    """Where the function or constant at an address `module:name` or `module:Class.name` is kept, and its name there."""
    module, _, path = address.partition(":")
    *outer, name = path.split(".")
    holder: Any = import_module(f"pipeplan.{module}")
    for part in outer:
        holder = getattr(holder, part)
    vars(holder)[name]  # and not of a class that it inherits from
    return holder, name


class Off:
    """A group that is switched off, with the number of calls of what stands in its place."""

    def __init__(self, group: Group) -> None:
        self.calls = 0
        for address, replace in group.swaps.items():
            holder, name = holder_of(address)
            original = vars(holder)[name]
            plain = original.__func__ if isinstance(original, classmethod | staticmethod) else original
            setattr(holder, name, self._wrapped(original, replace(plain)))

    def _wrapped(self, original: Any, replacement: Any) -> Any:
        if not callable(replacement) or isinstance(replacement, type):
            return replacement

        def counted(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            return replacement(*arguments, **options)

        kind = type(original)
        return kind(counted) if kind in (classmethod, staticmethod) else counted


def run_here(row: Row, group: Group | None, limit_s: float) -> dict[str, Any]:
    """Plan the row in this process, which is to end after it."""
    problem = row.problem()
    off = None if group is None else Off(group)
    asked = {**row.how, **({} if group is None else group.instead)}
    how = {name: value for name, value in asked.items() if value is not None}
    limits = pipeplan.SolveOptions(time_limit_s=limit_s, threads=row.threads, seed=0)
    began, worked, waited = time.monotonic(), _processor_seconds(), _waited_seconds()
    try:
        result = pipeplan.solve(problem, **how, limits=limits)
    except InputError:
        return {"stop": REFUSED, "value": None, "bound": None, "seconds": 0.0, "cpu": 0.0}
    counters = {name: int(number) for name, number in result.model_size.items()}
    if "models" in result.backend:
        counters["models"] = int(result.backend["models"])
    return {
        "stop": str(result.stop),
        "value": None if result.objective is None or not result.verified else float(result.objective),
        "bound": None if result.bound is None else float(result.bound),
        "seconds": round(time.monotonic() - began, 2),
        "cpu": round(_processor_seconds() - worked, 2),
        "counters": counters,
        "calls": 0 if off is None else off.calls,
        "waited": round(_waited_seconds() - waited, 2),
    }


def _family(parents: Mapping[int, int]) -> list[int]:
    """This process and all that it started."""
    found = [os.getpid()]
    for one in found:  # which grows
        found += [child for child, parent in parents.items() if parent == one]
    return found


def _processor_seconds() -> float:
    """Of this process and of all that it started, whether they live or have ended."""
    parents, ticks = dict[int, int](), dict[int, int]()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            parents[int(path.name)] = int(fields[1])
            ticks[int(path.name)] = sum(map(int, fields[11:15]))
    return sum(ticks.get(one, 0) for one in _family(parents)) / os.sysconf("SC_CLK_TCK")


def _waited_seconds() -> float:
    """How long the thread of this process that waited longest for a processor did so, because others had it."""
    waited = [0.0]
    for path in Path(f"/proc/{os.getpid()}/task").glob("*/schedstat"):
        with suppress(OSError):
            waited.append(int(path.read_text().split()[1]) / 1e9)
    return max(waited)


def run_apart(row: Row, group: Group | None, number: int, limit_s: float) -> Run:
    command = [sys.executable, __file__, "--one", row.name, "" if group is None else group.name]
    command += ["--time-limit", str(limit_s)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s + GRACE_S, check=False)
    except subprocess.TimeoutExpired:
        facts = {"stop": "killed", "value": None, "bound": None, "seconds": limit_s + GRACE_S, "cpu": GRACE_S}
    else:
        if done.returncode:
            raise RuntimeError(
                f"{row.name} without {'any' if group is None else group.name}: {done.stderr[-1000:]}"
            )
        facts = json.loads(done.stdout.splitlines()[-1])
    return Run(row.name, "" if group is None else group.name, number, limit_s, **facts)


def run_undisturbed(row: Row, group: Group | None, number: int, limit_s: float) -> Run:
    """The first of a few runs that others did not keep from the processors; else the one that was kept least."""
    tried: list[Run] = []
    while not tried or (tried[-1].stop == "time" and tried[-1].waited > DISTURBED * limit_s and len(tried) < TRIES):
        tried.append(run_apart(row, group, number, limit_s))
    return min(tried, key=lambda run: (run.stop == "time", run.waited))


# ---- all runs --------------------------------------------------------------------------------------------


def journal(path: Path) -> Journal:
    return Journal(path, "run of an input", "remove the line")


def read(path: Path = RUNS) -> list[Run]:
    return [run for _, run in journal(path).read(lambda data: Run(**data))]


def measure(groups: Sequence[Group], word: str, limit_s: float | None, path: Path = RUNS) -> None:
    """What is not kept yet, until enough inputs miss a group."""
    known, rows = read(path), {row.name: row for row in ROWS if word in row.name and row.is_there()}

    def make(row: Row, group: Group | None, times: int) -> None:
        name, limit = "" if group is None else group.name, limit_s or row.limit_s
        made = [run for run in known if (run.row, run.stage) == (row.name, name) and run.stands_for(limit)]
        while len(made) < times:
            run = run_undisturbed(row, group, len(made), limit)
            journal(path).append(asdict(run))
            known.append(run)
            made.append(run)
            value = "no plan" if run.value is None else f"{run.value:.7g}"
            gap = "-" if run.gap is None else f"{100 * run.gap:.3f} %"
            print(f"{row.name}  {name or 'all groups'}  {value}  {gap}  {run.stop}  {run.cpu:.1f} s", flush=True)

    for group in groups:
        for row in (rows[name] for name in group.rows if name in rows):
            if len(verdict_of(group, known).losses) >= ENOUGH:
                break
            make(row, None, REPEATED)
            make(row, group, 1)


# ---- what a group is worth -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """What a row is without a group, where that is worse."""

    rank: int
    """Kind of loss, the gravest 0."""
    size: float
    row: str
    by: str

    @property
    def order(self) -> tuple[int, float]:
        return self.rank, -self.size


def loss_on(whole: Sequence[Run], without: Sequence[Run]) -> Loss | None:
    """The gravest way in which the best run without the group is worse than the worst one with it; None: no worse."""
    row = whole[0].row
    if all(run.value is not None for run in whole):
        if all(run.value is None for run in without):
            return Loss(0, math.inf, row, "no plan")
        value = max(_number(run.value) for run in whole)
        best = min(_number(run.value) for run in without)
        if best > value * (1 + SHARE):
            return Loss(2, best / value - 1 if value else math.inf, row, f"value +{100 * (best / value - 1):.3g} %")
    if all(run.stop == "proven" for run in whole) and not any(run.stop == "proven" for run in without):
        return Loss(1, math.inf, row, "no proof")
    if all(run.gap is not None for run in whole):
        gap = max(_number(run.gap) for run in whole)
        size = min(1.0 if run.gap is None else run.gap for run in without) - gap
        if size > SHARE:
            return Loss(3, size, row, f"gap +{100 * size:.3g} points")
    if not all(run.ended for run in (*whole, *without)):
        return None
    cpu, least = max(run.cpu for run in whole), min(run.cpu for run in without)
    if least >= TIMES * cpu and least > LEAST_S + cpu:
        return Loss(4, least / cpu, row, f"{least / cpu:.3g} times the processor time")
    grown = [(times, name) for name in WORK if (times := _times_more(name, whole, without)) >= TIMES]
    if grown:
        times, name = max(grown)
        return Loss(5, times, row, f"{times:.3g} times the {name}")
    return None


def _times_more(name: str, whole: Sequence[Run], without: Sequence[Run]) -> float:
    """How many times a counter that is the same in all runs with the group is as large without it; 0: it is not."""
    before, after = {run.counters.get(name, -1) for run in whole}, [run.counters.get(name, -1) for run in without]
    known = len(before) == 1 and -1 not in before and min(after) >= 0 and len(whole) >= REPEATED
    return min(after) / max(*before, 1) if known else 0.0


def _number(value: float | None) -> float:
    return math.inf if value is None else value


@dataclass(frozen=True)
class Verdict:
    """What all rows say of a group or of stages that went."""

    rows: tuple[str, ...]
    losses: tuple[Loss, ...]
    """One a row, the gravest first."""

    @property
    def stays(self) -> bool:
        known = {row.name for row in ROWS if row.is_known}
        return len(self.losses) >= ENOUGH and any(loss.row in known for loss in self.losses)


def verdict_of(group: Group | Gone, runs: Iterable[Run]) -> Verdict:
    """A row that loses by one of the names under which runs are kept loses by the group."""
    names = (*group.was, group.name) if isinstance(group, Group) else group.was
    whole: dict[str, list[Run]] = {}
    without: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        if run.stage == "":
            whole.setdefault(run.row, []).append(run)
        elif run.stage in names:
            without.setdefault((run.row, run.stage), []).append(run)
    worst: dict[str, Loss] = {}
    for (row, _), found in without.items():
        loss = loss_on(whole[row], found) if row in whole else None
        if loss is not None and (row not in worst or loss.order < worst[row].order):
            worst[row] = loss
    rows = tuple(dict.fromkeys(row for row, _ in without if row in whole))
    return Verdict(rows, tuple(sorted(worst.values(), key=lambda loss: loss.order)))


# ---- the page --------------------------------------------------------------------------------------------

WORDS = """\
# What each group of stages is worth

The searches of pipeplan run through many stages: heuristics, reductions and bounds. A *group* has all stages of one
idea. By the rule it stays if without it at least two inputs, one of them published or packaged, lose their proof, 1 %
of value or gap, or take twice the processor time or counted work.
{answer}

*Missed by* says how many inputs miss the group, of those that were planned without it or without one of its stages, and
what the two gravest lose. Each run is a process of its own with a limit of {limits} s. Of {repeated} runs with all
stages the worse one counts, without a group the better one. `python benchmarks/ablation.py` measures what is not
measured yet, and `--table` writes this page; `benchmarks/ablation_stages.py` lists the groups.

| of | group | what is off | missed by | lines |
|---|---|---|---|---|
"""


def page(runs: Sequence[Run]) -> str:
    limits = sorted({run.limit_s for run in runs})
    text = WORDS.format(answer=_answer(runs), limits=f"{limits[0]:g} to {limits[-1]:g}", repeated=REPEATED)
    return (
        "\n".join([text + "\n".join(_line(group, runs) for group in GROUPS), "", *_gone(runs), *_not_weighed()])
        + "\n"
    )


def _answer(runs: Sequence[Run]) -> str:
    kept = [group for group in GROUPS if not verdict_of(group, runs).stays]
    said = (
        f"Of {len(GROUPS)} groups {len(GROUPS) - len(kept)} meet the rule. {len(kept)} do not, or were not measured "
        f"enough, and stay for the reason in the table. {len(GONE)} [went](#what-went)."
    )
    return textwrap.fill(said, 120)


def _line(group: Group, runs: Sequence[Run]) -> str:
    verdict = verdict_of(group, runs)
    said = f"{len(verdict.losses)} of {len(verdict.rows)}"
    if verdict.losses:
        said += ": " + "; ".join(f"{loss.row} ({loss.by})" for loss in verdict.losses[:ENOUGH])
    if not verdict.stays:
        said += f". It stays: {group.kept}"
    return f"| `{group.of}` | {group.name} | {group.off} | {said} | {group.lines} |"


def _gone(runs: Sequence[Run]) -> Iterator[str]:
    yield from ("## What went", "", "| of | what went | missed by | lines |", "|---|---|---|---|")
    for gone in GONE:
        verdict = verdict_of(gone, runs)
        said = f"{len(verdict.losses)} of {len(verdict.rows)}"
        if verdict.losses:
            said += ": " + "; ".join(f"{loss.row} ({loss.by})" for loss in verdict.losses)
        yield f"| `{gone.of}` | {gone.what} | {said} | {gone.lines} |"
    yield ""


def _not_weighed() -> Iterator[str]:
    yield from ("## What is not weighed", "")
    for words in NOT_WEIGHED:
        yield f"- {words}"


# ---- the command -----------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", default="", help="groups of methods with this in their name")
    parser.add_argument("--group", default="", help="groups with this in their name")
    parser.add_argument("--row", default="", help="rows with this in their name")
    parser.add_argument("--time-limit", type=float, help="of each run, in seconds (default: what the row says)")
    parser.add_argument("--table", action="store_true", help="write the page from what is kept")
    parser.add_argument(
        "--one", nargs=2, metavar=("ROW", "GROUP"), help="one run in this process: its facts as JSON"
    )
    asked = parser.parse_args(words)
    if asked.one:
        row = next(row for row in ROWS if row.name == asked.one[0])
        group = next((group for group in GROUPS if group.name == asked.one[1]), None)
        print(json.dumps(run_here(row, group, asked.time_limit or row.limit_s)))
        return 0
    if asked.table:
        PAGE.write_text(page(read()), encoding="utf-8")
        return 0
    measure(
        [group for group in GROUPS if asked.of in group.of and asked.group in group.name],
        asked.row,
        asked.time_limit,
    )
    return 0


if __name__ == "__main__":
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    sys.exit(main())
