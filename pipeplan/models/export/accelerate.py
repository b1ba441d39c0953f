"""accelerate: a `device_map`, module by module, for `dispatch_model` or `from_pretrained(device_map=...)`.

Runs are naive: one device works at a time, and no schedule is followed.
"""

from __future__ import annotations

import json

from ...instances.base.errors import show
from .contract import Exported, ToExport, degrees_of, usual_notes
from .names import NodeNames, around_of, renamed

FILE = "device_map.json"
NAIVE = "accelerate runs one device at a time: the plan's memory holds, its times do not"


def export(job: ToExport) -> Exported:
    """The file `device_map.json` of a plan that has each module on one device, be it a CPU; other plans are refused."""
    degrees_of(job, replicas=False, tensor=False)
    devices = _device_of_stages(job)
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
    device_map = _without_repetition(_without_divided(device_of))
    device_map |= _parameters(job, device_map, devices)
    return Exported({FILE: json.dumps(device_map) + "\n"}, (*usual_notes(job), *_about_ties(job), NAIVE))


def _about_ties(job: ToExport) -> list[str]:
    """A note on parameters that two modules share.

    A profile does not list modules in which nothing runs, and T5 keeps its embedding in such a module.
    """
    if job.profile is None or not job.profile.tied:
        return []
    one, other = job.profile.tied[0]
    return [
        f"{one} and {other} are one parameter: if it is also that of a module in which nothing runs, add that one"
    ]


def _device_of_stages(job: ToExport) -> list[int | str]:
    """Accelerators are numbered in the order of their first stages, CPUs are one."""
    numbers: dict[int, int] = {}
    return ["cpu" if stage.on_cpu else numbers.setdefault(stage.rank, len(numbers)) for stage in job.stages]


def _without_divided(device_of: dict[str, int | str]) -> dict[str, int | str]:
    """Leave out modules that hold modules of other devices, since hooks move a module as a whole."""
    divided = {
        around
        for name, device in device_of.items()
        for around in around_of(name)
        if device_of.get(around, device) != device
    }
    return {name: device for name, device in device_of.items() if name not in divided}


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


def _without_repetition(device_of: dict[str, int | str]) -> dict[str, int | str]:
    """A module inside a listed one is on the same device and need not be listed again."""
    return {name: device for name, device in device_of.items() if not any(a in device_of for a in around_of(name))}
