"""`cp-tarnawski`: the best max-load among plans whose latency for one sample is within a limit."""

from __future__ import annotations

from dataclasses import replace

from ...instances.base.errors import InputError, UsageError
from ...instances.base.quantities import several
from ...instances.physics.tolerances import LIMIT_SLACK, SAFETY
from ...instances.placement.plan import Device, PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ...instances.registry import stage_order_of
from ..contract import (
    BuiltModel,
    CommonFormulation,
    ExtraRow,
    NativeModel,
    NativeOnlyError,
    Options,
    Refuted,
    Values,
    Wanted,
)
from ..family import PLACEMENTS, Family
from ..placement_memory import cover_rows
from ..tarnawski.bounds import average_load_bound, worst_value
from ..tarnawski.formulation import check_plain
from ..tarnawski.groups import capped as capped_groups
from ..tarnawski.groups import contract
from ..tarnawski.reductions import Reduced, forced
from . import cp, limited_cp
from .atoms import Atoms, atoms_of, capped
from .formulation import least_latency
from .limited_cp import Limits
from .path_bound import path_bound
from .translate import Staged, held_columns, plan_of, read_staged, staged_of, write_staged

NAME = "cp-tarnawski"


class TarnawskiWithinLatency(CommonFormulation):
    """Minimise the largest load of a device; one sample alone takes no longer than the limit."""

    def check(self, problem: PlacementProblem, options: Options) -> None:
        check_plain(NAME, problem)
        if problem.has_backward:
            raise UsageError(
                f"{NAME} plans inference, and this problem has backward nodes, for which a limit on the latency of a "
                "sample says nothing about the pipeline; drop --latency-limit."
            )
        _check_options(options)

    def contiguity(self, options: Options) -> str:
        return "none" if options["non_contiguous"] else "chain"

    def lower_bound(self, problem: PlacementProblem, options: Options) -> float:
        """A bound that holds without the limit, too: all devices together must do all the work."""
        return average_load_bound(contract(problem, contiguous=False))

    def model(self, problem: PlacementProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        if not wanted.native:
            raise NativeOnlyError(NAME)
        cutoff = worst_value(problem) if wanted.cutoff is None else wanted.cutoff
        limits = Limits(options["latency_limit"] * (1 + LIMIT_SLACK), cutoff, self.lower_bound(problem, options))
        if limits.load > cutoff:
            return Refuted("the devices together have too little time for the work")
        if least_latency(problem, options["subgraphs_per_device"]) > limits.latency:
            return Refuted("one path alone takes longer than the limit, however it is divided")
        # What shares a device in every plan of load at most `cutoff`, as `ip-tarnawski` knows it. Its fusing of
        # nodes that cost nothing is not for us: such a node has to wait for all of its piece.
        reduced = forced(capped_groups(contract(problem, contiguous=not options["non_contiguous"]), cutoff), cutoff)
        if isinstance(reduced, Refuted):
            return reduced
        return _model(problem, options, limits, reduced, wanted.precision)


FORMULATION = TarnawskiWithinLatency()


def family(problem: PlacementProblem, options: Options) -> Family:
    """The family of all plans that the referee accepts by its notion of contiguity and within the limit."""
    limit, pieces = options["latency_limit"], options["subgraphs_per_device"]
    scope = f"{PLACEMENTS[FORMULATION.contiguity(options)]}, of latency at most {limit!r}"
    if not options["non_contiguous"]:
        return Family(scope, "--non-contiguous")
    counted = "one piece" if pieces == 1 else f"at most {several(pieces, 'piece')}"
    wider = f"--subgraphs-per-device {2 * pieces}" if pieces < len(problem.nodes) else None
    return Family(f"{scope}, with {counted} per accelerator", wider)


def _model(
    problem: PlacementProblem, options: Options, limits: Limits, reduced: Reduced, step: float
) -> BuiltModel | Refuted:
    contiguous, pieces = not options["non_contiguous"], options["subgraphs_per_device"]
    atoms = atoms_of(problem, pieces, classes=reduced.groups.members)
    limits = replace(limits, latency=min(limits.latency, atoms.worst_value()))
    least = path_bound(atoms) * (1 - SAFETY)
    if least > limits.latency:
        return Refuted("one path alone takes longer than the limit, however it is divided")
    atoms = capped(atoms, limits.latency)
    limits = replace(limits, least_latency=least)
    data = limited_cp.payload(problem, atoms, limits, reduced, contiguous=contiguous, step=step)
    model = NativeModel(f"{limited_cp.__name__}:build", data)
    return _built(problem, atoms, model, contiguous, cp.rounding(atoms, data))


def _check_options(options: Options) -> None:
    limit, pieces = options["latency_limit"], options["subgraphs_per_device"]
    if limit is None:
        raise UsageError(f"{NAME} plans within a limit on the latency; give one with --latency-limit.")
    if not limit > 0:
        raise InputError("option latency_limit", f"is {limit!r}", "give a time above 0")
    if pieces < 1:
        raise InputError("option subgraphs_per_device", f"is {pieces}", "give a whole number >= 1")
    if pieces > 1 and not options["non_contiguous"]:
        raise UsageError(
            "Contiguous plans have one piece per accelerator; drop --subgraphs-per-device, or give --non-contiguous."
        )


def _built(
    problem: PlacementProblem, atoms: Atoms, model: NativeModel, contiguous: bool, rounding: float
) -> BuiltModel:
    def decode(values: Values) -> PlacementPlan:
        plan = _shared(problem, atoms, values, plan_of(problem, atoms, read_staged(values, atoms)))
        return _without_pieces(plan) if contiguous else plan

    def encode(plan: PlacementPlan) -> Values | None:
        staged = _chained(problem, atoms, plan) if contiguous else staged_of(problem, atoms, plan)
        return None if staged is None else {**write_staged(staged, atoms), **_cpu_values(problem, atoms, plan)}

    def exclude(plan: PlacementPlan) -> list[ExtraRow]:
        """No accelerator holds more of a cover than fits."""
        devices = range(atoms.accelerators)
        return cover_rows(problem, atoms.members, plan, devices, lambda a, i: held_columns(atoms, a, i))

    size = {"atoms": atoms.count, "stages": atoms.stages, "arcs": len(atoms.arcs)}
    return BuiltModel(model, decode, encode, size=size, exclude=exclude, rounding=rounding)


def _chained(problem: PlacementProblem, atoms: Atoms, plan: PlacementPlan) -> Staged | None:
    """The plan's stages in the order of its chain; None where it is no chain, has too many stages or tears an atom."""
    order = stage_order_of(problem, plan)
    held = {device.name: device.nodes for device in plan.devices if device.type == "accelerator" and device.nodes}
    used = [name for name in order or () if name in held]
    if order is None or len(used) > atoms.stages:
        return None
    stage_of_node = {problem.index[node_id]: p for p, name in enumerate(used) for node_id in held[name]}
    seen = [{stage_of_node.get(i) for i in members} for members in atoms.members]
    if any(len(stages) > 1 for stages in seen):
        return None
    return Staged(tuple(stages.pop() for stages in seen), tuple(range(atoms.stages)))


def _shared(problem: PlacementProblem, atoms: Atoms, values: Values, plan: PlacementPlan) -> PlacementPlan:
    """The plan with the pool's nodes on their own CPUs."""
    nodes_of_cpu: list[list[int]] = [[] for _ in range(problem.cpus)]
    for a, members in enumerate(atoms.members):
        for j in range(problem.cpus):
            if values.get(f"c[{a},{j}]", 0.0) > 0.5:
                nodes_of_cpu[j] += members
    nodes = [tuple(problem.nodes[i].id for i in sorted(mine)) for mine in nodes_of_cpu]
    accelerators = (device for device in plan.devices if device.type == "accelerator")
    return replace(plan, devices=(*accelerators, *(Device(f"cpu{j}", "cpu", mine) for j, mine in enumerate(nodes))))


def _without_pieces(plan: PlacementPlan) -> PlacementPlan:
    """A contiguous plan says nothing of pieces: what is on a device is one."""
    return replace(plan, devices=tuple(replace(device, subgraphs=None) for device in plan.devices))


def _cpu_values(problem: PlacementProblem, atoms: Atoms, plan: PlacementPlan) -> Values:
    """Values of c[a, j]: atom a is on CPU j; CPUs are named in the order of their first atom, as in the model."""
    place = {node_id: device.name for device in plan.devices if device.type == "cpu" for node_id in device.nodes}
    number: dict[str, int] = {}
    values: dict[str, float] = {}
    for a, members in enumerate(atoms.members):
        name = place.get(problem.nodes[members[0]].id)
        own = None if name is None else number.setdefault(name, len(number))
        values |= {f"c[{a},{j}]": float(j == own) for j in range(problem.cpus)}
    return values
