"""Several plans of one model in one start of the ranks, which takes longer than all that small models compute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeplan import Device, PlacementPlan, Profile, import_torch
from pipeplan.instances.registry import Plan
from pipeplan.models.run.launch import Case, Job, launch
from pipeplan.models.run.orders import schedule_of
from pipeplan.models.run.report import CaseReport, case_report

MODELS = Path(__file__).with_name("problems") / "torch_models.py"
MICRO_BATCHES = 4


def profile_of(function: str, file: Path = MODELS, **options: Any) -> Profile:
    return import_torch(f"{file}:{function}", hardware="h100-80gb", **options)


def placed(profile: Profile, devices: Sequence[int]) -> PlacementPlan:
    """Node i of the profile on device `devices[i]`."""
    held: dict[int, list[str]] = {}
    for node, device in zip(profile.nodes, devices, strict=True):
        held.setdefault(device, []).append(node.id)
    return PlacementPlan(tuple(Device(f"acc{d}", "accelerator", tuple(held[d])) for d in sorted(held)))


def in_shares(profile: Profile, *shares: int) -> PlacementPlan:
    """So many nodes for each piece in turn, which go to two devices by turns."""
    devices = [number % 2 for number, share in enumerate(shares) for _ in range(share)]
    return placed(profile, devices)


def run_cases(
    function: str,
    profile: Profile,
    plans: Mapping[str, Plan],
    *,
    file: Path = MODELS,
    steps: int = 1,
    micro_batches: int = MICRO_BATCHES,
) -> dict[str, CaseReport]:
    """Each plan checked against one process."""
    schedules = {name: schedule_of(plan, profile, micro_batches) for name, plan in plans.items()}
    job = Job(
        model=f"{file}:{function}", samples=profile.micro_batch, graph_sha256=profile.source["graph_sha256"],
        granularity=profile.source["granularity"], loss=profile.source.get("loss"), training=profile.training,
        ranks=max(schedule.ranks for schedule in schedules.values()), micro_batches=micro_batches, steps=steps,
        warm_up=0, check=profile.training, deadline_s=300.0,
        cases=tuple(Case.of(name, schedule) for name, schedule in schedules.items()),
    )  # fmt: skip
    answers = launch(job)
    return {name: case_report(name, schedule, answers) for name, schedule in schedules.items()}
