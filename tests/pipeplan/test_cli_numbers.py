"""Every option of every command that takes a number, with numbers that nobody means: a plan, or one sentence."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from command_line import Plan

import pipeplan
from pipeplan.cli.app import COMMANDS, GROUPS, build
from pipeplan.formulations.contract import OptionSpec
from pipeplan.formulations.registry import Entry
from pipeplan.planners.registry import all_methods
from pipeplan.planners.run.choose import resolve_options

NUMBERS = ("-3", "0", "1" + "0" * 30, "nan", "inf")
CHEAP: dict[str, tuple[str, ...]] = {
    "solve": ("tiny-chain", "--planner", "greedy"),
    "configure": ("llama-3-8b", "--devices", "8xh100-80gb", "--sequence", "8192", "--batch", "64", "--judge",
     "data=8"),
    "verify": ("tiny-chain", "r.json"),
    "show": ("tiny-chain", "r.json"),
    "memory": ("tiny-chain", "--points", "0"),
    "pareto": ("golden-4", "--points", "2", "--method", "1f1b*"),
    "sensitivity": ("tiny-chain", "--planner", "greedy"),
    "simulate": ("tiny-chain", "r.json", "--micro-batches", "2"),
    "explore": ("tiny-chain", "r.json", "-o", "e.html"),
    "schedule": ("tiny-stages", "s.json", "--micro-batches", "2", "--time-limit", "2"),
    "export": ("s.json",),
    "convert": ("tiny-chain", "-o", "c.json"),
    "generate": ("chain", "-o", "g.json"),
    "compare": ("tiny-chain", "-m", "greedy", "-o", "compared", "--dry-run"),
    "report": ("r.json", "tiny-chain", "-o", "r.html"),
    "run": ("r.json", "no-profile.json", "--model", "m.py:f"),
    "import table": ("t.csv", "-o", "p.json"),
    "import pipedream": ("t.txt", "-o", "p.json"),
    "import torch": ("m.py:f", "-o", "p.json"),
    "import hf": ("config.json", "-o", "p.json"),
    "import onnx": ("m.onnx", "-o", "p.json"),
    "import megatron-layout": ("E|t|L", "p.json"),
}  # fmt: skip
"""Beginnings of command lines that plan something small at once, or stop at a file that is not there."""

NO_NUMBERS = {"warm-up", "instances", "formulations", "planners", "solvers"}


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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("numbers")
    pipeplan.save(pipeplan.solve("tiny-chain", planner="greedy"), path / "r.json")
    pipeplan.save(pipeplan.solve("tiny-stages", planner="equi"), path / "s.json")
    return path


def test_every_command_is_tried() -> None:
    assert set(ALL) == set(CHEAP) | NO_NUMBERS


@pytest.mark.parametrize(("name", "flag", "number"), [*cases()])
def test_a_number_is_taken_or_refused_in_one_sentence(
    plan: Plan, folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, flag: str, number: str
) -> None:
    monkeypatch.chdir(folder)
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


@pytest.mark.parametrize("planner", ["gpipe", "sync-1f1b"])
@pytest.mark.parametrize("number", [-3, 0])
def test_batches_between_flushes_are_at_least_one(plan: Plan, planner: str, number: int) -> None:
    done = plan("solve", "figure-4", "--planner", planner, "--option", f"batches-per-flush={number}")
    assert (done.code, done.out) == (2, "")
    assert done.err == (f"Error: option batches_per_flush is {number}; give a whole number from 1 to 1000.\n")


def test_an_allocation_is_no_endless_number() -> None:
    with pytest.raises(pipeplan.InputError, match="option allocation is '999"):
        pipeplan.solve("golden-4", options={"allocation": "9" * 5000})


@pytest.mark.parametrize(
    ("words", "sentence"),
    {
        "solve tiny-chain --threads 2.5": "--threads is '2.5', not a whole number; give a whole number, as in 4.",
        "solve tiny-chain --threads 2.0": "--threads is '2.0', not a whole number; give a whole number, as in 4.",
        "solve tiny-chain --option cpu-slowdown=half": (
            "--option cpu-slowdown is 'half', not a number; give a number, as in 0.5."
        ),
        "memory tiny-chain --points four": "--points is 'four', not a whole number; write 4.",
        "memory tiny-chain --points -1": "--points is -1; give a number of at least 0.",
        "memory tiny-chain --points 1001": "--points is 1001; give a number of at most 1000.",
        "compare tiny-chain -m dp --devices 2 --devices x": (
            "--devices is 'x', not a whole number; give a whole number, as in 4."
        ),
        "solve tiny-chain extra": (
            "There is one argument too many, 'extra'; leave it out, or write two words in quotes."
        ),
    }.items(),
)
def test_the_sentence_is_ours_whichever_typer_there_is(plan: Plan, words: str, sentence: str) -> None:
    done = plan(*words.split())
    assert (done.code, done.err) == (2, f"Error: {sentence}\n")
