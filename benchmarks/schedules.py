"""Schedules: optima of zero-bubble pipelines, proofs of uneven ones, periods of the five shapes, large iterations.

    python benchmarks/schedules.py [--only WORD] [--output benchmarks/results]

Every row is planned in a new process, in which a small problem was planned before, so that all code is loaded; wall
time, processor time and peak memory are those of the plan alone, its solvers' processes included. Seconds in which code
was compiled are no part of the wall time. Beside the exact method stand lists and the named rules; the referee
recomputes all plans. A row fails where a plan is missing or refused, a known optimum is missed or not proven, the gap,
the time or the memory is larger than wanted, or a rule has a better plan. On a machine with other work the smaller of
wall and processor time counts. `--output` writes what was measured into the page schedules.md of that folder, between
its two marks. The exit code is 1 where a row fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import recipes  # noqa: F401  finds the modules of notebooks
from known_pipelines import SHAPES, random_pipeline, shape
from recipes.other_kinds import measured_even, measured_uneven

import pipeplan
from pipeplan.instances.base.errors import PipeplanError
from pipeplan.instances.schedule.generators import divided_pipeline, equal_stages
from pipeplan.instances.schedule.problem import ScheduleProblem

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
THREADS = 2
SPAN = {"objective": "span"}
RULES = ("list-schedule", "zb-greedy", "zb-h1", "zb-h2", "1f1b", "gpipe")
PERIODIC_RULES = ("list-schedule",)
RULE_LIMIT_S = 30.0
PATIENCE_S = 30.0
SAME = 1e-9
"""Relative: values of doubles that are the same fraction."""
MIB, GIB = 2.0**20, 2.0**30
TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
LOOK_S = 0.05

KNOWN, UNEVEN, MEASURED, SHAPES_4, SHAPES_8, LARGE = (
    "Zero-bubble pipelines with known optima",
    "Random uneven pipelines, 4 stages x 8 micro-batches",
    "Measured pipelines, 8 stages x 32 micro-batches",
    "Periods of the five shapes on 4 devices",
    "Periods of the five shapes on 8 devices",
    "16 stages x 64 micro-batches",
)
WORDS = {
    KNOWN: "Equal stages, objective span; `released` is what the program released with Zero Bubble answers. All rows "
    "with a known optimum are to be proven in 60 s together.",
    UNEVEN: "Passes of 5 to 15 units, drawn with the seed in the name, and lags of 1; each is to be proven "
    "within 5 s.",
    MEASURED: "Times and memory as the authors of Zero Bubble measured them, in microseconds and MiB; `released` as "
    "above. The uneven one is to be proven, the even one to be within 0.24 % of the bound, in 60 s.",
    SHAPES_4: "A forward pass takes 1, a backward pass 2; memory counts activations. Each is to be proven in 0.5 s.",
    SHAPES_8: "The same on twice the devices; each is to be proven within 10 s.",
    LARGE: "Equal stages with times 10/11/9 and lags of 1: 3,072 blocks, to be within 2 % of the bound in 60 s "
    "and 2 GiB.",
}
ONE_RUN = (
    "Seconds and MiB are approximate, of one run on a machine of {cores} cores: beside other work a row takes several "
    "times as long, and may end at its time limit with a gap."
)
TOGETHER_S = {KNOWN: 60.0}
"""Wanted for all proofs of a section."""


@dataclass(frozen=True, slots=True)
class Row:
    """One problem, and what is wanted of its plan."""

    section: str
    name: str
    problem: ScheduleProblem
    seconds: float
    """Wanted."""
    optimum: float | None = None
    heuristic: float | None = None
    """What the released program answers."""
    gap: float = 0.0
    """At most; 0: to be proven."""
    peak_bytes: float | None = None
    must_be_proven: bool = True

    @property
    def limit_s(self) -> float:
        """Of the search: what must be proven may run on, so that it is seen how long the proof takes."""
        return self.seconds if self.gap or not self.must_be_proven else max(self.seconds, PATIENCE_S)


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a row. Wall time is without compiling, processor time with it."""

    value: float | None
    bound: float | None
    proven: bool
    verified: bool
    stop: str
    method: str
    wall_s: float
    work_s: float
    peak_bytes: float
    rules: dict[str, float | None]
    """Values of the rules' plans; None: no plan within the memory."""
    refused: tuple[str, ...] = ()
    """Rules whose plan the referee does not accept."""

    @property
    def seconds(self) -> float:
        return min(self.wall_s, self.work_s)

    @property
    def gap(self) -> float | None:
        if self.value is None or self.bound is None:
            return None
        return (self.value - self.bound) / self.value if self.value else 0.0

    @property
    def best_rule(self) -> tuple[str, float] | None:
        found = [(name, value) for name, value in self.rules.items() if value is not None]
        return min(found, key=lambda pair: pair[1], default=None)


def rows() -> Iterator[Row]:
    yield from _known()
    for group, memory in enumerate((8, 10, 16)):
        for seed in range(4 * group, 4 * group + 4):
            name = f"seed {seed}, memory {memory}"
            yield Row(UNEVEN, name, random_pipeline(4, 8, memory, 1, seed), 5.0)
    yield Row(MEASURED, "uneven", measured_uneven(), 60.0, 3623744, 3623744)
    yield Row(MEASURED, "even", measured_even(), 60.0, None, 2517463, gap=0.0024)
    for section, devices, seconds in ((SHAPES_4, 4, 0.5), (SHAPES_8, 8, 10.0)):
        for name in SHAPES:
            for memory in (2 * devices, devices, devices - 2):
                yield Row(section, f"{name.upper()}, memory {memory}", shape(name, devices, memory), seconds)
    for memory in (32, 48, 64):
        problem = divided_pipeline(equal_stages(16, 10, 11, 9), 64, memory, 1, f"large-16x64-{memory}")
        yield Row(LARGE, f"memory {memory}", problem, 60.0, gap=0.02, peak_bytes=2 * GIB)


def _known() -> Iterator[Row]:
    small = equal_stages(4, 5, 6, 4)
    known = {8: (201, 201), 10: (193, 193), 11: (193, 193), 12: (188, 188), 14: (183, 183), 16: (181, 183)}
    for memory, (optimum, heuristic) in known.items():
        problem = divided_pipeline(small, 12, memory, name=f"zero-bubble-4x12-{memory}")
        name = f"4 x 12, times 5/6/4, memory {memory}"
        yield Row(KNOWN, name, problem, 10.0 if memory == 8 else 60.0, optimum, heuristic)
    problem = divided_pipeline(small, 6, 10, name="zero-bubble-4x6-10")
    yield Row(KNOWN, "4 x 6, times 5/6/4, memory 10", problem, 60.0, 103, 105)
    problem = divided_pipeline(equal_stages(32, 1, 1, 1), 16, 64, name="zero-bubble-32x16")
    yield Row(KNOWN, "32 x 16, times 1/1/1, memory 64", problem, 60.0, 95, 95)
    problem = divided_pipeline(equal_stages(4, 5478, 5806, 3534), 12, 32, 200, "zero-bubble-4x12-lag")
    # Its optimum was not known before: the row has to keep no value, and no proof is owed.
    yield Row(KNOWN, "4 x 12, times 5478/5806/3534, lag 200", problem, 60.0, None, 178898, must_be_proven=False)


# ---- one row in a process of its own -------------------------------------------------------------------


def measure(row: Row) -> Measured:
    """Here and now: the exact method first, so that the peak is its own, then the rules."""
    finite = row.problem.micro_batches is not None
    options: dict[str, Any] = SPAN if finite else {}
    method: dict[str, Any] = {"planner": "exact-schedule"} if finite else {"formulation": "cp-periodic"}
    limits = pipeplan.SolveOptions(time_limit_s=row.limit_s, threads=THREADS)
    small = shape("v", 2, micro_batches=2 if finite else None)
    # Without a start that is optimal already, so that the solver is loaded as well.
    pipeplan.solve(small, **method, options=options, limits=limits, warm_start="none")
    began, worked = time.monotonic(), _work()
    with _Peak() as peak:
        result = pipeplan.solve(row.problem, **method, options=options, limits=limits)
    compiled = result.seconds.get("compile", 0.0)
    wall, work = time.monotonic() - began - compiled, _work() - worked
    rules, refused = _of_rules(row.problem, options, RULES if finite else PERIODIC_RULES)
    return Measured(
        value=result.objective,
        bound=result.bound,
        proven=result.found == pipeplan.Found.OPTIMAL and result.stop == pipeplan.Stop.PROVEN,
        verified=result.plan is not None and not pipeplan.verify(row.problem, result.plan),
        stop=str(result.stop),
        method=next(iter(method.values())),
        wall_s=wall,
        work_s=work,
        peak_bytes=peak.most_bytes,
        rules=rules,
        refused=refused,
    )


def _of_rules(
    problem: ScheduleProblem, options: dict[str, Any], names: Sequence[str]
) -> tuple[dict[str, float | None], tuple[str, ...]]:
    """Their values; None where a rule has no plan within the memory. A rule that does not fit the shape is left out."""
    values: dict[str, float | None] = {}
    refused = []
    limits = pipeplan.SolveOptions(time_limit_s=RULE_LIMIT_S, threads=1)
    for name in names:
        try:
            result = pipeplan.solve(problem, planner=name, options=options, limits=limits)
        except PipeplanError:
            continue
        if result.found == pipeplan.Found.REJECTED:
            refused.append(name)
        values[name] = result.objective
    return values, tuple(refused)


def _family() -> list[Path]:
    """The living processes of this row: itself, its solvers, and theirs."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    found = [os.getpid()]
    for one in found:  # which grows
        found += [child for child, parent in parents.items() if parent == one]
    return [Path("/proc") / str(one) for one in found]


def _work() -> float:
    """Seconds of processors of them all, with those of children that have ended."""
    total = 0
    for path in _family():
        with suppress(OSError):
            total += sum(map(int, (path / "stat").read_text().rpartition(")")[2].split()[11:15]))
    return total / TICKS


class _Peak:
    """Watches what all its processes hold together at most, while a block of code runs."""

    def __enter__(self) -> _Peak:
        self.most_bytes, self._over = 0.0, threading.Event()
        self._look()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        held = 0
        for path in _family():
            with suppress(OSError):
                held += int((path / "statm").read_text().split()[1])
        self.most_bytes = max(self.most_bytes, float(held * PAGE))


def measured_apart(row: Row) -> Measured:
    command = [sys.executable, __file__, "--row", row.section, row.name]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{row.section}, {row.name}: {done.stderr[-2000:]}")
    return Measured(**json.loads(done.stdout.splitlines()[-1]))


# ---- what is wanted ------------------------------------------------------------------------------------


def faults(row: Row, found: Measured) -> list[str]:
    """Why the row fails, a few words each."""
    told = []
    if found.value is None or not found.verified:
        told.append("no verified plan")
    if row.optimum is not None and (found.value is None or not _same(found.value, row.optimum)):
        told.append(f"not the known optimum {row.optimum:g}")
    if row.heuristic is not None and found.value is not None and found.value > row.heuristic * (1 + SAME):
        told.append("worse than the released heuristic")
    if row.gap:
        if found.gap is None or found.gap > row.gap:
            told.append(f"gap above {row.gap:.2%}")
    elif row.must_be_proven and not found.proven:
        told.append("not proven")
    if row.must_be_proven and not row.gap and found.seconds > row.seconds:
        told.append(f"more than {row.seconds:g} s")
    if row.peak_bytes is not None and found.peak_bytes > row.peak_bytes:
        told.append(f"more than {row.peak_bytes / GIB:g} GiB")
    if found.best_rule is not None and (found.value is None or found.value > found.best_rule[1] * (1 + SAME)):
        told.append(f"worse than {found.best_rule[0]}")
    told += [f"the plan of {name} is refused" for name in found.refused]
    return told


def _same(one: float, other: float) -> bool:
    return abs(one - other) <= SAME * max(abs(one), abs(other))


def late(runs: Sequence[tuple[Row, Measured]]) -> list[str]:
    """Sections whose proofs take longer together than wanted."""
    told = []
    for section, most in TOGETHER_S.items():
        together = sum(found.seconds for row, found in runs if row.section == section and row.optimum is not None)
        if together > most:
            told.append(f"{section}: {together:.0f} s together, the target is {most:g} s")
    return told


# ---- tables --------------------------------------------------------------------------------------------

HEAD = ("problem", "value", "bound", "gap", "released", "best heuristic", "s", "processor s", "MiB", "")


def cells(row: Row, found: Measured) -> list[str]:
    best, bound = found.best_rule, found.value if found.proven else found.bound
    gap = "proven" if found.proven else "unknown" if found.gap is None else f"{100 * found.gap:.3f} %"
    rule = ""
    if best is not None:
        more = "" if not found.value else f", +{100 * (best[1] / found.value - 1):.2f} %"
        rule = f"{best[0]} {best[1]:.9g}{more}"
    return [
        row.name,
        "none" if found.value is None else f"{found.value:.9g}",
        "none" if bound is None else f"{bound:.9g}",
        gap,
        "" if row.heuristic is None else f"{row.heuristic:.9g}",
        rule,
        f"{found.wall_s:.2f}",
        f"{found.work_s:.2f}",
        f"{found.peak_bytes / MIB:.0f}",
        "; ".join(faults(row, found)),
    ]


def page(runs: Sequence[tuple[Row, Measured]]) -> list[str]:
    """Tables by section, as Markdown; the column of faults only where there are any."""
    failed = sum(bool(faults(row, found)) for row, found in runs)
    lines = [
        f"Made by `python benchmarks/schedules.py --output benchmarks/results` on {date.today():%Y-%m-%d}, {THREADS} "
        f"threads: {len(runs)} problems, {sum(found.proven for _, found in runs)} proven, {failed} miss their target, "
        "for which the smaller one of wall and processor time counts. *s* is wall time, *MiB* the peak of a new "
        f"process and its solvers together. {ONE_RUN.format(cores=os.cpu_count())}",
        "",
    ]
    for section in dict.fromkeys(row.section for row, _ in runs):
        table = [cells(row, found) for row, found in runs if row.section == section]
        keep = [i for i, title in enumerate(HEAD) if i == 0 or any(line[i] for line in table)]
        lines += [f"## {section}", "", WORDS[section], ""]
        for line in (HEAD, ["---"] * len(HEAD), *table):
            shown = [line[i] or "target missed" if line is HEAD else line[i] for i in keep]
            lines.append("| " + " | ".join(shown) + " |")
        lines.append("")
    return lines


def replace_measured(file: Path, lines: Sequence[str]) -> None:
    text = file.read_text("utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{file} has no lines {BEGIN} and {END}")
    file.write_text("\n".join([before + BEGIN, "", *lines]) + END + after, "utf-8")


def main() -> int:
    arguments = _parser().parse_args()
    if arguments.row:
        section, name = arguments.row
        chosen = next(row for row in rows() if (row.section, row.name) == (section, name))
        print(json.dumps(asdict(measure(chosen))))
        return 0
    runs = []
    for row in rows():
        if arguments.only.lower() in f"{row.section}: {row.name}".lower():
            found = measured_apart(row)
            runs.append((row, found))
            print("  ".join(f"{cell:>10}" for cell in cells(row, found)), flush=True)
    slow = late(runs)
    print("\n".join([*page(runs), *slow]))
    if arguments.output is not None:
        replace_measured(arguments.output / "schedules.md", page(runs))
    return int(bool(slow) or any(faults(row, found) for row, found in runs))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows with this in their section or name")
    parser.add_argument("--output", type=Path, help="folder of the page schedules.md")
    parser.add_argument("--row", nargs=2, metavar=("SECTION", "NAME"), help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
