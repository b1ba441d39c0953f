"""Malformed files, one fault each: every door (reader, command line) must answer each with one helpful sentence.

`MALFORMED` holds problem files, `MALFORMED_PLANS` plan and result files. `write(case, folder)` makes the file. Faults
that need no code stand in `malformed.toml`.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any, NamedTuple

PROFILE_SUFFIX = ".graph.txt"
PROFILE_CLUSTER = {"devices": 2, "memory_bytes": 1e9, "bandwidth": 1e9}
"""What `load` has to be told with a profile; the same on the command line:"""
PROFILE_ARGUMENTS = ("--devices", "2", "--memory", "1GB", "--bandwidth", "1GB/s")


class Malformed(NamedTuple):
    """A file and what its error must say: the field (with its path) and a part of the remedy."""

    name: str
    suffix: str
    content: bytes | Callable[[Path], object]
    field: str
    remedy: str

    @property
    def is_profile(self) -> bool:
        return self.suffix == PROFILE_SUFFIX


def write(case: Malformed, folder: Path) -> Path:
    """Make the file of a case in a folder."""
    path = folder / f"{case.name.replace(' ', '-')}{case.suffix}"
    if callable(case.content):
        case.content(path)
    else:
        path.write_bytes(case.content)
    return path


# ---- good files to spoil -------------------------------------------------------------------------------

OWN: dict[str, Any] = {
    "schema": "pipeplan.placement/1",
    "accelerators": 2,
    "cpus": 0,
    "memory_bytes": 10,
    "nodes": [
        {"id": "a", "accelerator_time": 1, "cpu_time": 10, "transfer_time": 0.5},
        {"id": "b", "accelerator_time": 2, "cpu_time": 20, "transfer_time": 0.5, "color": 1},
        {"id": "c", "accelerator_time": 3, "cpu_time": 30, "backward": True, "color": 1},
    ],
    "edges": [["a", "b"], ["b", "c"]],
}

PUBLISHED: dict[str, Any] = {
    "maxSizePerFPGA": 10.0, "maxFPGAs": 2, "maxCPUs": 0,
    "nodes": [
        {"id": i, "supportedOnFpga": 1, "cpuLatency": 10.0, "fpgaLatency": 1.0, "isBackwardNode": int(i == 4),
         "size": 1.0}
        for i in (1, 2, 3, 4)
    ],
    "edges": [
        {"sourceId": 1, "destId": 2, "cost": 0.5}, {"sourceId": 1, "destId": 3, "cost": 0.5},
        {"sourceId": 2, "destId": 4, "cost": 0.25}, {"sourceId": 3, "destId": 4, "cost": 0.25},
    ],
}  # fmt: skip

PROFILE = """\
n1 -- Input0 -- forward_compute_time=0.0, backward_compute_time=0.0, activation_size=0.0, parameter_size=0.0
n2 -- Linear(2, 2) -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=8.0, parameter_size=16.0
n3 -- LSTM -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=[8.0; 4.0], parameter_size=16.0
\tn1 -- n2
\tn2 -- n3
"""

PLAN: dict[str, Any] = {
    "kind": "placement",
    "devices": [
        {"name": "acc0", "type": "accelerator", "nodes": ["a"]},
        {"name": "acc1", "type": "accelerator", "nodes": ["b", "c"], "subgraphs": [["b", "c"]]},
    ],
}

RESULT: dict[str, Any] = {
    "schema": "pipeplan.result/1", "problem": {"kind": "placement", "name": "example", "hash": "0123456789abcdef"},
    "stop": "proven", "found": "optimal", "objective": 5.0, "bound": 5.0, "plan": PLAN,
}  # fmt: skip

EXPERT: dict[str, Any] = {"fpgas": [{"nodes": [1, 2]}, {"nodes": [3, 4]}], "cpus": [{"nodes": []}]}

DROP = object()


def changed(good: Any, path: Sequence[Any], value: Any) -> Any:
    """A copy of JSON data with another value in one place, or without that place."""
    data = copy.deepcopy(good)
    *above, last = path
    place = reduce(getitem, above, data)
    if value is DROP:
        del place[last]
    else:
        place[last] = value
    return data


ROWS: dict[str, dict[str, Sequence[str]]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def spoilt(good: dict[str, Any], where: str, text: str) -> bytes:
    """The good data as JSON with that text in one place, as in "nodes[1].id", or without the place."""
    path = [int(key) if key.isdigit() else key for key in re.findall(r"\w+", where)]
    return json.dumps(changed(good, path, "@@" if text else DROP)).replace('"@@"', text).encode()


def spoilt_files(good: dict[str, Any], rows: Mapping[str, Sequence[str]]) -> list[Malformed]:
    """Files with one fault each."""
    return [
        Malformed(name, ".json", spoilt(good, where, text), (*field, where)[0], remedy)
        for name, (where, text, remedy, *field) in rows.items()
    ]


def spoilt_profiles(rows: Mapping[str, Sequence[str]]) -> list[Malformed]:
    assert all(old in PROFILE for old, *_ in rows.values())
    return [
        Malformed(name, PROFILE_SUFFIX, PROFILE.replace(old, new, 1).encode(), field, remedy)
        for name, (old, new, field, remedy) in rows.items()
    ]


def huge(path: Path) -> None:
    """A sparse file: large to the reader, small on the disk."""
    with path.open("wb") as stream:
        stream.truncate(300 * 2**20)


LONG_CYCLE_NODES = [{"id": i, "accelerator_time": 1, "cpu_time": 1} for i in range(1000)]
LONG_CYCLE = {**OWN, "nodes": LONG_CYCLE_NODES, "edges": [[i, (i + 1) % 1000] for i in range(1000)]}
NUMBER = "finite number >= 0"

FILES = [
    Malformed("missing file", ".json", lambda path: None, "file", "check the path"),
    Malformed("directory", ".json", lambda path: path.mkdir(), "file", "name a file"),
    Malformed("empty file", ".json", b"", "content", "give a file with"),
    Malformed("only spaces", ".json", b" \n\t\n", "content", "give a file with"),
    Malformed("huge file", ".json", huge, "file", "at most 268435456 bytes"),
    Malformed("not UTF-8", ".json", b'{"schema": "\xff\xfe"}', "byte 13", "encoding UTF-8"),
    Malformed("UTF-16", ".json", json.dumps(OWN).encode("utf-16"), "byte 1", "encoding UTF-8"),
    Malformed("binary", ".json", bytes(range(256)), "byte 129", "encoding UTF-8"),
    Malformed("prose", ".json", b"Dear planner,\nplease plan.\n", "content", "pipeplan.placement/1"),
    Malformed("not JSON", ".json", b'{"nodes": [,]}', "line 1, column 12", "correct the text"),
    Malformed("truncated JSON", ".json", json.dumps(OWN, indent=1).encode()[:120], "line 9, column",
        "correct the text"),
    Malformed("single quotes", ".json", b"{'nodes': []}", "line 1, column 2", "correct the text"),
    Malformed("two documents", ".json", b"{}\n{}\n", "line 2, column 1", "correct the text"),
    Malformed("raw control character", ".json", b'{"name": "a\x01"}', "line 1, column 12", "correct the text"),
    Malformed("deep nesting", ".json", b"[" * 200_000, "content", "known formats"),
    Malformed("deep nesting of objects", ".json", b'{"a":' * 200_000, "content", "known formats"),
    Malformed("a list", ".json", b"[1, 2]", "content", "pipeplan.placement/1"),
    Malformed("no known keys", ".json", b'{"layers": []}', "content", "pipeplan.placement/1"),
    Malformed("duplicate key", ".json", b'{"schema": "pipeplan.placement/1", "cpus": 1, "cpus": 2}', "cpus",
        "every key once"),
    Malformed("duplicate key in a node", ".json",
        spoilt(OWN, "nodes[1]", '{"id": "b", "cpu_time": 1, "cpu_time": 2, "accelerator_time": 1}'),
        "nodes[1].cpu_time", "every key once"),
    Malformed("a result", ".json", json.dumps(RESULT).encode(), "schema", "file of the problem"),
]  # fmt: skip

HUGE, DIGITS, LONG = str(10**400), "9" * 5000, f'"{"i" * 20_000}"'
LONG_FILES = {
    "own endless key": ("k" * 100_000, "5", "use one of schema, name", "'kkk"),
    "own too long id": ("nodes[1].id", LONG, "at most 10000"),
    "own too long name": ("name", LONG, "at most 10000"),
    "own enormous id": ("nodes[1].id", HUGE, "at most 64 bits"),
    "own enormous time": ("nodes[0].cpu_time", HUGE, "at most 1e+100"),
    "own negative enormous time": ("nodes[0].cpu_time", f"-{HUGE}", NUMBER),
    "own time of 5000 digits": ("nodes[0].cpu_time", DIGITS, NUMBER),
    "own enormous devices": ("cpus", HUGE, "from 0 to 100000"),
    "own devices of 5000 digits": ("cpus", DIGITS, "whole number"),
}
NO_ROOM = json.dumps([{**node, "size_bytes": 2} for node in OWN["nodes"]])

OWN_FILES = [
    *spoilt_files(OWN, ROWS["own"] | LONG_FILES),
    Malformed("own long cycle", ".json", json.dumps(LONG_CYCLE).encode(), "edges", "remove one of its edges"),
    Malformed("own class too large", ".json", spoilt({**OWN, "memory_bytes": 3}, "nodes", NO_ROOM),
        "nodes[1].color", "split the class"),
]  # fmt: skip

PROFILES = [
    *spoilt_profiles(ROWS["profile"]),
    Malformed("profile cut", PROFILE_SUFFIX, PROFILE.encode()[:150], "line 2", "forward_compute_time=..."),
    Malformed("profile cycle", PROFILE_SUFFIX, PROFILE.encode() + b"\tn3 -- n2\n", "edges", "remove one of its edges"),
    Malformed("profile without nodes", PROFILE_SUFFIX, b"\tn1 -- n2\n", "line 1", "add a line"),
]  # fmt: skip

MALFORMED = [*FILES, *OWN_FILES, *spoilt_files(PUBLISHED, ROWS["published"]), *PROFILES]

OF_PROBLEMS_ALONE = ("a result", "prose", "a list", "no known keys", "duplicate key in a node")
MALFORMED_PLANS = [
    *(case for case in FILES if case.name not in OF_PROBLEMS_ALONE),
    Malformed("plan is a list", ".json", b"[1, 2]", "content", '"kind": "placement"'),
    Malformed("plan of no known form", ".json", b'{"stages": []}', "content", '"kind": "placement"'),
    Malformed("problem as a plan", ".json", json.dumps(OWN).encode(), "schema", "pipeplan.result/1"),
    Malformed("period is null", ".json", b'{"kind": "schedule", "starts": {"F0": [0]}, "period": null}', "period",
        "finite number"),
    *spoilt_files(PLAN, ROWS["plan"]),
    *spoilt_files(RESULT, ROWS["result"] | {"result bound is enormous": ("bound", HUGE, "finite number")}),
    *spoilt_files(EXPERT, ROWS["expert"]),
]  # fmt: skip
