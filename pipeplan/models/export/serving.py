"""Servers that count layers: vLLM, SGLang and TensorRT-LLM exactly, llama.cpp in proportions.

All of them hold the embedding with the first layers and the head with the last; none says anything else.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from fractions import Fraction
from functools import partial
from itertools import accumulate

from ...instances.base.errors import show
from ...instances.base.quantities import several
from ...instances.physics.hardware import GPUS
from .contract import Exported, ToExport, degrees_of, usual_notes
from .names import NodeNames, around_of, layers_by_stage, renamed

TRAINED = "the plan was made for training; what a server runs is planned with --inference"
NO_CACHE = "no plan counts the memory of KV caches; leave room for them"


def _divide_layers(file: str, text: str, job: ToExport) -> Exported:
    """The file by which a server divides layers among stages; `text` has a place for the list of their numbers."""
    counts, notes = _counts(job)
    return Exported({file: text.format(_listed(counts), counts)}, notes)


vllm = partial(_divide_layers, "vllm.env", "VLLM_PP_LAYER_PARTITION={0}\n")
sglang = partial(_divide_layers, "sglang.env", "SGLANG_PP_LAYER_PARTITION={0}\n")
# A line of the YAML file with options of the LLM API.
trtllm = partial(_divide_layers, "trtllm.yaml", "pp_partition: {1}\n")


def llamacpp(job: ToExport) -> Exported:
    """Proportions, by which llama.cpp divides the layers and, as one more, the output."""
    if job.plan.training:
        raise job.refusal(
            f"it was made for training, with backward passes such as that of the node {show(job.stages[0].nodes[0])}, "
            "and llama.cpp serves",
            "plan with --inference",
        )
    counts, notes = _counts(job, tensor=False)
    exact = [*counts[:-1], counts[-1] + 1]
    becomes = divided(counts, sum(counts))
    about = f"llama.cpp takes proportions and counts the output as a layer: with all on devices it makes {becomes}"
    if becomes != counts and divided(exact, sum(counts)) == counts:
        about += f"; --tensor-split {_listed(exact)} makes {counts}"
    notes = (*notes, about, "llama.cpp keeps the embedding on the CPU")
    return Exported({"llamacpp.args": f"--split-mode layer --tensor-split {_listed(counts)}\n"}, notes)


def divided(proportions: list[int], layers: int) -> list[int]:
    """The layers of each device as llama.cpp divides them: with the output, which comes after the last layer."""
    borders = [Fraction(end, sum(proportions)) for end in accumulate(proportions)]
    homes = [bisect_right(borders, Fraction(layer, layers + 1)) for layer in range(layers)]
    return [homes.count(device) for device in range(len(proportions))]


def _counts(job: ToExport, *, tensor: bool = True) -> tuple[list[int], tuple[str, ...]]:
    """The layers of each rank, and what the text leaves out."""
    replicas, degree = degrees_of(job, tensor=tensor)
    counts = [stage.layers for stage in layers_by_stage(job)]
    for number, count in enumerate(counts):
        if not count:
            raise job.refusal(
                f"{job.at(number)}, holds no layer, and every rank must hold one",
                "plan with --option whole-layers, or for fewer --devices",
            )
    notes = usual_notes(job)
    if degree > 1:
        notes.append(f"stages are {degree} devices each: give that tensor-parallel size as well")
    if replicas > 1:
        notes.append(f"start a server for each of the {several(replicas, 'replica')}")
    notes += _about_gpus(job)
    if job.plan.training:
        notes.append(TRAINED)
    return counts, (*notes, NO_CACHE)


def _about_gpus(job: ToExport) -> list[str]:
    """Which rank is on which GPU, where a plan has several types of them, and how a server is told."""
    first = str(job.asked.get("devices", "")).partition(",")[0].partition("x")[2] or "the first type of devices"
    of_rank = {stage.rank: stage.gpu or first for stage in job.stages}
    types = list(dict.fromkeys(of_rank[rank] for rank in sorted(of_rank)))
    if len(types) < 2:
        return []
    ranks = {name: [str(rank) for rank in sorted(of_rank) if of_rank[rank] == name] for name in types}
    told = "; ".join(f"rank{'s' * (len(own) > 1)} {', '.join(own)} on {name}" for name, own in ranks.items())
    short = [name for name in types if name in GPUS and "bf16" not in GPUS[name].flops]
    return [
        f"GPUs by pipeline rank: {told}; name the GPUs of one machine in this order in CUDA_VISIBLE_DEVICES, with "
        "CUDA_DEVICE_ORDER=PCI_BUS_ID, and start several machines in it",
        *(f"{name} has no bfloat16: serve with --dtype half" for name in short),
    ]


def _listed(counts: list[int]) -> str:
    return ",".join(map(str, counts))


# ---- accelerate ------------------------------------------------------------
# accelerate: a `device_map`, module by module, for `dispatch_model` or `from_pretrained(device_map=...)`.
#
# Runs are naive: one device works at a time, and no schedule is followed.


FILE = "device_map.json"
NAIVE = "accelerate runs one device at a time: the plan's memory holds, its times do not"


def accelerate(job: ToExport) -> Exported:
    """The file `device_map.json` of a plan that has each module on one device, be it a CPU; other plans are refused."""
    degrees_of(job, replicas=False, tensor=False)
    numbers: dict[int, int] = {}  # accelerators are numbered in the order of their first stages, CPUs are one
    devices: list[int | str] = ["cpu" if s.on_cpu else numbers.setdefault(s.rank, len(numbers)) for s in job.stages]
    names = NodeNames(job)
    device_of: dict[str, int | str] = {}
    for number, node in ((number, node) for number, stage in enumerate(job.stages) for node in stage.nodes):
        for module in names.paths(node):
            if not names.holds_parameters(node, module):
                continue
            if device_of.setdefault(module, devices[number]) != devices[number]:
                raise job.refusal(
                    f"the node {show(node)} is the module {show(module)} on device {devices[number]} and on "
                    f"{device_of[module]}, and a module is on one device",
                    "plan with all nodes of the module together",
                )
    # Hooks move a module as a whole, so one that holds modules of other devices is left out.
    divided = {a for name, on in device_of.items() for a in around_of(name) if device_of.get(a, on) != on}
    whole = {name: device for name, device in device_of.items() if name not in divided}
    # A module inside a listed one is on the same device and need not be listed again.
    device_map = {name: device for name, device in whole.items() if not any(a in whole for a in around_of(name))}
    device_map |= _parameters(job, device_map, devices)
    notes = usual_notes(job)
    if job.profile is not None and job.profile.tied:
        # A profile does not list modules in which nothing runs, and T5 keeps its embedding in such a module.
        same = " and ".join(job.profile.tied[0])
        notes.append(
            f"{same} are one parameter: if it is also that of a module in which nothing runs, add that one"
        )
    return Exported({FILE: json.dumps(device_map) + "\n"}, (*notes, NAIVE))


def _parameters(job: ToExport, device_of: dict[str, int | str], devices: list[int | str]) -> dict[str, int | str]:
    """The devices of parameters that lie in no listed module, so that they have to be listed themselves."""
    if job.profile is None or not any(node.modules for node in job.profile.nodes):
        return {}
    missing: dict[str, int | str] = {}
    for node in job.profile.nodes:
        for name in (renamed(name, job.options.rename) for name in node.parameters):
            if not any(around in device_of for around in (name, *around_of(name))):
                missing.setdefault(name, devices[job.plan.stage_of[node.id]])
    return missing
