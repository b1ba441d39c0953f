"""Run what a reader is told to type where no extra is installed, and print each command, its code and seconds.

The Python of that install starts it: `plain/bin/python .ci/plain.py [PART...]`, by default with all parts: `pages`
runs the blocks of every page, `suites` every packaged suite, `kinds` every command on every kind of problem, and
`extras` what cannot do without an extra and must name it in a sentence. One unexpected exit code, and this ends with 1.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from itertools import chain
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from kind_commands import COMMANDS, SMALLEST
from page_blocks import LONGEST_S, PAGES, blocks_of, follow

from pipeplan.cli.app import COMMANDS as LISTED
from pipeplan.cli.app import GROUPS
from pipeplan.instances.registry import KINDS
from pipeplan.studies.compare.suite import load_suite, packaged_suites

OK, NO_PLAN, BAD_INPUT = 0, 1, 2
PLAN = Path(sys.executable).with_name("plan")
AT_A_TIME = 2
RECORDS = "PLAN_RECORDS"
RECORDING = f"""#!/usr/bin/env bash
begun=$EPOCHREALTIME
'{PLAN}' "$@"
code=$?
printf '%s %s %s %s\\n' "$code" "${{begun/,/.}}" "${{EPOCHREALTIME/,/.}}" "$(printf '%q ' plan "$@")" >> "${RECORDS}"
exit "$code"
"""
"""Takes the place of `plan` in the shell of a page, and records each command."""


@dataclass(frozen=True)
class Row:
    """A command that was run."""

    command: str
    code: int
    complaint: str = ""
    """Why the code, or what was said, is not as expected; empty: it is."""
    seconds: float | None = None
    """How long it took beside the others; nothing depends on it."""


Job = Callable[[Path], list[Row]]
"""Runs commands in an empty folder, one after the other."""


# ---- pages --------------------------------------------------------------------------------------------------


def page(name: str, folder: Path) -> list[Row]:
    """The blocks of a page that name no extra. The last row is the page's own: its shell may expect a code itself."""
    records, tools = folder / "records", folder / "tools"
    tools.mkdir()
    (tools / "plan").write_text(RECORDING, encoding="utf-8")
    (tools / "plan").chmod(0o755)
    work = folder / "work"
    work.mkdir()
    path = f"{tools}:{PLAN.parent}:{os.environ['PATH']}"
    complaint = ""
    started = time.monotonic()
    try:
        follow(PAGES[name], work, {""}, {"PATH": path, RECORDS: str(records)})
    except (AssertionError, subprocess.TimeoutExpired) as wrong:
        complaint = str(wrong)
    lines = records.read_text("utf-8").splitlines() if records.is_file() else []
    recorded = (line.split(" ", 3) for line in lines)
    rows = [
        Row(command.strip(), int(code), seconds=float(ended) - float(begun))
        for code, begun, ended, command in recorded
    ]
    return [*rows, Row(f"(all blocks of {name})", int(bool(complaint)), complaint, time.monotonic() - started)]


def pages() -> Iterator[tuple[str, Job]]:
    for name, path in PAGES.items():
        blocks = [block for block in blocks_of(path) if block.runs]
        if any("needs" not in block.marks for block in blocks):
            yield name, partial(page, name)
        for block in blocks:
            if "needs" in block.marks:
                print(f"{name}, line {block.line}: not run, it needs {block.marks['needs']}")


# ---- single commands ----------------------------------------------------------------------------------------


def typed(words: list[str], folder: Path, expected: int = OK, says: str = "") -> Row:
    """Run one command. What is refused says so in one sentence, in which `says` occurs."""
    begun = time.monotonic()
    done = subprocess.run([PLAN, *words], cwd=folder, capture_output=True, text=True, timeout=LONGEST_S)
    seconds = time.monotonic() - begun
    _, error, sentence = " ".join(done.stderr.split()).rpartition("Error: ")
    refused = error and sentence.endswith(".") and says in sentence
    is_expected = done.returncode == expected and (expected == OK or refused)
    complaint = "" if is_expected else f"expected {expected}: {(done.stdout + done.stderr)[-2000:]}"
    return Row(shlex.join(["plan", *words]), done.returncode, complaint, seconds)


def suite(name: str, folder: Path) -> list[Row]:
    """A moment for each run: what a suite finds is another matter, whether it stops is this one.

    Where that is too short for every method, the code says that there is no plan: 1.
    """
    own = [] if load_suite(name).methods else ["--method", "dp"]
    words = ["compare", "--suite", name, *own, "--quick", "--time-limit", "200ms", "--jobs", "1", "-o", name]
    row = typed(words, folder)
    if own:
        return [row, typed(["leaderboard", f"{name}/runs.jsonl"], folder)]
    if row.code == NO_PLAN:
        with (folder / name / "runs.csv").open(encoding="utf-8", newline="") as file:
            stops = {run["stop"] for run in csv.DictReader(file)}
        return [replace(row, complaint="" if stops == {"time"} else f"runs ended by {stops}")]
    return [row]


def suites() -> Iterator[tuple[str, Job]]:
    for name in packaged_suites():
        yield f"suite {name}", partial(suite, name)


def of_kind(kind: str, folder: Path) -> list[Row]:
    instance, result = SMALLEST[kind], "result.json"
    rows = [typed(["solve", instance, "-o", result], folder)]
    for command in COMMANDS.values():
        expected = OK if command.is_able(kind) else BAD_INPUT
        rows.append(typed(command.spelled(kind, instance, result), folder, expected))
    return rows


LISTS = (
    "warm-up",
    "generate",
    "generate pipeline -o pipeline.json",
    "instances",
    "formulations",
    "planners",
    "solvers",
    "planners partition",
    "compare --suites",
    "import table --template",
    "import hf config.json --hardware h100-80gb --sequence 128 -o hf.json",
    "import megatron-layout 8,8,8,8 llama-3-8b --devices 4 --memory 80GiB --bandwidth 450GB/s -o even.json",
    "import pipedream graph.txt -o pipedream.json",
)
"""Commands that are not asked about a problem; those of `configure` stand on pages."""
WITHOUT = {
    "import torch my.py:build -o my.json": "torch",
    "import hf config.json --hardware h100-80gb --sequence 128 --trace -o hf.json": "hf",
    "run even.json llama.json --model my.py:build": "torch",
    "calibrate": "torch",
    "solve tiny-chain --planner partition": "partition",
    "solve tiny-chain --planner latency-partition": "partition",
}
"""Commands that are nothing without an extra, and that extra."""
FILES = {
    "my.py": "def build():\n    raise NotImplementedError\n",
    "config.json": '{"model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, '
    '"num_attention_heads": 8, "vocab_size": 3200}',
    "graph.txt": "node1 -- Input -- forward_compute_time=0.0, backward_compute_time=0.0, activation_size=1.0, "
    "parameter_size=0.0\nnode2 -- Linear -- forward_compute_time=1.0, backward_compute_time=2.0, "
    "activation_size=1.0, parameter_size=4.0\n\tnode1 -- node2\n",
}


def lists(folder: Path) -> list[Row]:
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    rows = [typed(line.split(), folder) for line in LISTS]
    profile = files("pipeplan.instances.packaged") / "profiles" / "llama-3-8b.json"
    (folder / "llama.json").write_bytes(profile.read_bytes())
    return rows + [
        typed(line.split(), folder, BAD_INPUT, f"pip install 'pipeplan[{extra}]'")
        for line, extra in WITHOUT.items()
    ]


# ---- all of it ----------------------------------------------------------------------------------------------

PARTS: Mapping[str, Callable[[], Iterator[tuple[str, Job]]]] = {
    "extras": lambda: iter([("lists, and what needs an extra", lists)]),
    "pages": pages,
    "suites": suites,
    "kinds": lambda: ((f"kind {kind}", partial(of_kind, kind)) for kind in KINDS),
}
"""What takes longest comes first, so that no process waits for the last one."""


def run(job: Job) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        return job(Path(folder))


def line(row: Row) -> str:
    seconds = "" if row.seconds is None else f"{row.seconds:.1f}"
    return f"{row.code:3} {seconds:>6}  {row.command}"


def not_typed(rows: list[Row]) -> list[str]:
    """Commands of `plan --help` that occur in no row."""
    every = [*LISTED, *(f"{group} {word}" for group, (_, words) in GROUPS.items() for word in words)]
    lines = "\n".join(row.command for row in rows)
    return [command for command in every if not re.search(rf"^plan {command}\b", lines, re.MULTILINE)]


def main(parts: list[str]) -> int:
    os.environ.pop("PIPEPLAN_WORKLOADS", None)  # a reader has none of the published inputs
    jobs = list(chain.from_iterable(PARTS[part]() for part in parts or PARTS))
    rows: list[Row] = []
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for (title, _), found in zip(jobs, pool.map(run, [job for _, job in jobs]), strict=True):
            print(f"\n{title}", *map(line, found), sep="\n", flush=True)
            rows += found
    wrong = [row for row in rows if row.complaint]
    print(*(f"\nUNEXPECTED {row.code}  {row.command}\n{row.complaint}" for row in wrong), sep="\n")
    missing = [] if parts else not_typed(rows)
    if missing:
        print(f"Not run at all: {', '.join(f'plan {command}' for command in missing)}")
    print(f"{len(rows)} commands in a plain install, {len(wrong)} with an unexpected exit code")
    return int(bool(wrong or missing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
