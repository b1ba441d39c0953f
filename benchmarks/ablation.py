"""What each stage of the searches is worth: every one switched off alone, on inputs that are hard for its method.

    python benchmarks/ablation.py [--method WORD] [--stage WORD] [--row WORD] [--time-limit S] [--first]
    python benchmarks/ablation.py --table

A *stage* is a heuristic, a reduction, a bound, or a constant that switches one of these on. `ablation_stages.py` lists
them as data: a function or constant by its address, and what stands in its place while it is off. The product knows
nothing of it. Each run is a process of its own, which exchanges what is at the address and then plans one input. What
came of it is kept at once in `ablation.jsonl`, one line each, and a run that is there is not made again: so the program
may be interrupted and goes on. Each input is planned twice with all stages, for its noise. Where a difference is so
small that noise may have made it, the run without the stage is repeated.

`--table` plans nothing and writes the page `docs/ablation.md` from what is kept.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

from ablation_stages import GONE, METHODS, NOT_WEIGHED, ROWS, STAGES, Row, Stage

import pipeplan
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.result import relative_gap
from pipeplan.show.words import amount_or
from pipeplan.studies.sweep import Journal

HERE = Path(__file__).parent
RUNS = HERE / "ablation.jsonl"
PAGE = HERE.parent / "docs" / "ablation.md"

# With all stages, for the noise; and at most so many without one.
REPEATED, AGAIN = 2, 2
# Processor time that is so many times as long counts as more work; less than this is noise.
LONGER = 1.10
# Kind of loss that is more processor time.
TIMED = 4
# Below so many seconds nothing can be said of a share.
LEAST_S = 0.3
# Ratios of processor time around `LONGER` that one run does not decide.
DOUBTFUL = (1.05, 1.5)
# Counters of work that is the same each time: so much more counts.
MORE = 1.02
# Differences of gaps, in shares of the value, that count.
WIDER = 1e-4
SAME = 1e-9
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
    """Name of the stage that was off; empty: none."""
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
    """A stage that is switched off, with the number of calls of what stands in its place."""

    def __init__(self, stage: Stage) -> None:
        self.calls = 0
        for address, replace in stage.swaps.items():
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


def count(address: str, counters: dict[str, int], name: str) -> None:
    """From now on calls of the function at the address are counted."""
    holder, attribute = holder_of(address)
    original = vars(holder)[attribute]
    counters[name] = 0

    def counted(*arguments: Any, **options: Any) -> Any:
        counters[name] += 1
        return original(*arguments, **options)

    setattr(holder, attribute, counted)


def run_here(row: Row, stage: Stage | None, limit_s: float) -> dict[str, Any]:
    """Plan the row in this process, which is to end after it."""
    problem = row.problem()
    off = None if stage is None else Off(stage)
    counted: dict[str, int] = {}
    for name, address in row.counts.items():
        count(address, counted, name)
    asked = {**row.how, **({} if stage is None else stage.instead)}
    how = {name: value for name, value in asked.items() if value is not None}
    limits = pipeplan.SolveOptions(time_limit_s=limit_s, threads=row.threads, seed=0)
    began, worked, waited = time.monotonic(), _processor_seconds(), _waited_seconds()
    try:
        result = pipeplan.solve(problem, **how, limits=limits)
    except InputError:
        return {"stop": REFUSED, "value": None, "bound": None, "seconds": 0.0, "cpu": 0.0}
    counters = {**{name: int(number) for name, number in result.model_size.items()}, **counted}
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


def run_apart(row: Row, stage: Stage | None, number: int, limit_s: float) -> Run:
    command = [sys.executable, __file__, "--one", row.name, "" if stage is None else stage.name]
    command += ["--time-limit", str(limit_s)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s + GRACE_S, check=False)
    except subprocess.TimeoutExpired:
        facts = {"stop": "killed", "value": None, "bound": None, "seconds": limit_s + GRACE_S, "cpu": GRACE_S}
    else:
        if done.returncode:
            raise RuntimeError(
                f"{row.name} without {'any' if stage is None else stage.name}: {done.stderr[-1000:]}"
            )
        facts = json.loads(done.stdout.splitlines()[-1])
    return Run(row.name, "" if stage is None else stage.name, number, limit_s, **facts)


def run_undisturbed(row: Row, stage: Stage | None, number: int, limit_s: float) -> Run:
    """The first of a few runs that others did not keep from the processors; else the one that was kept least."""
    tried: list[Run] = []
    while not tried or (tried[-1].stop == "time" and tried[-1].waited > DISTURBED * limit_s and len(tried) < TRIES):
        tried.append(run_apart(row, stage, number, limit_s))
    return min(tried, key=lambda run: (run.stop == "time", run.waited))


# ---- all runs --------------------------------------------------------------------------------------------


def journal(path: Path) -> Journal:
    return Journal(path, "run of an input", "remove the line")


def read(path: Path = RUNS) -> list[Run]:
    return [run for _, run in journal(path).read(lambda data: Run(**data))]


def rows_of(stage: Stage) -> list[Row]:
    rows = [row for row in ROWS if row.method == stage.method]
    return [row for row in rows if (row.name in stage.rows if stage.rows else not row.named)]


def measure(
    stages: Sequence[Stage], word: str, limit_s: float | None, path: Path = RUNS, first: bool = False
) -> None:
    """What is not kept yet. Further rows, or with `first` all rows, only without stages that no row before misses."""
    known = read(path)
    rows = list(dict.fromkeys(row for stage in stages for row in rows_of(stage) if word in row.name))

    def make(row: Row, stage: Stage | None, times: Callable[[list[Run]], int]) -> None:
        name, limit = "" if stage is None else stage.name, limit_s or row.limit_s
        made = [run for run in known if (run.row, run.stage) == (row.name, name) and run.stands_for(limit)]
        while len(made) < times(made):
            run = run_undisturbed(row, stage, len(made), limit)
            journal(path).append(asdict(run))
            known.append(run)
            made.append(run)
            value = "no plan" if run.value is None else f"{run.value:.7g}"
            gap = "-" if run.gap is None else f"{100 * run.gap:.3f} %"
            print(f"{row.name}  {name or 'all stages'}  {value}  {gap}  {run.stop}  {run.cpu:.1f} s", flush=True)

    for stage in stages:
        for row in sorted(rows_of(stage), key=lambda row: row.further):
            if row not in rows or not row.is_there():
                continue
            if (row.further or first) and verdict_of(stage.name, known).losses:
                continue
            make(row, None, lambda made: REPEATED)
            whole = [run for run in known if (run.row, run.stage) == (row.name, "")]
            make(row, stage, partial(_times, whole))


def _times(whole: Sequence[Run], made: Sequence[Run]) -> int:
    return AGAIN if made and is_doubtful(whole, made) else 1


# ---- what a stage is worth -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loss:
    """What a row is without a stage, where that is worse."""

    rank: int
    """Kind of loss, the gravest 0."""
    size: float
    row: str
    measure: str
    whole: str
    without: str
    by: str

    @property
    def order(self) -> tuple[int, float]:
        return self.rank, -self.size


def is_doubtful(whole: Sequence[Run], without: Sequence[Run]) -> bool:
    """May noise decide whether the row is worse?"""
    loss, ended = loss_on(whole, without), all(run.ended for run in (*whole, *without))
    if not ended or (loss is not None and loss.rank < TIMED):
        return not ended and loss is not None and loss.rank in (1, 2)
    return DOUBTFUL[0] < without[0].cpu / max(median(run.cpu for run in whole), 0.01) < DOUBTFUL[1]


def loss_on(whole: Sequence[Run], without: Sequence[Run]) -> Loss | None:
    """The gravest way in which the best run without the stage is worse than the worst one with it; None: no worse."""
    row, unit = whole[0].row, next((each.unit for each in ROWS if each.name == whole[0].row), None)
    if all(run.value is not None for run in whole):
        if all(run.value is None for run in without):
            return Loss(0, math.inf, row, "plan", _amount(whole[0].value, unit), "none", "no plan")
        value = max(_number(run.value) for run in whole)
        best = min(_number(run.value) for run in without)
        if best > value * (1 + SAME):
            share = best / value - 1 if value else math.inf
            return Loss(1, share, row, "value", _amount(value, unit), _amount(best, unit), f"+{100 * share:.3g} %")
    if all(run.gap is not None for run in whole):
        gap = max(_number(run.gap) for run in whole)
        left = min(1.0 if run.gap is None else run.gap for run in without)
        if left > gap + WIDER:
            size = left - gap
            return Loss(2, size, row, "gap", _share(gap), _share(left), f"+{100 * size:.3g} points")
    if all(run.ended for run in whole) and not any(run.ended for run in without):
        return Loss(3, math.inf, row, "end of the search", whole[0].stop, without[0].stop, "not within the limit")
    if not all(run.ended for run in (*whole, *without)):
        return None
    cpu, least = max(run.cpu for run in whole), min(run.cpu for run in without)
    grown = [found for name in WORK if (found := _grown(name, whole, without)) is not None]
    if least > LONGER * cpu and least > LEAST_S + cpu:
        return Loss(
            4, least / cpu, row, "processor time", f"{cpu:.1f} s", f"{least:.1f} s", f"{least / cpu:.3g} times"
        )
    if grown:
        name, before, after = max(grown, key=lambda found: found[2] / max(found[1], 1))
        times = after / max(before, 1)
        return Loss(5, times, row, name, f"{before:,}", f"{after:,}", f"{times:.3g} times")
    return None


def _grown(name: str, whole: Sequence[Run], without: Sequence[Run]) -> tuple[str, int, int] | None:
    """A counter that is the same in all runs with the stage, and more in all without it."""
    before = {run.counters.get(name, -1) for run in whole}
    after = [run.counters.get(name, -1) for run in without]
    if len(before) != 1 or -1 in before or len(whole) < REPEATED or min(after) <= MORE * max(before):
        return None
    return name, before.pop(), min(after)


def _number(value: float | None) -> float:
    return math.inf if value is None else value


def _amount(value: float | None, unit: str | None) -> str:
    return amount_or(value, unit, "-")


def _share(gap: float) -> str:
    return f"{100 * gap:.3g} %" if gap >= SAME else "0 %"


@dataclass(frozen=True)
class Verdict:
    """What all rows say of a stage."""

    rows: int
    losses: tuple[Loss, ...]
    """By the row, the gravest first."""

    @property
    def worst(self) -> Loss | None:
        return self.losses[0] if self.losses else None


def is_called(stage: Stage) -> bool:
    """Is it a function that is off, and no constant? Then a row that never calls it says nothing."""
    return any(callable(getattr(*holder_of(address))) for address in stage.swaps)


def verdict_of(name: str, runs: Iterable[Run]) -> Verdict:
    """Of the stage with this name, whether it is still there or not; of rows that come to it."""
    called = any(stage.name == name and is_called(stage) for stage in STAGES)
    by_row: dict[str, dict[bool, list[Run]]] = {}
    for run in runs:
        if run.stage == "" or (run.stage == name and (run.calls or not called)):
            by_row.setdefault(run.row, {}).setdefault(run.stage == name, []).append(run)
    pairs = [(found[False], found[True]) for found in by_row.values() if len(found) == 2]
    losses = [loss for whole, without in pairs if (loss := loss_on(whole, without)) is not None]
    return Verdict(len(pairs), tuple(sorted(losses, key=lambda loss: loss.order)))


# ---- the page --------------------------------------------------------------------------------------------

WORDS = """\
# What each stage is worth

The searches of pipeplan run through many stages: heuristics, reductions, bounds, and constants that switch one of these
on. This page tells what is lost without each of them.

{answer}

## How it was measured

- Each stage is switched off alone, in a process of its own, and a fixed set of hard inputs of its method is planned:
  packaged instances, published inputs, and random ones with the seed in their names.
- A row is worse without a stage if there is no plan, or the plan or the gap to the bound at the time limit is worse, or
  the search no longer ends, or it takes at least {longer:.0f} % more processor time, or a counter of its work that is
  the same in every run grows by more than {more:.0f} %. The tables name the first of these that applies.
- *With* is the worse of {repeated} runs with all stages, *without* the better of at most {again} runs without the one.
  So differences that noise can make count for the stage's removal.
- Limits are {limits} s for each run. Chains, dynamic programs and graph pipelines have one thread; solvers of
  placements, stages, latency and schedules have two. The machine had two cores and, in most runs, other work: some had
  a third of a processor, so gaps at a limit are wider than on a quiet machine. Processor time is that of the run and
  its solvers.
- Where the method does not take the input at all without the stage, there is no plan.
- *Rows* says how many of the rows that were planned without the stage are worse for it.

One command measures what is not measured yet, another writes this page:

    python benchmarks/ablation.py
    python benchmarks/ablation.py --table

`benchmarks/ablation_stages.py` lists the stages and the rows.
"""

HEADER = ("| stage | what is off | rows | worst row | measure | with | without | difference |", "|" + "---|" * 8)


def page(runs: Sequence[Run]) -> str:
    verdicts = {stage.name: verdict_of(stage.name, runs) for stage in STAGES}
    verdicts = {name: verdict for name, verdict in verdicts.items() if verdict.rows}
    missed = [name for name, verdict in verdicts.items() if verdict.worst is not None]
    limits = sorted({run.limit_s for run in runs})
    text = WORDS.format(
        answer=_answer(verdicts, missed),
        longer=100 * (LONGER - 1),
        more=100 * (MORE - 1),
        repeated=REPEATED,
        again=AGAIN,
        limits=f"{limits[0]:g} to {limits[-1]:g}" if len(limits) > 1 else f"{limits[0]:g}",
    )
    lines = [text]
    for method in METHODS:
        stages = [stage for stage in STAGES if stage.method == method.name and stage.name in verdicts]
        if stages:
            lines += [f"## {method.title}", "", method.words, "", *HEADER]
            lines += [_line(stage, verdicts[stage.name], runs) for stage in stages]
            lines += ["", _rows_in_words(method.name, runs), ""]
    open_stages = [stage.name for stage in STAGES if stage.name not in verdicts]
    return "\n".join([*lines, *_gone(runs), *_not_weighed(open_stages)]) + "\n"


def _answer(verdicts: Mapping[str, Verdict], missed: Sequence[str]) -> str:
    without_plan = [name for name in missed if (loss := verdicts[name].worst) is not None and loss.rank == 0]
    unended = [name for name in missed if (loss := verdicts[name].worst) is not None and loss.rank in (2, 3)]
    kept = {stage.name for stage in STAGES if stage.kept}
    rest = [name for name in verdicts if name not in missed and name in kept]
    to_come = [name for name in verdicts if name not in missed and name not in kept]
    said = f"Of {len(verdicts)} stages that were measured, {len(missed)} are missed by at least one row."
    if without_plan:
        said += f" Without {_listed(without_plan)} a row has no plan at all."
    if unended:
        said += f" Without {len(unended)} of them a proof is lost or a gap is wider at the limit."
    if rest:
        said += f" No row misses {_listed(rest)}; the tables say why."
    if to_come:
        said += f" Rows are still to be measured for {_listed(to_come)}, which no row has missed so far."
    if GONE:
        said += f" {len(GONE)} that no row missed went ([below](#what-went))."
    return _wrapped(said)


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _wrapped(text: str, width: int = 120) -> str:
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def waiting_rows(stage: Stage, runs: Iterable[Run]) -> list[Row]:
    """On which the stage is still to be weighed before anybody may say that no row misses it."""
    seen = {run.row for run in runs if run.stage == stage.name}
    return [row for row in rows_of(stage) if row.name not in seen]


def _line(stage: Stage, verdict: Verdict, runs: Sequence[Run]) -> str:
    worst = verdict.worst
    count = f"{len(verdict.losses)} of {verdict.rows}"
    if worst is None:
        why = stage.kept or f"open: {len(waiting_rows(stage, runs))} more rows to measure"
        return f"| {stage.name} | {stage.off} | {count} | - | none | - | - | {why} |"
    cells = (stage.name, stage.off, count, worst.row, worst.measure, worst.whole, worst.without, worst.by)
    return "| " + " | ".join(cells) + " |"


def _rows_in_words(method: str, runs: Sequence[Run]) -> str:
    named = {run.row for run in runs}
    rows = [row for row in ROWS if row.method == method and row.name in named]
    return _wrapped("Rows: " + "; ".join(f"{row.name} ({row.words})" for row in rows) + ".")


def _gone(runs: Sequence[Run]) -> Iterator[str]:
    if not GONE:
        return
    yield from ("## What went", "")
    yield _wrapped(
        "No row was worse without these stages, and none of the rows for which they were made. They were measured as "
        "all others before they went; *lines* are lines of code, without comments and tests."
    )
    yield from ("", "| method | what went | rows that did not miss it | lines |", "|---|---|---|---|")
    for gone in GONE:
        rows = ", ".join(dict.fromkeys(run.row for run in runs if run.stage == gone.name))
        yield f"| {gone.method} | {gone.what} | {rows} | {gone.lines} |"
    yield ""


def _not_weighed(open_stages: Sequence[str]) -> Iterator[str]:
    """What is listed and not measured yet, and what cannot be switched off."""
    yield from ("## What is not weighed", "")
    listed = [f"Not measured yet: {_listed(open_stages)}."] if open_stages else []
    for words in (*listed, *NOT_WEIGHED):
        yield _wrapped(f"- {words}", 118).replace("\n", "\n  ")


# ---- the command -----------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--method", default="", help="stages of methods with this in their name")
    parser.add_argument("--stage", default="", help="stages with this in their name")
    parser.add_argument("--row", default="", help="rows with this in their name")
    parser.add_argument("--time-limit", type=float, help="of each run, in seconds (default: what the row says)")
    parser.add_argument("--first", action="store_true", help="no more rows for a stage that one has missed")
    parser.add_argument("--table", action="store_true", help="write the page from what is kept")
    parser.add_argument(
        "--one", nargs=2, metavar=("ROW", "STAGE"), help="one run in this process: its facts as JSON"
    )
    asked = parser.parse_args(words)
    if asked.one:
        row = next(row for row in ROWS if row.name == asked.one[0])
        stage = next((stage for stage in STAGES if stage.name == asked.one[1]), None)
        print(json.dumps(run_here(row, stage, asked.time_limit or row.limit_s)))
        return 0
    if asked.table:
        PAGE.write_text(page(read()), encoding="utf-8")
        return 0
    stages = [stage for stage in STAGES if asked.method in stage.method and asked.stage in stage.name]
    measure(stages, asked.row, asked.time_limit, first=asked.first)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    sys.exit(main())
