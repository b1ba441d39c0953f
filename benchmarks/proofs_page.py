"""Make `benchmarks/results/proofs.md`: how near each release comes to the best known values and to proofs.

    python benchmarks/proofs_page.py [--time-limit 10] [--threads 2] [--workloads DIR] [--machine WORDS]
    python benchmarks/proofs_page.py --page

Every variant of every packaged instance, and of every published input where their folder is known (`--workloads`, or
PIPEPLAN_WORKLOADS), is planned once by the default exact method of its kind. What was found is kept at once in
`proofs_history.jsonl`, one line each, so that a run that was interrupted goes on when it is started again: lines of the
same version and commit, with the same limits, stand. Those of the same version from another commit or with other
limits give way; those of other versions stay for good, as the page shows what each release could do (but for
configurations of an older time model, whose seconds mean something else). `--page` plans nothing and writes the page
anew. Nothing of a published input is kept but its name and figures.

Best known are the values of `best_known.csv` (packaged) and of `published_best_known.csv`, and whatever a release found
that is better.
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from best_known import METHODS, PLANS_OF, options_of
from packaged_instances import variants_of

import pipeplan
from pipeplan.instances.base.json_file import write_text_atomically
from pipeplan.instances.base.result import PROVEN_TOLERANCE, Stop, relative_gap
from pipeplan.instances.catalogue import PUBLISHED, read_best_known
from pipeplan.show.words import amount_or
from pipeplan.studies.journal import Journal, line_of

HERE = Path(__file__).parent
PAGE = HERE / "results" / "proofs.md"
HISTORY = HERE / "proofs_history.jsonl"

LATENCY = {"formulation": "ip-tarnawski-latency"}
BANDWIDTH = 26843545600.0
"""25 GiB/s, as the paper of Piper has it."""


@dataclass(frozen=True)
class Input:
    """A problem, and the method that answers one question of it."""

    name: str
    variant: str
    problem: Any
    method: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.variant


@dataclass(frozen=True)
class Run:
    """One line of the history. Values are in the problem's time unit."""

    version: str
    commit: str
    date: str
    time_limit_s: float
    threads: int
    machine: str
    """In words."""
    input: str = ""
    variant: str = ""
    hash: str = ""
    time_unit: str | None = None
    method: str = ""
    value: float | None = None
    bound: float | None = None
    stop: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str]:
        return self.input, self.variant

    @property
    def made_by(self) -> tuple[str, str, float, int]:
        return self.version, self.commit, self.time_limit_s, self.threads

    @property
    def gap(self) -> float | None:
        return relative_gap(self.value, self.bound)


@dataclass(frozen=True)
class Known:
    """The best value that anybody knows, and whether it is proven to be the optimum."""

    value: float
    proven: bool


# ---- the inputs ------------------------------------------------------------------------------------------


def packaged_inputs() -> Iterator[Input]:
    """Every variant of which a value is known, in the order of the table."""
    loaded: dict[str, Any] = {}
    for row in read_best_known():
        problem = loaded.setdefault(row.instance, pipeplan.load_packaged(row.instance))
        yield Input(row.instance, row.variant, *asked(problem, row.variant))


def asked(problem: Any, variant: str) -> tuple[Any, Mapping[str, Any]]:
    """The problem and the method that answer a variant."""
    if problem.kind != "chain":
        method = PLANS_OF.get(problem.kind, METHODS[problem.kind])
        return problem, {**method, "options": options_of(problem.kind, variant)}
    if variant == "two-batches":
        return problem, {"formulation": "cp-beaumont", "options": {"batches_per_period": 2}}
    if variant == "contiguous":
        return problem, {"planner": "contiguous"}
    changes = {"unlimited": {"memory_bytes": None}, "exclusive": {"exclusive_buffers": True}}.get(variant, {})
    return problem.replace(**changes), {"planner": "exact-beaumont"}


def published_inputs(workloads: Path) -> Iterator[Input]:
    """On the clusters that the files name; where they name none, on one of the papers'."""
    for path in sorted(workloads.glob("tarnawski/throughput/*/*.json")):
        yield from _variants(_name(path, workloads), pipeplan.load(path))
    for path in sorted(workloads.glob("tarnawski/latency/*.json")):
        yield Input(_name(path, workloads), "latency", pipeplan.load(path), LATENCY)
    for name, cluster in (
        ("piper/bert32a100", {"devices": 64, "memory_bytes": 8 * 2.0**30, "batch": 1920}),
        ("piper/resnet", {"devices": 8, "memory_bytes": 8 * 2.0**30, "batch": 7680}),
    ):
        path = workloads / f"{name}.json"
        if path.exists():
            yield from _variants(name, pipeplan.load(path, bandwidth=BANDWIDTH, **cluster))
    for path in sorted(workloads.glob("pipedream/*.graph.txt")):
        cluster = {"devices": 4, "memory_bytes": 16e9, "bandwidth": 1.25e9}
        yield from _variants(_name(path, workloads), pipeplan.load(path, kind="placement", **cluster))


def _variants(name: str, problem: Any) -> Iterator[Input]:
    for variant in variants_of(problem):
        yield Input(name, variant, *asked(problem, variant))


def _name(path: Path, workloads: Path) -> str:
    return path.relative_to(workloads).as_posix().removesuffix(".json").removesuffix(".graph.txt")


# ---- a run -----------------------------------------------------------------------------------------------


def journal(path: Path) -> Journal:
    return Journal(path, "run of an input", "remove the line")


def read(path: Path) -> list[Run]:
    return [run for _, run in journal(path).read(lambda data: Run(**data))]


def kept(runs: Iterable[Run], usual: Run) -> list[Run]:
    """Without what the same version did at another commit or within other limits."""
    return [run for run in runs if run.version != usual.version or run.made_by == usual.made_by]


def measure(inputs: Iterable[Input], usual: Run, path: Path) -> None:
    """What is not in the history yet, each kept as soon as it is there."""
    before = kept(read(path), usual)
    write_text_atomically(path, "".join(line_of(asdict(run)) for run in before))
    done = {(run.key, run.hash) for run in before if run.made_by == usual.made_by}
    for item in inputs:
        if (item.key, item.problem.hash) in done:
            continue
        found = _run(item, usual)
        journal(path).append(asdict(found))
        value = "no plan" if found.value is None else f"{found.value:.7g}"
        print(f"{item.name}  {item.variant}  {value}  {found.stop}  {found.seconds:.1f} s", flush=True)


def _run(item: Input, usual: Run) -> Run:
    limits = pipeplan.SolveOptions(time_limit_s=usual.time_limit_s, threads=usual.threads)
    result = pipeplan.solve(item.problem, **item.method, limits=limits)
    if result.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    return replace(
        usual,
        input=item.name,
        variant=item.variant,
        hash=item.problem.hash,
        time_unit=item.problem.time_unit,
        method=str(item.method.get("formulation") or item.method["planner"]),
        value=None if result.objective is None or not result.verified else float(result.objective),
        bound=None if result.bound is None else float(result.bound),
        stop=str(result.stop),
        seconds=round(result.seconds["total"], 1),
    )


def commit() -> str:
    """Of the code that runs."""
    command = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


# ---- what is best ----------------------------------------------------------------------------------------


def best_of(runs: Iterable[Run], tables: Iterable[Any]) -> dict[tuple[str, str], Known]:
    """Of the tables and of all releases; a value is proven where a bound of anybody meets it.

    A contiguous placement is also one of the other variant, and a bound on any placement one on contiguous ones. A
    bound above the best value is one on fewer plans, and proves nothing of that value.
    """
    values: dict[tuple[str, str], float] = {}
    bounds: dict[tuple[str, str], float] = {}
    figures = [((row.instance, row.variant), row.value, row.bound) for row in tables]
    for key, value, bound in (*figures, *((run.key, run.value, run.bound) for run in runs)):
        if value is not None:
            values[key] = min(value, values.get(key, value))
        if bound is not None:
            bounds[key] = max(bound, bounds.get(key, bound))
    for free in [key for key in values if key[1] == "non-contiguous"]:
        chain = (free[0], "contiguous")
        values[free] = min(values[free], values.get(chain, values[free]))
        if free in bounds:
            bounds[chain] = max(bounds[free], bounds.get(chain, bounds[free]))
    return {
        key: Known(value, key in bounds and abs(value - bounds[key]) <= PROVEN_TOLERANCE * abs(value))
        for key, value in values.items()
    }


# ---- the page --------------------------------------------------------------------------------------------

WORDS = """\
# What is proven

How near does each release come to the best known value of every input, and to a proof? An input is a variant of a
packaged instance or of a [published one](../../docs/reproduce.md#published-inputs). The name of a published input is
its path below the folder of published inputs. Each input is planned once, by the default exact method of its kind.

- *Best known* is the least value in `best_known.csv` and `published_best_known.csv` of `instances/packaged/` and in
  all releases, whichever plans it was found among. *Proven* beside it says that a bound meets it, for the plans that
  this bound is about.
- *To best* says by which share the value found is above the best known one. 0 % means the same value.
- *To bound* is the gap (value - bound) / value to the bound of the same run: the share that another plan of the
  method's scope could save at most. 0 % is a proof; `-` means that the method knows no bound.
- *Proven* as the stop of a run speaks of the plans that the method considers (`scope` in a result). A better plan may
  be known that is not among them; then the table says *proven in its scope*.

One command makes the page, and continues after an interrupt. The figures of earlier releases stay.

    python benchmarks/proofs_page.py

## Releases

*Best known met* counts the inputs with the best known value, and *proven* those whose run ended with a proof. An input
without a plan within the limit counts as neither. Means are over the inputs that have a figure. If the machine has
other work, runs get less done within their limit, and the gaps of those that were cut short are wider.

"""
RELEASES = (
    "version",
    "date",
    "commit",
    "inputs",
    "best known met",
    "proven",
    "mean gap to best",
    "mean gap to bound",
    "limit per input",
    "in all",
    "machine",
)


def page(runs: Sequence[Run], known: Mapping[tuple[str, str], Known]) -> str:
    releases = by_release(runs)
    newest_first = [releases[version] for version in reversed(releases)]
    return "\n".join(
        [
            WORDS.strip("\n"),
            "",
            *_table(RELEASES, [_summary(list(release.values()), known) for release in newest_first]),
            "",
            "## Inputs",
            "",
            *_table(_head(releases), [_row(key, newest_first, known) for key in _keys(newest_first)]),
            "",
        ]
    )


def by_release(runs: Iterable[Run]) -> dict[str, dict[tuple[str, str], Run]]:
    """The runs of each version by input, versions in the order of their dates."""
    releases: dict[str, dict[tuple[str, str], Run]] = {}
    for run in sorted(runs, key=lambda run: run.date):
        releases.setdefault(run.version, {})[run.key] = run
    return releases


def _summary(runs: Sequence[Run], known: Mapping[tuple[str, str], Known]) -> list[str]:
    to_best = [_to_best(run, known) for run in runs]
    last = max(runs, key=lambda run: run.date)
    return [
        last.version,
        last.date,
        last.commit,
        str(len(runs)),
        str(sum(gap is not None and gap <= PROVEN_TOLERANCE for gap in to_best)),
        str(sum(run.gap is not None and run.gap <= PROVEN_TOLERANCE for run in runs)),
        _mean(to_best),
        _mean([run.gap for run in runs]),
        f"{last.time_limit_s:g} s, {last.threads} threads",
        f"{sum(run.seconds for run in runs) / 60:.0f} min",
        last.machine,
    ]


def _head(releases: Mapping[str, Any]) -> list[str]:
    """Of the newest release all is told, of older ones the gaps."""
    newest, *older = reversed(releases)
    gaps = [column for version in older for column in (f"{version}: to best", f"{version}: to bound")]
    told = ["found", "to best", "to bound", "by", "stop", "seconds"]
    return ["input", "variant", "best known", "proven", *(f"{newest}: {name}" for name in told), *gaps]


def _keys(newest_first: Sequence[Mapping[tuple[str, str], Run]]) -> list[tuple[str, str]]:
    """In the order of the newest release; what only older ones had comes last."""
    return list(dict.fromkeys(key for release in newest_first for key in release))


def _row(
    key: tuple[str, str],
    newest_first: Sequence[Mapping[tuple[str, str], Run]],
    known: Mapping[tuple[str, str], Known],
) -> list[str]:
    newest, *older = (release.get(key) for release in newest_first)
    unit = next(run.time_unit for run in (newest, *older) if run is not None)
    best = known.get(key)
    return [
        *key,
        amount_or(best and best.value, unit, "no plan"),
        "yes" if best is not None and best.proven else "no",
        "" if newest is None else amount_or(newest.value, unit, "no plan"),
        *_gaps(newest, known),
        *(["", "", ""] if newest is None else [newest.method, _stop(newest, known), f"{newest.seconds:.1f}"]),
        *(cell for run in older for cell in _gaps(run, known)),
    ]


def _stop(run: Run, known: Mapping[tuple[str, str], Known]) -> str:
    """A proof says less where a better plan of a wider scope is known."""
    is_beaten = (_to_best(run, known) or 0.0) > PROVEN_TOLERANCE
    return f"{run.stop} in its scope" if run.stop == Stop.PROVEN and is_beaten else run.stop


def _gaps(run: Run | None, known: Mapping[tuple[str, str], Known]) -> list[str]:
    return ["", ""] if run is None else [_percent(_to_best(run, known)), _percent(run.gap)]


def _to_best(run: Run, known: Mapping[tuple[str, str], Known]) -> float | None:
    """(found - best) / best."""
    best = known.get(run.key)
    if run.value is None or best is None:
        return None
    return (run.value - best.value) / best.value if best.value else 0.0


def _percent(gap: float | None) -> str:
    """Where two values are the same but for rounding, that is 0."""
    return "-" if gap is None else f"{100 * gap:.3f} %".replace("-0.000", "0.000")


def _mean(gaps: Iterable[float | None]) -> str:
    there = [gap for gap in gaps if gap is not None]
    return _percent(sum(there) / len(there) if there else None)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]


# ---- the command -----------------------------------------------------------------------------------------


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--time-limit", type=float, default=10.0, help="seconds per input (default: 10)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--workloads", type=Path, help="the folder of published inputs; default: PIPEPLAN_WORKLOADS"
    )
    parser.add_argument("--only", default="", help="inputs with this in their name; the page has all that is known")
    parser.add_argument("--machine", default=f"{os.cpu_count()} cores", help="what the page says of it")
    parser.add_argument("--page", action="store_true", help="plan nothing, write the page of what is known")
    given = parser.parse_args(words)
    folder = given.workloads or os.environ.get("PIPEPLAN_WORKLOADS")
    if not given.page:
        inputs = [*packaged_inputs(), *(published_inputs(Path(folder)) if folder else ())]
        measure((item for item in inputs if given.only in item.name), _usual(given), HISTORY)
    runs = read(HISTORY)
    known = best_of(runs, [*read_best_known(), *read_best_known(PUBLISHED)])
    PAGE.write_text(page(runs, known), encoding="utf-8")


def _usual(given: argparse.Namespace) -> Run:
    """What all lines of this run have in common."""
    return Run(
        version=pipeplan.__version__,
        commit=commit(),
        date=datetime.date.today().isoformat(),
        time_limit_s=given.time_limit,
        threads=given.threads,
        machine=given.machine,
    )


if __name__ == "__main__":
    main()
