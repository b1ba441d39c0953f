"""The small trainer in `examples/`, to try `plan tune` on: what it prints is what a log of Megatron says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Plan

from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.words import configuration_from_words
from pipeplan.planners.training.measured import measured_runs

EXAMPLE = Path(__file__).parents[1] / "examples" / "cpu_training"

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
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--tensor-model-parallel-size 2", "invalid choice: 2"),
        ("--overlap-grad-reduce", "unrecognized arguments"),
        ("--world-size 3 --pipeline-model-parallel-size 2", "must divide the processes"),
        ("--pipeline-model-parallel-layout Et*3,L", "with all units"),
    ],
)
def test_what_it_cannot_do_is_refused(flags: str, said: str) -> None:
    code, log = trained(*flags.split())
    assert code == 2
    assert said in log


def test_the_example_is_planned_as_its_readme_says(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLE)
    (asked,) = re.findall(
        r"^plan tune (config.json[^`]*?) -o campaign.json$", Path("README.md").read_text(), re.MULTILINE
    )
    words = asked.replace("\\\n", " ").split()
    told = plan("configure", *words, "--judge", "pipeline=2 micro-batch=2", "--json")
    assert told.json["judged"][0]["fits"] == "yes"
