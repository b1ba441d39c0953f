"""Shared fixtures: `--slow` and `--sweeps`, the folder of published workloads, the command line in process."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import hypothesis
import pytest
from command_line import Plan, Said

# Images often set it to stay small: then each of hundreds of processes would compile every module again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# How fast examples are made says something of the machine and nothing of the code.
ANY_MACHINE = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
# What a newcomer runs are the same examples everywhere; the sweeps look for new ones.
hypothesis.settings.register_profile("a few", max_examples=10, derandomize=True, **ANY_MACHINE)  # type: ignore[arg-type]
hypothesis.settings.register_profile("many", max_examples=100, **ANY_MACHINE)  # type: ignore[arg-type]
hypothesis.settings.load_profile("a few")

ROOT = Path(__file__).resolve().parent.parent
WORKLOADS = Path(os.environ.get("PIPEPLAN_WORKLOADS", ROOT.parent / "shared" / "workloads")).resolve()


NAMES = tomllib.loads((ROOT / "tests" / "longer.toml").read_text("utf-8"))
FIRST_CASES: dict[str, dict[str, int]] = NAMES["FIRST_CASES"]
LONGER: dict[str, list[str]] = NAMES["LONGER"]
LONGEST: dict[str, list[str]] = NAMES["LONGEST"]

ON_DEMAND = {
    "slow": "run the longer proofs as well",
    "sweeps": "hold many random proofs against enumeration as well",
}
"""Markers with an option of their name. Of a test that has both, the first decides."""


def pytest_addoption(parser: pytest.Parser) -> None:
    for name, words in ON_DEMAND.items():
        parser.addoption(f"--{name}", action="store_true", help=words)


def pytest_configure(config: pytest.Config) -> None:
    # Before the tests are read, which take the profile of that moment.
    if config.getoption("--sweeps"):
        hypothesis.settings.load_profile("many")
    if not any(config.getoption(f"--{name}") for name in ON_DEMAND):
        # To compile takes longer than plain loops take for small problems; the sweeps run machine code.
        os.environ.setdefault("PIPEPLAN_MACHINE_CODE", "no")


SEEDS_AT_ONCE = {"seed": (1, 3), "seeds": (1, 3)}
"""Random problems, or groups of them, that a test goes over at once, and with `--sweeps`; the others with `--slow`."""


def _first_parameters(items: list[pytest.Item]) -> None:
    """Of a test that is marked `at_once(n)`, or that `FIRST_CASES` names, the first n parameters run always, and the
    others with `--sweeps`, or with `--slow` if that is the marker's second word."""
    at_once = {f"{file}::{name}": n for file, names in FIRST_CASES.items() for name, n in names.items()}
    seen: dict[str, int] = {}
    for item in items:
        name = item.nodeid.partition("[")[0]
        marker = item.get_closest_marker("at_once")
        first = at_once.get(name) if marker is None else marker.args[0]
        if first is not None:
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > first:
                item.add_marker(marker.args[1] if marker is not None and marker.args[1:] else "sweeps")


def _named_cases(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`@pytest.mark.slow("a", "b *")` and `sweeps` are for cases of these names; one that no case has is an error."""
    named, met = set[str](), set[str]()
    for item in items:
        name, _, case = item.nodeid.partition("@")[0].removesuffix("]").partition("[")
        for marker in [marker for marker in item.own_markers if marker.name in ON_DEMAND and marker.args]:
            fitting = {f"{name}[{own}]" for own in marker.args if fnmatchcase(case, own)}
            named |= {f"{name}[{own}]" for own in marker.args}
            met |= fitting
            if not fitting:
                item.own_markers.remove(marker)
    if named - met and not any("::" in argument for argument in config.args):
        raise pytest.UsageError(f"markers name cases that do not exist: {', '.join(sorted(named - met))}")


def _longer(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests of `LONGER` run with `--sweeps`, those of `LONGEST` with `--slow`; there a whole name means its cases that
    would run with `--sweeps`, but for the first one where it has no other."""
    seen, named = set[str](), set[str]()
    kept = {item.nodeid.partition("[")[0] for item in items if _option(item) is None}
    for table, marker in ((LONGEST, pytest.mark.slow), (LONGER, pytest.mark.sweeps)):
        wanted = {f"{file}::{name}" for file, names in table.items() for name in names}
        named |= wanted
        for item in items:
            case = item.nodeid.partition("@")[0]
            whole = case.partition("[")[0]
            seen |= {case, whole} & wanted
            swept = table is LONGEST and "[" in case and _option(item) == "sweeps"
            if case in wanted or (whole in wanted and table is LONGER):
                item.add_marker(marker)
            elif whole in wanted and swept:
                if whole in kept:
                    item.add_marker(marker)
                kept.add(whole)
    files = {item.nodeid.partition("::")[0] for item in items}
    named |= {f"{file}::{name}" for file, names in FIRST_CASES.items() for name in names}
    seen |= {item.nodeid.partition("[")[0].partition("@")[0] for item in items}
    unknown = sorted(name for name in named - seen if name.partition("::")[0] in files)
    if unknown and not any("::" in argument for argument in config.args):
        raise pytest.UsageError(f"tests/longer.toml names tests that do not exist: {', '.join(unknown)}")


def _many_examples(items: list[pytest.Item]) -> None:
    """With `--sweeps` properties are tried on many examples, and so belong to the sweeps."""
    for item in items:
        if hypothesis.is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.sweeps)


def _many_seeds(items: list[pytest.Item]) -> None:
    seen: dict[tuple[str, str], list[object]] = {}
    for item in items:
        parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        for name in SEEDS_AT_ONCE.keys() & parameters.keys():
            known = seen.setdefault((item.nodeid.partition("[")[0], name), [])
            if parameters[name] not in known:
                known.append(parameters[name])
            at_once, swept = SEEDS_AT_ONCE[name]
            if known.index(parameters[name]) >= swept:
                item.add_marker(pytest.mark.slow)
            elif known.index(parameters[name]) >= at_once:
                item.add_marker(pytest.mark.sweeps)


COMPILED = {
    "planners/chain": "chain", "formulations/beaumont": "chain", "planners/graph_pipeline": "graph_pipeline",
    "formulations/graphpipe": "graph_pipeline", "planners/staging": "staging", "formulations/piper": "staging",
    "planners/placement": "placement", "planners/training": "training", "pipeplan/studies": "studies",
}  # fmt: skip
"""Folders of tests that need machine code or answers of their own, and what those are called."""


def _compile_once(items: list[pytest.Item]) -> None:
    """One worker runs a folder's tests, so that only it compiles and searches; the others find the code on disk."""
    for item in items:
        folder = item.path.parent
        group = COMPILED.get(folder.as_posix().removeprefix((ROOT / "tests").as_posix() + "/"))
        if group is not None and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(group))


def _option(item: pytest.Item) -> str | None:
    """Without which the test does not run."""
    return next((name for name in ON_DEMAND if item.get_closest_marker(name)), None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    _compile_once(items)
    _named_cases(config, items)
    _many_seeds(items)
    _first_parameters(items)
    _longer(config, items)
    if config.getoption("--sweeps"):
        _many_examples(items)
    asked_for = {name for name in ON_DEMAND if config.getoption(f"--{name}")}
    later = [item for item in items if _option(item) not in {None, *asked_for}]
    if later:  # counted, and not listed as thousands of skipped tests with one reason
        config.hook.pytest_deselected(items=later)
        left = {id(item) for item in later}
        items[:] = [item for item in items if id(item) not in left]
    # A page takes longest: as the last test it would keep one process busy while the others have nothing left.
    items.sort(key=lambda item: not item.nodeid.startswith("tests/test_pages.py"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """A workload test may be skipped only where there are no workloads: anything else would hide a hole."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and item.get_closest_marker("workloads") and WORKLOADS.is_dir():
        report.outcome = "failed"
        report.longrepr = f"a workload test was skipped although {WORKLOADS} exists: {report.longrepr}"


@pytest.fixture(autouse=True)
def _machine_code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that is marked so compiles, as commands do."""
    if request.node.get_closest_marker("machine_code"):
        monkeypatch.delenv("PIPEPLAN_MACHINE_CODE", raising=False)


@pytest.fixture(scope="session")
def workloads() -> Path:
    """The folder of published inputs; tests that need it are skipped only where it does not exist."""
    if not WORKLOADS.is_dir():
        pytest.skip(f"no published workloads at {WORKLOADS} (set PIPEPLAN_WORKLOADS)")
    return WORKLOADS


@pytest.fixture
def plan(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Plan:
    """The `plan` command in this process: `plan("solve", path).json`."""
    from pipeplan.cli import main

    monkeypatch.setenv("COLUMNS", "80")

    def plan(*arguments: object) -> Said:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        # Whichever test comes first on a machine has this line besides.
        lines = [line for line in err.splitlines(keepends=True) if not line.startswith("Note: compiling once")]
        return Said(code, out, "".join(lines))

    return plan


@pytest.fixture(scope="session", autouse=True)
def _solver_processes_end_with_the_tests() -> Iterator[None]:
    """Before coverage is summed up: what ran in the workers counts."""
    yield
    client = sys.modules.get("pipeplan.planners.backends.client")
    if client is not None:
        client.end_workers()
