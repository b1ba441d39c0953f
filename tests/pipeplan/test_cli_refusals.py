"""What makes no sense is one sentence and exit code 2, whichever command it is: mistakes, numbers that nobody means,
misspelt names; and no file is left behind."""

from __future__ import annotations

import inspect
import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from command_line import Plan, refused
from problems.mistaken_commands import COMMANDS as MISSPELT
from problems.mistaken_commands import MISTAKES, OPTIONS, Mistake

import pipeplan
from pipeplan import ChainProblem, DeviceType, Entry, OptionSpec
from pipeplan.cli import main
from pipeplan.cli.app import COMMANDS, GROUPS, app, build
from pipeplan.planners.registry import all_methods
from pipeplan.planners.run.choose import resolve_options

DATA = tomllib.loads((Path(__file__).parents[1] / "problems" / "refused_commands.toml").read_text("utf-8"))
JUDGED = {f'configure {{llama}} --judge "{words}"': says for words, says in DATA["judged"].items()}
GROUPED = [DATA[group] for group in ("solve", "of_plans", "curves", "compare", "made")]
REFUSED = {words: says for group in (*GROUPED, JUDGED, DATA["configure"]) for words, says in group.items()}
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
    refused(plan(*shlex.split(words.format_map(DATA["short"]))), REFUSED[words])
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
