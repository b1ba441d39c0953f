"""Malformed files, one fault each: every door (reader, command line) must answer each with one helpful sentence.

`MALFORMED` holds problem files, `MALFORMED_PLANS` plan and result files. `write(case, folder)` makes the file.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
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
    "edges": [
        {"sourceId": 1, "destId": 2, "cost": 0.5},
        {"sourceId": 1, "destId": 3, "cost": 0.5},
        {"sourceId": 2, "destId": 4, "cost": 0.25},
        {"sourceId": 3, "destId": 4, "cost": 0.25},
    ],
}

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
    "schema": "pipeplan.result/1",
    "problem": {"kind": "placement", "name": "example", "hash": "0123456789abcdef"},
    "stop": "proven",
    "found": "optimal",
    "objective": 5.0,
    "bound": 5.0,
    "plan": PLAN,
}

EXPERT: dict[str, Any] = {"fpgas": [{"nodes": [1, 2]}, {"nodes": [3, 4]}], "cpus": [{"nodes": []}]}

DROP = object()


def spoilt(good: dict[str, Any], *path: str | int, value: Any) -> bytes:
    """The good data as JSON with one place changed (or dropped)."""
    data = copy.deepcopy(good)
    place: Any = data
    for key in path[:-1]:
        place = place[key]
    if value is DROP:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return json.dumps(data).encode()


def literal(good: dict[str, Any], *path: str | int, text: str) -> bytes:
    """The good data with a literal that Python would not write."""
    return spoilt(good, *path, value="@@").replace(b'"@@"', text.encode())


def own(*path: str | int, value: Any) -> bytes:
    return spoilt(OWN, *path, value=value)


def published(*path: str | int, value: Any) -> bytes:
    return spoilt(PUBLISHED, *path, value=value)


def profile(old: str, new: str) -> bytes:
    assert old in PROFILE
    return PROFILE.replace(old, new, 1).encode()


def huge(path: Path) -> None:
    """A sparse file: large to the reader, small on the disk."""
    with path.open("wb") as stream:
        stream.truncate(300 * 2**20)


CYCLE = [["a", "b"], ["b", "a"]]
LONG_CYCLE_NODES = [{"id": i, "accelerator_time": 1, "cpu_time": 1} for i in range(1000)]
LONG_CYCLE = {
    **OWN,
    "nodes": LONG_CYCLE_NODES,
    "edges": [[i, (i + 1) % 1000] for i in range(1000)],
}
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
    Malformed(
        "truncated JSON", ".json", json.dumps(OWN, indent=1).encode()[:120], "line 9, column", "correct the text"
    ),
    Malformed("single quotes", ".json", b"{'nodes': []}", "line 1, column 2", "correct the text"),
    Malformed("two documents", ".json", b"{}\n{}\n", "line 2, column 1", "correct the text"),
    Malformed("raw control character", ".json", b'{"name": "a\x01"}', "line 1, column 12", "correct the text"),
    Malformed("deep nesting", ".json", b"[" * 200_000, "content", "known formats"),
    Malformed("deep nesting of objects", ".json", b'{"a":' * 200_000, "content", "known formats"),
    Malformed("a list", ".json", b"[1, 2]", "content", "pipeplan.placement/1"),
    Malformed("no known keys", ".json", b'{"layers": []}', "content", "pipeplan.placement/1"),
    Malformed(
        "duplicate key",
        ".json",
        b'{"schema": "pipeplan.placement/1", "cpus": 1, "cpus": 2}',
        "cpus",
        "every key once",
    ),
    Malformed(
        "duplicate key in a node",
        ".json",
        literal(OWN, "nodes", 1, text='{"id": "b", "cpu_time": 1, "cpu_time": 2, "accelerator_time": 1}'),
        "nodes[1].cpu_time",
        "every key once",
    ),
    Malformed("a result", ".json", json.dumps(RESULT).encode(), "schema", "file of the problem"),
]

OWN_FILES = [
    Malformed(
        "own unknown schema",
        ".json",
        own("schema", value="pipeplan.placement/99"),
        "schema",
        "pipeplan.placement/1",
    ),
    Malformed("own schema of a wrong type", ".json", own("schema", value=["x"]), "schema", "pipeplan.placement/1"),
    Malformed("own without schema", ".json", own("schema", value=DROP), "schema", 'add the key "schema"'),
    Malformed("own misspelt key", ".json", own("memory_byte", value=5), "memory_byte", 'write "memory_bytes"'),
    Malformed(
        "own misspelt node key", ".json", own("nodes", 1, "colour", value=5), "nodes[1].colour", 'write "color"'
    ),
    Malformed("own unknown key", ".json", own("zzz", value=5), "zzz", "use one of schema, name"),
    Malformed("own endless key", ".json", own("k" * 100_000, value=5), "'kkk", "use one of schema, name"),
    Malformed("own without nodes", ".json", own("nodes", value=DROP), "nodes", 'add the key "nodes"'),
    Malformed("own without edges", ".json", own("edges", value=DROP), "edges", 'add the key "edges"'),
    Malformed("own without accelerators", ".json", own("accelerators", value=DROP), "accelerators", "add the key"),
    Malformed("own without node id", ".json", own("nodes", 2, "id", value=DROP), "nodes[2].id", "add the key"),
    Malformed(
        "own without time", ".json", own("nodes", 0, "cpu_time", value=DROP), "nodes[0].cpu_time", "add the key"
    ),
    Malformed("own nodes are an object", ".json", own("nodes", value={}), "nodes", "give a list"),
    Malformed("own edges are a text", ".json", own("edges", value="a-b"), "edges", "give a list"),
    Malformed("own node is a number", ".json", own("nodes", 1, value=7), "nodes[1]", 'give {"id"'),
    Malformed("own edge is a text", ".json", own("edges", 1, value="ab"), "edges[1]", "give a list"),
    Malformed("own edge of three", ".json", own("edges", 0, value=["a", "b", "c"]), "edges[0]", "two node ids"),
    Malformed("own no nodes", ".json", own("nodes", value=[]), "nodes", "at least one node"),
    Malformed("own cycle", ".json", own("edges", value=CYCLE), "edges", "remove one of its edges"),
    Malformed("own long cycle", ".json", json.dumps(LONG_CYCLE).encode(), "edges", "remove one of its edges"),
    Malformed("own self-loop", ".json", own("edges", 0, value=["a", "a"]), "edges[0]", "remove the edge"),
    Malformed("own unknown id", ".json", own("edges", 0, 1, value="zz"), "edges[0].target", "name a node"),
    Malformed(
        "own text for a number id", ".json", own("nodes", 0, "id", value=1), "edges[0].source", "name a node"
    ),
    Malformed(
        "own control characters", ".json", own("edges", 0, 0, value=ESCAPES), "edges[0].source", "name a node"
    ),
    Malformed("own duplicate id", ".json", own("nodes", 1, "id", value="a"), "nodes[1].id", "id of its own"),
    Malformed(
        "own too long id", ".json", own("nodes", 1, "id", value="i" * 20_000), "nodes[1].id", "at most 10000"
    ),
    Malformed("own too long name", ".json", own("name", value="i" * 20_000), "name", "at most 10000"),
    Malformed(
        "own half a character", ".json", own("nodes", 1, "id", value="\ud800"), "nodes[1].id", "valid Unicode"
    ),
    Malformed("own enormous id", ".json", own("nodes", 1, "id", value=10**400), "nodes[1].id", "at most 64 bits"),
    Malformed(
        "own id is a list", ".json", own("nodes", 1, "id", value=[1]), "nodes[1].id", "whole number or a text"
    ),
    Malformed(
        "own id is true", ".json", own("nodes", 1, "id", value=True), "nodes[1].id", "whole number or a text"
    ),
    Malformed(
        "own id is a fraction", ".json", own("nodes", 1, "id", value=1.5), "nodes[1].id", "whole number or a text"
    ),
    Malformed(
        "own edge id is null", ".json", own("edges", 0, 0, value=None), "edges[0].source", "whole number or a text"
    ),
    Malformed("own NaN", ".json", literal(OWN, "nodes", 1, "cpu_time", text="NaN"), "nodes[1].cpu_time", NUMBER),
    Malformed("own infinity", ".json", literal(OWN, "memory_bytes", text="Infinity"), "memory_bytes", NUMBER),
    Malformed(
        "own -infinity",
        ".json",
        literal(OWN, "nodes", 0, "size_bytes", text="-Infinity"),
        "nodes[0].size_bytes",
        NUMBER,
    ),
    Malformed(
        "own 1e400",
        ".json",
        literal(OWN, "nodes", 0, "transfer_time", text="1e400"),
        "nodes[0].transfer_time",
        NUMBER,
    ),
    Malformed(
        "own negative time",
        ".json",
        own("nodes", 2, "accelerator_time", value=-1),
        "nodes[2].accelerator_time",
        NUMBER,
    ),
    Malformed(
        "own enormous time",
        ".json",
        own("nodes", 0, "cpu_time", value=10**400),
        "nodes[0].cpu_time",
        "at most 1e+100",
    ),
    Malformed(
        "own negative enormous time",
        ".json",
        own("nodes", 0, "cpu_time", value=-(10**400)),
        "nodes[0].cpu_time",
        NUMBER,
    ),
    Malformed(
        "own time of 5000 digits",
        ".json",
        literal(OWN, "nodes", 0, "cpu_time", text="9" * 5000),
        "nodes[0].cpu_time",
        NUMBER,
    ),
    Malformed("own time is a text", ".json", own("nodes", 0, "cpu_time", value="10"), "nodes[0].cpu_time", NUMBER),
    Malformed("own time is true", ".json", own("nodes", 0, "cpu_time", value=True), "nodes[0].cpu_time", NUMBER),
    Malformed("own time is null", ".json", own("nodes", 0, "cpu_time", value=None), "nodes[0].cpu_time", NUMBER),
    Malformed("own memory is a text", ".json", own("memory_bytes", value="8GiB"), "memory_bytes", NUMBER),
    Malformed(
        "own supported is 1", ".json", own("nodes", 0, "supported", value=1), "nodes[0].supported", "true or false"
    ),
    Malformed(
        "own backward is a text",
        ".json",
        own("nodes", 0, "backward", value="no"),
        "nodes[0].backward",
        "true or false",
    ),
    Malformed("own name is a number", ".json", own("nodes", 0, "name", value=3), "nodes[0].name", "give a text"),
    Malformed(
        "own colour is a list",
        ".json",
        own("nodes", 0, "color", value=[]),
        "nodes[0].color",
        "whole number or a text",
    ),
    Malformed("own unit is a number", ".json", own("time_unit", value=3), "time_unit", "give a text"),
    Malformed("own zero devices", ".json", own("accelerators", value=0), "accelerators", "at least one device"),
    Malformed("own negative devices", ".json", own("accelerators", value=-3), "accelerators", "from 0 to 100000"),
    Malformed("own fractional devices", ".json", own("accelerators", value=2.5), "accelerators", "whole number"),
    Malformed("own too many devices", ".json", own("cpus", value=10**9), "cpus", "from 0 to 100000"),
    Malformed("own enormous devices", ".json", own("cpus", value=10**400), "cpus", "from 0 to 100000"),
    Malformed("own devices of 5000 digits", ".json", literal(OWN, "cpus", text="9" * 5000), "cpus", "whole number"),
    Malformed("own devices are true", ".json", own("accelerators", value=True), "accelerators", "whole number"),
    Malformed("own backward to forward", ".json", own("edges", 0, value=["c", "a"]), "edges[0]", "backward marks"),
    Malformed(
        "own transfer of a sink",
        ".json",
        own("nodes", 2, "transfer_time", value=1),
        "nodes[2].transfer_time",
        "missing edge",
    ),
    Malformed(
        "own too large node", ".json", own("nodes", 0, "size_bytes", value=11), "nodes[0].size_bytes", "or a CPU"
    ),
    Malformed(
        "own unsupported", ".json", own("nodes", 0, "supported", value=False), "nodes[0].supported", "add a CPU"
    ),
    Malformed(
        "own unsupported in a class",
        ".json",
        own("nodes", 1, "supported", value=False),
        "nodes[1].supported",
        "add a CPU",
    ),
    Malformed(
        "own class too large",
        ".json",
        spoilt({**OWN, "memory_bytes": 3}, "nodes", value=[{**node, "size_bytes": 2} for node in OWN["nodes"]]),
        "nodes[1].color",
        "split the class",
    ),
]

PUBLISHED_FILES = [
    Malformed("published without FPGAs", ".json", published("maxFPGAs", value=DROP), "maxFPGAs", "add the key"),
    Malformed("published without CPUs", ".json", published("maxCPUs", value=DROP), "maxCPUs", "add the key"),
    Malformed(
        "published without memory",
        ".json",
        published("maxSizePerFPGA", value=DROP),
        "maxSizePerFPGA",
        "add the key",
    ),
    Malformed("published without nodes", ".json", published("nodes", value=DROP), "nodes", "add the key"),
    Malformed("published without edges", ".json", published("edges", value=DROP), "edges", "add the key"),
    Malformed(
        "published without latency",
        ".json",
        published("nodes", 3, "fpgaLatency", value=DROP),
        "nodes[3].fpgaLatency",
        "add",
    ),
    Malformed(
        "published without support",
        ".json",
        published("nodes", 3, "supportedOnFpga", value=DROP),
        "nodes[3].supportedOnFpga",
        "add",
    ),
    Malformed(
        "published without cost", ".json", published("edges", 2, "cost", value=DROP), "edges[2].cost", "add the key"
    ),
    Malformed("published edge as a pair", ".json", published("edges", 2, value=[1, 2]), "edges[2]", '"sourceId"'),
    Malformed("published node as an id", ".json", published("nodes", 2, value=3), "nodes[2]", '"fpgaLatency"'),
    Malformed(
        "published latency is a text",
        ".json",
        published("nodes", 1, "fpgaLatency", value="1"),
        "nodes[1].fpgaLatency",
        NUMBER,
    ),
    Malformed(
        "published negative latency",
        ".json",
        published("nodes", 1, "cpuLatency", value=-1),
        "nodes[1].cpuLatency",
        NUMBER,
    ),
    Malformed(
        "published NaN size", ".json", literal(PUBLISHED, "nodes", 0, "size", text="NaN"), "nodes[0].size", NUMBER
    ),
    Malformed(
        "published infinite memory",
        ".json",
        literal(PUBLISHED, "maxSizePerFPGA", text="Infinity"),
        "maxSizePerFPGA",
        NUMBER,
    ),
    Malformed(
        "published cost 1e400",
        ".json",
        literal(PUBLISHED, "edges", 1, "cost", text="1e400"),
        "edges[1].cost",
        NUMBER,
    ),
    Malformed(
        "published support is 2",
        ".json",
        published("nodes", 0, "supportedOnFpga", value=2),
        "nodes[0].supportedOnFpga",
        "1 or 0",
    ),
    Malformed(
        "published backward is a text",
        ".json",
        published("nodes", 0, "isBackwardNode", value="0"),
        "nodes[0].isBackwardNode",
        "1 or 0",
    ),
    Malformed(
        "published different costs",
        ".json",
        published("edges", 1, "cost", value=0.75),
        "edges[1].cost",
        "same cost",
    ),
    Malformed(
        "published unknown id", ".json", published("edges", 0, "destId", value=99), "edges[0].destId", "name a node"
    ),
    Malformed(
        "published id is a list",
        ".json",
        published("edges", 0, "sourceId", value=[]),
        "edges[0].sourceId",
        "whole number",
    ),
    Malformed(
        "published duplicate id", ".json", published("nodes", 1, "id", value=1), "nodes[1].id", "id of its own"
    ),
    Malformed(
        "published colour is true",
        ".json",
        published("nodes", 1, "colorClass", value=True),
        "nodes[1].colorClass",
        "whole",
    ),
    Malformed(
        "published cycle",
        ".json",
        published("edges", 2, value={"sourceId": 2, "destId": 1, "cost": 0}),
        "edges",
        "acyclic",
    ),
    Malformed(
        "published backward to forward",
        ".json",
        published("edges", 0, value={"sourceId": 4, "destId": 1, "cost": 0}),
        "edges[0]",
        "backward marks",
    ),
    Malformed(
        "published too large node", ".json", published("nodes", 2, "size", value=11), "nodes[2].size", "or a CPU"
    ),
    Malformed(
        "published unsupported",
        ".json",
        published("nodes", 2, "supportedOnFpga", value=0),
        "nodes[2].supportedOnFpga",
        "add a CPU",
    ),
    Malformed("published zero devices", ".json", published("maxFPGAs", value=0), "maxFPGAs", "at least one device"),
    Malformed(
        "published fractional devices", ".json", published("maxFPGAs", value=0.5), "maxFPGAs", "whole number"
    ),
]

PROFILES = [
    Malformed(
        "profile rubbish",
        PROFILE_SUFFIX,
        profile("n2 -- Linear(2, 2) -- ", "n2: "),
        "line 2",
        "forward_compute_time",
    ),
    Malformed("profile cut", PROFILE_SUFFIX, PROFILE.encode()[:150], "line 2", "forward_compute_time=..."),
    Malformed("profile without edges' tab", PROFILE_SUFFIX, profile("\tn1", "n1"), "line 4", "description"),
    Malformed(
        "profile edge of three", PROFILE_SUFFIX, profile("\tn1 -- n2", "\tn1 -- n2 -- n3"), "line 4", "write a tab"
    ),
    Malformed("profile edge of one", PROFILE_SUFFIX, profile("\tn1 -- n2", "\tn1"), "line 4", "write a tab"),
    Malformed("profile unknown node", PROFILE_SUFFIX, profile("\tn1 -- n2", "\tn1 -- n9"), "line 4", "add a line"),
    Malformed("profile duplicate node", PROFILE_SUFFIX, profile("n3 --", "n1 --"), "line 3", "once"),
    Malformed(
        "profile self-loop", PROFILE_SUFFIX, profile("\tn1 -- n2", "\tn1 -- n1"), "line 4", "remove the edge"
    ),
    Malformed(
        "profile cycle", PROFILE_SUFFIX, PROFILE.encode() + b"\tn3 -- n2\n", "edges", "remove one of its edges"
    ),
    Malformed(
        "profile NaN", PROFILE_SUFFIX, profile("time=1.0", "time=nan"), "line 2, forward_compute_time", NUMBER
    ),
    Malformed(
        "profile infinity",
        PROFILE_SUFFIX,
        profile("time=1.0", "time=1e400"),
        "line 2, forward_compute_time",
        NUMBER,
    ),
    Malformed(
        "profile negative", PROFILE_SUFFIX, profile("size=8.0", "size=-8"), "line 2, activation_size", NUMBER
    ),
    Malformed("profile text", PROFILE_SUFFIX, profile("size=16.0", "size=16MB"), "line 2, parameter_size", NUMBER),
    Malformed(
        "profile list of texts",
        PROFILE_SUFFIX,
        profile("[8.0; 4.0]", "[8.0; x]"),
        "line 3, activation_size",
        NUMBER,
    ),
    Malformed(
        "profile open list", PROFILE_SUFFIX, profile("[8.0; 4.0]", "[8.0; 4.0"), "line 3, activation_size", NUMBER
    ),
    Malformed(
        "profile without size",
        PROFILE_SUFFIX,
        profile(", parameter_size=16.0", ""),
        "line 2, parameter_size",
        "write",
    ),
    Malformed(
        "profile twice a time",
        PROFILE_SUFFIX,
        profile("backward_", "forward_"),
        "line 1, forward_compute_time",
        "once",
    ),
    Malformed(
        "profile unknown entry", PROFILE_SUFFIX, profile("parameter_size", "params"), "line 1, 'params'", "write"
    ),
    Malformed(
        "profile node too large",
        PROFILE_SUFFIX,
        profile("size=16.0", "size=16e9"),
        "layer 'n2', size_bytes",
        "more memory",
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
    Malformed("plan of another kind", ".json", spoilt(PLAN, "kind", value="route"), "kind", '"placement"'),
    Malformed("plan without devices", ".json", spoilt(PLAN, "devices", value=DROP), "devices", "add the key"),
    Malformed("plan devices are an object", ".json", spoilt(PLAN, "devices", value={}), "devices", "give a list"),
    Malformed("plan device is a list", ".json", spoilt(PLAN, "devices", 0, value=["a"]), "devices[0]", '"nodes"'),
    Malformed(
        "plan device without nodes",
        ".json",
        spoilt(PLAN, "devices", 1, "nodes", value=DROP),
        "devices[1].nodes",
        "add",
    ),
    Malformed(
        "plan device without name",
        ".json",
        spoilt(PLAN, "devices", 1, "name", value=DROP),
        "devices[1].name",
        "add",
    ),
    Malformed(
        "plan device name is a number",
        ".json",
        spoilt(PLAN, "devices", 1, "name", value=1),
        "devices[1].name",
        "a text",
    ),
    Malformed(
        "plan device type",
        ".json",
        spoilt(PLAN, "devices", 0, "type", value="gpu"),
        "devices[0].type",
        '"accelerator"',
    ),
    Malformed(
        "plan device type is a list",
        ".json",
        spoilt(PLAN, "devices", 0, "type", value=[]),
        "devices[0].type",
        '"cpu"',
    ),
    Malformed(
        "plan node is null",
        ".json",
        spoilt(PLAN, "devices", 1, "nodes", 1, value=None),
        "devices[1].nodes[1]",
        "whole",
    ),
    Malformed(
        "plan node is true",
        ".json",
        spoilt(PLAN, "devices", 1, "nodes", 1, value=True),
        "devices[1].nodes[1]",
        "whole",
    ),
    Malformed(
        "plan subgraphs are flat",
        ".json",
        spoilt(PLAN, "devices", 1, "subgraphs", value=["b"]),
        "devices[1].subgraphs[0]",
        "list",
    ),
    Malformed(
        "plan subgraphs are a text",
        ".json",
        spoilt(PLAN, "devices", 1, "subgraphs", value="b"),
        "devices[1].subgraphs",
        "list",
    ),
    Malformed(
        "result of another version",
        ".json",
        spoilt(RESULT, "schema", value="pipeplan.result/9"),
        "schema",
        "pipeplan.result/1",
    ),
    Malformed("problem as a plan", ".json", json.dumps(OWN).encode(), "schema", "pipeplan.result/1"),
    Malformed("result without a plan", ".json", spoilt(RESULT, "plan", value=None), "plan", "result with a plan"),
    Malformed("result without the key plan", ".json", spoilt(RESULT, "plan", value=DROP), "plan", "add the key"),
    Malformed("result plan is a text", ".json", spoilt(RESULT, "plan", value="acc0"), "plan", '"devices"'),
    Malformed(
        "result plan node",
        ".json",
        spoilt(RESULT, "plan", "devices", 0, "nodes", value=[{}]),
        "plan.devices[0].nodes[0]",
        "whole",
    ),
    Malformed("result stop", ".json", spoilt(RESULT, "stop", value="bored"), "stop", "proven, gap"),
    Malformed("result found is a list", ".json", spoilt(RESULT, "found", value=[]), "found", "optimal, feasible"),
    Malformed("result without stop", ".json", spoilt(RESULT, "stop", value=DROP), "stop", "add the key"),
    Malformed("result problem is a text", ".json", spoilt(RESULT, "problem", value="x"), "problem", "{...}"),
    Malformed(
        "result objective is a text", ".json", spoilt(RESULT, "objective", value="5"), "objective", "finite number"
    ),
    Malformed("result bound is NaN", ".json", literal(RESULT, "bound", text="NaN"), "bound", "finite number"),
    Malformed(
        "result bound is enormous", ".json", spoilt(RESULT, "bound", value=10**400), "bound", "finite number"
    ),
    Malformed("result verified is 1", ".json", spoilt(RESULT, "verified", value=1), "verified", "true or false"),
    Malformed(
        "result violations", ".json", spoilt(RESULT, "violations", value=[1]), "violations[0]", "give a text"
    ),
    Malformed(
        "result formulation is a number",
        ".json",
        spoilt(RESULT, "formulation", value=1),
        "formulation",
        "text or null",
    ),
    Malformed("result seconds are a number", ".json", spoilt(RESULT, "seconds", value=3), "seconds", "{...}"),
    Malformed(
        "result seconds are texts",
        ".json",
        spoilt(RESULT, "seconds", value={"solve": "3"}),
        "seconds.solve",
        "finite number",
    ),
    Malformed(
        "result model size",
        ".json",
        spoilt(RESULT, "model_size", value={"rows": 1.5}),
        "model_size.rows",
        "whole number",
    ),
    Malformed(
        "result warm start",
        ".json",
        spoilt(RESULT, "warm_start", value={"outcome": "hot"}),
        "warm_start.outcome",
        "accepted",
    ),
    Malformed(
        "result warm start key",
        ".json",
        spoilt(RESULT, "warm_start", value={"outcom": 1}),
        "warm_start.outcom",
        '"outcome"',
    ),
    Malformed("expert without cpus", ".json", spoilt(EXPERT, "cpus", value=DROP), "cpus", "add the key"),
    Malformed("expert device is a list", ".json", spoilt(EXPERT, "fpgas", 1, value=[3]), "fpgas[1]", '"nodes"'),
    Malformed(
        "expert node is a fraction",
        ".json",
        spoilt(EXPERT, "fpgas", 1, "nodes", 0, value=3.5),
        "fpgas[1].nodes[0]",
        "whole",
    ),
]
