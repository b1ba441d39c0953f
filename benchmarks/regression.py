"""Speed that stays: fixed cases, with work counters and processor time compared with the table `regression.json`.

    python benchmarks/regression.py [--quick] [--only NAME]
    python benchmarks/regression.py --update

Each case plans or builds something fixed, with one thread and one seed, and tells

* its answer: value, bound and stop, which must be those of the table;
* counters of its work (ideals, pairs, rows, branches, ...): the same on every machine, so that a reduction that
  no longer bites is seen however fast the machine is. None may be missing and none may have grown. Counters of a
  solver's search may be `SEARCH_FACTOR` times the table's and `SEARCH_SLACK` more, since other processors round sums of
  floats differently, and are compared only with the version of the solver that made the table;
* processor time in units of `calibration.py`, which is measured before each repetition: the median of the ratios may
  be no more than `CPU_FACTOR` times the table's. Whoever is above is measured again before it counts. Solvers work in
  processes of their own: their time is no part of it, their counters stand for it.

The first run of a case gives its answer and counters, and compiles what has to be; it is not timed. The exit code is 1
where a case is worse than the table, and nothing but the table decides that: `--update` writes a new one, and the
commit says why. `--quick` takes the cases that are done in a moment, in less than a minute.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from calibration import unit_seconds

import pipeplan
from pipeplan.formulations.contract import NativeModel, Refuted
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.instances.base.compiled import always_compiled
from pipeplan.planners.backends import submit
from pipeplan.planners.backends.model import compile_pyomo
from pipeplan.planners.backends.registry import backend_named
from pipeplan.planners.run.choose import resolve_options

TABLE = Path(__file__).with_name("regression.json")
LIMITS = pipeplan.SolveOptions(threads=1, seed=0)
SAME = 1e-9
"""Relative: values that differ by no more differ by rounding."""
OF_FLOATS = 1e-7
"""The same for values of solvers in floating point, of which every version rounds in its own way."""
SEARCH_FACTOR = 1.2
SEARCH_SLACK = 100
"""Of the counters of a search: the same small model took 77 iterations on one processor and 134 on another."""
CPU_FACTOR = 1.5
SLACK_UNITS = 0.05
"""On top of the factor: less than that nobody can measure."""
LEAST_TIMED_S = 0.03
"""A repetition goes over its case as often as it takes to last so long."""
REPETITIONS, QUICK_REPETITIONS, AGAIN = 7, 3, 9
MOST_PASSES = 50
POLL_S = 0.2


@dataclass(frozen=True)
class Plan:
    """An instance planned by a method."""

    instance: str
    planner: str
    options: Mapping[str, Any] = field(default_factory=dict)
    compiled: bool = False
    """In machine code, however small it is."""
    slow: bool = False
    """No part of `--quick`."""

    @property
    def name(self) -> str:
        return " ".join([self.planner, self.instance, *_words(self.options), *(["compiled"] * self.compiled)])

    def prepare(self) -> Callable[[], Answer]:
        problem = pipeplan.load_packaged(self.instance)

        def run() -> Answer:
            with always_compiled() if self.compiled else nullcontext():
                result = pipeplan.solve(problem, planner=self.planner, options=self.options, limits=LIMITS)
            models = {"models": result.backend["models"]} if "models" in result.backend else {}
            counters = {**result.model_size, **models}
            return Answer(result.objective, result.bound, str(result.stop), counters)

        return run


@dataclass(frozen=True)
class Model:
    """The model of a formulation, built below a cut-off, and solved once where that takes a moment."""

    instance: str
    formulation: str
    backend: str
    options: Mapping[str, Any] = field(default_factory=dict)
    cutoff: float | None = None
    solved: bool = True
    slow: bool = False

    @property
    def name(self) -> str:
        below = [] if self.cutoff is None else [f"below={self.cutoff:g}"]
        words = (*_words(self.options), *below, *(["not solved"] * (not self.solved)))
        return " ".join([self.formulation, self.instance, "on", self.backend, *words])

    def prepare(self) -> Callable[[], Answer]:
        problem = pipeplan.load_packaged(self.instance)
        entry = FORMULATIONS[self.formulation]
        formulation = entry.load()
        options = resolve_options(entry, self.options)
        native = backend_named(self.backend).capabilities.native
        known: dict[str, Answer] = {}

        def run() -> Answer:
            bound = formulation.lower_bound(problem, options)
            built = formulation.build(problem, options, native=native, cutoff=self.cutoff)
            if isinstance(built, Refuted):
                return Answer(None, bound, "infeasible", {})
            model = built.model
            if not isinstance(model, NativeModel):
                model = compile_pyomo(model, grids=built.grids, grid_loss=built.grid_loss)
            counters = {**built.size, **({} if isinstance(model, NativeModel) else dict(model.size))}
            if not self.solved:
                return Answer(None, bound, "built", counters)
            if "solved" not in known:  # the solver's own time is no part of the case
                known["solved"] = _solved(self.backend, model, bound, counters)
            return known["solved"]

        return run


def _solved(backend: str, model: Any, bound: float | None, counters: Mapping[str, int]) -> Answer:
    job = submit(backend, model, LIMITS)
    while job.outcome is None:
        job.poll(POLL_S)
    found = job.outcome
    solver = f"{found.backend} {found.version}"
    return Answer(found.objective, bound, str(found.stop), {**counters, **found.size}, dict(found.counts), solver)


def _words(options: Mapping[str, Any]) -> list[str]:
    return [f"{name}={value}" for name, value in options.items()]


@dataclass(frozen=True)
class Answer:
    """What a case says of itself; the same each time."""

    value: float | None
    bound: float | None
    stop: str
    counters: Mapping[str, int]
    search: Mapping[str, int] = field(default_factory=dict)
    """Counters of a solver."""
    solver: str = ""
    """With its version."""


@dataclass(frozen=True)
class Measured:
    answer: Answer
    cpu: float
    """Processor time in units of the calibration: a median."""

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self.answer), "cpu": round(self.cpu, 3)}


Case = Plan | Model

CASES: tuple[Case, ...] = (
    # Placements: the dense program, the pruned one in machine code, the searches around them.
    Plan("bert-base-operators", "dp"),
    Plan("resnet50-training", "dp", {"objective": "gpipe"}),
    Plan("gnmt-training", "dp", compiled=True),
    Plan("cpu-offload", "dp", compiled=True),
    Plan("inception-inference", "dp", slow=True),
    Plan("tiny-chain", "brute-force", {"non_contiguous": True}),
    Plan("vgg16-training", "linear-dp"),
    Plan("memory-tight", "greedy"),
    Plan("cpu-offload", "latency-greedy"),
    Model("bert-large-training", "ip-tarnawski", "highs", cutoff=148.0),
    Model("inception-inference", "ip-tarnawski", "highs", cutoff=26.7, solved=False, slow=True),
    Model("tiny-chain", "ip-tarnawski", "cp-sat", {"non_contiguous": True}),
    Model("tiny-chain", "ip-tarnawski", "highs", {"variant": "plain"}),
    Model("tiny-chain", "ip-tarnawski-latency", "highs"),
    # Stages: knapsacks in machine code, and columns that are left after pruning.
    Plan("bert-large-stages", "dp-piper", compiled=True),
    Plan("gpt2-medium-stages", "dp-piper", compiled=True),
    Plan("tiny-stages", "dp-piper", {"semantics": "reference"}),
    Plan("bert-large-stages", "equi"),
    Model("gpt2-medium-stages", "mip-piper", "highs", cutoff=0.00505),
    # Stage graphs.
    Plan("case-study", "graphpipe"),
    Plan("mmt-8", "graphpipe"),
    Plan("dlrm-8", "shortest-iteration"),
    Plan("case-study", "spp-pipedream"),
    Model("tiny-graph", "cp-graphpipe", "cp-sat"),
    # Chains.
    Plan("resnet18-chain", "contiguous"),
    Plan("resnet18-chain", "exact-beaumont"),
    Plan("golden-4", "exact-beaumont"),
    Plan("figure-5", "exact-beaumont"),
    Model("lemma-2", "ilp-beaumont", "highs"),
    Model("golden-4", "cp-beaumont", "cp-sat"),
    # Schedules.
    Plan("zero-bubble-4x12", "exact-schedule"),
    Plan("zero-bubble-4x12", "zb-greedy"),
    Plan("v-shape-4", "exact-schedule"),
    Plan("zero-bubble-4x12", "list-schedule", slow=True),
    Model("zero-bubble-4x12", "cp-schedule", "cp-sat", {"objective": "span"}, cutoff=195.0, solved=False),
    Model("v-shape-4", "cp-periodic", "cp-sat"),
)


# ---- measuring -------------------------------------------------------------------------------------------


class UnsteadyError(Exception):
    """A case that says something else when it is run again."""


def measure(case: Case, repetitions: int) -> Measured:
    run = case.prepare()
    first = run()
    began = time.process_time()
    if run() != first:
        raise UnsteadyError("its answer or its counters are others when it is run again")
    seconds = time.process_time() - began
    passes = min(MOST_PASSES, max(1, math.ceil(LEAST_TIMED_S / max(seconds, 1e-6))))
    return Measured(first, statistics.median(_ratios(run, passes, repetitions)))


def _ratios(run: Callable[[], Answer], passes: int, repetitions: int) -> Iterator[float]:
    """Case over calibration, one right after the other, so that both have the same share of the machine."""
    for _ in range(repetitions):
        unit = unit_seconds()
        began = time.process_time()
        for _ in range(passes):
            run()
        yield (time.process_time() - began) / passes / unit


# ---- comparing -------------------------------------------------------------------------------------------


def faults(known: Mapping[str, Any] | None, found: Measured) -> list[str]:
    """What is worse than the table, in words; nothing: all is as it should be."""
    if known is None:
        return ["is not in the table"]
    answer = found.answer
    near = OF_FLOATS if answer.solver and not answer.solver.startswith("cp-sat") else SAME
    said = []
    for name in ("value", "bound"):
        was, now = known[name], getattr(answer, name)
        if (was is None) != (now is None) or (was is not None and not math.isclose(was, now, rel_tol=near)):
            said.append(f"{name} {now}, the table has {was}")
    if answer.stop != known["stop"]:
        said.append(f"stop {answer.stop}, the table has {known['stop']}")
    said += _grown(known["counters"], answer.counters)
    if answer.solver == known["solver"]:
        said += _grown(known["search"], answer.search, SEARCH_FACTOR, SEARCH_SLACK)
    if is_slow(known, found):
        said.append(f"{found.cpu:.2f} units of processor time, the table has {known['cpu']:.2f}")
    return said


def is_slow(known: Mapping[str, Any], found: Measured) -> bool:
    return found.cpu > CPU_FACTOR * float(known["cpu"]) + SLACK_UNITS


def _grown(known: Mapping[str, int], found: Mapping[str, int], factor: float = 1.0, slack: int = 0) -> list[str]:
    missing = [f"{name} is missing, the table has {known[name]}" for name in known if name not in found]
    more = [
        f"{name} {found[name]}, the table has {n}"
        for name, n in known.items()
        if found.get(name, 0) > factor * n + slack
    ]
    return [*missing, *more, *(f"{name} is not in the table" for name in found if name not in known)]


def remarks(known: Mapping[str, Any], found: Measured) -> list[str]:
    """What is no fault and worth knowing."""
    fewer = [name for name, n in known["counters"].items() if found.answer.counters.get(name, n) < n]
    other = found.answer.solver != known["solver"]
    return [
        *(f"fewer {name}" for name in fewer),
        *([f"search not compared: {found.answer.solver}, not {known['solver']}"] if other else []),
    ]


# ---- the command -----------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None, cases: Iterable[Case] = CASES, table: Path = TABLE) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only what is done in a moment")
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--update", action="store_true", help="write the table anew; the other rows are kept")
    asked = parser.parse_args(words)
    chosen = [case for case in cases if asked.only in case.name and not (asked.quick and case.slow)]
    known = json.loads(table.read_text("utf-8"))["cases"] if table.exists() else {}
    if asked.update:
        return update(chosen, known, {case.name for case in cases}, table)
    return compare(chosen, known, QUICK_REPETITIONS if asked.quick else REPETITIONS)


def compare(cases: Sequence[Case], known: Mapping[str, Any], repetitions: int) -> int:
    unit_seconds()
    width = max(len(case.name) for case in cases)
    print(f"{'case':{width}}  {'value':>12}  {'units':>7}  {'table':>7}  verdict")
    wrong = 0
    for case in cases:
        row = known.get(case.name)
        try:
            found = measure(case, repetitions)
            if row is not None and is_slow(row, found):
                found = measure(case, AGAIN)
        except Exception as error:  # the other cases are worth knowing all the same
            wrong += 1
            print(f"{case.name:{width}}  {'':>12}  {'':>7}  {'':>7}  WORSE: {error}", flush=True)
            continue
        said = faults(row, found)
        wrong += bool(said)
        value = "-" if found.answer.value is None else f"{found.answer.value:.7g}"
        table = "-" if row is None else f"{row['cpu']:.2f}"
        verdict = "WORSE: " + "; ".join(said) if said else "; ".join(["ok", *remarks(row or {}, found)])
        print(f"{case.name:{width}}  {value:>12}  {found.cpu:7.2f}  {table:>7}  {verdict}", flush=True)
    print(f"{len(cases)} cases, {wrong} worse than the table (processor time: more than {CPU_FACTOR} times).")
    if wrong:
        print("Mend what became worse, or write a new table with --update and say in the commit why.")
    return 1 if wrong else 0


def update(cases: Sequence[Case], known: Mapping[str, Any], names: set[str], table: Path) -> int:
    unit_seconds()
    rows = {name: row for name, row in known.items() if name in names}
    for case in cases:
        rows[case.name] = measure(case, REPETITIONS).to_json()
        print(f"{case.name}  {json.dumps(rows[case.name])}", flush=True)
    made = {"made": {"date": datetime.date.today().isoformat(), "version": pipeplan.__version__}}
    table.write_text(json.dumps({**made, "cases": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
