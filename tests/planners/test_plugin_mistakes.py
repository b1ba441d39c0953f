"""Whatever function of a plug-in fails, in whatever command: its file and line are told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import pipeplan
from pipeplan.formulations import registry
from pipeplan.formulations.contract import BuiltModel
from pipeplan.formulations.family import Family
from pipeplan.formulations.plugins import CALLED
from pipeplan.planners.backends import client

Plan = Callable[..., Any]

MODULE = """
from dataclasses import replace
from pipeplan.formulations.contract import NativeModel
from pipeplan.formulations.family import Family
from pipeplan.formulations.registry import FORMULATIONS, Entry
from pipeplan.instances.base.errors import InputError
from pipeplan.instances.registry import any_plan_from_json

theirs = FORMULATIONS["ip-tarnawski"]
ours = theirs.load()
SPOILT = "{moment}"


def fails_in(moment):
    if moment == SPOILT:
        {mistake}


def family(problem, options):
    fails_in("scope")

    def outside(plan):
        fails_in("outside")

    return Family("plans of this test", outside=outside)


class Mine:
    def check(self, problem, options):
        fails_in("check")
        ours.check(problem, options)

    def contiguity(self, options):
        fails_in("contiguity")
        return ours.contiguity(options)

    def portfolio(self, problem, options, *, found):
        fails_in("portfolio")
        return ours.portfolio(problem, options, found=found)

    def lower_bound(self, problem, options):
        fails_in("lower_bound")
        return 0.0

    def build(self, problem, options, **wanted):
        fails_in("build")
        if SPOILT == "builder":
            return replace(built(problem, options, wanted), model=NativeModel("spoilt:builder", {{}}))
        return built(problem, options, wanted)


def built(problem, options, wanted):
    model = ours.build(problem, options, **wanted | {{"native": False, "cutoff": None}})

    def decode(values):
        fails_in("decode")
        return on_one_device(model.decode(values)) if SPOILT == "exclude" else model.decode(values)

    def encode(plan):
        fails_in("encode")
        return model.encode(plan)

    def exclude(plan):
        fails_in("exclude")
        return ()

    return replace(model, decode=decode, encode=encode, exclude=exclude)


def on_one_device(plan):
    # Too much for its memory: what the referee refuses is to be cut off.
    devices = plan.to_json()["devices"]
    nodes = [node for device in devices for node in device["nodes"]]
    full = [{{**device, "nodes": [] if i else nodes}} for i, device in enumerate(devices)]
    return any_plan_from_json({{"kind": "placement", "devices": full}})


def builder(payload):
    fails_in("builder")


MINE = Mine()
ENTRY = Entry("mine", "Mine", "placement", "spoilt:MINE", theirs.options, scope="spoilt:family", starts=theirs.starts)
"""
MISTAKES = {
    "a bug": "SPOILT.missing",
    "a refusal by mistake": 'raise InputError("nodes", "are spoilt", "mend them")',
}
MOMENTS = ("scope", "outside", "check", "contiguity", "portfolio", "lower_bound", "build", "encode", "decode")
WAYS = {
    "plain": ("--warm-start", "none"),
    "cross-check": ("--warm-start", "none", "--cross-check"),
    "start": ("--warm-start", "start.json"),
    "proof": (),
    "compare": (),
}


@pytest.fixture
def spoil(
    own_module: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str, str], str]]:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    registry.plugged_in.cache_clear()

    about = tmp_path / "spoilt-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: spoilt\nVersion: 1\n", encoding="utf-8")
    (about / "entry_points.txt").write_text("[pipeplan.formulations]\nmine = spoilt:ENTRY\n", encoding="utf-8")

    def write(moment: str, mistake: str) -> str:
        """What is said of the place."""
        text = MODULE.format(moment=moment, mistake=MISTAKES[mistake])
        own_module("spoilt", text)
        line = next(n for n, line in enumerate(text.splitlines(), 1) if MISTAKES[mistake] in line)
        return f"{tmp_path / 'spoilt.py'}, line {line} ("

    yield write
    client.end_workers()  # they have imported the module, too
    registry.plugged_in.cache_clear()


@pytest.fixture
def start(tmp_path: Path) -> None:
    """A result that claims to be proven by the plug-in."""
    result = pipeplan.solve("tiny-chain", planner="dp")
    assert result.proof is not None
    proof = replace(result.proof, scope="plans of this test")
    signed = replace(result, planner="exact", formulation="mine", options={}, scope=proof.scope, proof=proof)
    pipeplan.save(signed, tmp_path / "start.json")


def asked(plan: Plan, how: str, moment: str) -> Any:
    solver = "cp-sat" if moment == "builder" else "auto"
    if how == "compare":
        words = ("-m", f"mine@{solver}", "--time-limit", 600, "--jobs", 1, "-o", "out", "--json")
        return plan("compare", "tiny-chain", *words)
    if how == "proof":
        return plan("verify", "tiny-chain", "start.json", "--proof")
    return plan(
        "solve", "tiny-chain", "--formulation", "mine", "--solver", solver, "--threads", 1, *WAYS[how], "--json"
    )


@pytest.mark.sweeps
@pytest.mark.parametrize(
    ("moment", "mistake", "how"),
    [
        # A comparison starts processes of its own, and takes some seconds: one mistake of each moment will do.
        pytest.param(
            moment, mistake, how, marks=[pytest.mark.slow] if how == "compare" and mistake != "a bug" else []
        )
        for moment, mistake, how in product([*MOMENTS, "exclude", "builder"], MISTAKES, WAYS)
    ],
)
def test_a_mistake_of_any_function_is_the_plug_ins(
    plan: Plan, spoil: Callable[[str, str], str], start: None, moment: str, mistake: str, how: str
) -> None:
    place = spoil(moment, mistake)
    done = asked(plan, how, moment)
    journal = Path("out/runs.jsonl")
    # A long path is broken where a line ends.
    said = "".join((done.err + done.out + (journal.read_text("utf-8") if journal.exists() else "")).split())
    if (moment, mistake) == ("check", "a refusal by mistake"):
        assert ("nodesarespoilt" in said, "Theplug-in" in said) == (True, False), done
    elif moment == "encode" and how in ("plain", "cross-check", "compare"):
        assert done.code == 0, done
    else:
        assert "".join(place.split()) in said, done
    assert ("internalerror" in said, done.code in (0, 1, 2)) == (False, True), done


def test_mistakes_in_every_function_of_a_model_are_the_plug_ins() -> None:
    functions = {
        own.name for record in (BuiltModel, Family) for own in fields(record) if "Callable" in str(own.type)
    }
    assert functions == {*CALLED}
