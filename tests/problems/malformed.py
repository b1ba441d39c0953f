"""Malformed files, one fault each: every door (reader, command line) must answer each with one helpful sentence.

`MALFORMED` holds problem files, `MALFORMED_PLANS` plan and result files. `write(case, folder)` makes the file.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Sequence
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
    "maxSizePerFPGA": 10.0,
    "maxFPGAs": 2,
    "maxCPUs": 0,
    "nodes": [
        {
            "id": i,
            "supportedOnFpga": 1,
            "cpuLatency": 10.0,
            "fpgaLatency": 1.0,
            "isBackwardNode": int(i == 4),
            "size": 1.0,
        }
        for i in (1, 2, 3, 4)
    ],
    "edges": [{"sourceId": 1, "destId": 2, "cost": 0.5}, {"sourceId": 1, "destId": 3, "cost": 0.5},
        {"sourceId": 2, "destId": 4, "cost": 0.25}, {"sourceId": 3, "destId": 4, "cost": 0.25}],
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


class Raw(str):
    """A literal that Python would not write."""


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


def spoilt(good: dict[str, Any], where: str, value: Any) -> bytes:
    """The good data as JSON with one place changed (or dropped), as in "nodes[1].id"."""
    path = [int(key) if key.isdigit() else key for key in re.findall(r"\w+", where)]
    text = json.dumps(changed(good, path, "@@" if isinstance(value, Raw) else value))
    return (text.replace('"@@"', value) if isinstance(value, Raw) else text).encode()


def spoilt_files(good: dict[str, Any], *rows: tuple[Any, ...]) -> list[Malformed]:
    """Files with one fault each. A row: name, place, the value there, and a part of the remedy; then the field, where
    the error names another one than the place."""
    return [
        Malformed(name, ".json", spoilt(good, where, value), (*field, where)[0], remedy)
        for name, where, value, remedy, *field in rows
    ]


def spoilt_profiles(*rows: tuple[str, str, str, str, str]) -> list[Malformed]:
    """Profiles with one fault each. A row: name, what is there, what stands in its place, the field, and a part of the
    remedy."""
    assert all(old in PROFILE for _, old, *_ in rows)
    return [
        Malformed(name, PROFILE_SUFFIX, PROFILE.replace(old, new, 1).encode(), field, remedy)
        for name, old, new, field, remedy in rows
    ]


def huge(path: Path) -> None:
    """A sparse file: large to the reader, small on the disk."""
    with path.open("wb") as stream:
        stream.truncate(300 * 2**20)


CYCLE = [["a", "b"], ["b", "a"]]
LONG_CYCLE_NODES = [{"id": i, "accelerator_time": 1, "cpu_time": 1} for i in range(1000)]
LONG_CYCLE = {**OWN, "nodes": LONG_CYCLE_NODES, "edges": [[i, (i + 1) % 1000] for i in range(1000)]}
ESCAPES = "\x1b[31mred\r\n\u202eback\x07"
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
        spoilt(OWN, "nodes[1]", Raw('{"id": "b", "cpu_time": 1, "cpu_time": 2, "accelerator_time": 1}')),
        "nodes[1].cpu_time", "every key once"),
    Malformed("a result", ".json", json.dumps(RESULT).encode(), "schema", "file of the problem"),
]  # fmt: skip

OWN_FILES = [
    *spoilt_files(
        OWN,
        ("own unknown schema", "schema", "pipeplan.placement/99", "pipeplan.placement/1"),
        ("own without schema", "schema", DROP, 'add the key "schema"'),
        ("own misspelt key", "memory_byte", 5, 'write "memory_bytes"'),
        ("own misspelt node key", "nodes[1].colour", 5, 'write "color"'),
        ("own unknown key", "zzz", 5, "use one of schema, name"),
        ("own endless key", "k" * 100_000, 5, "use one of schema, name", "'kkk"),
        ("own without nodes", "nodes", DROP, 'add the key "nodes"'),
        ("own without accelerators", "accelerators", DROP, "add the key"),
        ("own without time", "nodes[0].cpu_time", DROP, "add the key"),
        ("own node is a number", "nodes[1]", 7, 'give {"id"'),
        ("own edge of three", "edges[0]", ["a", "b", "c"], "two node ids"),
        ("own no nodes", "nodes", [], "at least one node"),
        ("own cycle", "edges", CYCLE, "remove one of its edges"),
    ),
    Malformed("own long cycle", ".json", json.dumps(LONG_CYCLE).encode(), "edges", "remove one of its edges"),
    *spoilt_files(
        OWN,
        ("own self-loop", "edges[0]", ["a", "a"], "remove the edge"),
        ("own unknown id", "edges[0][1]", "zz", "name a node", "edges[0].target"),
        ("own text for a number id", "nodes[0].id", 1, "name a node", "edges[0].source"),
        ("own control characters", "edges[0][0]", ESCAPES, "name a node", "edges[0].source"),
        ("own duplicate id", "nodes[1].id", "a", "id of its own"),
        ("own too long id", "nodes[1].id", "i" * 20_000, "at most 10000"),
        ("own too long name", "name", "i" * 20_000, "at most 10000"),
        ("own half a character", "nodes[1].id", "\ud800", "valid Unicode"),
        ("own enormous id", "nodes[1].id", 10**400, "at most 64 bits"),
        ("own id is true", "nodes[1].id", True, "whole number or a text"),
        ("own NaN", "nodes[1].cpu_time", Raw("NaN"), NUMBER),
        ("own infinity", "memory_bytes", Raw("Infinity"), NUMBER),
        ("own -infinity", "nodes[0].size_bytes", Raw("-Infinity"), NUMBER),
        ("own 1e400", "nodes[0].transfer_time", Raw("1e400"), NUMBER),
        ("own negative time", "nodes[2].accelerator_time", -1, NUMBER),
        ("own enormous time", "nodes[0].cpu_time", 10**400, "at most 1e+100"),
        ("own negative enormous time", "nodes[0].cpu_time", -(10**400), NUMBER),
        ("own time of 5000 digits", "nodes[0].cpu_time", Raw("9" * 5000), NUMBER),
        ("own time is true", "nodes[0].cpu_time", True, NUMBER),
        ("own memory is a text", "memory_bytes", "8GiB", NUMBER),
        ("own supported is 1", "nodes[0].supported", 1, "true or false"),
        ("own zero devices", "accelerators", 0, "at least one device"),
        ("own fractional devices", "accelerators", 2.5, "whole number"),
        ("own too many devices", "cpus", 10**9, "from 0 to 100000"),
        ("own enormous devices", "cpus", 10**400, "from 0 to 100000"),
        ("own devices of 5000 digits", "cpus", Raw("9" * 5000), "whole number"),
        ("own backward to forward", "edges[0]", ["c", "a"], "backward marks"),
        ("own transfer of a sink", "nodes[2].transfer_time", 1, "missing edge"),
        ("own too large node", "nodes[0].size_bytes", 11, "or a CPU"),
        ("own unsupported", "nodes[0].supported", False, "add a CPU"),
        ("own unsupported in a class", "nodes[1].supported", False, "add a CPU"),
    ),
    Malformed("own class too large", ".json",
        spoilt({**OWN, "memory_bytes": 3}, "nodes", [{**node, "size_bytes": 2} for node in OWN["nodes"]]),
        "nodes[1].color", "split the class"),
]  # fmt: skip

PUBLISHED_FILES = [
    *spoilt_files(
        PUBLISHED,
        ("published without FPGAs", "maxFPGAs", DROP, "add the key"),
        ("published without CPUs", "maxCPUs", DROP, "add the key"),
        ("published without memory", "maxSizePerFPGA", DROP, "add the key"),
        ("published without nodes", "nodes", DROP, "add the key"),
        ("published without edges", "edges", DROP, "add the key"),
        ("published without latency", "nodes[3].fpgaLatency", DROP, "add"),
        ("published without support", "nodes[3].supportedOnFpga", DROP, "add"),
        ("published without cost", "edges[2].cost", DROP, "add the key"),
        ("published edge as a pair", "edges[2]", [1, 2], '"sourceId"'),
        ("published node as an id", "nodes[2]", 3, '"fpgaLatency"'),
        ("published latency is a text", "nodes[1].fpgaLatency", "1", NUMBER),
        ("published negative latency", "nodes[1].cpuLatency", -1, NUMBER),
        ("published NaN size", "nodes[0].size", Raw("NaN"), NUMBER),
        ("published infinite memory", "maxSizePerFPGA", Raw("Infinity"), NUMBER),
        ("published cost 1e400", "edges[1].cost", Raw("1e400"), NUMBER),
        ("published support is 2", "nodes[0].supportedOnFpga", 2, "1 or 0"),
        ("published backward is a text", "nodes[0].isBackwardNode", "0", "1 or 0"),
        ("published different costs", "edges[1].cost", 0.75, "same cost"),
        ("published unknown id", "edges[0].destId", 99, "name a node"),
        ("published id is a list", "edges[0].sourceId", [], "whole number"),
        ("published duplicate id", "nodes[1].id", 1, "id of its own"),
        ("published colour is true", "nodes[1].colorClass", True, "whole"),
        ("published cycle", "edges[2]", {"sourceId": 2, "destId": 1, "cost": 0}, "acyclic", "edges"),
        ("published backward to forward", "edges[0]", {"sourceId": 4, "destId": 1, "cost": 0}, "backward marks"),
        ("published too large node", "nodes[2].size", 11, "or a CPU"),
        ("published unsupported", "nodes[2].supportedOnFpga", 0, "add a CPU"),
        ("published zero devices", "maxFPGAs", 0, "at least one device"),
        ("published fractional devices", "maxFPGAs", 0.5, "whole number"),
    )
]

PROFILES = [
    *spoilt_profiles(("profile rubbish", "n2 -- Linear(2, 2) -- ", "n2: ", "line 2", "forward_compute_time")),
    Malformed("profile cut", PROFILE_SUFFIX, PROFILE.encode()[:150], "line 2", "forward_compute_time=..."),
    *spoilt_profiles(
        ("profile without edges' tab", "\tn1", "n1", "line 4", "description"),
        ("profile edge of three", "\tn1 -- n2", "\tn1 -- n2 -- n3", "line 4", "write a tab"),
        ("profile edge of one", "\tn1 -- n2", "\tn1", "line 4", "write a tab"),
        ("profile unknown node", "\tn1 -- n2", "\tn1 -- n9", "line 4", "add a line"),
        ("profile duplicate node", "n3 --", "n1 --", "line 3", "once"),
        ("profile self-loop", "\tn1 -- n2", "\tn1 -- n1", "line 4", "remove the edge"),
    ),
    Malformed(
        "profile cycle", PROFILE_SUFFIX, PROFILE.encode() + b"\tn3 -- n2\n", "edges", "remove one of its edges"
    ),
    *spoilt_profiles(
        ("profile NaN", "time=1.0", "time=nan", "line 2, forward_compute_time", NUMBER),
        ("profile infinity", "time=1.0", "time=1e400", "line 2, forward_compute_time", NUMBER),
        ("profile negative", "size=8.0", "size=-8", "line 2, activation_size", NUMBER),
        ("profile text", "size=16.0", "size=16MB", "line 2, parameter_size", NUMBER),
        ("profile list of texts", "[8.0; 4.0]", "[8.0; x]", "line 3, activation_size", NUMBER),
        ("profile open list", "[8.0; 4.0]", "[8.0; 4.0", "line 3, activation_size", NUMBER),
        ("profile without size", ", parameter_size=16.0", "", "line 2, parameter_size", "write"),
        ("profile twice a time", "backward_", "forward_", "line 1, forward_compute_time", "once"),
        ("profile unknown entry", "parameter_size", "params", "line 1, 'params'", "write"),
        ("profile node too large", "size=16.0", "size=16e9", "layer 'n2', size_bytes", "more memory"),
    ),
    Malformed("profile without nodes", PROFILE_SUFFIX, b"\tn1 -- n2\n", "line 1", "add a line"),
]

MALFORMED = [*FILES, *OWN_FILES, *PUBLISHED_FILES, *PROFILES]

MALFORMED_PLANS = [
    *(
        case
        for case in FILES
        if case.name not in ("a result", "prose", "a list", "no known keys", "duplicate key in a node")
    ),
    Malformed("plan is a list", ".json", b"[1, 2]", "content", '"kind": "placement"'),
    Malformed("plan of no known form", ".json", b'{"stages": []}', "content", '"kind": "placement"'),
    *spoilt_files(
        PLAN,
        ("plan of another kind", "kind", "route", '"placement"'),
        ("plan without devices", "devices", DROP, "add the key"),
        ("plan device without nodes", "devices[1].nodes", DROP, "add"),
        ("plan device type", "devices[0].type", "gpu", '"accelerator"'),
        ("plan node is true", "devices[1].nodes[1]", True, "whole"),
        ("plan subgraphs are flat", "devices[1].subgraphs", ["b"], "list", "devices[1].subgraphs[0]"),
    ),
    *spoilt_files(RESULT, ("result of another version", "schema", "pipeplan.result/9", "pipeplan.result/1")),
    Malformed("problem as a plan", ".json", json.dumps(OWN).encode(), "schema", "pipeplan.result/1"),
    *spoilt_files(
        RESULT,
        ("result without a plan", "plan", None, "result with a plan"),
        ("result without the key plan", "plan", DROP, "add the key"),
        ("result plan is a text", "plan", "acc0", '"devices"'),
        ("result plan node", "plan.devices[0].nodes", [{}], "whole", "plan.devices[0].nodes[0]"),
        ("result stop", "stop", "bored", "proven, gap"),
        ("result gap is a list", "gap", [0.1], "finite number"),
        ("result bound is NaN", "bound", Raw("NaN"), "finite number"),
        ("result bound is enormous", "bound", 10**400, "finite number"),
        ("result violations", "violations", [1], "give a text", "violations[0]"),
        ("result seconds are texts", "seconds", {"solve": "3"}, "finite number", "seconds.solve"),
        ("result model size", "model_size", {"rows": 1.5}, "whole number", "model_size.rows"),
        ("result warm start", "warm_start", {"outcome": "hot"}, "accepted", "warm_start.outcome"),
        ("result warm start key", "warm_start", {"outcom": 1}, '"outcome"', "warm_start.outcom"),
    ),
    *spoilt_files({"kind": "schedule", "starts": {"F0": [0]}}, ("period is null", "period", None, "finite number")),
    *spoilt_files(
        EXPERT,
        ("expert without cpus", "cpus", DROP, "add the key"),
        ("expert device is a list", "fpgas[1]", [3], '"nodes"'),
        ("expert node is a fraction", "fpgas[1].nodes[0]", 3.5, "whole"),
    ),
]
