"""The commands whose answers must stay what they are: every kind and every family of methods.

`python tests/golden/cases.py [NAME ...]` writes the answers anew; a commit that does so says why.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
INPUTS, RESULTS = HERE / "inputs", HERE / "results"

_PLACEMENT = {
    "strong": "tiny-chain --formulation ip-tarnawski",
    "strong-highs": "tiny-chain --formulation ip-tarnawski --solver highs",
    "strong-scip": "tiny-chain --formulation ip-tarnawski --solver scip",
    "strong-free": "tiny-chain --formulation ip-tarnawski --non-contiguous --solver cp-sat",
    "strong-gpipe": "resnet50-training --formulation ip-tarnawski --objective gpipe --gap 0.01",
    "plain": "tiny-chain --formulation ip-tarnawski --variant plain",
    "plain-free": "tiny-chain --formulation ip-tarnawski --variant plain --non-contiguous --objective gpipe",
    "no-start": "memory-tight --formulation ip-tarnawski --warm-start none --gap 0.05",
    "dp-start": "bert-large-inference --formulation ip-tarnawski --warm-start dp",
    "cross-check": "tiny-chain --formulation ip-tarnawski --cross-check",
    "default": "bert-large-training --gap 0.01",
    "dp": "bert-large-training --planner dp",
    "dp-gpipe": "vgg16-training --planner dp --objective gpipe",
    "dp-types": "{inputs}/types.json --planner dp",
    "brute-force": "tiny-chain --planner brute-force --device-contiguity",
    "greedy": "cpu-offload --planner greedy --non-contiguous",
    "one-device": "tiny-chain --planner one-device --memory 100GB",
    "expert": "tiny-chain --planner expert --split {inputs}/split.json",
    "pipedream": "bert-base-operators --planner pipedream",
    "partition": "bert-base-operators --planner partition --non-contiguous",
    "linear-dp": "gpt2-xl-training --planner linear-dp",
    "local-search": "memory-tight --planner local-search --restarts 2",
    "lns": "memory-tight --planner lns --non-contiguous --cycles 2",
    "device-sets": "bert-base-operators --planner device-sets --non-contiguous --gap 0.05",
    "infeasible": "tiny-chain --devices 1 --formulation ip-tarnawski",
}
_LATENCY = {
    "strong": "tiny-chain --formulation ip-tarnawski-latency --subgraphs-per-device 2",
    "strong-highs": "tiny-chain --formulation ip-tarnawski-latency --solver highs",
    "plain": "tiny-chain --formulation ip-tarnawski-latency --variant plain",
    "greedy": "cpu-offload --planner latency-greedy --subgraphs-per-device 2",
    "cpu": "cpu-offload --planner latency-cpu",
    "expert": "tiny-chain --planner latency-expert --split {inputs}/split.json",
    "dp": "resnet50-inference --planner latency-dp",
    "linear-dp": "resnet50-inference --planner latency-linear-dp",
    "partition": "resnet50-inference --planner latency-partition --subgraphs-per-device 2",
    "lns": "cpu-offload --planner latency-lns --subgraphs-per-device 2 --cycles 2",
}
_CHAIN = {
    "ilp": "golden-4 --formulation ilp-beaumont --solver highs",
    "ilp-scip": "three-chain --formulation ilp-beaumont --solver scip",
    "ilp-cp-sat": "three-chain --formulation ilp-beaumont --solver cp-sat",
    "ilp-printed": "figure-5 --formulation ilp-beaumont --variant printed --solver highs",
    "ilp-allocation": "golden-4 --formulation ilp-beaumont --allocation 0,0,1,1 --solver highs",
    "cp": "golden-4 --formulation cp-beaumont",
    "cp-two-batches": "figure-5 --formulation cp-beaumont --batches-per-period 2",
    "default": "resnet18-chain",
    "exact": "lemma-3-2-5-3 --planner exact-beaumont",
    "exact-allocation": "golden-4 --planner exact-beaumont --allocation 0,1,1,0",
    "infeasible": "golden-4 --memory 1",
    "pipedream-eager": "resnet34-chain --planner pipedream-eager",
    "contiguous": "resnet34-chain --planner contiguous",
    "gpipe": "resnet18-chain --planner gpipe",
    "sync-1f1b": "resnet18-chain --planner sync-1f1b --batches-per-flush 4",
}
_STAGING = {
    "mip": "tiny-stages --formulation mip-piper",
    "mip-reference": "resnet50-stages --formulation mip-piper --semantics reference",
    "mip-scip": "tiny-stages --formulation mip-piper --solver scip --warm-start none",
    "default": "bert-large-stages",
    "dp-reference": "bert-large-stages --planner dp-piper --semantics reference",
    "dp-flush": "gpt2-medium-stages --planner dp-piper --objective flush",
    "dp-cross-check": "tiny-stages --planner dp-piper --cross-check",
    "levels": "tiny-levels",
    "levels-given": "resnet50-stages --levels 4x300GB/s,2x12GB/s",
    "types": "{inputs}/staging_types.json",
    "infeasible": "tiny-stages --memory 1",
    "uniform": "bert-large-stages --uniform",
    "no-dp": "resnet50-stages --planner piper-no-dp",
    "no-tp": "bert-large-stages --planner piper-no-tp",
    "no-ar": "bert-large-stages --planner piper-no-ar",
    "equi": "bert-large-stages --planner equi",
    "equi-no-tp": "resnet50-stages --planner equi-no-tp",
    "pipedream": "resnet50-stages --planner piper-pipedream --memory 100GB",
}
_GRAPH = {
    "cp": "tiny-graph --formulation cp-graphpipe",
    "cp-convex": "tiny-graph --formulation cp-graphpipe --family convex",
    "cp-mixed": "tiny-graph --formulation cp-graphpipe --mixed-micro-batches --k 2",
    "default": "case-study",
    "iteration": "candle-uno-8 --planner graphpipe --objective iteration",
    "mixed": "tiny-graph --planner graphpipe --mixed-micro-batches --k 2",
    "parallel": "case-study --planner graphpipe-parallel",
    "shortest": "case-study --planner shortest-iteration",
    "spp-pipedream": "mmt-8 --planner spp-pipedream",
    "infeasible": "tiny-graph --memory 1",
}
_SCHEDULE = {
    "default": "zero-bubble-4x12 --memory 8 --objective span",
    "exact": "{inputs}/schedule_small.json --planner exact-schedule",
    "cp": "{inputs}/schedule_small.json --formulation cp-schedule --objective span",
    "ilp": "{inputs}/schedule_small.json --formulation ilp-zero-bubble --objective span --solver highs",
    "periodic": "v-shape-4",
    "cp-periodic": "{inputs}/schedule_steady.json --formulation cp-periodic --warm-start none",
    "infeasible": "zero-bubble-4x12 --memory 1",
    "list": "zero-bubble-4x12 --planner list-schedule --objective span",
    "list-period": "v-shape-4 --planner list-schedule --objective period",
    "gpipe": "zero-bubble-4x12 --planner gpipe --memory 24",
    "1f1b": "zero-bubble-4x12 --planner 1f1b",
    "zb-h1": "zero-bubble-4x12 --planner zb-h1 --objective span",
    "zb-h2": "zero-bubble-4x12 --planner zb-h2 --objective span",
    "zb-greedy": "zero-bubble-4x12 --planner zb-greedy --objective span",
    "interleaved": "{inputs}/interleaved.json --planner interleaved-1f1b",
    "zb-v": "{inputs}/v-pipeline.json --planner zb-v",
    "dualpipe-v": "{inputs}/v-pipeline.json --planner dualpipe-v",
    "rule-without-memory": "zero-bubble-4x12 --planner gpipe",
}
_TRAINING = {
    "default": "tiny-training",
    "experts": "tiny-experts-training",
    "margin": "tiny-training --memory-error 0.03",
    "scope": "tiny-experts-training --fix tensor=2 --forbid virtual=2 --layouts even",
    "infeasible": "tiny-training --memory 1GB",
    "guide": "llama-3-8b-8xh100 --planner guide",
    "even-layouts": "tiny-training --planner even-layouts",
    "full-recompute": "tiny-training --planner full-recompute",
    "no-recompute": "tiny-experts-training --planner no-recompute",
}
_FAMILIES = {
    "placement": _PLACEMENT, "latency": _LATENCY, "chain": _CHAIN, "staging": _STAGING, "graph-pipeline": _GRAPH,
    "schedule": _SCHEDULE, "training": _TRAINING,
}  # fmt: skip

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

CHANGED_ON_PURPOSE: Mapping[tuple[str, str], str] = {
    (
        "latency-",
        ".options.contiguity",
    ): "one sample at a time knows no stages, so no contiguity was ever asked for",
    **{
        (
            "chain-ilp-printed",
            f".{leaf}",
        ): "which of its plans is let through first is the solver's version's choice"
        for leaf in ("objective", "claimed", "gap", "messages[2]")
    },
    ("staging-infeasible", ".messages[0]"): "the least memory is said first",
    ("staging-infeasible", ".messages[1]"): "and then the layer that was said alone",
    ("placement-infeasible", ".messages"): "there was none, and now the least memory is said",
    ("placement-infeasible", ".messages[0]"): "this is it",
    ("graph-pipeline-infeasible", ".messages[2]"): "the least memory is said behind what there was",
    ("schedule-ilp", ".model_size.rows"): "the program reads the problem by itself, and narrows windows further",
    ("schedule-ilp", ".model_size.nonzeros"): "the same",
    ("schedule-ilp", ".proof.checks[0]"): "values are whole steps, so that the cut-off has other digits",
    ("schedule-ilp", ".proof.checks[1]"): "an integer solver takes the program now, and is a second opinion",
    ("staging-mip", ".options.variant"): "the program has one form",
}
"""By the start of a case's name and the path of a field: why it is no longer compared."""

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
