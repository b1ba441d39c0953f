"""What makes no sense is one sentence and exit code 2, whichever command it is: mistakes, numbers that nobody means,
misspelt names; and no file is left behind."""

from __future__ import annotations

import inspect
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from command_line import Plan, refused
from problems.mistaken_commands import COMMANDS as MISSPELT
from problems.mistaken_commands import MISTAKES, OPTIONS, Mistake

import pipeplan
from pipeplan.cli import main
from pipeplan.cli.app import COMMANDS, GROUPS, app, build
from pipeplan.formulations.contract import OptionSpec
from pipeplan.formulations.registry import Entry
from pipeplan.instances.chain.problem import ChainProblem
from pipeplan.instances.staging.problem import DeviceType
from pipeplan.planners.registry import all_methods
from pipeplan.planners.run.choose import resolve_options

SHORT = {
    "llama": "llama-3-8b --devices 16xh100-80gb --sequence 8192 --batch 64",
    "eight": "llama-3-8b --devices 8xh100-80gb --sequence 8192 --batch 128",
    "four": "--devices 4 --memory 40GB --bandwidth 12GB/s",
    "row": "row.json row-plan.json --micro-batches 4",
}
"""Words that many rows share, by the name in braces that stands for them."""

SOLVE = {
    "solve tiny-chain --formulation nothing": "choose one of ip-tarnawski",
    "solve tiny-chain --planner nobody": "choose one of exact",
    "solve tiny-chain --planner greedy --option variant=plain": "'variant'; it belongs to ip-tarnawski",
    "solve tiny-chain --planner greedy --formulation ip-tarnawski": "uses no formulation",
    "solve tiny-chain --option variant=fancy": "give one of strong, plain",
    "solve tiny-chain --native x=1": "name one solver",
    "solve tiny-chain --native x --solver highs": "KEY=VALUE",
    "solve tiny-chain --progress loud": "auto, json, none",
    "solve tiny-chain --gap nan": "--gap is nan",
    "solve tiny-chain --gap 5": "--gap is 5, which is 500 %; give at most 1, and 0.01 for 1 %.",
    "solve tiny-chain --output -": "--output is '-'; name a file",
    "solve tiny-chain --output no/such/folder/out.json": "does not exist",
    "solve tiny-chain --output .": "folder",
    "solve tiny-chain --threads 0": "threads",
    "solve tiny-chain --threads 2.0": "--threads is '2.0', not a whole number; give a whole number, as in 4.",
    "solve tiny-chain --bandwidth 25GiB/s": "--bandwidth",
    "solve tiny-chain --devices 0": "at least one device",
    "solve tiny-chain --warm-start nowhere.json": "nowhere.json",
    "solve tiny-chain --export-model model.txt": ".mps",
    "solve tiny-chain --option cpu-slowdown=half": (
        "--option cpu-slowdown is 'half', not a number; give a number, as in 0.5."
    ),
    "solve tiny-chain extra": "There is one argument too many, 'extra'; leave it out, or write two words in quotes.",
    "solve tiny-chain --batch 2": "--batch is for staging, graph-pipeline, schedule and training problems",
    "solve tiny-chain --planner greedy --cross-check": "There is no cross-check for 'greedy'",
    "solve tiny-chain --objective speed": "give one of max-load, gpipe, latency",
    "solve tiny-chain --formulation ip-tarnawski-latency --subgraphs-per-device 0": "whole number from 1 to",
    "solve tiny-chain --memory-limit 8": "write 8GB if ",
    "solve golden-4 --formulation cp-beaumont --warm-start dp": "--warm-start dp is for",
    "solve golden-4 --cpus 2": "--cpus is for placement problems: a chain runs on GPUs alone",
    "solve golden-4 --planner dp-piper": "plans problems of kind 'staging'",
    "solve golden-4 --cross-check": "There is no cross-check for 'exact-beaumont'",
    "solve golden-4 --kind staging": "--kind is staging, but the problem is a chain",
    "solve golden-4 --optimizer adam": "--optimizer is for profiles and tables",
    "solve golden-4 --picture plan.gif": "name a file that ends in .svg, .png or .pdf",
    "solve golden-4 --picture no/plan.svg": "a folder that does not exist",
    "solve tiny-stages --planner dp-piper --variant plain": "has no option 'variant'",
    "solve typed.json --devices 5": "device_types make 4 devices, not 5",
    "solve typed.json --memory 1GB": "memories",
    "solve timeless.json --planner exact-schedule": "no period is the shortest",
    "solve tiny-graph --planner graphpipe --option k=two": "'two', not a whole number; give a whole number, as in 4.",
    "solve tiny-graph --planner graphpipe --option k": "--option k lacks its value; write it as --option k=VALUE.",
    "solve tiny-graph --planner graphpipe --option jion=tree": "'jion' (did you mean 'join'?); 'graphpipe' has ",
    "solve tiny-graph --option mixed-micro-batches=maybe": (
        "write --option mixed-micro-batches alone, or --option mixed-micro-batches=false."
    ),
    "solve tiny-graph --option kay": "There is no option 'kay'; --option takes allocation, ",
    "solve t.csv": (
        "t.csv: cluster is missing: a model or a table of layers names none; "
        "add --devices 4 --memory 40GB --bandwidth 300GB/s."
    ),
    "solve t.csv --devices 0 --memory 40GB --bandwidth 9GB/s": "t.csv: --devices is 0; give at least 1",
    "solve t.csv {four} --kind row": "--kind is 'row'; give one of placement, chain, staging",
    "solve t.csv {four} --time-unit s": "--option time-unit is for files that name no unit of time",
    "solve t.csv {four} --tensor-parallel 1,two": "no list of degrees",
    "solve tt.csv {four}": "does not exist (did you mean 't.csv'?); check the path",
    "solve t.csv --devices 12 --levels 4x300GB/s,2x12GB/s --memory 40GB": "--devices: --levels 4x300GB/s,3x12GB/s.",
    "solve t.csv --devices 10 --levels 4x300GB/s,2x12GB/s --memory 40GB": (
        "levels make 8 devices, not 10; let the numbers of all levels multiply to --devices"
    ),
    "solve t.profile.json {four} --bytes-per-parameter 2": "--bytes-per-parameter is for tables",
    "solve config.json": "is a model's configuration, which names no times; run plan import hf config.json",
    "solve net.py": "is a Python file; run plan import torch net.py:build",
    "solve gone.py": "gone.py: file does not exist",
    "solve layers.xlsx {four}": "is a spreadsheet, which pipeplan does not read; save the sheet as .csv",
    "solve net.onnx": "is an ONNX model, which pipeplan does not read; run plan import torch my.py:build",
    "solve schedule.csv {four}": "is PyTorch's file of a schedule, an order without times; give it as PLAN",
    "solve llama-3-8b --devices 2xa100-80gb,2xt5": "no GPU named 't5'",
    "solve llama-3-8b --devices 2xa100-80gb,2xt4 --kind chain": "devices of one type",
    "solve llama-3-8b {four} --zero 1": "add --data-parallel",
    "solve bert-large-training --devices 2xa100-80gb,2xt4": "already holds its times",
    "solve resnet-50 --devices 8 --memory 80GB --bandwidth 300GB/s --micro-batch 2": (
        "plan import hf config.json --batch 2"
    ),
    "solve case-study --memory 80": "write 80GB if ",
    "solve resnet18-training-chain --bandwidth 12": "write 12GB/s if ",
    "solve bert-large-stages --levels 2x450,4x50": "write 450GB/s if ",
}

OF_PLANS = {
    "verify tiny-chain placed.json --contiguity always": "none, device, chain",
    "verify tiny-chain placed.json --contiguity chian": "(did you mean 'chain'?)",
    "verify tiny-chain placed.json --objective iteration": "give one of max-load, gpipe",
    "verify tiny-chain empty.json --subgraphs-per-device 2": "only with --objective latency",
    "verify tiny-graph piped.json --objective gpipe": "give one of time-per-sample, iteration",
    "verify tiny-stages staged.json --objective gpipe": "--objective is 'gpipe'; give one of throughput, flush.",
    "verify golden-4 chained.json --objective max-load": "--objective says nothing about a chain problem; drop it.",
    "verify ends.json late.json": "later than 1e300",
    "show ends.json late.json": "later than 1e300",
    "show tiny-chain placed.json --objective speed": "max-load, gpipe",
    "show golden-4 --picture plan.svg": "There is no plan to draw",
    "show tiny-stages plan.json --unrolled": "--unrolled is for patterns of chains",
    "show schedule.csv": "is PyTorch's file of a schedule, an order without times; give it as PLAN",
    "simulate tiny-chain placed.json": "give --micro-batches",
    "simulate tiny-chain placed.json --schedule gpip": "(did you mean 'gpipe'?)",
    "explore tiny-stages": "There is one argument too many, 'tiny-stages'",
    "schedule {row} --split-backward x": "--split-backward is 'x': 'x' is not a share",
    "schedule {row} --virtual 2": "GPU 0 has 1 layer, too few for 2 chunks",
    "schedule {row} --shape w": "--shape",
    "schedule {row} --objective speed": "--objective",
    "schedule row.json row-plan.json --objective makespan": "give --micro-batches",
    "convert tiny-chain -o - --json": "drop --json, or name a file.",
    "convert tiny-chain -o .": "folder",
    "convert tiny-chain -o x.json --inference": "--inference is for profiles and tables",
    "convert bert-large-training -o out.json --memory 80": "write 80GB if ",
}

CURVES = {
    "memory nothing-like-it": "nothing-like-it",
    "memory tiny-stages --non-contiguous": "'dp-piper' has no option 'non-contiguous'",
    "memory tiny-stages --picture curve.svg --points 0": "drop one of them",
    "memory tiny-stages --memory 5GB": "drop --memory",
    "memory tiny-chain --points four": "--points is 'four', not a whole number; give a whole number, as in 4.",
    "memory tiny-chain --points -1": "--points is -1; give a number of at least 0.",
    "memory tiny-chain --points 1001": "--points is 1001; give a number of at most 1000.",
    "memory bert-large-stages --bandwidth 12": "write 12GB/s if ",
    "memory t.csv --bandwidth 12GB/s": "t.csv: cluster is missing",
    "pareto tiny-graph": "tiny-graph is a graph-pipeline problem",
    "pareto typed.json": "device_types have memories of their own",
    "pareto --method dp": "no method 'dp'; choose from exact-beaumont",
    "pareto --method contigous": "(did you mean 'contiguous'?)",
    "pareto --points 1": "points is 1",
    "pareto --points 3 --memory 34B": "give one of them",
    "pareto tiny-stages --method contiguous": "--method says nothing about the curve of a staging problem",
    "pareto golden-4 --objective span": "--objective says nothing",
    "pareto tiny-training": "tiny-training is a training problem",
    "pareto resnet18-training-chain --memory 80": "write 80GB if ",
}

COMPARE = {
    "compare": "Name instances and at least one --method",
    "compare tiny-chain -m dp --quick": "--quick runs a part of a suite",
    "compare tiny-chain --suite piper-fig1": "A suite itself says what is compared",
    "compare tiny-chain -m dp --seeds 0,x": "--seeds is '0,x'",
    "compare --suite tarnawski-table1 --workloads /nowhere/at/all": "which is not a folder",
    "compare tiny-chain -m dp --threads 0": "threads is 0",
    "compare tiny-chain -m dp --devices 0": "accelerators",
    "compare tiny-chain -m dp --devices 2 --devices x": (
        "--devices is 'x', not a whole number; give a whole number, as in 4."
    ),
    "compare tiny-chain -m gredy": "(did you mean 'greedy'?)",
    "compare tiny-chain -m dp:objective": "write options as NAME:OPTION=VALUE",
    "compare golden-4 -m dp": "none is among the instances",
    "compare bert-large-stages -m dp-piper --memory 80": "write 80GB if ",
}

MADE = {
    "generate nothing": "choose one of pipeline",
    "generate pipeline --seed 3": "'pipeline' has no parameter --seed; it has --stages, --micro-batches",
    "generate pipeline --stages 0": "stages",
    "generate pipeline --lag nan": "lag",
    "generate --seed 3": "Name what to generate",
    "generate v-pipeline --devices 1000000000": "give a whole number from 1 to",
    "generate mmt --no-join": "'mmt' has no parameter --join",
    "generate mmt --half-samples -1": "half_samples is negative (-1.0)",
    "generate mmt --cluster frontier": "choose one of summit-v100",
    "generate mmt --cluster summit-v10": "(did you mean 'summit-v100'?)",
    "generate llama-3-8b --width 4": "'llama-3-8b' is a packaged profile",
    "import table": "Name the table, or give --template for an example.",
    "import table t.csv": "Say where the profile goes: give -o my.profile.json, or --json.",
    "import table t.csv --template": "--template prints an example and reads nothing",
    "import table t.txt --json": "file has the ending .txt; give a table: .csv, .tsv",
    "import table gone.csv --json": "gone.csv: file does not exist; check the path",
    "import table t.csv -o no/where.json": "no/where.json lies in a folder that does not exist",
}

JUDGED = {
    "tensor=2 micro-batch=3": "micro-batch is 3",
    "pipeline=40": "ranks for 16 GPUs",
    "tensor=3": "whose product divides the GPUs",
    "tensor=2 data=4": "leave it out",
    "tensr=2": 'write "tensor"',
    "tensor": "write key=value",
    "tensor=2 tensor=4": "is given twice",
    "tensor=two": "give a whole number",
    "tensor='2": "close every quote",
    "pipeline=2 layout=20/20": "the model has 34",
    "pipeline=4 layout=17/17": "give pipeline x virtual chunks",
    "pipeline=2 layout=Et*99|t*2,L": "that are not the model's",
    "pipeline=2 layout=34/0": "empty chunk",
    "pipeline=4 virtual=3": "do not divide among 4 x 3 chunks",
    "pipeline=2 virtual=2 micro-batch=8": "as many micro-batches at a time",
    "virtual=2 layout=17/17": "at least two pipeline stages",
    "expert=2": "expert=1 where there are none",
    "zero=3": "choose zero=0 or zero=1",
    "pipeline=2 schedule=zb-h1": "choose 1f1b or interleaved-1f1b",
    "schedule=2f2b": "give one of 1f1b",
    "recompute=moe_acct": 'write "moe_act"',
    "tensor=16 context=1 pipeline=1 micro-batch=64 zero=9": "give a whole number",
    "other.json": "is of the kind pattern",
}
"""Configurations of llama-3-8b on 16 GPUs, in words."""

CONFIGURE = {
    **{f'configure {{llama}} --judge "{words}"': says for words, says in JUDGED.items()},
    "configure llama-3-8c --devices 16xh100-80gb --sequence 8192 --batch 64": "did you mean 'llama-3-8b'?",
    "configure nowhere/config.json --devices 16xh100-80gb --sequence 8192 --batch 64": "file does not exist",
    "configure net.py --devices 8xh100-80gb --sequence 64 --batch 8": "is a Python file; run",
    "configure llama-3-8b --sequence 8192 --batch 64": "as in --devices ",
    "configure llama-3-8b --devices 16xh100-80gb --batch 64": "as in --sequence ",
    "configure llama-3-8b --devices 16xh100-80gb --sequence 8192": "as in --batch ",
    "configure llama-3-8b --devices 3x8xh100 --sequence 8184 --batch 64 --judge tensor=3": (
        "choose a divisor of the 32 heads"
    ),
    "configure {llama} --devices 16xh101": "There is no GPU named 'h101'",
    "configure {llama} --devices 13xh100-80gb": "give a multiple of 8",
    "configure {llama} --devices 16": 'as in "64xh100-80gb"',
    "configure {llama} --devices 0xh100-80gb": "--devices",
    "configure {llama} --sequence 0": "--sequence is 0",
    "configure {llama} --batch -4": "--batch is -4",
    "configure {llama} --levels 8x450GB/s,3x50GB/s": "--levels multiply to 24 GPUs",
    "configure {llama} --framework megatrn": "did you mean 'megatron'?",
    "configure {llama} --precision fp32": "give one of bf16, fp16, fp8",
    "configure {llama} --devices 8xa100-80gb --precision fp8": "which a100-80gb does not have",
    "configure {llama} --efficiency product=0.5": "did you mean 'products'?",
    "configure {llama} --efficiency products=1.5": "--efficiency products is 1.5",
    "configure {llama} --efficiency launch_seconds=4": "write 4e-06 if ",
    "configure {llama} --memory-error 120%": "--memory-error is 1.2",
    "configure {llama} --dense-layers 3": "drop --dense-layers",
    "configure {eight} --levels 8x450": "write 450GB/s if ",
    "configure {eight} --levels 8x450000000GB/s": "write 450GB/s if ",
    "configure {llama} --fix tensr=2": 'write "tensor"',
    "configure {llama} --fix tensor": "KEY=VALUE",
    "configure {llama} --framework deepspeed --judge context=2": "DeepSpeed has no context parallelism",
    'configure {llama} --framework deepspeed --judge "pipeline=2 zero=2"': "gradients",
    "configure {llama} --framework torchtitan --judge tensor=16": "divides the key-value heads",
    "configure {llama} --judge tensor=2 --judge tensor=4 -o mine.json": "--why-not",
}

REFUSED = {**SOLVE, **OF_PLANS, **CURVES, **COMPARE, **MADE, **CONFIGURE}
"""What is typed, and what the sentence says."""

BLOCK = {"id": "b0", "kind": "F", "devices": ["d0"], "time": 5}
SCHEDULE = {
    "schema": "pipeplan.schedule/1",
    "name": "s",
    "devices": [{"name": "d0", "memory": 1}],
    "blocks": [BLOCK],
}
TRANSFERS = dict(zip(("1", "2", "3", "5", "6", "7"), (5, 10, 15, 30, 40, 50), strict=True))
FILES: dict[str, Any] = {
    "config.json": {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64},
    "net.py": "def build(): ...",
    "net.onnx": "",
    "layers.xlsx": "",
    "schedule.csv": ",0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n",
    "empty.json": {"kind": "placement", "devices": []},
    "other.json": {"kind": "pattern", "period": 1, "allocation": [0], "starts": [0], "transfers": {}},
    "timeless.json": {**SCHEDULE, "blocks": [{**BLOCK, "time": 0}]},
    "ends.json": {**SCHEDULE, "micro_batches": 1},
    "late.json": {"kind": "schedule", "starts": {"b0": ["1" * 400]}},
    "row-plan.json": {
        "kind": "pattern", "period": 60, "allocation": [0, 1, 2, 3], "starts": [0, 5, 10, 15, 20, 30, 40, 50],
        "transfers": TRANSFERS,
    },
}  # fmt: skip
PLANS = {
    "placed": ("tiny-chain", "greedy"), "staged": ("tiny-stages", "equi"),
    "chained": ("golden-4", "contiguous"), "piped": ("tiny-graph", "graphpipe"),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Files of every sort that a command may be given; commands run beside them."""
    folder = tmp_path_factory.mktemp("refused")
    for name, content in FILES.items():
        (folder / name).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    for name, (instance, planner) in PLANS.items():
        pipeplan.save(pipeplan.solve(instance, planner=planner), folder / f"{name}.json")
    kinds = (DeviceType("big", 2, 1.0, 70.0), DeviceType("small", 2, 0.8, 35.0))
    typed: Any = pipeplan.load("tiny-stages")
    pipeplan.save(typed.replace(memory_bytes=None, device_types=kinds), folder / "typed.json")
    row = ChainProblem((5,) * 4, (10,) * 4, (2,) * 5, (0,) * 4, 4, 8, memory_mode="inputs", time_unit="ms")
    pipeplan.save(row, folder / "row.json")
    with pytest.MonkeyPatch.context() as moved:
        moved.chdir(folder)
        from pipeplan.instances.networks.profile.table import table_template

        Path("t.csv").write_text(table_template(), encoding="utf-8")
        assert main(["import", "table", "t.csv", "-o", "t.profile.json"]) == 0
        yield folder


@pytest.mark.parametrize("words", REFUSED)
def test_what_makes_no_sense_is_one_sentence(plan: Plan, folder: Path, words: str) -> None:
    before = sorted(folder.iterdir())
    refused(plan(*shlex.split(words.format_map(SHORT))), REFUSED[words])
    assert sorted(folder.iterdir()) == before


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("mistakes")
    made = {name: folder / file for name, file in (("plan", "plan.json"), ("problem", "problem.json"))}
    pipeplan.save(pipeplan.solve("tiny-chain", planner="greedy"), made["plan"])
    pipeplan.save(pipeplan.load("tiny-chain"), made["problem"])
    made["text"] = folder / "text.txt"
    made["text"].write_text("Dear all, this is no problem.\n", "utf-8")
    made["folder"] = folder / "folder"
    made["folder"].mkdir()
    return made


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.words)
def test_a_mistake_is_answered_with_what_works(
    plan: Plan, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch, mistake: Mistake
) -> None:
    monkeypatch.chdir(files["folder"].parent)
    done = plan(*(word.format_map(files) for word in mistake.words.split()))
    error = [line for line in done.err.splitlines() if line.startswith("Error: ")]
    assert (done.code, len(error)) == (2, 1), done
    assert "internal error" not in error[0]
    assert error[0].endswith("."), error
    assert (mistake.place or mistake.wrong) in error[0]
    if not mistake.right:
        assert "did you mean" not in error[0]
    else:
        assert mistake.right in error[0]
    assert ";" in error[0] or "(did you mean" in error[0] or "--help" in error[0], error


def test_what_is_proposed_for_a_command_is_a_command() -> None:
    assert {right for right in MISSPELT.values() if right} <= {*COMMANDS, *GROUPS}


def test_what_is_proposed_for_an_option_is_an_option(plan: Plan) -> None:
    solve: Any = typer.main.get_command(app).commands["solve"]  # type: ignore[attr-defined]
    listed = plan("solve", "--help-all").out + "".join(f"--{name} " for name in solve.callback.narrow)
    assert not [right for right in OPTIONS.values() if right and right not in listed]


KEYS = {
    ("tiny-chain", "accelerator_time", "acc_time"): 'nodes[0].acc_time is an unknown key; write "accelerator_time"',
    ("golden-4", "memory", "memory_bytes"): 'memory_bytes is an unknown key; write "memory"',
    ("tiny-stages", "micro_batches", "microbatches"): 'microbatches is an unknown key; write "micro_batches"',
}


@pytest.mark.parametrize(("name", "ours", "theirs"), KEYS)
def test_a_misnamed_key_of_a_file(plan: Plan, tmp_path: Path, name: str, ours: str, theirs: str) -> None:
    path = tmp_path / "problem.json"
    pipeplan.save(pipeplan.load(name), path)
    path.write_text(path.read_text("utf-8").replace(f'"{ours}"', f'"{theirs}"'), "utf-8")
    refused(plan("solve", path), KEYS[name, ours, theirs])


NUMBERS = ("-3", "0", "1" + "0" * 30, "nan", "inf")
CHEAP: dict[str, tuple[str, ...]] = {
    "solve": ("tiny-chain", "--planner", "greedy"),
    "configure": ("llama-3-8b", "--devices", "8xh100-80gb", "--sequence", "8192", "--batch", "64", "--judge",
     "data=8"),
    "tune": ("no-config.json", "--devices", "8xh100-80gb", "--sequence", "8192", "--batch", "64"),
    "calibrate": ("no-calibration.json",),
    "verify": ("tiny-chain", "r.json"),
    "show": ("tiny-chain", "r.json"),
    "memory": ("tiny-chain", "--points", "0"),
    "pareto": ("golden-4", "--points", "2", "--method", "1f1b*"),
    "simulate": ("tiny-chain", "r.json", "--micro-batches", "2"),
    "explore": ("-o", "e.html"),
    "schedule": ("tiny-stages", "s.json", "--micro-batches", "2", "--time-limit", "2"),
    "export": ("s.json",),
    "convert": ("tiny-chain", "-o", "c.json"),
    "generate": ("pipeline", "-o", "g.json"),
    "compare": ("tiny-chain", "-m", "greedy", "-o", "compared", "--dry-run"),
    "report": ("r.json", "tiny-chain", "-o", "r.html"),
    "run": ("r.json", "no-profile.json", "--model", "m.py:f"),
    "import table": ("t.csv", "-o", "p.json"),
    "import pipedream": ("t.txt", "-o", "p.json"),
    "import torch": ("m.py:f", "-o", "p.json"),
    "import hf": ("config.json", "-o", "p.json"),
    "import megatron-layout": ("E|t|L", "p.json"),
}  # fmt: skip
"""Beginnings of command lines that plan something small at once, or stop at a file that is not there."""

NO_NUMBERS = {"leaderboard", "warm-up", "instances", "formulations", "planners", "solvers"}


def commands(group: Any, *names: str) -> Iterator[tuple[str, Any]]:
    """Every command by its words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield " ".join((*names, name)), command


def takes_a_number(command: Any, parameter: Any) -> bool:
    """Numbers, and texts that a parser of ours makes a number of."""
    kind, _ = get_args(inspect.signature(command.callback, eval_str=True).parameters[parameter.name].annotation)
    of_methods = {spec.name: spec.type for entry in all_methods() for spec in entry.options}
    return parameter.param_type_name == "option" and (
        re.search(r"\b(int|float|Any)\b", str(kind)) is not None or of_methods.get(parameter.name) == "time"
    )


ALL = dict(commands(typer.main.get_command(build([*COMMANDS, *GROUPS]))))
FLAGS = {
    name: [p.opts[0] for p in ALL[name].params if p.name != "help" and takes_a_number(ALL[name], p)]
    for name in CHEAP
}


def cases() -> Iterator[Any]:
    """Of each option one command and two numbers at once; the others are slow tests."""
    seen: set[tuple[str, str]] = set()
    for name, flags in FLAGS.items():
        for flag in flags:
            for number in NUMBERS:
                first = (flag, number) not in seen and number in ("-3", NUMBERS[2])
                seen.add((flag, number))
                marks = [] if first else [pytest.mark.slow]
                yield pytest.param(name, flag, number, id=f"{name} {flag}={number[:4]}", marks=marks)


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("numbers")
    pipeplan.save(pipeplan.solve("tiny-chain", planner="greedy"), path / "r.json")
    pipeplan.save(pipeplan.solve("tiny-stages", planner="equi"), path / "s.json")
    return path


def test_every_command_is_tried() -> None:
    assert set(ALL) == set(CHEAP) | NO_NUMBERS


@pytest.mark.parametrize(("name", "flag", "number"), [*cases()])
def test_a_number_is_taken_or_refused_in_one_sentence(
    plan: Plan, numbered: Path, monkeypatch: pytest.MonkeyPatch, name: str, flag: str, number: str
) -> None:
    monkeypatch.chdir(numbered)
    done = plan(*name.split(), *CHEAP[name], f"{flag}={number}")
    assert "Traceback" not in done.err + done.out
    assert "internal error" not in done.err
    assert "failed: " not in done.err
    if number == "-3" or done.code == 2:
        errors = [line for line in done.err.splitlines() if line.startswith("Error: ")]
        assert (done.code, len(errors)) == (2, 1), done
        assert errors[0].endswith("."), done
    else:
        assert done.code in (0, 1, 3), done


NUMERIC = [(entry, spec) for entry in all_methods() for spec in entry.options if spec.type in ("int", "float")]


@pytest.mark.parametrize(("entry", "spec"), NUMERIC, ids=lambda value: value.name)
def test_every_number_of_a_method_has_a_range(entry: Entry, spec: OptionSpec) -> None:
    """A range that its default lies in, and outside of which is refused with it."""
    assert spec.least is not None
    assert spec.most is not None
    assert spec.default is None or spec.least <= spec.default <= spec.most
    for number in (-3, 10**30, float("nan"), float("inf")):
        with pytest.raises(pipeplan.InputError) as caught:
            resolve_options(entry, {spec.name: number})
        assert caught.value.field == f"option {spec.name}"
        assert caught.value.remedy.startswith("give a ")


def test_an_allocation_is_no_endless_number() -> None:
    with pytest.raises(pipeplan.InputError, match="option allocation is '999"):
        pipeplan.solve("golden-4", options={"allocation": "9" * 5000})
