"""Methods of one's own, as plain functions: told, limited, judged, made again, and compared with ours."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import Plan, done

import pipeplan
from pipeplan.formulations import registry
from pipeplan.formulations.plugins import PluginMistakeError, code_digest, module_at
from pipeplan.instances.base.errors import UsageError
from pipeplan.planners.registry import find_planner
from pipeplan.studies.compare import comparison
from pipeplan.studies.compare import run as run_module
from pipeplan.studies.compare.comparison import address_of
from pipeplan.studies.compare.run import Record, execute
from pipeplan.studies.compare.suite import Instance, Suite, competitor, expand
from pipeplan.studies.compare.table import ending

MINE = '''
import os, sys, time
import pipeplan
from beside import DEVICE

def greedy(problem):
    """All nodes in order, equally many on each device."""
    each = -(-len(problem.nodes) // problem.accelerators)
    place = {node.id: DEVICE + i // each for i, node in enumerate(problem.nodes)}
    return pipeplan.PlacementPlan.from_assignment(problem, place)

def better(problem, request):
    for first in (6, 1, 2):
        place = {n.id: min(i // first, 2) for i, n in enumerate(problem.nodes)}
        yield pipeplan.PlacementPlan.from_assignment(problem, place)

def sleeps(problem):
    yield greedy(problem)
    for _ in range(600):
        time.sleep(0.05)

def works(problem):
    yield greedy(problem)
    while True:
        pass

def allocates(problem):
    held = []
    for _ in range(600):
        held.append(bytearray(2**26))
        time.sleep(0.01)

def stuck(problem):
    import re
    re.match(r"(a+)+$", "a" * 40 + "b")

def lies(problem):
    return pipeplan.PlacementPlan.from_assignment(problem, {n.id: 0 for n in problem.nodes})

def fails(problem):
    return 1 / 0

def crashes(problem):
    os.abort()

def prints(problem):
    print('{"result": 1}')
    os.write(1, b"to the descriptor")
    sys.stdout.flush()
    return greedy(problem)

def refuses(problem):
    raise pipeplan.UsageError("only for trees")

def nothing(problem):
    return None

@pipeplan.planner(name="Named", kinds=("placement", "chain"), depends=("weights.txt",))
def named(problem, *, share=0.5, seed=0):
    assert (share, seed) == (0.25, 7), "an option, and the seed of the run"
    return greedy(problem)
'''


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder with a file of heuristics, one that it imports, and one that it reads."""
    for name, text in (("mine.py", MINE), ("beside.py", "DEVICE = 0\n"), ("weights.txt", "1")):
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    registry.plugged_in.cache_clear()
    yield tmp_path
    registry.plugged_in.cache_clear()
    for name in ("beside", "far_helper"):
        sys.modules.pop(name, None)


def record(method: str, change: Callable[[], Any] = lambda: None, **limits: Any) -> Record:
    """What becomes of a run of the method, where the user changes something before it starts."""
    found = expand(Suite("s", (Instance("tiny", "tiny-chain"),), (competitor(method),), limits=limits))
    (run,) = found.runs
    change()
    made = execute(run, pipeplan.instances.files.problem_to_text(found.problems[run.problem_hash]))
    assert made is not None
    return made


ROWS: dict[str, tuple[dict[str, Any], str, str]] = {
    "greedy": ({}, "completed", ""),
    "better": ({}, "completed", "1 of its plans were refused: Device 'acc0' holds"),
    "sleeps": ({"time_limit_s": 0.2}, "time limit", "did not stop at its time limit of 0.2 s and was interrupted"),
    "works": ({"processor_s": 2.0}, "time limit", ""),
    "allocates": ({"memory_limit_bytes": 2**29}, "over memory", "held more than 536870912 bytes"),
    "lies": ({}, "rejected", "the referee rejected a plan: Device 'acc0' holds"),
    "fails": ({}, "crashed", "(ZeroDivisionError: division by zero); mend it there."),
    "crashes": ({}, "crashed", "the run's process was killed (signal 6)"),
    "prints": ({}, "completed", ""),
    "refuses": ({}, "not applicable", "only for trees"),
    "nothing": ({}, "no plan", ""),
}


@pytest.mark.timing
@pytest.mark.at_once(4)
@pytest.mark.parametrize("name", ROWS)
def test_whatever_a_function_does_is_a_row_with_a_word_that_can_be_printed(name: str) -> None:
    limits, word, message = ROWS[name]
    found = record(f"mine.py:{name}", **limits)
    said = " ".join([found.message or "", *(found.result or {}).get("messages", ())])
    assert (ending(found), message in said) == (word, True), (found.status, said)
    if name in ("greedy", "sleeps", "works", "prints"):
        assert (found.result or {})["objective"] == 6.0, "its plan counts"
    if name == "prints":
        assert "to the descriptor" in found.output
        assert '{"result": 1}' in found.output


def test_a_file_that_changes_while_the_comparison_runs_is_no_result(folder: Path) -> None:
    found = record("mine.py:greedy", lambda: (folder / "beside.py").write_text("DEVICE = 1\n", encoding="utf-8"))
    assert (ending(found), "A plug-in has changed since the comparison began" in str(found.message)) == (
        "not applicable",
        True,
    )


@pytest.mark.timing
def test_plan_solve_runs_a_function_in_a_process_whose_limits_are_hard(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = done(plan("solve", "tiny-chain", "--planner", "mine.py:prints", "--json"))
    assert (said.json["objective"], "to the descriptor" in said.err) == (6.0, True), "output disturbs no JSON"
    over = plan("solve", "tiny-chain", "--planner", "mine.py:allocates", "--memory-limit", "512MiB", "--json")
    assert (over.code, over.json["stop"], "held more than 536870912 bytes" in over.err) == (1, "memory", True)
    for name, words in (("fails", "division by zero); mend it there."), ("crashes", "was killed (signal 6)")):
        failed = plan("solve", "tiny-chain", "--planner", f"mine.py:{name}")
        assert (failed.code, words in " ".join(failed.err.split())) == (2, True)
    monkeypatch.setattr(run_module, "GRACE_S", 0.5)
    stuck = plan("solve", "tiny-chain", "--planner", "mine.py:stuck", "--time-limit", "0.1s", "--json")
    assert (stuck.code, stuck.json["stop"]) == (1, "time")
    assert "was killed, as it gave no answer within 0.5 s of its limit and 10% of it" in stuck.err


# ---- what is known of a function ---------------------------------------------------------------------------------


def test_a_function_is_a_planner_by_its_file_and_its_signature_says_the_options(plan: Plan) -> None:
    own = ("--planner", "mine.py:named", "--option", "share=0.25", "--seed", 7)
    said = done(plan("solve", "tiny-chain", *own, "--json"))
    assert (said.json["objective"], said.json["planner"], said.json["options"]["share"]) == (
        6.0,
        "mine.py:named",
        0.25,
    )
    entry = find_planner("mine.py:named")
    assert entry is not None
    assert (entry.title, entry.seeded, [one.problem_kind for one in entry.all_kinds]) == (
        "Named",
        True,
        ["placement", "chain"],
    )
    refused = plan("solve", "bert-large-stages", "--planner", "mine.py:named")
    assert (refused.code, "plans problems of kind 'placement'" in " ".join(refused.err.split())) == (2, True)


def test_a_function_at_hand_plans_and_its_mistakes_have_a_line() -> None:
    def one_each(problem: Any) -> Any:
        return pipeplan.PlacementPlan.from_assignment(problem, {n.id: i // 2 for i, n in enumerate(problem.nodes)})

    def wrong(problem: Any) -> Any:
        return pipeplan.PlacementPlan.from_assignment(problem, {})

    assert pipeplan.solve("tiny-chain", method=one_each).objective == 6.0
    assert pipeplan.solve("tiny-chain", method="dp").objective == 6.0
    assert pipeplan.solve("tiny-chain", method="ip-tarnawski").formulation == "ip-tarnawski"
    with pytest.raises(PluginMistakeError, match=r"test_own_methods.py, line \d+ \(InputError: .*has no node"):
        pipeplan.solve("tiny-chain", planner=wrong)
    with pytest.raises(UsageError, match="give one of them"):
        pipeplan.solve("tiny-chain", method="dp", planner="dp")


EACH = 2


def share_of(position: int) -> int:
    return position // EACH


def test_a_function_without_a_file_is_written_into_one_with_all_that_it_uses(tmp_path: Path) -> None:
    last = 2

    def closed(problem: Any) -> Any:
        place = {node.id: min(share_of(i), last) for i, node in enumerate(problem.nodes)}
        return pipeplan.PlacementPlan.from_assignment(problem, place)

    (found,) = pipeplan.compare(["tiny-chain"], [closed], folder=tmp_path / "out").table().to_dict("records")
    assert (found["value"], found["method"]) == (6.0, "closed")
    text = (tmp_path / "out" / "methods" / "closed.py").read_text("utf-8")
    assert text.startswith("from typing import Any as Any\n\nlast = 2\n\nimport pipeplan as pipeplan\n\nEACH = 2")
    held = object()

    def holds(problem: Any) -> Any:
        return held

    for function, why in ((holds, "it uses 'held', a object"), (lambda problem: None, "it has no name")):
        with pytest.raises(UsageError, match=f"{why}.*write it into a file"):
            address_of(function, tmp_path)  # type: ignore[arg-type]


# ---- results belong to their source -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mine.py", "beside.py", "weights.txt"])
def test_the_code_is_the_file_what_it_imports_and_what_it_depends_on(folder: Path, name: str) -> None:
    def digest() -> str:
        entry = find_planner("mine.py:named")
        assert entry is not None
        return code_digest([module_at("mine.py")], entry.depends)

    before = digest()
    assert digest() == before
    (folder / name).write_text((folder / name).read_text("utf-8") + "\n", encoding="utf-8")
    assert digest() != before


def test_a_module_counts_wherever_it_lies_outside_of_installed_packages(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "far_helper.py").write_text("A = 1\n", encoding="utf-8")
    monkeypatch.syspath_prepend(elsewhere)
    (folder / "beside.py").write_text("import far_helper\nDEVICE = 0\n", encoding="utf-8")
    find_planner("mine.py:greedy")
    before = code_digest([module_at("mine.py")])
    (elsewhere / "far_helper.py").write_text("A = 2\n", encoding="utf-8")
    assert code_digest([module_at("mine.py")]) != before


@pytest.mark.timing
def test_of_a_changed_file_and_of_a_method_that_is_named_runs_are_made_again(folder: Path, plan: Plan) -> None:
    methods = ("-m", "Ours=mine.py:greedy", "-m", "greedy", "--against", "Ours")
    words = ("compare", "tiny-chain", *methods, "-o", folder / "out")
    first = done(plan(*words))
    assert "Ours against each other" in first.out
    (folder / "mine.py").write_text(MINE + "\n", encoding="utf-8")
    again = done(plan(*words, "--resume"))
    assert "the code of mine.py:greedy has changed: 1 run is made again." in " ".join(again.err.split())
    assert "2 runs, 1 of them done before" in again.err
    third = done(plan(*words, "--resume", "--rerun", "greedy"))
    assert "[2/2] tiny-chain greedy" in third.err
    wrong = plan(*words, "--resume", "--rerun", "gredy")
    assert (wrong.code, "--rerun is 'gredy', which is none of Ours, greedy" in " ".join(wrong.err.split())) == (
        2,
        True,
    )


@pytest.mark.timing
def test_a_suite_takes_methods_of_ones_own(folder: Path, plan: Plan) -> None:
    (folder / "suite.toml").write_text(
        '[[instances]]\nsource = "tiny-chain"\n[[methods]]\nmethod = "greedy"\n'
        '[[published]]\ninstance = "tiny-chain"\nmethod = "greedy"\nvalue = 7\nsource = "a table"\n',
        encoding="utf-8",
    )
    said = done(plan("compare", "--suite", "suite.toml", "-m", "Ours=mine.py:greedy", "-o", "out"))
    assert "Ours" in said.out
    assert "published" in said.out


def test_a_limit_that_no_system_can_hold_is_refused(
    folder: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "processor_seconds", lambda pid: None)
    said = plan("compare", "tiny-chain", "-m", "dp", "--processor-time", "5s", "-o", "made")
    assert said.code == 2
    assert "This system does not say how long processes have worked; give --time-limit." in said.err
