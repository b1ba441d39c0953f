"""The commands whose answers must stay what they are: every kind and every family of methods.

`python tests/golden/cases.py [NAME ...]` writes the answers anew; a commit that does so says why.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
INPUTS, RESULTS = HERE / "inputs", HERE / "results"

_FAMILIES: dict[str, dict[str, str]] = tomllib.loads((HERE / "commands.toml").read_text("utf-8"))

SOLVE: Mapping[str, str] = {
    f"{family}-{name}": words for family, cases in _FAMILIES.items() for name, words in cases.items()
}
"""What `plan solve` is asked, by the name of the file that holds its answer."""

_OF_RESULTS = {
    "verify": "placement-strong latency-strong chain-ilp staging-mip staging-levels staging-types "
    "graph-pipeline-cp-mixed graph-pipeline-default schedule-exact schedule-periodic",
    "simulate": "staging-mip graph-pipeline-cp-mixed",
}
OTHERS: Mapping[str, str] = {
    **{
        f"{command}-{case}": f"{command} {SOLVE[case].split()[0]} {{results}}/{case}.json"
        for command, cases in _OF_RESULTS.items()
        for case in cases.split()
    },
    "simulate-chain-contiguous": "simulate resnet34-chain {results}/chain-contiguous.json --micro-batches 6",
    "simulate-placement-strong": "simulate tiny-chain {results}/placement-strong.json --micro-batches 6",
    "pareto-chain": "pareto golden-4 --points 3",
}
"""Other commands, by the name of the file that holds their answer."""

NOT_COMPARED: Mapping[str, str] = {
    "chain-ilp-printed": ".objective .claimed .gap .messages[2]",  # which of its plans is let through first
    "schedule-ilp": ".proof.checks[0] .proof.checks[1]",  # what an integer solver refutes in its time
}
"""Fields that are a solver's version's choice, by the name of a case."""

MASKED = ("seconds", "history", "version", "threads", "asked", "search", "schedules", "refuted")
"""What differs from run to run or from machine to machine, wherever it stands, and what a case itself says."""


def words(name: str) -> list[str]:
    """The arguments of a case."""
    text = f"solve {SOLVE[name]} --threads 1" if name in SOLVE else OTHERS[name]
    return [*(word.format(inputs=INPUTS, results=RESULTS) for word in text.split()), "--json"]


def answer(arguments: list[str]) -> Any:
    """The JSON that a command prints."""
    from pipeplan.cli import main

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        main(arguments)
    return json.loads(said.getvalue())


def masked(value: Any, *more: str) -> Any:
    """The answer without what may differ."""
    if isinstance(value, dict):
        dropped = {*MASKED, *more}
        return {name: masked(entry, *more) for name, entry in value.items() if name not in dropped}
    if isinstance(value, list):
        return [masked(entry, *more) for entry in value]
    return (
        value.replace(str(INPUTS), "{inputs}").replace(str(RESULTS), "{results}")
        if isinstance(value, str)
        else value
    )


def kept(name: str, result: Any) -> Any:
    """What is stored: plans only where another case reads them."""
    if name in OTHERS:
        return masked(result, "plan")
    read = any(f"{{results}}/{name}.json" in words for words in OTHERS.values())
    if not read and result["plan"] is not None:
        result = {**result, "plan": {"kind": result["plan"]["kind"]}}
    return masked(result)


def stored(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text())


def hashes() -> dict[str, str]:
    """Of every packaged instance."""
    from pipeplan.instances.catalogue import load_packaged, packaged_names

    return {name: load_packaged(name).hash for name in packaged_names()}


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n")
    sys.stderr.write(path.name + "\n")


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent.parent))
    for case in sys.argv[1:] or (*SOLVE, *OTHERS):
        _write(RESULTS / f"{case}.json", kept(case, answer(words(case))))
    if not sys.argv[1:]:
        _write(HERE / "hashes.json", hashes())
