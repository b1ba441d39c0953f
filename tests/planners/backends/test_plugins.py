"""Backends of other packages: found by their entry points, driven in a process of their own like ours."""

from __future__ import annotations

import importlib
import os
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipeplan
from pipeplan import Stop, UsageError
from pipeplan.planners.backends import BACKENDS, Backend, MatrixModel, describe, registry, solve, submit

TOY = Path(__file__).with_name("toy_plugin")
PLUGINS = sorted((Path(__file__).resolve().parents[3] / "plugins").iterdir())


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Installed for one test: its folder holds what pip would have put into site-packages."""
    monkeypatch.syspath_prepend(TOY)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(TOY), os.environ.get("PYTHONPATH")))))
    registry.plugged_in.cache_clear()
    yield
    registry.plugged_in.cache_clear()


@pytest.mark.usefixtures("toy")
def test_a_plug_in_solves_a_model_in_a_process_of_its_own(knapsack: MatrixModel) -> None:
    job = submit("toy", knapsack)
    while job.outcome is None:
        job.poll(1.0)
    wanted = solve("highs", knapsack)
    assert job.pid != os.getpid()
    assert (job.outcome.stop, job.outcome.backend, job.outcome.version) == (Stop.PROVEN, "toy", "1.0")
    assert (job.outcome.objective, job.outcome.bound) == pytest.approx((wanted.objective, wanted.bound))


@pytest.mark.usefixtures("toy")
def test_a_plug_in_plans() -> None:
    problem = pipeplan.load_packaged("tiny-chain")
    result = pipeplan.solve(problem, formulation="ip-tarnawski", solver="toy", warm_start="none")
    assert result.objective == pytest.approx(pipeplan.solve(problem, planner="brute-force").objective)
    assert result.backend == {"name": "toy", "version": "1.0"}
    assert result.proof is not None
    assert "A toy (scipy's solver) refuted" in " ".join(result.to_json()["proof"]["checks"])


@pytest.mark.usefixtures("toy")
def test_plug_ins_are_listed_after_ours() -> None:
    rows = {row["name"]: row for row in describe()}
    assert list(rows) == [*BACKENDS, *registry.OFFERED, "toy", "broken"]
    assert (rows["toy"]["available"], rows["toy"]["version"], rows["toy"]["remedy"]) == (True, "1.0", None)


@pytest.mark.usefixtures("toy")
def test_a_plug_in_that_cannot_be_loaded_costs_nobody_else(knapsack: MatrixModel) -> None:
    with pytest.raises(
        UsageError, match=r"'broken' is not installed: its plug-in cannot be loaded \(AttributeError"
    ):
        submit("broken", knapsack)
    assert solve("highs", knapsack).stop == Stop.PROVEN


@pytest.mark.parametrize("folder", PLUGINS, ids=lambda folder: folder.name)
def test_our_plug_ins_say_where_their_backend_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their solvers are not here, so this is all that can be tried of them."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    monkeypatch.syspath_prepend(folder)
    for name, address in project["entry-points"][registry.GROUP].items():
        module, _, attribute = address.partition(":")
        backend = getattr(importlib.import_module(module), attribute)
        assert isinstance(backend, Backend)
        assert (backend.name, backend.title) == (name, registry.OFFERED[name].title)
        assert (folder / f"{backend.driver.replace('.', '/')}.py").exists()
        assert f"./plugins/{folder.name} " in registry.OFFERED[name].remedy


def test_every_solver_that_is_offered_has_its_plug_in() -> None:
    projects = [tomllib.loads((folder / "pyproject.toml").read_text())["project"] for folder in PLUGINS]
    assert {name for project in projects for name in project["entry-points"][registry.GROUP]} == set(
        registry.OFFERED
    )
