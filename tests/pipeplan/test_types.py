"""Type checkers see the public names in a user's script, however pipeplan was installed."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import pipeplan

pytest.importorskip("mypy", reason="the extra lint has it")
pytestmark = pytest.mark.xdist_group("types")  # one worker asks mypy, once for each way to install
ROOT = Path(__file__).resolve().parents[2]

RIGHT = """
from pathlib import Path
from typing import assert_type

import pipeplan
from pipeplan import ChainProblem, PatternPlan, Result, SolveOptions, Violation

result = pipeplan.solve("golden-4", limits=SolveOptions(time_limit_s=60))
assert_type(result, Result)
assert_type(pipeplan.solve(Path("mine.json")).objective, float | None)
problem = pipeplan.load("mine.json").replace(memory_bytes=None)
assert result.plan is not None
assert_type(pipeplan.verify(problem, result.plan), tuple[Violation, ...])
print(pipeplan.evaluate(problem, result.plan).to_json(), pipeplan.evaluate("golden-4", result.plan).to_json())
iteration: float = pipeplan.simulate(problem, result.plan, micro_batches=4).iteration


def period(chain: ChainProblem, plan: PatternPlan) -> float:
    assert_type(pipeplan.load_plan("plan.json", chain), PatternPlan)
    assert_type(pipeplan.smallest_memory(chain).plan, PatternPlan)
    named: float = pipeplan.evaluate("golden-4", plan).period
    return max(named, pipeplan.evaluate(chain, plan).period)
"""

WRONG = {
    "pipeplan.solve(5)": "arg-type",
    "pipeplan.solve('golden-4', limits=60)": "arg-type",
    "pipeplan.solve('golden-4', warm_start='fast')": "arg-type",
    "pipeplan.verify('golden-4', 'plan.json')": "arg-type",
    "pipeplan.verify('golden-4', pipeplan.solve('golden-4').plan)": "arg-type",
    "pipeplan.smallest_memory(pipeplan.StagingProblem)": "call-overload",
    "pipeplan.load('mine.json', kind='chains')": "arg-type",
    "pipeplan.nonsense": "attr-defined",
}
"""A line, and how the checker names its mistake."""


def scripts() -> dict[str, str]:
    (readme,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    names = [f"print(pipeplan.{name})" for name in pipeplan.__all__]
    texts = {"names": ["import pipeplan", *names], "wrong": ["import pipeplan", *WRONG]}
    return {"right": RIGHT, "readme": readme, **{name: "\n".join(lines) + "\n" for name, lines in texts.items()}}


@pytest.fixture(params=["plain", pytest.param("editable", marks=pytest.mark.sweeps)], scope="module")
def said(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of all scripts with pipeplan alone installed: its files, as in a wheel, or the path of an editable install."""
    folder = tmp_path_factory.mktemp(request.param)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    if request.param == "plain":
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "pipeplan", packages / "pipeplan", symlinks=False, ignore=skip)
    else:
        (packages / "pipeplan.pth").write_text(f"{ROOT}\n", encoding="utf-8")
    for name, text in scripts().items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental"]
    command += [
        "--python-executable",
        str(folder / "venv" / "bin" / "python"),
        *(f"{name}.py" for name in scripts()),
    ]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False).stdout


@pytest.mark.slow("editable-right")
@pytest.mark.parametrize("script", ["right", "readme", "names"])
def test_a_users_script_has_types(said: str, script: str) -> None:
    assert "checked 4 source files" in said
    assert [line for line in said.splitlines() if line.startswith(f"{script}.py")] == []


def test_mistakes_of_a_users_script_are_found(said: str) -> None:
    found = re.findall(r"^wrong\.py:(\d+): error: .*\[([\w-]+)\]$", said, re.MULTILINE)
    assert found == [(str(line), name) for line, name in enumerate(WRONG.values(), 2)], said
