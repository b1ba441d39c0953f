"""Small files that unpack, nest or repeat without end are refused before they cost memory or time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from export_samples import llama
from yardstick import a_million_turns_s, million_turns

import pipeplan
from pipeplan.instances.base.compiled import own_python
from pipeplan.instances.base.json_file import FORMULA_MARKS, csv_cell, write_json
from pipeplan.instances.networks.profile.profile import profile_to_json

pytestmark = pytest.mark.timing

# Of a million turns of a loop each: twenty times what the slowest one takes.
MOST_TURNS = 400.0
Plan = Callable[..., Any]

TABLE = ("import", "table")
SUITE = ("compare", "--suite")
BOMBS: dict[str, tuple[tuple[str, ...], str, Callable[[], bytes], str]] = {
    "many empty cells": (TABLE, "a.csv", lambda: b"\n".join([b"," * 998 + b"x"] * 9_000), "cells"),
    "a wide row": (TABLE, "a.tsv", lambda: b"x\t" * 10**6, "columns"),
    "a nested suite": (SUITE, "a.toml", lambda: b"a=" + b"[" * 50_000, "nested too deeply"),
    "a long number in a suite": (SUITE, "a.toml", lambda: b"a=" + b"9" * 100_000, "no TOML"),
    "a large suite": (SUITE, "a.toml", lambda: b"a" + b".a" * 10**6 + b"=1", "at most"),
    "a nested file": (("show",), "a.json", lambda: b"[" * 10**6, "nested too deeply"),
    "a key at the end that is repeated": (
        *(("show",), "a.json"),
        lambda: b"{" + b",".join(b'"%d":1' % i for i in range(400_000)) + b',"399999":1}',
        "stands twice",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_at_once(plan: Plan, tmp_path: Path, name: str) -> None:
    words, file, content, said = BOMBS[name]
    (tmp_path / file).write_bytes(content())
    output = () if words == ("show",) else ("-o", tmp_path / "out.json")
    with million_turns() as spent:
        done = plan(*words, tmp_path / file, *output)
        assert spent() < MOST_TURNS
    assert (done.code, said in " ".join(done.err.split())) == (2, True), done


MOST_BYTES = 9_900_000
MOST_MEMORY = 2**30


def many(entry: str) -> str:
    return ",".join([entry] * (MOST_BYTES // (len(entry) + 1)))


SHAPES: dict[str, Callable[[], str]] = {
    "nested lists": lambda: "[" * MOST_BYTES,
    "nested objects": lambda: '{"a":' * (MOST_BYTES // 5),
    "one text": lambda: f'"{"a" * MOST_BYTES}"',
    "one key": lambda: f'{{"{"a" * MOST_BYTES}":1}}',
    "empty lists": lambda: f"[{many('[]')}]",
    "objects": lambda: f'{{"nodes":[{many("{}")}]}}',
    "results": lambda: f'{{"schema":"pipeplan.result/1","plan":[{many("[0]")}]}}',
    "a repeated key": lambda: f"{{{many(chr(34) + 'a' + chr(34) + ':1')}}}",
    "digits": lambda: "9" * MOST_BYTES,
    "spaces": lambda: " " * MOST_BYTES,
    "null characters": lambda: chr(0) * MOST_BYTES,
    "line breaks": lambda: "\n" * MOST_BYTES,
    "commas": lambda: "," * MOST_BYTES,
}
SHOWN = ("-o", "out.json")
TWO = ("--devices", "2", "--memory", "none", "--bandwidth", "1GB/s")
READERS: dict[str, tuple[str, ...]] = {
    "problem.json": ("show", "problem.json"),
    "graph.txt": ("import", "pipedream", "graph.txt", *SHOWN),
    "table.csv": ("import", "table", "table.csv", *SHOWN),
    "layers.profile.json": ("convert", "layers.profile.json", "-o", "out.json"),
    "suite.toml": ("compare", "--suite", "suite.toml", "-o", "out"),
    "config.json": ("import", "hf", "config.json", "--hardware", "h100-80gb", *SHOWN),
    "layout.txt": ("import", "megatron-layout", "layout.txt", "llama.json", *TWO, *SHOWN),
    "plan.json": ("verify", "tiny-chain", "plan.json"),
    "passes.csv": ("verify", "zero-bubble-4x12", "passes.csv"),
    "start.json": ("solve", "tiny-chain", "--warm-start", "start.json"),
    "out/runs.jsonl": ("compare", "tiny-chain", "-m", "dp", "-o", "out", "--resume"),
}
MEASURED = """
import json, resource, subprocess, sys
done = subprocess.run(sys.argv[1:], capture_output=True, text=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([done.returncode, done.stderr, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024]))
"""


def measured(folder: Path, words: tuple[str, ...]) -> Any:
    """Exit code, errors, seconds of the processor and bytes of a command of its own."""
    command = own_python("-c", MEASURED, *own_python("-m", "pipeplan", *words))
    return json.loads(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout)


def assert_cheap(folder: Path, words: tuple[str, ...], codes: tuple[int, ...] = (2,)) -> None:
    most = MOST_TURNS * a_million_turns_s()
    code, errors, seconds, memory = measured(folder, words)
    assert (code in codes, "internal error" in errors) == (True, False), (code, errors)
    assert (seconds < most, memory < MOST_MEMORY) == (True, True), (seconds, memory)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("file", READERS)
def test_every_reader_refuses_every_bomb(tmp_path: Path, file: str, shape: str) -> None:
    if file == "config.json":
        pytest.importorskip("transformers", reason="configurations are read by transformers")
    if file == "layout.txt":
        write_json(tmp_path / "llama.json", profile_to_json(llama(7)))
    if file.startswith("out/"):
        assert measured(tmp_path, READERS[file][:-1])[0] == 0
    (tmp_path / file).write_text(SHAPES[shape]() + "\n", encoding="utf-8")
    harmless = file == "out/runs.jsonl" and shape in ("spaces", "line breaks")
    assert_cheap(tmp_path, READERS[file], (0,) if harmless else (2,))


KINDS_OF_FILES = {
    "placement": "tiny-chain",
    "chain": "figure-4",
    "staging": "tiny-stages",
    "graph-pipeline": "case-study",
    "schedule": "zero-bubble-4x12",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS_OF_FILES)
def test_every_field_of_every_kind_is_cheap_to_read(tmp_path: Path, kind: str) -> None:
    """Lists get as many entries as fit into the file, and texts as many characters."""
    pipeplan.save(pipeplan.load_packaged(KINDS_OF_FILES[kind]), tmp_path / "usual.json")
    usual = json.loads((tmp_path / "usual.json").read_text("utf-8"))
    swollen = {key: value for key, value in usual.items() if isinstance(value, (str, list)) and value}
    assert swollen
    for key, value in swollen.items():
        content = json.dumps({name: other for name, other in usual.items() if name != key})[:-1]
        large = f'"{"a" * MOST_BYTES}"' if isinstance(value, str) else f"[{many(json.dumps(value[0]))}]"
        (tmp_path / "bomb.json").write_text(f'{content}, "{key}": {large}}}', encoding="utf-8")
        assert_cheap(tmp_path, ("show", "bomb.json"), (0, 2))


@pytest.mark.slow
def test_the_longest_chain_is_cheap_to_show(tmp_path: Path) -> None:
    layers = 10_000
    chain = {"schema": "pipeplan.chain/1", "forward": [1.5] * layers, "backward": [2] * layers, "gpus": 4}
    chain |= {"activations": [3] * (layers + 1), "weights": [4] * layers, "memory": None, "bandwidth": None}
    (tmp_path / "chain.json").write_text(json.dumps(chain), encoding="utf-8")
    assert_cheap(tmp_path, ("show", "chain.json"), (0,))


@pytest.mark.parametrize("mark", FORMULA_MARKS)
def test_a_text_that_begins_like_a_formula_comes_back_from_a_csv_file(mark: str) -> None:
    assert csv_cell(f"{mark}cmd") == f"'{mark}cmd"
    assert csv_cell(f"a{mark}") == f"a{mark}"


@pytest.mark.parametrize("number", [-3.5, "-3.5", "+1e-9", None, True, ""])
def test_numbers_in_csv_files_stay_numbers(number: Any) -> None:
    assert csv_cell(number) == number


def test_a_child_imports_nothing_from_the_working_folder(tmp_path: Path) -> None:
    for module in ("random", "torch"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit(9)\n")
    path = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    words = own_python("-c", "import random")
    assert subprocess.run(words, cwd=tmp_path, env=path, check=False).returncode == 0
    unsafe = [word for word in words if word != "-P"]
    assert subprocess.run(unsafe, cwd=tmp_path, env=path, check=False).returncode == 9


def test_every_child_is_started_by_the_same_command() -> None:
    """Nobody else names the interpreter, so that no start can forget the safe path."""
    root, ours = Path(__file__).parents[2], ("cli", "models", "studies")
    naming = [
        path.relative_to(root).as_posix()
        for folder in ("instances", "formulations", "planners", *(f"pipeplan/{part}" for part in ours))
        for path in (root / folder).rglob("*.py")
        if "sys.executable" in path.read_text("utf-8")
    ]
    assert naming == ["instances/base/compiled.py"], sys.version
