"""`ilp-beaumont`: the periodic-pattern program behind the common contract, corrected or as printed."""

from __future__ import annotations

from functools import partial

from ....instances.base.amounts import as_written
from ....instances.base.errors import InputError, UsageError
from ....instances.chain.plan import PatternPlan, given_allocation
from ....instances.chain.problem import ChainProblem
from ...contract import BuiltModel, CommonFormulation, Options, Refuted, Values, Wanted
from .. import bounds
from ..checks import check_chain
from ..decimals import FINE, grid_below, most_periods
from ..no_goods import NoGoods
from . import cuts, memory, order, period, resources, shifts, translate
from .errata import CORRECTED, PRINTED
from .facts import Facts, facts_of
from .frame import Frame

# The largest ratio of two times that the program is built for: tolerances of solvers are about a millionth.
WIDEST = 10**8

PRINTED_NOTE = "the printed program is not right: its bound and its proofs hold for itself, not for the problem"


class BeaumontIlp(CommonFormulation):
    """Minimise the period of a 1F1B pattern: allocation, orders, times and memory in one program."""

    def check(self, problem: ChainProblem, options: Options) -> None:
        check_chain(problem, "ilp-beaumont")
        given_allocation(problem, options)
        _check_range(problem)
        if options["variant"] == "printed" and problem.exclusive_buffers:
            raise UsageError("The printed program has no exclusive buffers; choose --option variant=corrected.")

    def solvers(self, problem: ChainProblem, options: Options) -> tuple[str, ...]:
        """Solvers that take the model. CP-SAT counts in whole numbers, and with exclusive buffers no grid is good
        enough for it."""
        real = options["variant"] == "printed" or problem.exclusive_buffers
        return ("highs",) if real else ("highs", "cp-sat")

    def lower_bound(self, problem: ChainProblem, options: Options) -> float:
        if options["variant"] == "printed":
            return 0.0
        return bounds.lower_bound_of(problem, given_allocation(problem, options))

    def model(self, problem: ChainProblem, options: Options, wanted: Wanted) -> BuiltModel | Refuted:
        errata = PRINTED if options["variant"] == "printed" else CORRECTED
        return build(problem, errata, wanted.cutoff, given_allocation(problem, options))


FORMULATION = BeaumontIlp()


def _check_range(problem: ChainProblem) -> None:
    """Refuse times that are so small beside others that a solver with tolerances does not see them."""
    times = [as_written(time) for time in (*problem.durations, *problem.edge_times) if time]
    if max(times) > WIDEST * min(times):
        raise InputError(
            "forward",
            f"and the other times lie between {float(min(times)):.3g} and {float(max(times)):.3g}, too far apart for a "
            "solver that calculates with rounded numbers",
            "give what is forbidden a time of little more than all others together, or choose cp-beaumont or "
            "exact-beaumont, which calculate with whole numbers",
        )


def build(
    problem: ChainProblem,
    errata: frozenset[str] = CORRECTED,
    cutoff: float | None = None,
    allocation: tuple[int, ...] | None = None,
) -> BuiltModel | Refuted:
    """The program with these errata of the printed one put back; with any of them it takes no start and proves nothing.

    `allocation`: the GPU of each layer, where that is given.
    """
    facts = facts_of(problem, cutoff)
    if not errata and facts.lower > facts.upper * (1 + 1e-9):
        return Refuted("the GPUs together have too little time or memory for the work")
    frame = assemble(facts, errata)
    if allocation is not None:
        resources.fix(frame, allocation)
    if frame.contradictions:
        return Refuted(f"rows {', '.join(frame.contradictions)} cannot hold whatever the allocation is")

    def encode(plan: PatternPlan) -> Values | None:
        return None if errata else translate.encode(facts, plan)

    grids, loss = _grids(frame, cutoff)
    decode = partial(translate.decode, facts, given=allocation, as_it_is=bool(errata))
    no_goods = NoGoods("ilp", problem, decode, encode)
    return BuiltModel(
        frame.model,
        no_goods.decode,
        encode,
        grids=grids,
        grid_loss=loss,
        size={"layers": facts.layers, "gpus": facts.gpus},
        notes=(PRINTED_NOTE,) if errata else (),
        exclude=None if errata or facts.memory is None else no_goods.exclude,
    )


def assemble(facts: Facts, errata: frozenset[str]) -> Frame:
    """The whole program, one block of rows per equation."""
    frame = Frame(facts, errata)
    for group in (resources, order, period, shifts, memory):
        group.add(frame)
    if not errata:
        cuts.add(frame)
    frame.model.objective = frame.pyo.Objective(expr=float(facts.time_unit) * frame.model.T)
    return frame


def _grids(frame: Frame, cutoff: float | None) -> tuple[dict[str, float], float]:
    """Steps for integer solvers, and by how much the optimum can grow on them.

    For given orders and shifts the least times on a grid are those of a network, so multiples of a step are enough
    where all durations are; others are rounded up, which delays each activity of the longest cycle by one step.
    """
    facts, model = frame.facts, frame.model
    if facts.problem.exclusive_buffers:
        return {}, 0.0  # a pattern with exclusive buffers need not have neighbours on any grid
    limit = None if cutoff is None else as_written(cutoff)
    grid = grid_below(facts.problem, as_written(facts.upper) * facts.time_unit, limit)
    steps = grid.steps * facts.time_unit
    if grid.exact and steps.denominator == 1:
        grid_steps, loss = float(1 / steps), float(grid.loss / grid.steps)
    else:
        grid_steps = facts.upper * float(FINE) / most_periods(facts.problem)
        loss = facts.upper * float(FINE) * float(facts.time_unit)
    grids = {variable.name: grid_steps for family in (model.tau, model.tc) for variable in family.values()}
    grids["T"] = grid_steps
    for family in ("f", "zc", "sigma", "o", "b"):
        if hasattr(model, family):
            grids.update({variable.name: 1.0 for variable in getattr(model, family).values()})
    return grids, loss
