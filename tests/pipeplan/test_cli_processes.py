"""`plan` as a process of its own: signals, closed pipes, a solver that is killed, and how soon help is there."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from signals import PATIENCE_S, PLAN, hear_ctrl_c, ignore_ctrl_c, started

import pipeplan

pytestmark = pytest.mark.timing


@pytest.fixture
def hard(tmp_path: Path) -> Path:
    """An instance whose proof takes much longer than any test: many different operators, much traffic."""
    count = 60
    nodes = [
        pipeplan.Node(i, 1.0 + (i * 7919 % 97) / 97, 50.0, transfer_time=0.05 + (i * 104729 % 89) / 300)
        for i in range(count)
    ]
    edges = [(i, j) for i in range(count) for j in (i + 1, i + 5, i + 11) if j < count]
    nodes[-1] = pipeplan.Node(count - 1, 1.0, 50.0)
    path = tmp_path / "hard.json"
    pipeplan.save(pipeplan.PlacementProblem(tuple(nodes), tuple(edges), 6, 0, name="hard"), path)
    return path


def wait_for_incumbent(process: subprocess.Popen[str]) -> None:
    """Read progress until there is a plan, and a bound."""
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("{") and None not in (json.loads(line)["incumbent"], json.loads(line)["bound"]):
            return
    raise AssertionError("the process ended without a plan")


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if entry.name.isdigit() and int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def wait_for_children(pid: int) -> list[int]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := children(pid):
            return found
        time.sleep(0.05)
    raise AssertionError("no solver process was started")


HARD = ("--non-contiguous", "--json", "--progress", "json")


@pytest.mark.sweeps("15")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_prints_and_saves_the_incumbent(hard: Path, tmp_path: Path, number: int) -> None:
    saved = tmp_path / "saved.json"
    with started("solve", hard, *HARD, "--output", saved) as process:
        wait_for_incumbent(process)
        wait_for_children(process.pid)
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_S)
    result = json.loads(out)
    assert process.returncode == 0
    assert (result["stop"], result["found"], result["verified"]) == ("interrupted", "feasible", True)
    assert result["gap"] is not None
    assert json.loads(saved.read_text()) == result
    assert "Traceback" not in err


def test_ctrl_c_reaches_the_whole_group_of_processes(hard: Path) -> None:
    """As a terminal sends it: the workers get it too, and must leave the last word to the parent."""
    with started("solve", hard, *HARD) as process:
        wait_for_incumbent(process)
        wait_for_children(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, json.loads(out)["stop"]) == (0, "interrupted")
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_job_in_the_background_of_a_script_hears_sigterm_alone(hard: Path) -> None:
    """Its SIGINT is ignored, so that the Ctrl-C meant for another job of the script does not end this one."""
    with started("solve", hard, *HARD, born=ignore_ctrl_c) as process:
        wait_for_incumbent(process)
        wait_for_children(process.pid)
        os.killpg(process.pid, signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1.0)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, json.loads(out)["stop"]) == (0, "interrupted")
    assert "Traceback" not in err


def test_an_interrupt_before_there_is_a_plan(hard: Path) -> None:
    """Without a warm start and with a solver that cannot find a plan in an instant."""
    with started("solve", hard, *HARD, "--warm-start", "none", "--variant", "plain", "--devices", 60) as process:
        wait_for_children(process.pid)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    result = json.loads(out)
    assert (process.returncode, result["stop"], result["found"]) == (130, "interrupted", "nothing")
    assert "Traceback" not in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_after_the_search_changes_nothing(tmp_path: Path, number: int) -> None:
    """It comes while the result is shown: the exit code is that of the result, which is written whole."""
    saved = tmp_path / "saved.json"
    body = f"""
import os, sys
from pipeplan.cli import main, solve
show = solve.show_result
def shown(*arguments, **named):
    os.kill(os.getpid(), {int(number)})
    show(*arguments, **named)
    os.kill(os.getpid(), {int(number)})
solve.show_result = shown
sys.argv = ["plan", "solve", "tiny-chain", "--planner", "greedy", "--output", {str(saved)!r}]
sys.exit(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", body], capture_output=True, text=True, preexec_fn=hear_ctrl_c, timeout=PATIENCE_S
    )
    assert (done.returncode, json.loads(saved.read_text())["verified"]) == (0, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_disk_leaves_the_curve_that_was_there(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: the old curve stays whole, and one sentence says why."""
    saved = tmp_path / "curve.jsonl"
    saved.write_text("what was there\n")
    done = subprocess.run(
        [*PLAN, "pareto", "golden-4", "--points", "2", "--no-resume", "--output", str(saved)],
        capture_output=True,
        text=True,
        preexec_fn=lambda: (
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
            resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20)),
        ),
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=PATIENCE_S,
    )
    assert (done.returncode, saved.read_text()) == (2, "what was there\n"), done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [saved.name]
    assert "cannot be written (File too large)" in done.stderr


@pytest.mark.slow
def test_a_killed_solver_costs_itself_only(hard: Path) -> None:
    """kill -9 of every worker that there ever is: the run ends and keeps the best verified plan."""
    code, out, err = without_workers(hard)
    result = json.loads(out)
    assert (code, result["verified"]) == (0, True)
    assert result["messages"], "the death of a solver must be told"
    assert "Traceback" not in err


def without_workers(hard: Path, *options: str) -> tuple[int, str, str]:
    """Exit code and output of a run that loses each worker, also those that were started before they had work."""
    with started("solve", hard, *HARD, *options) as process:
        wait_for_incumbent(process)
        wait_for_children(process.pid)
        drained = threading.Thread(target=kill_workers, args=(process,))
        drained.start()
        out, err = process.communicate(timeout=PATIENCE_S)
        drained.join()
    return process.returncode, out, err


def kill_workers(process: subprocess.Popen[str]) -> None:
    """Kill whatever the process starts, until it ends."""
    while process.poll() is None:
        for worker in children(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        time.sleep(0.05)


@pytest.mark.slow
def test_a_named_solver_that_is_killed_ends_the_run_with_the_best_plan(hard: Path) -> None:
    code, out, _ = without_workers(hard, "--solver", "highs")
    result = json.loads(out)
    assert (code, result["stop"], result["verified"]) == (0, "error", True)
    assert any("highs" in message for message in result["messages"])


@pytest.mark.parametrize("arguments", [("instances",), ("planners",), ("instances", "--json")])
def test_a_closed_pipe_is_silent(arguments: tuple[str, ...]) -> None:
    """`plan instances | head -0`: the reader is gone before the first word."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*PLAN, *arguments], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 141


def test_help_is_there_at_once() -> None:
    """Three tenths of a second are the promise; on a slow machine twice what any help page takes there.

    The processor's time is measured, because other tests may keep the machine busy.
    """

    def spent(*command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    help_alone = min(spent(sys.executable, "-c", "import typer, typer.rich_utils") for _ in range(3))
    ours = min(spent(*PLAN, "--help") for _ in range(3))
    assert ours < max(0.3, 2 * help_alone)
    assert min(spent(*PLAN, "instances") for _ in range(3)) < max(0.4, 3 * help_alone)


def test_a_terminal_without_unicode_is_no_fault(hard: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0"}
    done = subprocess.run(
        [*PLAN, "solve", str(hard), "--planner", "greedy"], capture_output=True, env=environment, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    done.stdout.decode("ascii")
