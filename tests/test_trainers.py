"""Trainers to try `plan tune` on: one that only pretends, whose log is read back, and the small one in `examples/`."""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from command_line import Plan, done
from oracles import pretend_trainer
from oracles.pretend_trainer import World

from pipeplan import TrainingProblem, save
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.iteration import timing_of
from pipeplan.instances.training.plan import Configuration
from pipeplan.instances.training.words import configuration_from_words, words_of
from pipeplan.models.export.contract import ExportOptions
from pipeplan.models.export.training import megatron_configuration
from pipeplan.planners.training.measured import measured_runs
from pipeplan.studies.trials import Command
from pipeplan.studies.tune import CommandRunner, Desk, read_campaign, tune

EXAMPLE = Path(__file__).parents[1] / "examples" / "cpu_training"


def flags_of(problem: TrainingProblem, plan: Configuration) -> list[str]:
    """The configuration as `plan export` writes it."""
    return megatron_configuration(problem, plan, ExportOptions()).text.replace('"', "").split()


# ---- a trainer that pretends -----------------------------------------------------------------------------

PROBLEM = problem_of("llama-3-8b", "8xh100-80gb", batch=32, sequence=4096, layers=4)
WORDS = (
    "pipeline=4 micro-batch=2 zero=1",
    "tensor=2 pipeline=2 micro-batch=4 zero=1 recompute=full",
    "pipeline=2 layout=4/2 micro-batch=1 zero=0 recompute=full:1",
)


def pretended(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: str
) -> tuple[int | str, list[str]]:
    """The exit code of a run and what it printed."""
    save(PROBLEM, "problem.json")
    monkeypatch.setattr(sys, "argv", ["pretend_trainer.py", "problem.json", *words])
    code: int | str = 0
    try:
        pretend_trainer.main()
    except SystemExit as end:
        code = int(end.code or 0)
    except RuntimeError as error:
        code = str(error)
    return code, capsys.readouterr().out.splitlines()


@pytest.fixture
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("_folder")
@pytest.mark.parametrize("words", WORDS)
def test_the_log_of_the_pretend_trainer_is_read_back(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, world = configuration_from_words(PROBLEM, words), World(PROBLEM, seed=7)
    code, lines = pretended(capsys, monkeypatch, "--seed", "7", *flags_of(PROBLEM, plan))
    assert code == 0
    Path("run.log").write_text("\n".join(lines))
    (run,) = measured_runs("run.log", PROBLEM)
    assert run.plan == plan
    assert run.seconds == pytest.approx(world.seconds(plan), rel=1e-6)
    assert run.peak_bytes == pytest.approx(world.peak_bytes(plan), rel=1e-6)
    assert pretended(capsys, monkeypatch, "--seed", "7", *words_of(plan).split())[1] == lines[-6:], (
        "words say the same"
    )


def test_errors_are_drawn_once_and_stay_within_their_limits() -> None:
    plans = [configuration_from_words(PROBLEM, words) for words in WORDS]
    for seed in range(5):
        world = World(PROBLEM, seed)
        assert [world.seconds(plan) for plan in plans] == [World(PROBLEM, seed).seconds(plan) for plan in plans]
        exact = World(PROBLEM, seed, rho=0)
        assert exact.real == world.real != PROBLEM
        assert all(abs(math.log(world.seconds(p) / exact.seconds(p))) <= math.log1p(world.rho) for p in plans)
    assert len({World(PROBLEM, seed).seconds(plans[0]) for seed in range(5)}) == 5
    same = World(PROBLEM, box=0, common=0, rho=0)
    assert same.seconds(plans[0]) == timing_of(PROBLEM, plans[0]).seconds


@pytest.mark.usefixtures("_folder")
def test_it_runs_out_of_memory_by_a_counted_limit_crashes_or_prints_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = configuration_from_words(PROBLEM, WORDS[0])
    flags, bytes_held = flags_of(PROBLEM, plan), World(PROBLEM).peak_bytes(plan)
    assert pretended(capsys, monkeypatch, "--memory-limit", str(1.001 * bytes_held), *flags)[0] == 0
    code, lines = pretended(capsys, monkeypatch, "--memory-limit", str(0.999 * bytes_held), *flags)
    assert code == 1
    assert lines[-1].startswith("torch.OutOfMemoryError: CUDA out of memory.")
    assert pretended(capsys, monkeypatch, "--fault", "silent", *flags) == (0, [])
    code, lines = pretended(capsys, monkeypatch, "--fault", "crash", *flags)
    assert "NCCL" in str(code)
    assert " iteration        1/       5" in lines[-1]
    spared = ("--fault", "crash", "--where", "--micro-batch-size 4")
    assert pretended(capsys, monkeypatch, *spared, *flags)[0] == 0, "other runs have no fault"


FIXED = ("tensor=2", "virtual=1", "zero=1")


@pytest.mark.sweeps
@pytest.mark.parametrize("seed", range(3))
def test_a_campaign_on_the_pretend_trainer_is_right(seed: int) -> None:
    """Efficiencies, times and peaks are off, and what holds too much is out of memory."""
    world = World(PROBLEM, seed)

    def run(words: str, plan: Configuration) -> float:
        if world.peak_bytes(plan) > (PROBLEM.memory_bytes or math.inf) - PROBLEM.reserve_bytes:
            raise MemoryError
        return world.seconds(plan)

    tuned = tune(PROBLEM, run=run, fix=FIXED, rho=0.05, within=0.05)
    assert tuned.certificate is not None, tuned.stopped
    assert tuned.best is not None
    can = [own.plan for own in tuned.campaign.candidates]
    limit = (PROBLEM.memory_bytes or math.inf) - PROBLEM.reserve_bytes
    fastest = min(world.seconds(plan) for plan in can if world.peak_bytes(plan) <= limit)
    assert world.seconds(tuned.best) <= fastest * (1 + tuned.campaign.within)


@pytest.mark.sweeps
@pytest.mark.usefixtures("_folder")
def test_a_command_that_pretends_is_run_until_the_fastest_is_certain(plan: Plan) -> None:
    save(PROBLEM, "problem.json")
    asked = ("llama-3-8b", "--layers", 4, "--devices", "8xh100-80gb", "--sequence", 4096, "--batch", 32)
    fixed = (word for own in FIXED for word in ("--fix", own))
    done(plan("tune", *asked, *fixed, "--rho", "5%", "--within", "5%", "-o", "campaign.json"))
    words = [sys.executable, pretend_trainer.__file__, "problem.json", "--seed", "1", "{flags}"]
    answer = done(plan("tune", "campaign.json", "--command", shlex.join(words), "--json")).json
    world = World(PROBLEM, 1)
    best = configuration_from_words(PROBLEM, answer["best"])
    others = [configuration_from_words(PROBLEM, own["words"]) for own in answer["candidates"]]
    assert world.seconds(best) <= min(map(world.seconds, others)) * 1.05


# ---- the small trainer -----------------------------------------------------------------------------------

SIZES = {"n_layer": 4, "n_embd": 32, "n_head": 2, "n_positions": 16, "vocab_size": 64}
FLAGS = (
    *("--num-layers", "4", "--hidden-size", "32", "--num-attention-heads", "2", "--seq-length", "16"),
    *("--vocab-size", "64", "--global-batch-size", "8", "--train-iters", "4"),
)
WAYS = {
    "data 2": "--world-size 2 --micro-batch-size 2",
    "data 2 with zero 1": "--world-size 2 --micro-batch-size 4 --use-distributed-optimizer",
    "pipeline 2": "--world-size 2 --pipeline-model-parallel-size 2 --micro-batch-size 2",
    "pipeline 2 by 2, layers computed again": (
        "--world-size 4 --pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*3|t,L "
        "--recompute-granularity full --recompute-method block --recompute-num-layers 2"
    ),
}


def trained(*flags: str) -> tuple[int, str]:
    """The exit code of the small trainer and what it printed."""
    pytest.importorskip("torch")
    words = [sys.executable, str(EXAMPLE / "train.py"), *FLAGS, *flags]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    return done.returncode, done.stdout + done.stderr


def losses(log: str) -> list[float]:
    return [float(text) for text in re.findall(r"lm loss: (\S+)", log)]


def peak_mib(log: str) -> float:
    return max(map(float, re.findall(r"max allocated: (\S+)", log)))


@pytest.fixture(scope="module")
def alone() -> str:
    """The log of one process with one micro-batch."""
    code, log = trained("--micro-batch-size", "8")
    assert code == 0, log
    return log


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_train_has_the_losses_of_one_process(way: str, alone: str) -> None:
    code, log = trained(*WAYS[way].split())
    assert code == 0, log
    assert len(losses(log)) == 4
    assert losses(log) == pytest.approx(losses(alone), rel=2e-5)


@pytest.mark.torch
@pytest.mark.slow
def test_its_log_is_read_as_one_of_megatron(tmp_path: Path, alone: str) -> None:
    config = {"model_type": "gpt2", "tie_word_embeddings": False, **SIZES}
    (tmp_path / "config.json").write_text(json.dumps(config))
    problem = problem_of(tmp_path, "1xh100-80gb", batch=8, sequence=16)
    (tmp_path / "run.log").write_text(alone)
    (run,) = measured_runs(tmp_path / "run.log", problem)
    assert run.plan == configuration_from_words(problem, "micro-batch=8 zero=0")
    assert run.peak_bytes == pytest.approx(peak_mib(alone) * 2**20)


@pytest.mark.torch
@pytest.mark.slow
def test_memory_is_counted_so_that_its_limit_is_sharp(alone: str) -> None:
    most = peak_mib(alone)
    code, log = trained("--micro-batch-size", "8", "--memory-limit", str(most - 0.001))
    assert code == 1
    assert "torch.OutOfMemoryError: CPU out of memory. Tried to allocate" in log
    assert "Traceback" not in log
    code, log = trained("--micro-batch-size", "8", "--memory-limit", str(most + 0.001))
    assert (code, losses(log)) == (0, losses(alone)), "what is not exceeded changes nothing"
    again = trained("--micro-batch-size", "8", "--recompute-granularity", "full")[1]
    assert losses(again) == losses(alone)
    assert peak_mib(again) < 0.8 * most


@pytest.mark.torch
@pytest.mark.slow
@pytest.mark.parametrize(("flags", "said"), [
    ("--tensor-model-parallel-size 2", "invalid choice: 2"),
    ("--overlap-grad-reduce", "unrecognized arguments"),
    ("--world-size 3 --pipeline-model-parallel-size 2", "must divide the processes"),
    ("--pipeline-model-parallel-layout Et*3,L", "with all units"),
])  # fmt: skip
def test_what_it_cannot_do_is_refused(flags: str, said: str) -> None:
    code, log = trained(*flags.split())
    assert code == 2
    assert said in log


def asked_in_the_readme() -> list[str]:
    """The words of its `plan tune` before `-o`."""
    text = (EXAMPLE / "README.md").read_text()
    (asked,) = re.findall(r"^plan tune (config.json[^`]*?) -o campaign.json$", text, re.MULTILINE)
    return str(asked).replace("\\\n", " ").split()


def test_the_example_is_planned_as_its_readme_says(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLE)
    told = plan("configure", *asked_in_the_readme(), "--judge", "pipeline=2 micro-batch=2", "--json")
    assert told.json["judged"][0]["fits"] == "yes"


# All that the trainer can be told, but for layouts that are worse by far.
DATA = [
    f"data=2 micro-batch={b} zero={zero} recompute={again}"
    for b in (1, 2, 4, 8, 16)
    for zero in (0, 1)
    for again in ("none", "full", "full:4")
]
PIPELINE = [
    f"pipeline=2 layout={layout} micro-batch={b} recompute={again}"
    for b in (1, 2, 4, 8, 16)
    for layout, again in (("5/5", "none"), ("5/5", "full"), ("4/6", "none"), ("6/4", "none"))
]
REPEATS = 5


@pytest.mark.torch
@pytest.mark.slow
def test_a_campaign_makes_few_of_the_runs_and_finds_the_fastest_within_noise(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every configuration is run once, the fastest five times more; that takes some ten minutes on two idle cores."""
    pytest.importorskip("torch")
    monkeypatch.chdir(EXAMPLE)
    path, asked = str(tmp_path / "campaign.json"), asked_in_the_readme()
    done(plan("tune", *asked, "-o", path))
    trainer = [sys.executable, "train.py", *("--world-size", "2", "--memory-limit", "156", "--train-iters", "5")]
    words = shlex.join([*trainer, "{flags}"])
    assert plan("tune", path, "--command", words).code in (0, 1)
    tuned = read_campaign(path)
    best = tuned.verdict().best
    assert best is not None

    desk = Desk(replace(tuned, runs=()), str(tmp_path / "every.json"))
    run = CommandRunner(Command.read(words, tuned.problem.framework))
    every = [configuration_from_words(tuned.problem, text) for text in (*DATA, *PIPELINE)]
    took = {own: made.seconds for own in every if (made := run(desk, own)).seconds is not None}
    fastest = min(took, key=lambda own: took[own])
    repeats = [run(desk, fastest).seconds for _ in range(REPEATS)]
    noise = max(repeats) / min(repeats) - 1
    told = [f"{len(tuned.finished)} of {len(every)} runs, noise {noise:.3f}"]
    told += [f"{words_of(own)}: {seconds:.3f} s" for own, seconds in took.items()]
    (tmp_path / "runs.txt").write_text("\n".join(told))
    assert len(tuned.finished) < len(every) / 5
    assert took[tuned.candidates[best].plan] <= (1 + noise) * took[fastest]
