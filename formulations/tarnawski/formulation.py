"""`ip-tarnawski`: the throughput IP, contiguous or not, plain or strong, behind the common contract."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import count
from typing import Any

from ...instances.base.errors import UsageError
from ...instances.base.graph import adjacency, topological_order
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ..contract import (
    BuiltModel,
    CommonFormulation,
    ExtraRow,
    FarCosts,
    NativeModel,
    NoRowsError,
    Options,
    Refuted,
    Stage,
    Values,
    Wanted,
    check_type,
    side_by_side,
)
from ..family import PLACEMENTS, Family
from ..placement_memory import cover_rows
from . import cp
from .groups import GroupProblem, capped, contract, costs_of
from .reductions import Reduced, average_load_bound, reduce_groups, worst_value


def check_plain(name: str, problem: PlacementProblem) -> None:
    """A `UsageError` for all but placements on accelerators that are alike.

    For callers of a formulation itself: commands refuse the others before (`check_extensions`).
    """
    check_type(name, problem, PlacementProblem)
    if problem.extensions:
        raise UsageError(f"{name} plans accelerators of one type.")


# Who works on the throughput program where the user names no solver, for how long, and what else is worth a try.
#
# What a study of open solvers on these models found, and our own runs confirm: with stage order CP-SAT alone is
# best by far; without it, CP-SAT decides packing-like problems within seconds or not at all, while HiGHS
# needs some start-up and then grinds down the communication-bound ones. Most of these fall to column generation.

# CP-SAT has the machine for itself.
SPRINT = Stage("decide", ("cp-sat",), 5.0)

# Long enough for small problems and packings, which it decides at once.
OPENING = Stage("decide", ("cp-sat",), 2.0)

# Annealing, the first and the second time.
SEARCHES = tuple(
    Stage("search", seconds=seconds, planner="lns", options={"cycles": 10_000}) for seconds in (4.0, 8.0)
)

# Column generation over what one device can hold: where transfers are dear, bounds come from here.
DEVICES = Stage("search", seconds=900.0, planner="device-sets", share=0.8)


class TarnawskiThroughput(FarCosts, CommonFormulation):
    """Minimise the largest device load (time per sample of a pipeline in steady state)."""

    rows_see_groups_alone = False
    """For derived classes: are the rows that they add, if any, kept by all reductions of the strong variant? These lose
    plans where a node without costs is on another device than its neighbour, and where accelerators change names."""

    def check(self, problem: PlacementProblem, options: Options) -> None:
        check_plain("ip-tarnawski", problem)

    def contiguity(self, options: Options) -> str:
        """The plain variant keeps the published notion, device by device."""
        if options["non_contiguous"]:
            return "none"
        return "device" if options["variant"] == "plain" else "chain"

    def portfolio(self, problem: Any, options: Options, *, found: bool) -> tuple[Stage, ...]:
        """Without any plan there is nothing to search from. Else annealing comes early, since a better plan gives a
        better cut-off, and the sets of one device next; what CP-SAT does not decide at once it hardly decides."""
        if options["variant"] == "plain":
            return side_by_side("highs")
        if not options["non_contiguous"]:
            return side_by_side("cp-sat")
        both = side_by_side("highs", "cp-sat")
        if not found:
            return (SPRINT, *both)
        return (OPENING, SEARCHES[0], DEVICES, SPRINT, SEARCHES[1], *both)

    def lower_bound(self, problem: PlacementProblem, options: Options) -> float:
        return average_load_bound(_contracted(problem, False, options["objective"]))

    def costs(self, problem: PlacementProblem, options: Options) -> Iterator[float]:
        return costs_of(_contracted(problem, not options["non_contiguous"], options["objective"]))

    def model(self, problem: PlacementProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        cutoff = wanted.cutoff
        if options["variant"] == "plain":
            return _build_plain(problem, options, cutoff)
        if type(self) is not TarnawskiThroughput and not self.rows_see_groups_alone:
            raise NoRowsError(
                f"{type(self).__name__} derives from ip-tarnawski, whose strong variant loses plans that rows of your "
                "own may need; give --option variant=plain, make it the default of your entry, or set "
                "rows_see_groups_alone (docs/extending.md)."
            )
        contiguous = not options["non_contiguous"]
        groups = _contracted(problem, contiguous, options["objective"])
        limit = worst_value(problem) if cutoff is None else cutoff
        lower_bound = min(average_load_bound(groups), limit)
        if lower_bound >= limit and cutoff is not None:
            return Refuted("the devices together have too little time for the work")
        reduced = _reduced(capped(groups, limit), limit)
        if isinstance(reduced, Refuted):
            return reduced
        return _build_strong(problem, reduced, contiguous, wanted, limit, lower_bound)


FORMULATION = TarnawskiThroughput()


def family(problem: PlacementProblem, options: Options) -> Family:
    """The family of all plans that the referee accepts by its notion of contiguity."""
    contiguity = FORMULATION.contiguity(options)
    return Family(PLACEMENTS[contiguity], None if contiguity == "none" else "--non-contiguous")


@lru_cache(maxsize=8)
def _contracted(problem: PlacementProblem, contiguous: bool, objective: str) -> GroupProblem:
    return contract(problem, contiguous=contiguous, objective=objective)


@lru_cache(maxsize=2)
def _reduced(groups: GroupProblem, cutoff: float) -> Reduced | Refuted:
    """The reductions, kept because backends that work side by side ask for the same ones."""
    return reduce_groups(groups, cutoff)


def _build_strong(
    problem: PlacementProblem, reduced: Reduced, contiguous: bool, wanted: Wanted, cutoff: float, lower_bound: float
) -> BuiltModel:
    groups, rounding = reduced.groups, 0.0
    model: Any
    if wanted.native:
        data = cp.payload(reduced, contiguous, cutoff, lower_bound, wanted.precision)
        rounding = (groups.count * len(groups.times) + len(groups.nets)) / data["scale"]
        model = NativeModel(f"{cp.__name__}:build", data)
    else:
        from . import strong

        build = strong.build_by_stage if contiguous else strong.build_by_device
        model = build(reduced, cutoff=cutoff, lower_bound=lower_bound)
    size = {"groups": groups.count, "nets": len(groups.nets), "arcs": len(groups.arcs)}

    def decode(values: Values) -> PlacementPlan:
        position = _positions(values, groups.count, groups.accelerators + groups.cpus)
        if not contiguous:
            return groups.plan(problem, position)
        # Stages become devices: accelerators and CPUs are numbered in stage order.
        accelerators, cpus = count(), count(groups.accelerators)
        device_of_stage = [
            next(cpus if groups.cpus and values.get(f"w[{j}]", 0.0) > 0.5 else accelerators)
            for j in range(groups.accelerators + groups.cpus)
        ]
        return groups.plan(problem, [device_of_stage[j] for j in position])

    def encode(plan: PlacementPlan) -> Values | None:
        device_of = groups.devices(problem, plan)
        if device_of is None:
            return None
        if contiguous:
            return _encode_stages(groups, device_of)
        return _encode_devices(groups, device_of, reduced.pinned)

    def exclude(plan: PlacementPlan) -> list[ExtraRow]:
        """No accelerator, or stage that is no CPU, holds more of a cover than fits."""

        def columns(g: int, j: int) -> list[str]:
            return [f"x[{g},{j}]"] if wanted.native or (g, j) in model.x else []

        positions = range(groups.accelerators + (groups.cpus if contiguous else 0))
        return cover_rows(
            problem, groups.members, plan, positions, columns, "w" if contiguous and groups.cpus else None
        )

    def key() -> list[str]:
        names = [", ".join(str(problem.nodes[v].id) for v in members) for members in groups.members]
        pins = [", ".join(map(str, net.pins)) for net in groups.nets]
        return [
            *(f"group {g}: nodes {nodes}" for g, nodes in enumerate(names)),
            *(f"net {e}: groups {pins[e]}" for e in range(len(pins))),
        ]

    return BuiltModel(model, decode, encode, size=size, exclude=exclude, rounding=rounding, key=key)


def _build_plain(problem: PlacementProblem, options: Options, cutoff: float | None) -> BuiltModel:
    from . import plain

    model = plain.build(
        problem, contiguous=not options["non_contiguous"], objective=options["objective"], cutoff=cutoff
    )
    devices = range(problem.accelerators + problem.cpus)
    singles = contract(problem, contiguous=False, objective=options["objective"])

    def decode(values: Values) -> PlacementPlan:
        at = _positions(values, len(problem.nodes), len(devices))
        return PlacementPlan.from_assignment(problem, {node.id: at[v] for v, node in enumerate(problem.nodes)})

    def encode(plan: PlacementPlan) -> Values | None:
        device_of = singles.devices(problem, plan)
        if device_of is None:
            return None
        at = {i: device_of[g] for g, members in enumerate(singles.members) for i in members}
        return {f"x[{v},{j}]": float(at[v] == j) for v in range(len(problem.nodes)) for j in devices}

    def exclude(plan: PlacementPlan) -> list[ExtraRow]:
        """No accelerator holds more of a cover than fits."""
        nodes = [(v,) for v in range(len(problem.nodes))]
        return cover_rows(problem, nodes, plan, range(problem.accelerators), lambda v, i: [f"x[{v},{i}]"])

    # On an integer grid for the loads the optimum grows by less than one step per part.
    step = (cutoff if cutoff is not None else worst_value(problem)) / 2**24
    parts = 2 if options["objective"] == "gpipe" else 1
    grids = {f"T[{q}]": step for q in range(parts)}
    for family in ("comm_in", "comm_out", "z"):
        grids.update({variable.name: 1.0 for variable in getattr(model, family, {}).values()})
    return BuiltModel(model, decode, encode, grids=grids, grid_loss=parts * step, exclude=exclude)


def _positions(values: Values, count: int, positions: int) -> list[int]:
    """The position of each group: where x[g, j] is largest (pairs that the model left out count as 0)."""
    return [max(range(positions), key=lambda j: values.get(f"x[{g},{j}]", 0.0)) for g in range(count)]


def _encode_stages(groups: GroupProblem, device_of: Sequence[int]) -> Values | None:
    """Devices in a topological order of the quotient graph; None where it has a cycle."""
    arcs = {(device_of[u], device_of[v]) for u, v in groups.arcs if device_of[u] != device_of[v]}
    order = topological_order(adjacency(groups.accelerators + groups.cpus, sorted(arcs)))
    if order is None:
        return None
    stage = {device: j for j, device in enumerate(order)}
    positions = range(len(order))
    values = {}
    for g, device in enumerate(device_of):
        for j in positions:
            values[f"x[{g},{j}]"] = float(stage[device] == j)
            if j:  # y[g, 0] is 1 and no variable
                values[f"y[{g},{j}]"] = float(stage[device] >= j)
    if groups.cpus:
        values.update({f"w[{j}]": float(order[j] >= groups.accelerators) for j in positions})
    return values


def _encode_devices(groups: GroupProblem, device_of: Sequence[int], pinned: Sequence[int]) -> Values:
    """Accelerators renamed by first use in the order of `pinned`, as the symmetry rule asks."""
    rename: dict[int, int] = {}
    for g in (*pinned, *range(groups.count)):
        if device_of[g] < groups.accelerators:
            rename.setdefault(device_of[g], len(rename))
    values = {}
    for g, device in enumerate(device_of):
        position = rename.get(device, device)
        for j in range(groups.accelerators + groups.cpus):
            values[f"x[{g},{j}]"] = float(position == j)
    return values
