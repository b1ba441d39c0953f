"""A run in a process of its own: whatever happens to it becomes a record."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import pytest

from pipeplan.instances.files import problem_to_text
from pipeplan.studies.compare import run as module
from pipeplan.studies.compare.run import Record, Status, execute
from pipeplan.studies.compare.suite import Competitor, Instance, Suite, competitor, expand

pytestmark = pytest.mark.timing


def outcome(
    method: Competitor | str, cancelled: threading.Event | None = None, packaged: str = "tiny-chain", **limits: Any
) -> Record | None:
    method = competitor(method) if isinstance(method, str) else method
    found = expand(Suite("s", (Instance("tiny", packaged),), (method,), limits=limits))
    (run,) = found.runs
    return execute(run, problem_to_text(found.problems[run.problem_hash]), cancelled)


def record(method: Competitor | str, **limits: Any) -> Record:
    found = outcome(method, **limits)
    assert found is not None
    return found


def test_a_method_that_refuses_says_why() -> None:
    found = record("expert")
    assert (found.status, found.result) == (Status.REFUSED, None)
    assert "split" in str(found.message)


def test_above_its_memory_limit_a_run_is_killed() -> None:
    found = record("greedy", memory_limit_bytes=2**20)
    assert (found.status, found.result) == (Status.MEMORY, None)
    assert "1048576" in str(found.message)


def test_long_after_its_time_limit_a_run_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SLOW_S", 0.0)
    found = record("greedy", time_limit_s=0.0)
    assert (found.status, found.result) == (Status.TIME, None)


@pytest.mark.parametrize(
    ("worked", "seconds"), [(0.1, "GRACE_S"), (20.0, "GRACE_S"), (2.0, "SLOW_S"), (None, "SLOW_S")]
)
def test_what_waits_or_has_worked_is_killed_soon_and_what_is_starved_later(
    worked: float | None, seconds: str
) -> None:
    assert module._grace(worked, late=21.0) == getattr(module, seconds)


@pytest.mark.parametrize(("begun", "interrupts"), [(False, 1), (True, 2)])
def test_ctrl_c_ends_a_run_that_has_not_begun_and_a_second_one_any_run(
    monkeypatch: pytest.MonkeyPatch, begun: bool, interrupts: int
) -> None:
    class Interrupted(subprocess.Popen[bytes]):
        left = interrupts

        def wait(self, timeout: float | None = None) -> int:
            if timeout is not None and self.left and os.fstat(self.answer.fileno()).st_size >= begun:
                self.left -= 1
                raise KeyboardInterrupt
            return super().wait(timeout)

    def start(run: object, problem: object, answer: Any, chatter: Any) -> Any:
        script = (
            "import signal, time; signal.signal(2, signal.SIG_IGN)\nif begun: print(flush=True)\ntime.sleep(600)"
        )
        command = [sys.executable, "-c", f"begun = {begun}; {script}"]
        process = Interrupted(command, stdout=answer, stderr=chatter, start_new_session=True)
        process.answer = answer
        return process

    monkeypatch.setattr(module, "_start", start)
    found = record("greedy")
    assert (found.status, found.message, found.output) == (Status.TIME, module.INTERRUPTED, "")


@pytest.mark.parametrize(("script", "words"), [
    ("import os; os.kill(os.getpid(), 9)", "was killed (signal 9)"),
    ("raise SystemExit('no luck')", "ended with exit code 1: no luck"),
    ("print('half an ans')", "ended with exit code 0"),
])  # fmt: skip
def test_a_crash_is_a_row_with_the_last_words(monkeypatch: pytest.MonkeyPatch, script: str, words: str) -> None:
    def start(run: object, problem: object, answer: Any, chatter: Any) -> Any:
        command = [sys.executable, "-c", script]
        return subprocess.Popen(command, stdout=answer, stderr=chatter, start_new_session=True)

    monkeypatch.setattr(module, "_start", start)
    found = record("greedy")
    assert (found.status, found.result) == (Status.CRASHED, None)
    assert words in str(found.message)


def test_a_cancelled_run_is_killed_and_was_never() -> None:
    cancelled = threading.Event()
    threading.Timer(0.5, cancelled.set).start()
    slow = Competitor("slow", planner="lns", limits={"time_limit_s": 1e6})
    assert outcome(slow, cancelled, "densenet121-inference") is None, "it searches until its limit"


@pytest.mark.skipif(sys.platform != "linux", reason="Linux ends children with their parent")
def test_a_run_does_not_outlive_whoever_started_it() -> None:
    """The child watches its parent; one that was given up before it began does nothing."""
    environment = {**os.environ, **module.child_environment()}
    command = [sys.executable, "-P", "-m", module.CHILD, "1"]
    done = subprocess.run(command, input=b"{}", capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
