"""Campaigns of runs: the file and what it refuses, one run after another, from Python and with a command."""

from __future__ import annotations

import json
import math
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import deciding_stub
import pytest

import pipeplan
from pipeplan import InputError, TrainingProblem, UsageError
from pipeplan.instances.training.plan import Configuration
from pipeplan.instances.training.words import configuration_from_words, words_of
from pipeplan.planners.training import deciding
from pipeplan.studies import trials, tune
from pipeplan.studies.trials import Command, Process, birth_of
from pipeplan.studies.tune import (
    Campaign,
    Cheap,
    CommandRunner,
    Desk,
    Made,
    alone,
    best_seconds,
    read_campaign,
    shortest_words,
    with_measured,
)

PROBLEM: TrainingProblem = pipeplan.load("tiny-training")  # type: ignore[assignment]


@pytest.fixture(autouse=True)
def decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "verdict", deciding_stub.verdict)
    monkeypatch.setattr(tune, "search_configurations", deciding_stub.searched_once)


@pytest.fixture(scope="module")
def begun() -> Campaign:
    return deciding_stub.begun_campaign()


@pytest.fixture
def desk(begun: Campaign, tmp_path: Path) -> Desk:
    desk = Desk(begun, str(tmp_path / "campaign.json"))
    desk.put(begun)
    return desk


def silent(*told: object) -> None:
    """Hears what is told and does nothing."""


# ---- the list and the file -----------------------------------------------------------------------------


def test_candidates_are_the_list_of_plan_configure_and_take_its_times(begun: Campaign) -> None:
    answer = pipeplan.configure(PROBLEM, error=begun.error)
    assert {own.plan for own in begun.candidates} == {own.plan for own in answer.listed}
    assert begun.error >= begun.rho
    assert [own.seconds for own in begun.candidates] == sorted(own.seconds for own in answer.listed)
    assert all(own.bytes > 0 for own in begun.candidates)


def test_a_campaign_is_read_as_it_was_written(begun: Campaign, tmp_path: Path) -> None:
    plan = begun.candidates[3].plan
    day, folder = "2026-11-29T10:00:00+00:00", "run-1-abc"
    run = Made(1, plan, "measured", "a, row 2", 0.1, 1e9, 17, "88", folder, day, None, "said")
    cheap = Cheap("a, row 3", words_of(plan), PROBLEM.model.layers, PROBLEM.devices, 8, 0.1)
    full = replace(begun.with_run(run).with_run(Made(2, plan, "interrupted")), proxies=(cheap,))
    desk = Desk(begun, str(tmp_path / "c.json"))
    desk.put(full)
    assert read_campaign(tmp_path / "c.json") == full


def changed(begun: Campaign, change: Callable[[dict[str, Any]], Any], path: Path) -> Path:
    """A file in which something was changed by hand."""
    plan = begun.candidates[0].plan
    cheap = Cheap("a", words_of(plan), PROBLEM.model.layers, PROBLEM.devices, 8, 0.1)
    data = replace(begun, proxies=(cheap,)).with_run(Made(1, plan, "measured", seconds=0.1)).to_json()
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


WRONG: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a command": (lambda d: d.update(command="rm -rf ~"), "command is 'rm -rf ~'"),
    "an unknown key": (lambda d: d.update(run_this="x"), "run_this is an unknown key"),
    "an unknown key of a run": (lambda d: d["runs"][0].update(argv=["x"]), r"runs\[0\]\.argv is an unknown key"),
    "another schema": (lambda d: d.update(schema="pipeplan.campaign/9"), "schema is"),
    "no candidates": (lambda d: d.update(candidates=[], runs=[]), "candidates are none"),
    "a candidate twice": (lambda d: d["candidates"].append(d["candidates"][0]), "stand twice"),
    "an impossible candidate": (lambda d: d["candidates"][0].update(words="tensor=3"), r"candidates\[0\]\.words"),
    "a time that is a text": (lambda d: d["candidates"][0].update(seconds="1"), "not a number"),
    "a negative time": (lambda d: d["candidates"][0].update(seconds=-1), r"seconds is negative"),
    "a run of no candidate": (lambda d: d["runs"][0].update(words="tensor=4"), "those of no candidate"),
    "a proxy that cannot be": (
        lambda d: d["proxies"][0].update(words="tensor=3"),
        r"proxies\[0\] cannot have been run",
    ),
    "a proxy of no layers": (lambda d: d["proxies"][0].update(layers=0), r"proxies\[0\]"),
    "an unknown state": (lambda d: d["runs"][0].update(state="running"), r"runs\[0\]\.state is 'running'"),
    "a measured run without time": (lambda d: d["runs"][0].pop("seconds"), "its seconds say otherwise"),
    "a folder elsewhere": (lambda d: d["runs"][0].update(folder="../../etc"), r"runs\[0\]\.folder is"),
    "a pid below 0": (lambda d: d["runs"][0].update(pid=-1), r"runs\[0\]\.pid is -1"),
    "a pid that is none": (lambda d: d["runs"][0].update(pid=True), r"runs\[0\]\.pid is"),
    "a time of day that is none": (lambda d: d["runs"][0].update(started="noon"), "is 'noon'"),
    "an id twice": (lambda d: d["runs"].append(d["runs"][0]), "have an id twice"),
    "a share above 1": (lambda d: d.update(rho=2), "rho is 2"),
    "a long text": (lambda d: d["runs"][0].update(said="x" * 30_000), r"runs\[0\]\.said is"),
    "a broken problem": (lambda d: d["problem"].update(batch=-1), r"problem\.batch"),
    "runs that are no list": (lambda d: d.update(runs={}), "runs is"),
    "too many runs": (lambda d: d.update(runs=[0] * 30_000), "more than 20000 entries"),
}


@pytest.mark.parametrize("case", WRONG)
def test_every_field_of_a_strangers_file_is_checked(begun: Campaign, case: str, tmp_path: Path) -> None:
    change, says = WRONG[case]
    with pytest.raises(InputError, match=says) as told:
        read_campaign(changed(begun, change, tmp_path / "c.json"))
    assert told.value.file == str(tmp_path / "c.json")


def test_one_process_at_a_time_works_on_a_campaign(tmp_path: Path) -> None:
    path = str(tmp_path / "c.json")
    with alone(path), pytest.raises(UsageError, match="Another plan tune works on"), alone(path):
        pass
    with alone(path):
        assert os.listdir(tmp_path) == ["c.json.lock"]
    assert not os.listdir(tmp_path)


def test_short_words_mean_the_same(begun: Campaign) -> None:
    for own in begun.candidates:
        words = shortest_words(PROBLEM, own.plan)
        assert configuration_from_words(PROBLEM, words if "=" in words else "") == own.plan


# ---- from Python ---------------------------------------------------------------------------------------


def slower(words: str, plan: Configuration, factor: float = 1.2) -> float:
    """The prediction, with a factor that all configurations share."""
    return factor * deciding_stub.seconds_of(PROBLEM, plan)


def test_a_function_is_called_until_the_fastest_is_certain(tmp_path: Path) -> None:
    seen: list[str] = []

    def run(words: str, plan: Configuration) -> float:
        assert words_of(plan) == words
        seen.append(words)
        return slower(words, plan)

    tuned = pipeplan.tune(PROBLEM, run=run, output=tmp_path / "c.json", rho=0.07)
    assert tuned.best == configuration_from_words(PROBLEM, seen[0])
    assert len(set(seen)) == len(seen) == len(tuned.campaign.finished) < len(tuned.campaign.candidates)
    assert tuned.certificate is not None
    assert "is faster by more than 2 %" in tuned.certificate
    assert read_campaign(tmp_path / "c.json") == tuned.campaign
    again = pipeplan.tune(PROBLEM, run=run, output=tmp_path / "c.json")
    assert len(seen) == len(again.campaign.runs), "a campaign that is certain runs nothing more"


def test_no_memory_is_a_result_and_two_failures_in_a_row_end_it() -> None:
    def small(words: str, plan: Configuration) -> float:
        if plan.micro_batch > 1:
            raise MemoryError
        return slower(words, plan)

    tuned = pipeplan.tune(PROBLEM, run=small, runs=29)
    states = {run.state for run in tuned.campaign.runs}
    assert states == {"out of memory", "measured"}
    assert tuned.best is not None
    assert tuned.best.micro_batch == 1

    def broken(words: str, plan: Configuration) -> float:
        raise ValueError("no such flag")

    tuned = pipeplan.tune(PROBLEM, run=broken)
    assert [run.said for run in tuned.campaign.runs] == ["the function raised ValueError: no such flag"] * 2
    assert "fix the command" in str(tuned.stopped)
    assert tuned.certificate is None


def test_milliseconds_and_what_is_no_time_are_refused() -> None:
    with pytest.raises(InputError, match="these look like milliseconds"):
        pipeplan.tune(PROBLEM, run=lambda words, plan: 1000 * slower(words, plan))
    for wrong in (math.nan, -1.0, "fast", None, True):
        with pytest.raises(InputError, match="raise MemoryError"):
            pipeplan.tune(PROBLEM, run=lambda words, plan, wrong=wrong: wrong)  # type: ignore[misc]
    with pytest.raises(InputError, match="argument run is an int, not a function"):
        pipeplan.tune(PROBLEM, run=5)  # type: ignore[arg-type]


def test_the_runs_of_a_campaign_have_an_end(tmp_path: Path) -> None:
    tuned = pipeplan.tune(PROBLEM, run=slower, runs=1, output=tmp_path / "c.json")
    assert "1 run of 1 done" in str(tuned.stopped) or tuned.certificate
    with pytest.raises(InputError, match="runs is 0"):
        pipeplan.tune(PROBLEM, run=slower, runs=0)
    with pytest.raises(InputError, match="within is 0"):
        pipeplan.tune(PROBLEM, run=slower, within=0)
    with pytest.raises(UsageError, match="another problem"):
        pipeplan.tune(PROBLEM.replace(batch=8), run=slower, output=tmp_path / "c.json")


def test_an_interrupted_call_is_written_and_called_again(tmp_path: Path) -> None:
    def interrupted(words: str, plan: Configuration) -> float:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pipeplan.tune(PROBLEM, run=interrupted, output=tmp_path / "c.json")
    (run,) = read_campaign(tmp_path / "c.json").runs
    assert (run.state, run.seconds) == ("interrupted", None)
    tuned = pipeplan.tune(PROBLEM, run=slower, output=tmp_path / "c.json")
    assert tuned.campaign.runs[1].plan == run.plan


# ---- tables --------------------------------------------------------------------------------------------


def table(path: Path, rows: list[dict[str, object]]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names, *([str(row.get(name, "")) for name in names] for row in rows)]
    path.write_text("".join(",".join(line) + "\n" for line in lines), encoding="utf-8")
    return str(path)


def row_of(plan: Configuration, **more: object) -> dict[str, object]:
    words = dict(word.split("=", 1) for word in words_of(plan).split())
    return {key.replace("-", "_"): value for key, value in words.items()} | more


def test_rows_become_runs_and_others_are_kept_apart(begun: Campaign, tmp_path: Path) -> None:
    plans = [own.plan for own in begun.candidates]
    rows = [
        row_of(plans[0], seconds=0.12),
        row_of(plans[1], outcome="out of memory"),
        row_of(plans[2], outcome="failed"),
        row_of(plans[3], seconds=0.2, sequence=512),
        row_of(configuration_from_words(PROBLEM, "tensor=4"), seconds=0.5),
        row_of(plans[4], peak_gib=1),
    ]
    campaign, told = with_measured(begun, [table(tmp_path / "a.csv", rows)])
    assert [(run.plan, run.state, run.seconds) for run in campaign.runs] == [
        (plans[0], "measured", 0.12),
        (plans[1], "out of memory", None),
        (plans[2], "failed", None),
    ]
    assert [own.name for own in campaign.apart] == ["a.csv, row 5", "a.csv, row 6"]
    assert any("of another problem (sequence)" in note for note in told)
    assert any("is not a candidate of this campaign" in note for note in told)
    assert any("has no time" in note for note in told)
    again, told = with_measured(campaign, [str(tmp_path / "a.csv")])
    assert again == campaign
    assert sum("in the campaign already" in note for note in told) == 3


def test_the_order_of_rows_changes_nothing(begun: Campaign, tmp_path: Path) -> None:
    rows = [row_of(own.plan, seconds=1.1 * own.seconds, name=f"r{n}") for n, own in enumerate(begun.candidates[:6])]
    verdicts = [
        with_measured(begun, [table(tmp_path / "a.csv", order)])[0].verdict()
        for order in (rows, rows[::-1], rows[3:] + rows[:3])
    ]
    assert verdicts[0] == verdicts[1] == verdicts[2]


def test_the_time_that_is_told_is_the_one_that_was_judged(begun: Campaign, tmp_path: Path) -> None:
    best = begun.candidates[0].plan
    rows = [row_of(best, seconds=seconds, name=f"r{n}") for n, seconds in enumerate((0.1, 0.13, 0.12))]
    assert best_seconds(with_measured(begun, [table(tmp_path / "a.csv", rows)])[0], best) == 0.12


@pytest.mark.parametrize(("wrong", "says"), [
    ({"seconds": 120}, "these look like milliseconds"),
    ({"seconds": "0,12"}, "more cells than there are columns"),
    ({"seconds": "fast"}, "seconds is 'fast'"),
    ({"seconds": -1}, "seconds is '-1'"),
    ({"seconds": 0.12, "outcome": "oom"}, "outcome is 'oom'"),
    ({"seconds": 0.12, "outcome": "failed"}, "seconds is given for a run that is failed"),
    ({"seconds": 0.12, "memry": 1}, "has the column 'memry'"),
])  # fmt: skip
def test_a_mistyped_row_is_refused_with_its_number(
    begun: Campaign, tmp_path: Path, wrong: dict[str, object], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        with_measured(begun, [table(tmp_path / "a.csv", [row_of(begun.candidates[0].plan, **wrong)])])


# ---- commands ------------------------------------------------------------------------------------------

TRAINER = """
import os, signal, sys, time
words = dict(word.split("=", 1) for word in sys.argv[1:])
with open("started", "a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
with open("pid", "w") as file:
    file.write(str(os.getpid()))
"""
ENDINGS = {
    "good": "for n in range(5): print(f' iteration {n}/ 5 | elapsed time per iteration (ms): 140.0 |')",
    "odd bytes": "os.write(1, b'\\xff\\x00\\x1b[31m'); print('\\n elapsed time per iteration (ms): 140.0')",
    "torch": "print('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB'); sys.exit(1)",
    "cuda": "print('RuntimeError: CUDA error: out of memory'); sys.exit(1)",
    "nccl": "print(\"NCCL WARN Cuda failure 2 'out of memory'\"); sys.exit(1)",
    "late": "print(' elapsed time per iteration (ms): 140.0\\nCUDA out of memory'); sys.exit(1)",
    "survived": "print('CUDA out of memory, again\\n elapsed time per iteration (ms): 140.0')",
    "fails": "print('ValueError: <b>bad</b> \\x1b[31mflag'); sys.exit(3)",
    "killed": "sys.stdout.flush(); os.kill(os.getpid(), signal.SIGSEGV)",
    "quiet failure": "sys.exit(1)",
    "silent": "pass",
    "chatty": "print('hello')",
    "other unit": "print(' elapsed time per iteration (ms): 0.140')",
    "other run": (
        "print('  tensor_model_parallel_size ...... 4\\n  world_size ...... 4\\n', "
        "'elapsed time per iteration (ms): 140.0')"
    ),
    "long": "print('x' * 200_000); print(' elapsed time per iteration (ms): 140.0')",
    "hangs": "time.sleep(600)",
    "hangs late": "[print(' elapsed time per iteration (ms): 140.0', flush=True) for n in range(5)]; time.sleep(600)",
}
SAYS = {
    "good": ("measured", "the median of 3 iterations"),
    "odd bytes": ("measured", "the median of 1 iteration"),
    "torch": ("out of memory", "the GPU ran out of memory"),
    "cuda": ("out of memory", "the GPU ran out of memory"),
    "nccl": ("out of memory", "the GPU ran out of memory"),
    "late": ("out of memory", "the GPU ran out of memory"),
    "survived": ("measured", "the median of 1 iteration"),
    "fails": ("failed", "the command ended with exit code 3: ValueError: <b>bad</b>"),
    "killed": ("failed", "the command was ended by signal 11 and printed nothing"),
    "quiet failure": ("failed", "the command ended with exit code 1 and printed nothing"),
    "silent": ("failed", "its output is empty"),
    "chatty": ("failed", "its output tells no iteration of Megatron or torchtitan"),
    "other unit": ("failed", "seconds is 0.00014, and this configuration is predicted to take"),
    "other run": ("failed", "its log tells of another run (tensor 4 for 1"),
    "long": ("measured", "the median of 1 iteration"),
}


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trainer(work: Path, ending: str) -> Command:
    """A script that writes down that it started, and ends in one of these ways."""
    (work / "train.py").write_text(TRAINER + ENDINGS[ending] + "\n", encoding="utf-8")
    return Command.read(f"{sys.executable} train.py {{words}}", "megatron")


@pytest.mark.parametrize("ending", SAYS)
def test_what_a_run_came_to_is_told_in_a_sentence(desk: Desk, work: Path, ending: str) -> None:
    plan = desk.campaign.candidates[0].plan
    made = CommandRunner(trainer(work, ending))(desk, plan)
    state, says = SAYS[ending]
    assert made.state == state, made
    assert made.said.startswith(says)
    assert (made.seconds == pytest.approx(0.14)) if state == "measured" else made.seconds is None
    assert read_campaign(str(desk.path)).runs == (made,)
    assert (work / "started").read_text().split() == words_of(plan).split()


def test_a_run_has_a_folder_that_nobody_else_reads(desk: Desk, work: Path) -> None:
    made = CommandRunner(trainer(work, "good"))(desk, desk.campaign.candidates[0].plan)
    folder = Path(desk.runs_folder, str(made.folder))
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "log").stat().st_mode) == 0o600
    assert sorted(os.listdir(folder)) == ["end", "log"]


def test_a_folder_of_runs_that_is_a_link_is_refused(desk: Desk, work: Path) -> None:
    (work / "elsewhere").mkdir()
    os.symlink(work / "elsewhere", desk.runs_folder)
    with pytest.raises(InputError, match="no folder of yours"):
        CommandRunner(trainer(work, "good"))(desk, desk.campaign.candidates[0].plan)
    assert not os.listdir(work / "elsewhere")


def test_links_and_pipes_in_the_folder_of_a_run_are_not_read(tmp_path: Path) -> None:
    """They come with somebody else's campaign."""
    (tmp_path / "secret").write_text("7")
    os.symlink(tmp_path / "secret", tmp_path / "end")
    os.mkfifo(tmp_path / "log")
    assert trials.code_of(str(tmp_path)) is None
    assert trials.output_of(str(tmp_path)) == trials.last_line(str(tmp_path)) == ""


def test_a_long_output_is_cut_in_the_middle(desk: Desk, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "MOST_LOG_BYTES", 1000)
    made = CommandRunner(trainer(work, "long"))(desk, desk.campaign.candidates[0].plan)
    log = Path(desk.runs_folder, str(made.folder), "log").read_bytes()
    assert len(log) < 70_000
    assert b"bytes are left out here" in log
    assert made.state == "measured", "the end of the output is kept"


@pytest.mark.parametrize(("ending", "state"), [("hangs", "failed"), ("hangs late", "measured")])
def test_a_run_is_ended_at_its_limit_with_all_that_it_started(
    desk: Desk, work: Path, ending: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is met once the run has said what it has to say."""
    monkeypatch.setattr(trials, "wall", lambda: float((work / "pid").exists() and last_was_told(ending)))

    def last_was_told(ending: str) -> bool:
        logs = [path.read_bytes() for path in work.glob("*.runs/*/log")]
        return ending == "hangs" or any(log.count(b"iteration") == 5 for log in logs)

    made = CommandRunner(trainer(work, ending), 0.5)(desk, desk.campaign.candidates[0].plan)
    assert made.state == state, made
    assert ("did not end within 0.5 s" if state == "failed" else "ended at the limit") in made.said
    assert birth_of(int((work / "pid").read_text())) is None


def test_sigkill_follows_where_sigterm_is_not_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "GRACE_S", 0.0)
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); open('deaf', 'w'); time.sleep(600)"
    monkeypatch.chdir(tmp_path)
    process, go = trials.start([sys.executable, "-c", deaf], str(tmp_path))
    go()
    while not (tmp_path / "deaf").exists():
        time.sleep(0.01)
    process.end()
    assert not process.is_alive()
    assert trials.code_of(str(tmp_path)) is None


def test_nothing_runs_before_the_campaign_names_the_run(tmp_path: Path) -> None:
    """Whoever is killed between the start of the process and the writing has started nothing."""
    reader = subprocess.run(
        [sys.executable, "-c", f"""
from pipeplan.studies import trials
process, go = trials.start(["touch", "{tmp_path}/ran"], "{tmp_path}")
print(process.pid, process.born)
"""], capture_output=True, text=True, check=True,
    )  # fmt: skip
    pid, born = reader.stdout.split()
    while Process(int(pid), born).is_alive():
        time.sleep(0.01)
    assert not os.listdir(tmp_path)


def test_a_number_that_another_process_has_by_now_is_left_alone(desk: Desk, work: Path) -> None:
    """Also a process that leads no group, and one whose start is another."""
    victims = [subprocess.Popen(["sleep", "600"], start_new_session=alone) for alone in (False, True)]
    try:
        first, second = (own.plan for own in desk.campaign.candidates[:2])
        births = [str(birth_of(victims[0].pid)), "1"]
        campaign = desk.campaign
        for n, (plan, victim, born) in enumerate(zip((first, second), victims, births, strict=True), 1):
            day, folder = "2020-01-01T00:00:00+00:00", f"run-{n}-x"
            run = Made(n, plan, "started", pid=victim.pid, born=born, folder=folder, started=day)
            campaign = campaign.with_run(run)
        desk.put(replace(campaign, runs=campaign.runs[1:]))
        (made,) = CommandRunner(trainer(work, "good")).resume(desk)
        assert (made.state, made.said) == ("interrupted", "it was killed from outside before its end")
        Process(victims[0].pid, births[0]).send(signal.SIGKILL)
        assert [victim.poll() for victim in victims] == [None, None]
    finally:
        for victim in victims:
            victim.kill()
            victim.wait()


# ---- words of a command --------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "says"), [
    ("", "is empty"),
    ("python 'x", "close every quote"),
    ("python train.py", "names no configuration"),
    ("python train.py --x={flags}", "word of its own"),
    ("python train.py {toml}", "has {toml}, which megatron does not have"),
    ("python train.py {flags.__class__}", "names no configuration"),
    ("./nowhere.sh {flags}", "no program that is found"),
    ("./plain.sh {flags}", "chmod"),
])  # fmt: skip
def test_a_command_that_cannot_be_run_is_refused_before_anything_runs(text: str, says: str, work: Path) -> None:
    (work / "plain.sh").write_text("true")
    with pytest.raises(InputError, match=says):
        Command.read(text, "megatron")


def test_flags_are_words_and_nothing_is_left_to_a_shell(begun: Campaign, work: Path) -> None:
    evil = PROBLEM.replace(name="--evil; touch x", model=replace(PROBLEM.model, name="$(touch x) --evil"))
    for own in begun.candidates:
        words = Command.read("echo ';touch' '$(x)' {flags}", "megatron").of(evil, own.plan, None)
        assert words[:3] == ["echo", ";touch", "$(x)"]
        assert "--tensor-model-parallel-size" in words
        assert not any("evil" in word or "touch x" in word for word in words[3:])
        assert all(word.startswith("--") or "--" not in word for word in words[3:])


@pytest.mark.parametrize(("framework", "name"), [("torchtitan", "toml"), ("deepspeed", "json")])
def test_files_are_written_to_the_folder_of_the_run(framework: str, name: str, work: Path) -> None:
    problem = PROBLEM.replace(framework=framework)
    plan = configuration_from_words(problem, "zero=2" if framework == "torchtitan" else "")
    command = Command.read(f"echo --config={{{name}}}", framework)
    _, path = command.of(problem, plan, str(work))[1].split("=")
    assert Path(path).parent == work
    assert Path(path).read_text()
    assert command.of(problem, plan, None)[1].startswith("--config=FOLDER/")


def test_the_digest_tells_commands_apart_and_holds_none() -> None:
    one, other = (Command.read(f"echo {word} {{words}}", "megatron") for word in ("a", "b"))
    assert one.digest != other.digest
    assert len(one.digest) == 64
