"""What is called independent is independent: methods that check each other, and the referee of every kind.

The boundary: a walk begins at the module of a method (or at the rules by which a kind judges plans) and follows what is
imported, at the top of a file or inside a function, what is named by address ("pipeplan.x:y"), and the formulation that
a planner hands to the exact planner by name. It ends where a question is asked or an answer is judged, which computes
neither a value nor a bound: contracts and registries, the table of kinds, the referee's verdict, and what runs solvers.
Two walks may meet on the ground floor and in the types of problems and plans, nowhere else.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pipeplan import Configuration, Edge, Layer, StagingLevel, StagingProblem, solve
from pipeplan.formulations.registry import FORMULATIONS, Entry
from pipeplan.instances.registry import KINDS
from pipeplan.planners.registry import all_methods, second_methods

from .test_architecture import ROOT, holds_something, imported_at_run_time, known_modules, nodes_of

pytestmark = pytest.mark.xdist_group("architecture")  # one worker reads all files

GROUND_FLOOR = {
    f"instances.base.{name}"
    for name in (
        "amounts", "checks", "clock", "cluster", "compiled", "curve", "display", "errors", "fields", "graph",
        "json_file", "quantities", "result",
    )
}  # fmt: skip
"""What everything stands on. Exact amounts and the reading of a curve of times are in it, as docs/results.md says,
which figures hardware can have, and how values show themselves."""

QUESTIONS = {
    "instances.chain.problem", "instances.staging.problem",
    "instances.graph_pipeline.series_parallel", "instances.training.model",
    "instances.training.frameworks", "instances.training.scope",
}  # fmt: skip
"""Parts of the question and of its words: an allocation that the user gives, names of tasks, types of devices, which
options make sense, and the decomposition of a graph, by which a scope says over which stages it speaks. Of trainings
the shapes of a model, the rules and bytes of a framework, which configurations are asked for, by
how much memory may be misjudged, and in which order a schedule of that name runs its passes. And which bytes a stage of
ZeRO divides, filled up to whole ones."""

PHYSICS = "instances.physics."
"""Facts of hardware, optimizers and schedules: constants and tables, which are stated once for all."""

COSTS = {f"instances.training.{name}" for name in ("unit_costs", "unit_bytes", "cases", "lengths")}
"""What a unit of a training configuration costs and holds: the search and the referee share it, docs/results.md says
so, and an oracle that shares none of it checks it."""

STEPS = {"formulations.graphpipe.more_in_flight"}
"""Changes of a plan that the referee alone judges."""

BOUNDARY = {
    "formulations.contract", "formulations.family", "formulations.native", "formulations.plugins",
    "formulations.registry", "instances.base.kind", "instances.registry", "planners.backends",
    "planners.contract", "planners.exact", "planners.registry", "planners.options", "planners.referee",
    "planners.run", "planners.search",
}  # fmt: skip

ADDRESS = re.compile(r"pipeplan((?:\.\w+)+):\w+")


def module_of(address: str) -> str:
    return address.partition(":")[0].removeprefix("pipeplan.")


def is_boundary(module: str) -> bool:
    return any(module == end or module.startswith(end + ".") for end in BOUNDARY)


@cache
def files() -> dict[str, Path]:
    return {".".join(name[1:]): path for name, path in known_modules().items()}


@cache
def needs(module: str) -> frozenset[str]:
    """What a module imports or names by address; a formulation that it names stands for its module."""
    path = files()[module]
    imported = imported_at_run_time(path, known_modules())
    found = {".".join(name[1:length]) for name in imported for length in range(2, len(name) + 1)}
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and ADDRESS.fullmatch(node.value):
            found.add(module_of(node.value))
        if isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if isinstance(key, ast.Constant) and key.value == "formulation" and isinstance(value, ast.Constant):
                    found.add(module_of(FORMULATIONS[value.value].address))
    return frozenset(found & set(files()))


@cache
def works(address: str) -> frozenset[str]:
    """All modules that compute what is at an address."""
    seen, todo = set[str](), [module_of(address)]
    while todo:
        module = todo.pop()
        if module not in seen and not is_boundary(module):
            seen.add(module)
            todo += needs(module)
    return frozenset(module for module in seen if holds_something(files()[module]))


@cache
def types() -> frozenset[str]:
    """The modules of problems and plans."""
    return frozenset(
        module_of(later.address) for kind in KINDS.values() for later in (kind.problem, *kind.plans.values())
    )


def shared(one: str, other: str) -> set[str]:
    """Arithmetic that two addresses have in common; options are declarations, whoever's they are."""
    both = works(one) & works(other)
    return {
        module
        for module in both - GROUND_FLOOR - QUESTIONS - STEPS - types()
        if module.rpartition(".")[2] != "options" and not module.startswith(PHYSICS)
    }


METHODS = [entry for entry in all_methods() if entry.problem_kind in KINDS]


def pairs() -> Iterator[tuple[Entry, Entry]]:
    """All that `--cross-check` and `verify --proof` call independent of each other."""
    for entry in METHODS:
        yield from ((entry, other) for other in second_methods(entry))


def named(value: Any) -> str:
    return f"{value.name}-{value.problem_kind}"


@pytest.mark.parametrize(("entry", "other"), list(pairs()), ids=named)
def test_second_methods_share_no_arithmetic(entry: Entry, other: Entry) -> None:
    assert len(works(entry.address)) > 1, "this test reads nothing"
    assert shared(entry.address, other.address) == set()


@pytest.mark.parametrize("entry", METHODS, ids=named)
def test_no_method_shares_arithmetic_with_its_referee(entry: Entry) -> None:
    rules = KINDS[entry.problem_kind].rules.address
    assert len(works(rules)) > 4, "this test reads nothing"
    assert shared(entry.address, rules) == (COSTS if entry.problem_kind == "training" else set())


def test_the_oracle_of_unit_costs_shares_none_of_them() -> None:
    text = (ROOT / "tests" / "oracles" / "training_costs.py").read_text(encoding="utf-8")
    imported = {module_of(name) for name in re.findall(r"^from (pipeplan[\w.]+) import", text, re.MULTILINE)}
    assert imported <= GROUND_FLOOR | QUESTIONS | types() | {name for name in files() if name.startswith(PHYSICS)}
    assert imported & types()


def bounding() -> Iterator[tuple[Entry, Entry]]:
    for one, other in itertools.combinations((entry for entry in METHODS if entry.exact), 2):
        if one.problem_kind == other.problem_kind:
            yield one, other


@pytest.mark.parametrize(("one", "other"), list(bounding()), ids=named)
def test_the_registry_says_who_shares_arithmetic(one: Entry, other: Entry) -> None:
    """In both directions: a name that two exact methods have in common must stand for something."""
    assert one.is_independent_of(other) == (not shared(one.address, other.address))


def test_the_walk_sees_what_is_shared() -> None:
    """It would see a slip: methods that are known to share are found to."""
    address = {entry.name: entry.address for entry in METHODS}
    assert "formulations.beaumont.bounds" in shared(address["ilp-beaumont"], address["exact-beaumont"])
    assert "formulations.zero_bubble.periodic_cp" in works(address["exact-schedule"])


# ---- words --------------------------------------------------------------------------------------------


RESULTS = ROOT / "benchmarks" / "results"
PAGES = (
    ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")),
    *sorted(RESULTS.glob("*.md")),
)  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_claim_no_more_than_the_imports_show(page: Path) -> None:
    """Methods and referees share the ground floor and the types of problems: no page says that they share no code."""
    text = " ".join(page.read_text(encoding="utf-8").split())
    assert not re.findall(r"[^.]*\bshar(?:es?|ing) (?:no (?:code|model)|nothing)\b[^.]*", text)


def test_the_page_lists_the_pairs_of_exact_methods() -> None:
    """The table of docs/results.md, by kind."""
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    listed = {
        frozenset(re.findall(r"`([\w-]+)`", row)[:2])
        for row in page.splitlines()
        if row.startswith("| `") and "independent" in row
    }
    proving = {entry.name for entry in METHODS if entry.exact or entry.proves_anew}
    assert listed == {frozenset((a.name, b.name)) for a, b in pairs() if {a.name, b.name} <= proving}
    assert len(listed) > 4


# ---- slips ---------------------------------------------------------------------------------------------

READINGS = {
    "dp-piper": ("planners.staging.model", "planners.staging.costs"),
    "mip-piper": ("formulations.piper.stages", "formulations.piper.memory"),
    "referee": ("instances.staging.referee",),
}
"""Who counts what a tensor takes on its way, and where."""


@pytest.mark.parametrize("levels", [False, True])
@pytest.mark.sweeps
@pytest.mark.parametrize("wrong", READINGS)
def test_a_slip_in_one_reading_is_seen_by_the_others(
    wrong: str, levels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tensors make one trip too many in one of the three: the program, the models, the referee."""
    for module in READINGS[wrong]:
        monkeypatch.setattr(f"pipeplan.{module}.TRIPS", 3.0)
    seed = 1 + 2 * list(READINGS).index(wrong) + levels
    answers = [solve(costly_edge(seed, levels), **method) for method in BOTH]
    claims = [answer.claimed for answer in answers]
    told = [answer.objective for answer in answers]
    if wrong == "referee":
        assert claims[0] == pytest.approx(claims[1])
        assert all(claim != pytest.approx(value) for claim, value in zip(claims, told, strict=True))
    else:
        assert claims[0] != pytest.approx(claims[1])
        assert claims[list(READINGS).index(wrong)] != pytest.approx(told[0])


BOTH: tuple[dict[str, Any], ...] = (
    {"planner": "dp-piper"},
    {"formulation": "mip-piper", "solver": "cp-sat", "warm_start": "none"},
)


def costly_edge(seed: int, levels: bool) -> StagingProblem:
    """Two layers that do not fit one device; all the time is in the tensor between them. Each seed is another problem,
    since prices are kept by problem."""
    way = {1: (Configuration("only", 1e-3, memory_fixed=1.0),)}
    stands = (StagingLevel(1, 1.0), StagingLevel(2, 1.0)) if levels else ()
    layers, edge = (Layer(0, way), Layer(1, way)), Edge(0, 1, 100.0 + seed)
    return StagingProblem(layers, (edge,), 2, 1.0, 1 + seed, memory_bytes=1.0, levels=stands)
