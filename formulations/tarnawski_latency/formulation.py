"""`ip-tarnawski-latency`: single-stream inference or training, behind the common contract."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ...instances.base.errors import InputError
from ...instances.base.quantities import several
from ...instances.physics.tolerances import SAFETY
from ...instances.placement.plan import PlacementPlan
from ...instances.placement.problem import PlacementProblem
from ..contract import (
    BuiltModel,
    CommonFormulation,
    ExtraRow,
    FarCosts,
    NativeModel,
    Options,
    Refuted,
    Values,
    Wanted,
)
from ..family import Family
from ..placement_memory import cover_rows
from ..tarnawski.formulation import check_plain
from . import cp
from .atoms import (
    Atoms,
    Staged,
    atoms_of,
    capped,
    costs_of,
    held_columns,
    plan_of,
    read_staged,
    staged_of,
    write_staged,
)
from .cells import cell_bound
from .path_bound import path_bound


class TarnawskiLatency(FarCosts, CommonFormulation):
    """Minimise the time from the arrival of one sample to its last result.

    Pieces are convex; whole devices need not be.
    """

    def check(self, problem: PlacementProblem, options: Options) -> None:
        check_plain("ip-tarnawski-latency", problem)
        pieces = options["subgraphs_per_device"]
        if pieces < 1:
            raise InputError("option subgraphs_per_device", f"is {pieces}", "give a whole number >= 1")

    def solvers(self, problem: PlacementProblem, options: Options) -> tuple[str, ...]:
        return ("highs" if options["variant"] == "plain" else "cp-sat",)

    def lower_bound(self, problem: PlacementProblem, options: Options) -> float:
        """The best division of a long path, or of a row of cells, with the transfers that it causes."""
        return least_latency(problem, options["subgraphs_per_device"])

    def costs(self, problem: PlacementProblem, options: Options) -> tuple[float, ...]:
        return costs_of(atoms_for(problem, options["subgraphs_per_device"]))

    def model(self, problem: PlacementProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        atoms, cutoff = atoms_for(problem, options["subgraphs_per_device"]), wanted.cutoff
        limit = atoms.worst_value() if cutoff is None else cutoff
        bound = least_latency(problem, options["subgraphs_per_device"], further=False)
        if bound > limit:
            return Refuted("one path or row of cells alone takes longer, however it is divided")
        if options["variant"] == "plain" or not wanted.native:  # MIP solvers take the program as published
            from . import plain

            single = capped(atoms_of(problem, options["subgraphs_per_device"], merged=False), limit)
            return _built(
                problem, single, plain.build(single, cutoff=cutoff), plain.read, plain.write, plain.columns
            )
        atoms = capped(atoms, limit)
        data = cp.payload(atoms, cutoff=limit, lower_bound=bound, precision=wanted.precision)
        model, rounding = NativeModel(f"{cp.__name__}:build", data), cp.rounding(atoms, data)
        return _built(problem, atoms, model, read_staged, write_staged, held_columns, rounding)


FORMULATION = TarnawskiLatency()


def family(problem: PlacementProblem, options: Options) -> Family:
    """The family of all plans that the referee accepts with so many pieces."""
    pieces = options["subgraphs_per_device"]
    counted = "one piece" if pieces == 1 else f"at most {several(pieces, 'piece')}"
    wider = f"--subgraphs-per-device {2 * pieces}" if pieces < len(problem.nodes) else None
    return Family(f"placements of {counted} per accelerator", wider)


@lru_cache(maxsize=8)
def atoms_for(problem: PlacementProblem, pieces: int) -> Atoms:
    """The problem in atoms: classes of nodes that must share a piece are one atom."""
    return atoms_of(problem, pieces)


def least_latency(problem: PlacementProblem, pieces: int, *, further: bool = True) -> float:
    """No plan takes less; 0 where some node can be nowhere. `further`: as in `cell_bound`."""
    atoms = atoms_for(problem, pieces)
    bound = max(path_bound(atoms), cell_bound(atoms, further=further)) * (1 - SAFETY)
    return bound if math.isfinite(bound) else 0.0


def _built(
    problem: PlacementProblem,
    atoms: Atoms,
    model: Any,
    read: Callable[[Values, Atoms], Staged],
    write: Callable[[Staged, Atoms], Values],
    columns: Callable[[Atoms, int, int], list[str]],
    rounding: float = 0.0,
) -> BuiltModel:
    """The model with its translations. `columns` names binaries, of which one is 1 if an atom is on an accelerator."""

    def decode(values: Values) -> PlacementPlan:
        return plan_of(problem, atoms, read(values, atoms))

    def encode(plan: PlacementPlan) -> Values | None:
        staged = staged_of(problem, atoms, plan)
        return None if staged is None else write(staged, atoms)

    def exclude(plan: PlacementPlan) -> list[ExtraRow]:
        """Rows by which no accelerator holds more of a cover than fits, for covers that the plan breaks."""
        devices = range(atoms.accelerators)
        return cover_rows(problem, atoms.members, plan, devices, lambda a, i: columns(atoms, a, i))

    def key() -> list[str]:
        nodes = [", ".join(str(problem.nodes[v].id) for v in members) for members in atoms.members]
        return [f"atom {a}: nodes {names}" for a, names in enumerate(nodes)]

    size = {"atoms": atoms.count, "stages": atoms.stages, "arcs": len(atoms.arcs)}
    return BuiltModel(model, decode, encode, size=size, exclude=exclude, rounding=rounding, key=key)
