"""Calculon as shipped, asked for the seconds of measured runs: `benchmarks/measured.py FOLDER --peer CHECKOUT`.

A checkout of github.com/calculon-ai/calculon is imported in a process of its own, which is this file as a program:

    python benchmarks/peer.py CHECKOUT < questions.json > answers.json

Nothing is tuned. Its own files say what a GPU reaches, its own options say what a run does, and what these cannot say
it is not asked: no context parallelism, no weights that are divided (ZeRO 2 and 3), no A100 of 40 GB, no V100. It knows
no vocabulary, so that embedding, head and loss take no time, and no fused attention, for which `attn_only` is the
nearest: the matrix is computed again and not kept. A gated MLP is a plain one of as many weights.
"""

from __future__ import annotations

import importlib
import json
import logging
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from measured import Run

Answer = float | str  # seconds, or why there are none
# Its files for systems by the names that GPUs have here.
SYSTEMS = {"a100-80gb": "a100_80g", "h100-80gb": "h100_80g_nvl8"}
NODE = 8


def refusal(run: Run) -> str | None:
    """What its options cannot say of this run; None: nothing."""
    if run.problem.gpu.name not in SYSTEMS:
        return f"no file for {run.problem.gpu.name}"
    if run.plan.degrees.context > 1:
        return "no context parallelism"
    return "no ZeRO 2 or 3" if run.plan.zero > 1 else None


def question(run: Run) -> dict[str, Any]:
    """Its application, its execution and the name of its system."""
    problem, plan, model, degrees = run.problem, run.plan, run.problem.model, run.plan.degrees
    attention, mlp, word = model.attention, model.mlp, plan.recompute[0]
    if attention is None or mlp is None:
        raise ValueError("measured models have attention and an MLP")
    application = {
        "hidden": model.hidden,
        # Three products of a gated MLP are as many weights as two of one that is half as large again.
        "feedforward": mlp.hidden * 3 // 2 if mlp.gated else mlp.hidden,
        "seq_size": problem.sequence,
        "attn_heads": attention.heads,
        "attn_size": attention.head_size,
        "num_blocks": model.layers,
    }
    divided = problem.sequence_parallel and degrees.tensor > 1
    again = "full" if word.modules == ("full",) else "attn_only" if problem.flash_attention else "none"
    hides = problem.rules.hides[plan.zero].gradients and (degrees.pipeline == 1 or problem.rules.pipelines_hide)
    execution = {
        "num_procs": problem.devices,
        **{f"{name}_par": getattr(degrees, name) for name in ("tensor", "pipeline", "data")},
        # Its first network joins the GPUs of a node, its second one all of them.
        "tensor_par_net": int(degrees.tensor > NODE),
        "pipeline_par_net": int(problem.devices > NODE),
        "data_par_net": int(degrees.tensor * degrees.data > NODE),
        "batch_size": problem.batch,
        "microbatch_size": plan.micro_batch,
        "datatype": "float8" if problem.precision == "fp8" else "float16",
        "fused_activation": True,
        "attention_type": "multihead",
        "activation_recompute": again,
        "pipeline_interleaving": degrees.virtual,
        "optimizer_sharding": plan.zero > 0 and degrees.data > 1,
        "tensor_par_comm_type": "rs_ag" if divided else "ar",
        "tensor_par_overlap": "ring" if degrees.tensor > 1 and problem.efficiencies.tensor_hidden else "none",
        "seq_par_ag_redo": divided and again != "full",
        "data_par_overlap": hides and degrees.data > 1,
        **dict.fromkeys(("weight_offload", "activations_offload", "optimizer_offload"), False),
        "training": True,
    }
    return {"application": application, "execution": execution, "system": SYSTEMS[problem.gpu.name]}


def ask(checkout: Path, runs: Sequence[Run]) -> list[Answer]:
    """What the checkout says of each run, in their order."""
    reasons = [refusal(run) for run in runs]
    asked = [question(run) for run, reason in zip(runs, reasons, strict=True) if reason is None]
    command = [sys.executable, str(Path(__file__).resolve()), str(checkout.resolve())]
    done = subprocess.run(command, input=json.dumps(asked), capture_output=True, text=True, cwd=checkout)
    if done.returncode:
        raise OSError(f"{checkout} is no checkout of Calculon that runs: {done.stderr.strip()[-300:]}")
    answers = iter(json.loads(done.stdout))
    return [reason or next(answers) for reason in reasons]


def answer_questions(checkout: Path, asked: Sequence[dict[str, Any]]) -> list[Answer]:
    """In the process of the checkout: its own steps (calculon/llm/runner.py). What it does not run it refuses by an
    error of its own or by an assertion."""
    sys.path[:0] = [str(checkout)]
    its, llm = importlib.import_module("calculon"), importlib.import_module("calculon.llm").Llm
    answers: list[Answer] = []
    for each in asked:
        system = its.System(its.io.read_json_file(str(checkout / "systems" / f"{each['system']}.json")))
        try:
            model = llm(llm.Application(each["application"]), logging.getLogger())
            model.compile(system, llm.Execution.from_json(each["execution"]))
            model.run(system)
            answers.append(model.get_total_time())
        except (llm.Error, AssertionError) as error:
            answers.append(str(error) or "an assertion")
    return answers


if __name__ == "__main__":
    print(json.dumps(answer_questions(Path(sys.argv[1]), json.load(sys.stdin))))
