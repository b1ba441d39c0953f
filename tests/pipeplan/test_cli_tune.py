"""`plan tune` on the command line: a campaign from its beginning to a certificate, killed, interrupted, and refused."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import deciding_stub
import pytest
from command_line import Plan, done, has, in_one_line, refused
from signals import PATIENCE_S, hear_ctrl_c

from pipeplan.instances.training.words import words_of
from pipeplan.planners.training import deciding
from pipeplan.show.tuning import campaign_page
from pipeplan.studies.trials import birth_of
from pipeplan.studies.tune import Campaign, Desk, Made, read_campaign

pytestmark = pytest.mark.xdist_group("studies")  # one worker searches

MODEL = ("llama-3-8b", "--layers", "2", "--devices", "2xh100-80gb", "--sequence", "2048", "--batch", "8", "--fix",
         "virtual=1")  # fmt: skip
TRAINER = """
import os, sys, time
words = " ".join(sys.argv[1:])
with open("started", "a") as file:
    file.write(words + "\\n")
with open("pid", "w") as file:
    file.write(str(os.getpid()))
for _ in range(60_000):
    if not os.path.exists("wait"):
        break
    time.sleep(0.01)
seconds = 0.14 + hash(words) % 7 / 1000
for n in range(5):
    print(f" iteration {n}/ 5 | elapsed time per iteration (ms): {1000 * seconds:.3f} |", flush=True)
"""
COMMAND = ("--command", f"{sys.executable} train.py {{words}}")


@pytest.fixture(autouse=True)
def decided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "verdict", deciding_stub.verdict)


@pytest.fixture(scope="module")
def begun() -> Campaign:
    return deciding_stub.begun_campaign()


@pytest.fixture
def campaign(begun: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a campaign without runs, in the folder where the commands run, beside a trainer."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAINER, encoding="utf-8")
    Desk(begun, "campaign.json").put(begun)
    return tmp_path / "campaign.json"


def runs_of(path: Path) -> tuple[Made, ...]:
    return read_campaign(path).runs


# ---- from the beginning to the end -----------------------------------------------------------------------


def test_a_campaign_begins_with_a_model_and_ends_with_a_certificate(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAINER.replace("0.14 +", "0.2 +"), encoding="utf-8")
    said = done(plan("tune", *MODEL, "-o", "c.json", "--within", "3%", "--runs", 20))
    has(in_one_line(said.out), "candidates, predicted to", "Next run:", "--tensor-model-parallel-size")
    refused(plan("tune", *MODEL, "-o", "c.json"), "c.json exists; continue it with plan tune c.json")
    before = Path("c.json").read_bytes()
    dry = done(plan("tune", "c.json", *COMMAND, "--dry-run"))
    assert dry.out.startswith(f"{sys.executable} train.py tensor=")
    assert Path("c.json").read_bytes() == before
    assert not Path("started").exists()
    said = plan("tune", "c.json", *COMMAND, "--json")
    answer = said.json
    assert (said.code, answer["certified"]) == (0, True), said
    has(answer["certificate"], "llama-3-8b on 2 h100-80gb", "prove", "faster by more than 3 %", "within 10 %")
    assert [run["words"] for run in answer["runs"]] == Path("started").read_text().splitlines()
    assert read_campaign("c.json").within == 0.03
    assert done(plan("tune", "c.json")).out.count("run 1: ") == 1


def test_a_campaign_that_is_open_says_what_is_next_and_ends_with_1(plan: Plan, campaign: Path) -> None:
    said = plan("tune", campaign, *COMMAND, "--runs", 1)
    assert said.code == 1
    has(in_one_line(said.out), "run 1: ", "it excludes", "Next run: ", "Stopped: 1 run of 1 done; --runs 2")
    assert plan("tune", campaign).code == 1


def test_a_run_of_fewer_layers_is_a_proxy_and_only_its_time_counts(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = ("llama-3-8b", "--devices", "16xh100-80gb", "--sequence", "4096", "--batch", "128")
    fixed = ("--fix", "tensor=2", "--fix", "virtual=1", "--fix", "zero=1")
    said = done(plan("tune", *model, *fixed, "-o", "c.json"))
    has(in_one_line(said.out), "Or first run a proxy (8 layers, 8 GPUs, ", "trusted within 20 %:", "--num-layers 8")
    proposed = plan("tune", "c.json", "--json").json["proxy"]
    assert 0 < proposed["share"] < 0.25
    words = dict(word.split("=") for word in proposed["words"].split())
    row = {name.replace("-", "_"): value for name, value in words.items() if name != "layout"}
    row |= {name: str(proposed[name]) for name in ("layers", "devices", "batch")} | {"seconds": "0.5"}
    Path("runs.csv").write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n")
    said = plan("tune", "c.json", "--measured", "runs.csv")
    assert said.code == 1
    has(in_one_line(said.err), "row 2 is a proxy (8 layers, 8 GPUs, ", "only its time counts")
    has(in_one_line(said.out), "The measured times of 1 proxy are trusted within 20 %.")
    assert "Or first run a proxy" not in said.out, "it was made"
    (kept,) = read_campaign("c.json").proxies
    assert (kept.layers, kept.devices, kept.seconds) == (8, 8, 0.5)
    again = plan("tune", "c.json", "--measured", "runs.csv")
    has(in_one_line(again.err), "row 2 is in the campaign already")
    assert "proxies" in json.loads(Path("c.json").read_text())


def test_runs_from_tables_and_logs_count(plan: Plan, campaign: Path, begun: Campaign) -> None:
    first, second = (words_of(own.plan) for own in begun.candidates[:2])
    keys = [word.split("=")[0].replace("-", "_") for word in first.split()]
    rows = [[word.split("=")[1] for word in words.split()] for words in (first, second)]
    Path("runs.csv").write_text(
        ",".join([*keys, "seconds", "outcome"])
        + "\n"
        + ",".join([*rows[0], "0.14", ""])
        + "\n"
        + ",".join([*rows[1], "", "out of memory"])
        + "\n"
    )
    said = plan("tune", campaign, "--measured", "runs.csv", "--json")
    assert [(run["state"], run.get("seconds")) for run in said.json["runs"]] == [
        ("measured", 0.14),
        ("out of memory", None),
    ]
    log = "".join(
        f"  {name} .......... {value}\n"
        for name, value in {
            "tensor_model_parallel_size": 1, "context_parallel_size": 2, "micro_batch_size": 4, "world_size": 4,
            "global_batch_size": 16, "seq_length": begun.problem.sequence, "use_distributed_optimizer": "True",
        }.items()
    )  # fmt: skip
    Path("run.log").write_text(log + "torch.OutOfMemoryError: CUDA out of memory.\n")
    said = plan("tune", campaign, "--measured", "run.log")
    has(said.err, "run.log: out of memory", "run.log is")


def test_contradictory_runs_and_wrong_units_get_their_sentences(
    plan: Plan, campaign: Path, begun: Campaign
) -> None:
    first = begun.candidates[0]
    keys = [word.split("=")[0].replace("-", "_") for word in words_of(first.plan).split()]
    values = [word.split("=")[1] for word in words_of(first.plan).split()]

    def table(*seconds: float) -> str:
        lines = [[*keys, "seconds"], *([*values, str(one)] for one in seconds)]
        Path("runs.csv").write_text("".join(",".join(line) + "\n" for line in lines))
        return "runs.csv"

    before = campaign.read_bytes()
    refused(plan("tune", campaign, "--measured", table(120)), "row 2", "milliseconds", "divide the column by 1000")
    refused(plan("tune", campaign, "--measured", "nowhere.csv"), "does not exist")
    assert campaign.read_bytes() == before, "the campaign is not lost"
    said = plan("tune", campaign, "--measured", table(0.11, 0.2))
    assert said.code in (0, 1)
    has(said.out, "run 1 (runs.csv, row 2)", "run 2 (runs.csv, row 3)", "contradicts the others")


def test_what_failed_is_run_again_when_it_is_asked_for(plan: Plan, campaign: Path) -> None:
    good = Path("train.py").read_text()
    Path("train.py").write_text(good.replace("for n in", "raise SystemExit('no --such-flag')\nfor n in"))
    said = plan("tune", campaign, *COMMAND)
    assert said.code == 1
    has(in_one_line(said.out), "exit code 1: no --such-flag", "fix the command, and use --retry")
    Path("train.py").write_text(good)
    plan("tune", campaign, *COMMAND, "--retry", "--runs", 1)
    states = [run.state for run in runs_of(campaign)]
    assert states == ["interrupted", "interrupted", "measured"]


# ---- files of strangers ----------------------------------------------------------------------------------


def test_a_strangers_campaign_runs_nothing_and_its_page_takes_no_markup(
    plan: Plan, campaign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **more: object) -> None:
        raise AssertionError("a process is started or ended")

    data = json.loads(campaign.read_text())
    data["problem"]["name"] = data["problem"]["model"]["name"] = "<script>alert(1)</script>"
    words = data["candidates"][0]["words"]
    victim = subprocess.Popen(["sleep", "600"], start_new_session=True)
    data["runs"] = [
        {"id": 1, "words": words, "state": "started", "pid": victim.pid, "born": str(birth_of(victim.pid))},
        {"id": 2, "words": words, "state": "measured", "seconds": 0.14, "said": "<img src=x onerror=y>\x1b[31m"},
    ]
    data["apart"] = [{"name": "<b>", "words": "rm -rf ~", "why": "<i>", "seconds": None}]
    campaign.write_text(json.dumps(data))
    try:
        with monkeypatch.context() as watched:
            for name in ("subprocess.Popen", "os.system", "os.killpg", "os.kill", "os.execvp"):
                watched.setattr(name, refuse)
            said = plan("tune", campaign)
            assert said.code in (0, 1), said
            assert "\x1b" not in said.out
            done(plan("report", campaign, "-o", "page.html"))
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()
    page = Path("page.html").read_text("utf-8")
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert sorted(os.listdir()) == ["campaign.json", "page.html", "train.py"]


def test_options_of_the_problem_are_for_new_campaigns(plan: Plan, campaign: Path) -> None:
    for words in (("--devices", "8xh100-80gb"), ("--fix", "tensor=2"), ("-o", "b.json"), ("--time-limit", "5")):
        refused(plan("tune", campaign, *words), f"{words[0]}".replace("-o", "--output"), "is for new campaigns")
    refused(plan("tune", campaign, "--rho", "50%"), "begin a campaign with that rho")
    refused(plan("tune", campaign, "--common-factor", "0.5"), "give a factor of at least 1")
    refused(plan("tune", campaign, "--command", "true"), "--command names no configuration")
    refused(plan("tune"), "Name a model")
    refused(plan("tune", "nowhere.json", *MODEL[1:], "-o", "b.json"), "does not exist")
    refused(plan("report", campaign, "tiny-chain"), "A campaign contains its problem")


def test_the_page_shows_times_the_regret_and_what_is_possible(begun: Campaign) -> None:
    assert "Not decided yet." in campaign_page(begun)
    campaign = begun
    for n, own in enumerate(begun.candidates[:4], 1):
        campaign = campaign.with_run(Made(n, own.plan, "measured", seconds=1.2 * own.seconds, peak_bytes=1e9))
    page = campaign_page(campaign)
    has(page, "Seconds of each run", "Regret after each run", "Still possible", "predicted before any run")
    assert page.count("<tr>") >= 5


# ---- signals ---------------------------------------------------------------------------------------------

# `plan tune` with the stub; with a number it is killed after so many lines of the modules that make runs.
DRIVER = """
import os, signal, sys
sys.path.insert(0, {tests!r})
import deciding_stub
deciding_stub.install()
from pipeplan.cli import main
from pipeplan.studies import trials, tune
from pipeplan.instances.base import json_file

left = int(os.environ.get("DIES_AFTER", "0"))
files = {{module.__file__ for module in (trials, tune, json_file)}}

def count(frame, event, argument):
    global left
    if frame.f_code.co_filename not in files:
        return None
    left -= event == "line"
    if left <= 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return count

def go_on(*arguments):
    sys.settrace(count if left else None)
    return before(*arguments)

before, tune.go_on = tune.go_on, go_on
sys.argv[0] = "plan"
sys.exit(main())
"""


def driven(campaign: Path, **environment: str) -> subprocess.Popen[str]:
    code = DRIVER.format(tests=str(Path(__file__).parents[1]))
    words = [sys.executable, "-c", code, "tune", str(campaign), *COMMAND, "--runs", "40", "--progress", "none"]
    return subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=hear_ctrl_c, env={**os.environ, "PYTHONHASHSEED": "0", **environment},
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_a_campaign_that_is_killed_at_random_moments_loses_no_run_and_starts_none_twice(
    campaign: Path, seed: int
) -> None:
    """Three kills in a row, and twenty more with `--sweeps`; the moments are counted in lines of code, so that none
    depends on how fast a machine is."""
    draw, kills = random.Random(seed), 0
    for _ in range(10 if seed else 3):
        killed = driven(campaign, DIES_AFTER=str(draw.randint(1, 300 if seed else 900)))
        killed.communicate(timeout=PATIENCE_S)
        assert killed.returncode in (-signal.SIGKILL, 0, 1)
        kills += killed.returncode == -signal.SIGKILL
        read_campaign(campaign)  # it is whole
    assert kills >= 2
    last = driven(campaign)
    _, err = last.communicate(timeout=PATIENCE_S)
    assert last.returncode in (0, 1), err
    assert "Traceback" not in err
    started = Path("started").read_text().splitlines()
    assert len(set(started)) == len(started), "a run was started twice"
    runs = runs_of(campaign)
    assert {words_of(run.plan) for run in runs if run.state == "measured"} == set(started), "a run was lost"
    assert not [run for run in runs if run.state == "started"]
    assert len({run.id for run in runs}) == len(runs)


def wait_for(path: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_run_marks_it_and_the_campaign_goes_on(campaign: Path, number: int) -> None:
    Path("wait").touch()
    process = driven(campaign)
    wait_for(Path("pid"))
    process.send_signal(number)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, err
    assert "interrupted; plan tune" in err
    assert birth_of(int(Path("pid").read_text())) is None
    (run,) = runs_of(campaign)
    assert (run.state, run.said, run.seconds) == ("interrupted", "Ctrl-C ended it", None)
    Path("wait").unlink()
    process = driven(campaign)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 1)
    started = Path("started").read_text().splitlines()
    assert started[0] == started[1], "what was not measured is run again"


def test_a_run_that_outlives_plan_tune_is_waited_for_and_two_do_not_work_at_once(
    campaign: Path, plan: Plan
) -> None:
    Path("wait").touch()
    process = driven(campaign)
    wait_for(Path("pid"))
    refused(plan("tune", campaign), "Another plan tune works on")
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    (run,) = runs_of(campaign)
    assert run.state == "started"
    assert birth_of(int(Path("pid").read_text())) is not None
    second = driven(campaign)
    Path("wait").unlink()
    _, err = second.communicate(timeout=PATIENCE_S)
    assert "run 1 was started earlier: the median of 3 iterations" in err
    started = Path("started").read_text().splitlines()
    assert len(set(started)) == len(started)
    assert started[0] == words_of(run.plan)


def test_progress_tells_the_last_line_of_a_run(campaign: Path, plan: Plan) -> None:
    """The run ends once we have been told."""
    Path("wait").touch()
    Path("train.py").write_text(TRAINER.replace("for _ in", "print('loading data', flush=True)\nfor _ in"))
    code = DRIVER.format(tests=str(Path(__file__).parents[1]))
    words = [sys.executable, "-c", code, "tune", str(campaign), *COMMAND, "--runs", "1", "--progress", "json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if json.loads(line).get("source") == "run 1: loading data":
            Path("wait").unlink()
            break
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode in (0, 1)
