"""Formulations and planners of other packages, and those that a user names by address."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pipeplan
from pipeplan.formulations import registry
from pipeplan.formulations.registry import FORMULATIONS
from pipeplan.planners.registry import PLANNERS
from pipeplan.planners.run.claims import recompute

TOY = Path(__file__).parent / "backends" / "toy_plugin"
Plan = Callable[..., Any]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For one test: the folder holds what pip would have put into site-packages."""
    monkeypatch.setattr(sys, "path", [str(TOY), *sys.path])
    registry.plugged_in.cache_clear()
    yield
    registry.plugged_in.cache_clear()
    sys.modules.pop("toy_methods", None)


@pytest.mark.parametrize("name", ["toy-model", "toy_methods:make_model"])
def test_a_formulation_of_another_package_proves_what_ours_does(name: str) -> None:
    result = pipeplan.solve("tiny-chain", formulation=name, cross_check=True)
    assert (result.formulation, result.stop) == (name, pipeplan.Stop.PROVEN)
    assert result.objective == pipeplan.solve("tiny-chain", planner="dp").objective
    assert result.cross_check["contradiction"] is None


@pytest.mark.parametrize("name", ["toy-planner", "toy_methods:PLANNER_ENTRY"])
def test_a_planner_of_another_package_takes_its_own_options(plan: Plan, name: str) -> None:
    done = plan("solve", "bert-base-operators", "--planner", name, "--option", "device=1", "--json")
    assert (done.code, done.json["planner"], done.json["options"]["device"]) == (0, name, 1)
    refused = plan("solve", "tiny-chain", "--planner", name, "--option", "device=x")
    assert (refused.code, "option device" in refused.err) == (2, True)


def test_plug_ins_are_listed_after_ours_and_a_broken_one_costs_a_note(plan: Plan) -> None:
    listed = plan("formulations", "--json")
    assert [entry["name"] for entry in listed.json] == [*FORMULATIONS, "toy-model"]
    assert "'broken-model' of toy-solver cannot be loaded (AttributeError" in listed.err
    assert "Its number." in plan("planners", "toy-planner").out


def test_ours_come_before_plug_ins_of_the_same_name() -> None:
    assert pipeplan.solve("tiny-chain", planner="dp").stop == pipeplan.Stop.PROVEN


BROKEN = {
    "broken-model": "The plug-in 'broken-model' of toy-solver cannot be loaded (AttributeError",
    "nowhere:ENTRY": "'nowhere:ENTRY' cannot be loaded (ModuleNotFoundError: No module named 'nowhere'); give MODULE:",
    "toy_methods:none": "'toy_methods:none' cannot be loaded (AttributeError: toy_methods has no 'none'); give MODULE:",
    "toy_methods:OneDevice": "it holds an object of type OneDevice, where Entry is expected",
    "toy_methods:PLANNER_ENTRY": "'toy_methods:PLANNER' has no check, contiguity, portfolio, lower_bound, build",
    "toy-modle": "There is no formulation named 'toy-modle' (did you mean 'toy-model'?); choose one of",
    "../x:y": "There is no formulation named '../x:y'",
}


@pytest.mark.parametrize(("name", "said"), BROKEN.items(), ids=BROKEN)
def test_a_broken_plug_in_is_one_sentence(plan: Plan, name: str, said: str) -> None:
    done = plan("solve", "tiny-chain", "--formulation", name)
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert "Traceback" not in done.err


@pytest.mark.parametrize("name", ["no-planner", "no-entry"])
def test_what_is_no_planner_is_refused_as_one(plan: Plan, name: str) -> None:
    done = plan("solve", "tiny-chain", "--planner", name)
    assert (done.code, "cannot be loaded" in done.err) == (2, True)


def test_no_file_makes_a_module_be_imported(tmp_path: Path, plan: Plan) -> None:
    """A result that names an address is judged by its plan alone, and a suite that names one is refused."""
    problem = pipeplan.load_packaged("tiny-chain")
    result = replace(pipeplan.solve(problem, planner="dp"), planner=None, formulation="toy_methods:make_model")
    sys.modules.pop("toy_methods", None)
    assert recompute(problem, result).differences == ()
    with pytest.raises(pipeplan.UsageError, match="imported for no file's sake"):
        pipeplan.verify_proof(problem, result)
    suite = tmp_path / "suite.toml"
    suite.write_text('[[instances]]\nsource = "tiny-chain"\n[[methods]]\nmethod = "toy_methods:make_model"\n')
    done = plan("compare", "--suite", str(suite), "-o", str(tmp_path / "out"))
    assert (done.code, "install it as a plug-in" in " ".join(done.err.split())) == (2, True)
    assert "toy_methods" not in sys.modules


def test_a_plug_in_is_compared_by_its_name() -> None:
    from pipeplan.studies.compare.suite import competitor

    assert competitor("toy-model:variant=plain").formulation == "toy-model"
    assert competitor("toy-planner:device=1").planner == "toy-planner"


def test_help_and_ours_look_for_no_plug_ins(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """To read the metadata of all installed packages takes longer than to plan a small problem."""
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **wanted: pytest.fail(f"looked for {wanted}"))
    assert plan("solve", "--help").code == 0
    for name in ("--planner", "dp"), ("--formulation", "ip-tarnawski", "--warm-start", "none"):
        assert plan("solve", "tiny-chain", *name).code == 0
    assert {*PLANNERS} >= {"dp"}


def test_a_module_is_found_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from toy_methods import make_model as ENTRY\n", encoding="utf-8")
    words = ["-m", "pipeplan", "formulations", "mine:ENTRY"]
    code = f"import sys, runpy; sys.path.append({str(TOY)!r}); sys.argv = ['plan', *{words[2:]!r}]\n"
    code += "from pipeplan.cli.app import main; sys.exit(main())"
    done = subprocess.run([sys.executable, "-P", "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, "Ours once more" in done.stdout) == (0, True), done.stderr
