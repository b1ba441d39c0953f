"""Solver processes: what they survive, what they take with them, and what never reaches them."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from signals import hear_ctrl_c

from pipeplan import InputError, SolveOptions, StartOutcome, Stop, UsageError
from pipeplan.formulations.contract import NativeModel
from pipeplan.formulations.plugins import PluginMistakeError
from pipeplan.planners.backends import BACKENDS, Incumbent, MatrixModel, client, from_rows, solve, submit

pytestmark = pytest.mark.timing

ROOT = Path(__file__).resolve().parents[3]

BUILDERS = '''
import os, sys, time
from types import SimpleNamespace
from ortools.sat.python import cp_model

def pick(payload):
    """Choose `least` of the items at the least cost; the true objective is in tenths, plus 100."""
    model = cp_model.CpModel()
    variables = {f"pick[{i}]": model.new_bool_var("") for i in range(len(payload["costs"]))}
    model.add(sum(variables.values()) >= payload["least"])
    model.minimize(sum(c * v for c, v in zip(payload["costs"], variables.values())))
    return SimpleNamespace(model=model, variables=variables, scale=10.0, offset=100.0)

def chatty(payload):
    print("chatter " * 10000, flush=True)
    os.write(1, b"raw chatter")
    print("to stderr", file=sys.stderr, flush=True)
    return pick(payload)

def crashing(payload):
    print("the last words")
    sys.stdout.flush()
    os._exit(3)

def hanging(payload):
    time.sleep(600)

def failing(payload):
    raise KeyError("widget")
'''


@pytest.fixture
def builders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of native builders that the parent can import; the worker has to find it as well."""
    if not BACKENDS["cp-sat"].available():
        pytest.skip("OR-Tools is not installed")
    name = f"builders_{os.getpid()}_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(BUILDERS)
    monkeypatch.syspath_prepend(tmp_path)
    return name


def native(builders: str, function: str) -> NativeModel:
    return NativeModel(f"{builders}:{function}", {"costs": [5, 3, 4, 7], "least": 2})


# ---- native models -------------------------------------------------------------------------------------


def test_a_native_model_is_built_in_the_worker(builders: str) -> None:
    events: list[Any] = []
    outcome = solve("cp-sat", native(builders, "pick"), on_event=events.append)
    assert outcome.stop == Stop.PROVEN
    assert outcome.values == {"pick[0]": 0.0, "pick[1]": 1.0, "pick[2]": 1.0, "pick[3]": 0.0}
    assert (outcome.objective, outcome.bound) == (pytest.approx(100.7), pytest.approx(100.7))
    assert outcome.size == {"rows": 1, "columns": 4}
    assert [event.value for event in events if isinstance(event, Incumbent)][-1] == pytest.approx(100.7)
    assert builders not in sys.modules
    assert "ortools" not in sys.modules


@pytest.mark.parametrize(("start", "outcome", "value"), [
    ({"pick[0]": 1, "pick[1]": 1, "pick[2]": 0, "pick[3]": 0}, StartOutcome.ACCEPTED, 100.8),
    ({"pick[0]": 1, "pick[3]": 0}, StartOutcome.ACCEPTED, 100.8),
    ({"pick[0]": 1, "pick[1]": 0, "pick[2]": 0, "pick[3]": 0}, StartOutcome.REJECTED, None),
], ids=["complete", "partial", "too few"])  # fmt: skip
def test_starts_of_native_models(
    builders: str, start: dict[str, float], outcome: StartOutcome, value: float | None
) -> None:
    result = solve("cp-sat", native(builders, "pick"), start=start)
    assert result.warm_start.outcome == outcome
    assert result.warm_start.value == (None if value is None else pytest.approx(value))
    assert result.objective == pytest.approx(100.7)


def test_an_unknown_variable_in_a_start_is_an_error(builders: str) -> None:
    with pytest.raises(InputError, match=r"^start names the unknown variable 'pick\[9\]'"):
        solve("cp-sat", native(builders, "pick"), start={"pick[9]": 1})


def test_other_solvers_refuse_native_models(builders: str) -> None:
    with pytest.raises(UsageError, match=r"'highs' does not take a native model for cp-sat; choose cp-sat"):
        submit("highs", native(builders, "pick"))


# ---- bad behaviour -------------------------------------------------------------------------------------


def test_chatter_does_not_disturb_the_messages(builders: str) -> None:
    assert solve("cp-sat", native(builders, "chatty")).objective == pytest.approx(100.7)


def test_a_crash_is_told_with_the_last_words(builders: str) -> None:
    outcome = solve("cp-sat", native(builders, "crashing"))
    assert (outcome.stop, outcome.values) == (Stop.ERROR, None)
    assert outcome.message == "the solver process ended with exit code 3: the last words"


def test_an_exception_costs_the_task_and_not_the_worker(builders: str) -> None:
    job = submit("cp-sat", native(builders, "failing"))
    with pytest.raises(PluginMistakeError, match=r"line \d+ \(KeyError: 'widget'\); mend it there"):
        job.poll(10.0)
    following = submit("cp-sat", native(builders, "pick"))
    assert following.pid == job.pid
    following.kill()


def test_a_worker_that_hangs_is_killed_after_its_limit(builders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has begun, and the clock goes on to where limit and grace are over."""
    job = submit("cp-sat", native(builders, "hanging"), SolveOptions(time_limit_s=1000.0))
    while not job._begun:
        job.poll(0.05)
    late = client.wall() + 1000.0 + client.GRACE_SHARE * 1000.0 + 1.0
    monkeypatch.setattr(client, "wall", lambda: late)
    while job.outcome is None:
        job.poll(0.05)
    assert job.outcome.stop == Stop.TIME
    assert "did not keep its time limit" in job.outcome.message


def test_a_worker_that_still_loads_at_its_limit_is_not_waited_for(
    builders: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no failure, and the worker does the next task as if nothing had been."""
    monkeypatch.setattr(client, "LOADING_GRACE_S", 0.0)
    monkeypatch.setattr(client, "LEAST_GRACE_S", math.inf)
    client.end_workers()
    job = submit("cp-sat", native(builders, "pick"), SolveOptions(time_limit_s=0.0))
    while job.outcome is None:
        job.poll(0.05)
    assert (job.outcome.stop, job.outcome.message, job.outcome.values) == (Stop.TIME, "", None)
    assert not job._begun, "it still loads"
    following = submit("cp-sat", native(builders, "pick"))
    assert following.pid == job.pid
    while following.outcome is None:
        following.poll(0.1)
    assert following.outcome.objective == pytest.approx(100.7)


def test_a_worker_that_does_not_stop_is_killed(builders: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "INTERRUPT_GRACE_S", 0.3)
    job = submit("cp-sat", native(builders, "hanging"))
    job.interrupt()
    while job.outcome is None:
        job.poll(0.1)
    assert job.outcome.stop == Stop.INTERRUPTED
    assert "did not stop when it was asked to" in job.outcome.message


# ---- the parent ----------------------------------------------------------------------------------------

HEAD = """
import json, os, sys, time
import numpy as np
from pipeplan.planners.backends import Incumbent, from_rows, solve, submit
from pipeplan.planners.options import SolveOptions

numbers = np.random.default_rng(7).integers(0, 100, (5, 40))
rows = []
for i in range(5):
    entries = {j: float(numbers[i, j]) for j in range(40)} | {40 + 2 * i: 1.0, 41 + 2 * i: -1.0}
    rows.append((entries, float(numbers[i].sum() // 2), float(numbers[i].sum() // 2)))
hard = from_rows([0.0] * 40 + [1.0] * 10, rows, [0.0] * 50, [1.0] * 40 + [1e4] * 10, [True] * 40 + [False] * 10)
"""


def script(body: str, folder: Path) -> subprocess.Popen[str]:
    """A user's program in another folder, in a session of its own (so that its Ctrl-C is not ours)."""
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + textwrap.dedent(body)], cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=hear_ctrl_c,
    )  # fmt: skip


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_parent_never_imports_a_solver(tmp_path: Path) -> None:
    """The wheels of highspy and ortools exclude each other in one process; here both solve."""
    body = """
    small = from_rows([1.0], [], [2.0], [3.0], [True])
    print(solve("highs", small).objective, solve("cp-sat", small).objective, solve("scip", small).objective)
    print(sorted({"highspy", "ortools", "pyomo", "scipy"} & set(sys.modules)))
    """
    assert script(body, tmp_path).communicate(timeout=600)[0].split("\n")[:2] == ["2.0 2.0 2.0", "[]"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_worker_outlives_its_parent(tmp_path: Path) -> None:
    body = """
    job = submit("highs", hard)
    job.poll(0.7)
    print(job.pid, flush=True)
    time.sleep(60)
    """
    parent = script(body, tmp_path)
    worker = int(parent.stdout.readline())
    children = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
    family = [worker, *map(int, children)]
    assert all(map(is_running, family))
    parent.kill()
    parent.communicate()
    deadline = time.monotonic() + 600
    while any(map(is_running, family)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, family))


# ---- the list of backends ------------------------------------------------------------------------------


def test_an_unknown_or_missing_solver_is_refused(knapsack: MatrixModel, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        UsageError, match=r"no solver named 'higs' \(did you mean 'highs'\?\); choose one of highs, cp-sat"
    ):
        submit("higs", knapsack)
    monkeypatch.setattr("importlib.util.find_spec", lambda package: None if package == "ortools" else object())
    with pytest.raises(UsageError, match=r"'scip' is not installed: pip install ortools; installed here: highs"):
        submit("scip", knapsack)


def test_a_process_that_was_loaded_ahead_takes_the_next_task() -> None:
    client.end_workers()
    client.load_ahead("highs")
    client.load_ahead("highs")
    (idle,) = client._pool._idle["highs"]
    job = submit("highs", from_rows([1.0], [], [2.0], [3.0], [True]))
    assert job.pid == idle.pid
    while job.outcome is None:
        job.poll(1.0)
