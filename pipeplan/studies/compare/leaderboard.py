"""A leaderboard that anybody can join: the plans in a file of runs, judged anew beside the best values that are known.

The file is the journal of a comparison by the suite `leaderboard`. Nothing in it is believed but its plans: the suite
says which problem a plan is for, the referee what it is worth, and our tables of best known values what is proven. A
plan is judged by every variant of its problem in these tables, such as contiguous placements and any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from ...instances.base.errors import InputError, UsageError, errors_in
from ...instances.base.quantities import several
from ...instances.base.result import PROVEN_TOLERANCE, Found, Result, Stop
from ...instances.catalogue import PACKAGED, PUBLISHED, BestKnown, packaged_kinds, read_best_known
from ...instances.lookup import load
from ...instances.registry import Problem
from ...instances.stored_results import result_from_json
from ...planners.referee import is_above, rule, rules_of
from ...planners.run.claims import recompute
from .comparison import Comparison, finished, journal_in
from .run import Record, Run, Status
from .suite import Expanded, load_suite
from .table import KNOWN

_load = cache(load)
SUITE = "leaderboard"
# A variant of chains for which the referee has no rules.
NOT_ASKED = ("chain", "contiguous")


def leaderboard(paths: Sequence[Path], workloads: Path | None = None) -> Comparison:
    """The methods of these files, a case for each instance of the first one and each variant, with the best known
    values as one method more. Runs on other clusters than the suite's do not count.

    What contradicts a file, or a bound of ours, is in `differences`. Of two methods of one name the later one has its
    file beside the name.
    """
    suite, owners, absent, notes = load_suite(SUITE), dict[str, Path](), dict[str, None](), list[str]()
    told_of, elsewhere = {made.run.instance for made in _runs_in(paths[0])}, 0
    sources = {instance.label: instance.address(workloads) for instance in suite.instances}
    records: dict[str, Record] = {}
    differences: dict[str, tuple[str, ...]] = {}
    for path, made in ((place, made) for place in paths for made in _runs_in(place)):
        name, method = made.run.instance, made.run.method
        if name not in sources:
            remedy = "give runs of its instances, as plan compare --suite leaderboard makes them"
            raise InputError("run.instance", f"is {name!r}, which is none of the suite {SUITE}", remedy, str(path))
        source = sources[name]
        if name not in told_of:
            continue
        if source is None:
            absent[name] = None
            continue
        problem = _load(source)
        if made.run.problem_hash != problem.hash:
            elsewhere += 1
            continue
        owner = owners.setdefault(method, path)
        label = method if owner == path else f"{method} ({'/'.join(path.parts[-2:])})"
        with errors_in(str(path)):
            result = None if made.result is None else result_from_json(made.result)
        told = () if result is None else recompute(problem, result).differences
        for row in _known_of(name, problem):
            run, known = replace(made.run, setting=row.variant, method=label), _as_record(row, problem)
            judged = None if result is None else _judged(result, problem, row)
            record = replace(made, run=run, result=None if judged is None else judged.to_json())
            records |= {known.run.key: known, run.key: record}
            if judged is None or judged.objective is None:
                continue
            better = f"{label} has a plan of {name} ({row.variant}) worth {judged.objective!r}; {row.source} knows"
            if is_above(row.bound, judged.objective):
                told += (f"{better} that none is below {row.bound!r}: report it",)
            elif is_above(row.value, judged.objective, PROVEN_TOLERANCE):
                notes.append(f"{better} none below {row.value!r}.")
        differences |= {run.key: told} if told else {}
    if elsewhere:
        others = f"{several(elsewhere, 'run')} on other devices or limits of memory than the suite's do not count"
        if not records:
            raise UsageError(f"{others}, and there is no other; compare without --devices, --memory and the like.")
        notes.append(f"{others}.")
    runs = tuple(record.run for record in records.values())
    expanded = Expanded(SUITE, suite.title, runs, left_out=tuple(absent), notes=tuple(notes))
    return Comparison(expanded, records, len(records), differences=differences)


def _runs_in(path: Path) -> Iterable[Record]:
    journal = journal_in(path)
    if not journal.exists():
        raise UsageError(f"{path} holds no runs; name the runs.jsonl of a comparison by --suite {SUITE}.")
    # Where the method's code, or a limit, has changed since, the last answer to a question counts.
    return {record.run.question: record for record in finished(journal).values()}.values()


def _known_of(name: str, problem: Problem) -> list[BestKnown]:
    """The rows of our tables that the board has a question for, and a value."""
    rows = (row for table in (PACKAGED, PUBLISHED) for row in read_best_known(table) if row.instance == name)
    asked = {*packaged_kinds()[problem.kind].variants}
    return [row for row in rows if row.variant in asked and (problem.kind, row.variant) != NOT_ASKED and row.value]


def _judged(result: Result, problem: Problem, row: BestKnown) -> Result:
    """The result with the plan's value for this question; no plan where its rules refuse it, or for another problem."""
    value = None
    if result.plan is not None and result.problem.get("hash") == problem.hash:
        contiguity = "none" if row.variant == "non-contiguous" else "chain"
        question = {"objective": row.variant, "semantics": row.variant, "contiguity": contiguity}
        value = rule(problem, result.plan, rules_of(problem, question)).value  # which knows what it has choices of
    stop = result.stop if result.stop in (Stop.TIME, Stop.MEMORY) else Stop.COMPLETED
    found = Found.NOTHING if value is None else Found.FEASIBLE
    return replace(result.unproven(), stop=stop, found=found, objective=value, verified=value is not None)


def _as_record(row: BestKnown, problem: Problem) -> Record:
    """What is known, as if somebody had run it."""
    stop, found = (Stop.PROVEN, Found.OPTIMAL) if row.proven else (Stop.COMPLETED, Found.FEASIBLE)
    facts = {"time_unit": problem.time_unit}
    result = Result(facts, stop, found, planner=row.source, objective=row.value, bound=row.bound, verified=True)
    return Record(Run(row.instance, row.variant, KNOWN, problem.kind, problem.hash), Status.DONE, result.to_json())
