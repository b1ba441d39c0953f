"""The house rules that a reader relies on: one direction of imports, light doors."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import pytest

from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.instances.base.kind import Function, Later, load_address
from pipeplan.planners.registry import PLANNERS

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("instances", "formulations", "planners")
ALLOWED = {
    "instances": {"instances"},
    "formulations": {"formulations", "instances"},
    "planners": {"planners", "formulations", "instances"},
    "pipeplan": {"pipeplan", "planners", "formulations", "instances"},
}
SOLVERS = {"highspy", "ortools", "gurobipy", "cplex", "xpress", "pyscipopt"}
EXTRAS = {"torch", "transformers"}
pytestmark = pytest.mark.xdist_group("architecture")  # one worker reads all files

HEAVY = (
    *sorted(EXTRAS), "pyomo", "pandas", "highspy", "ortools", "numba", "numpy", "scipy", "networkx", "matplotlib",
)  # fmt: skip


@cache
def tree_of(path: Path) -> ast.Module:
    """Many tests of this folder read the same files."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree_of(path)))


@cache
def modules_of(room: str) -> list[Path]:
    return [
        path
        for path in sorted((ROOT / room).rglob("*.py"))
        if room != "pipeplan" or path.relative_to(ROOT / room).parts[0] not in ROOMS
    ]


def dotted(path: Path) -> tuple[str, ...]:
    """The import name of a file, as a tuple; a package's `__init__` stands for the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    parts = parts if parts[0] == "pipeplan" else ("pipeplan", *parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def imports_of(path: Path) -> Iterator[tuple[str, ...]]:
    """Everything that a file imports, at its top or inside a function, as absolute dotted names."""
    package = dotted(path) if path.name == "__init__.py" else dotted(path)[:-1]
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module or "").split(".")) if node.module else base
            yield from ((*module, alias.name) for alias in node.names)


def room_of(name: tuple[str, ...]) -> str | None:
    if name[0] != "pipeplan":
        return None
    return name[1] if len(name) > 1 and name[1] in ROOMS else "pipeplan"


def everything() -> list[Path]:
    return [path for room in (*ROOMS, "pipeplan") for path in modules_of(room)]


@pytest.mark.parametrize("room", [*ROOMS, "pipeplan"])
def test_imports_between_the_packages_point_one_way(room: str) -> None:
    arrows = {
        (str(path.relative_to(ROOT)), target)
        for path in modules_of(room)
        for name in imports_of(path)
        if (target := room_of(name)) is not None
    }
    assert arrows, "this test reads nothing"
    assert not [arrow for arrow in sorted(arrows) if arrow[1] not in ALLOWED[room]]


def test_instances_import_neither_solver_nor_pyomo() -> None:
    names = {name[0] for path in modules_of("instances") for name in imports_of(path)}
    assert not names & (SOLVERS | {"pyomo"})


def test_only_backends_import_solvers_and_only_formulations_build_for_them() -> None:
    """Planners reach a solver through `planners/backends`; a native builder in formulations runs in a worker only."""
    users = {
        path.relative_to(ROOT).parts[:2]
        for path in everything()
        if {name[0] for name in imports_of(path)} & SOLVERS
    }
    assert {user for user in users if user[0] != "formulations"} <= {("planners", "backends")}


def test_heuristics_import_instances_and_the_contracts_alone() -> None:
    """They are cross-checks of the models, so they share no code with them."""
    shared = {
        (str(path.relative_to(ROOT)), ".".join(name))
        for path in sorted((ROOT / "planners" / "placement").glob("*.py"))
        if path.stem not in ("device_sets", "latency_lns")
        for name in imports_of(path)
        if room_of(name) == "formulations" and name[2] not in ("contract", "family")
    }
    assert not shared


def test_every_module_can_be_imported() -> None:
    """Without an extra only what lies behind the door that asks for it cannot."""
    wanted = [path for path in everything() if path.name != "__main__.py"]
    skipped = {
        path
        for path in wanted
        if not SOLVERS & {name[0] for name in top_level_imports(path)} and missing_extra(path) is not None
    }
    assert {dotted(path)[:2] for path in skipped} <= {("pipeplan", "models")}


def missing_extra(path: Path) -> str | None:
    """The optional package that the module needs and that is not installed; None: the module can be imported."""
    try:
        importlib.import_module(".".join(dotted(path)))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        return package
    return None


def top_level_imports(path: Path) -> Iterator[tuple[str, ...]]:
    for node in tree_of(path).body:
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield tuple(node.module.split("."))


# ---- light doors ---------------------------------------------------------------------------------------


DOORS = (
    "import pipeplan",
    "pipeplan.PlacementProblem, pipeplan.SolveOptions, pipeplan.Result",
    "from pipeplan.cli import main",
    *(
        f"main({words})"
        for words in (["--version"], ["--help"], ["solve", "--help"], ["formulations"], ["planners"])
    ),
    "main(['formulations', 'ip-tarnawski', '--json'])",
)


def test_doors_are_light() -> None:
    """What only shows or declares something loads no solver, no modelling language and no numerics."""
    told = f"print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    script = "\n".join(["import sys", *(f"{statement}\n{told}" for statement in DOORS)])
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stderr.splitlines() == ["[]"] * len(DOORS)


def test_a_command_loads_what_it_needs() -> None:
    """A reader who follows one command from its start to the plan on the screen opens these files, and no others."""
    command = (
        "from pipeplan.cli import main; main(['solve', 'bert-large-training', '--formulation', 'ip-tarnawski'])"
    )
    script = (
        f"import sys\n{command}\nprint(*(n for n in sys.modules if n.split('.')[0] == 'pipeplan'), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    known = {".".join(name): path for name, path in known_modules().items()}
    loaded = [name for name in done.stderr.splitlines()[-1].split() if holds_something(known[name])]
    assert 70 < len(loaded) <= 92, sorted(loaded)


def test_every_public_name_exists_and_is_documented() -> None:
    import pipeplan

    for name in pipeplan.__all__:
        value = getattr(pipeplan, name)
        assert name.startswith("__") or value.__doc__, f"pipeplan.{name} has no docstring"
    assert set(pipeplan.__all__) <= set(dir(pipeplan))
    with pytest.raises(AttributeError, match="nonsense"):
        _ = pipeplan.nonsense  # type: ignore[attr-defined]


# ---- the house -----------------------------------------------------------------------------------------


def folder_of(name: tuple[str, ...]) -> str:
    """The room within the room: `instances/chain`, `pipeplan/show`; modules that lie directly in a room stand alone."""
    parts = name[1:] if room_of(name) in ROOMS else name
    path = ROOT.joinpath(*parts[:2])
    return "/".join(parts[:2] if path.is_dir() or len(parts) < 2 else parts)


@cache
def known_modules() -> dict[tuple[str, ...], Path]:
    return {dotted(path): path for path in everything()}


def imported_at_run_time(path: Path, known: Mapping[tuple[str, ...], Path]) -> Iterator[tuple[str, ...]]:
    """Modules of ours that a file imports, at its top or inside a function, but not for type checkers alone."""
    checked = {
        id(node)
        for branch in nodes_of(path)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    package = dotted(path) if path.name == "__init__.py" else dotted(path)[:-1]
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and node.level and id(node) not in checked:
            base = (*package[: len(package) - node.level + 1], *(node.module.split(".") if node.module else ()))
            for alias in node.names:
                yield (*base, alias.name) if (*base, alias.name) in known else base


def arrows_at_run_time() -> Iterator[tuple[str, str]]:
    """From folder to folder; what type checkers alone read is no arrow."""
    known = known_modules()
    for name, path in known.items():
        for target in imported_at_run_time(path, known):
            yield folder_of(name), folder_of(target)


def test_there_are_no_circles_between_folders() -> None:
    import networkx

    graph = networkx.DiGraph(arrow for arrow in arrows_at_run_time() if arrow[0] != arrow[1])
    assert len(graph) > 40, "this test reads nothing"
    assert [sorted(part) for part in networkx.strongly_connected_components(graph) if len(part) > 1] == []


FLOORS = (*ROOMS, "pipeplan")
"""From the ground up."""

ADDRESS = re.compile(r"pipeplan(?:\.\w+)+(?=:\w)|^pipeplan(?:\.\w+)+$")


@cache
def addresses() -> frozenset[tuple[tuple[str, ...], tuple[str, ...]]]:
    return frozenset(named_by_text())


def named_by_text() -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Which module names which by a text: those that stand in files, and those that tables put together."""
    known = known_modules()
    for name, path in known.items():
        for node in nodes_of(path):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for address in ADDRESS.findall(node.value):
                    if (target := tuple(address.split("."))) in known:
                        yield name, target
    for table in ("instances.registry:KINDS", "planners.kinds:PLANNED", "kinds:SHOWN"):
        module = ("pipeplan", *table.partition(":")[0].split("."))
        for kind in load_address(f"pipeplan.{table}").values():
            yield from ((module, target) for target in named_in(kind))
    for module, entries in (("formulations", FORMULATIONS), ("planners", PLANNERS)):
        for entry in entries.values():
            texts = (entry.address, entry.scope)
            yield from (
                (("pipeplan", module, "registry"), tuple(text.partition(":")[0].split(".")))
                for text in texts
                if text
            )


def named_in(value: object) -> Iterator[tuple[str, ...]]:
    if isinstance(value, (Function, Later)):
        yield tuple(value.address.partition(":")[0].split("."))
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from named_in(each)
    elif is_dataclass(value):
        for each in fields(value):
            yield from named_in(getattr(value, each.name))


def test_no_address_names_a_floor_above() -> None:
    """A text that is imported later is an arrow like any other."""
    found = addresses()
    assert len(found) > 80, "this test reads nothing"
    floor = {name: n for n, name in enumerate(FLOORS)}
    upward = {
        (".".join(source), ".".join(target))
        for source, target in found
        if floor[room_of(target) or "pipeplan"] > floor[room_of(source) or "pipeplan"]
    }
    assert not upward


def test_there_are_no_circles_with_addresses_either() -> None:
    """Tables of methods and kinds name what they list, and are left out."""
    import networkx

    arrows = {*arrows_at_run_time(), *((folder_of(source), folder_of(target)) for source, target in addresses())}
    arrows -= {("instances/networks", "instances/lowering")}  # a profile's `to_placement` and its like, for comfort
    tables = ("registry", "kinds")
    graph = networkx.DiGraph((a, b) for a, b in arrows if a != b and a.split("/")[-1] not in tables)
    assert [sorted(part) for part in networkx.strongly_connected_components(graph) if len(part) > 1] == []


def test_no_two_files_on_a_way_are_a_letter_apart() -> None:
    """`kind` beside `kinds`, `result` beside `results`: who looks for one opens the other."""
    near = set()
    for folder in {path.parent for path in everything()}:
        on_the_way = [folder, *(above for above in folder.parents if above.is_relative_to(ROOT) and above != ROOT)]
        names = [path.stem for place in on_the_way for path in place.glob("*.py") if path.stem != "__init__"]
        near |= {(folder.name, a, b) for a in names for b in names if b in (a + "s", a[:-1] + "ies")}
    assert not near


def test_planners_hold_ways_to_get_a_plan_and_nothing_else() -> None:
    modules = {path.name for path in (ROOT / "planners").glob("*.py")} - {"__init__.py"}
    assert len(modules) <= 7, modules
    drawn = {"matplotlib", "rich", "pandas"}
    users = {path for path in modules_of("planners") for name in imports_of(path) if name[0] in drawn}
    assert not users


def holds_something(path: Path) -> bool:
    """Is it more than the `__init__` of a folder?"""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return path.name != "__init__.py" or any(isinstance(node, kinds) for node in tree_of(path).body)


def test_guesses_are_made_in_one_place() -> None:
    packages = ("instances", "formulations", "planners", "pipeplan")
    files = [path for package in packages for path in (ROOT / package).rglob("*.py")]
    assert {path.name for path in files if "difflib" in path.read_text("utf-8")} == {"errors.py"}
