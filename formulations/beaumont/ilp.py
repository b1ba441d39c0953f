"""`ilp-beaumont`: the periodic-pattern program behind the common contract, corrected or as printed, and its plans."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from itertools import combinations

from ...instances.base.amounts import as_written
from ...instances.base.errors import InputError, UsageError
from ...instances.chain.plan import PatternPlan, given_allocation
from ...instances.chain.problem import ChainProblem
from ..contract import BuiltModel, CommonFormulation, Options, Refuted, Values, Wanted
from .bounds import FINE, check_chain, grid_below, lower_bound_of, most_periods
from .draft import Activity, NoGoods, draft_of, edge_is_cut, fold, is_activity, link_of, orders_and_shifts, plan_of
from .ilp_program import CORRECTED, PRINTED, Facts, Frame, assemble, facts_of, fix_allocation

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
        return lower_bound_of(problem, given_allocation(problem, options))

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
        fix_allocation(frame, allocation)
    if frame.contradictions:
        return Refuted(f"rows {', '.join(frame.contradictions)} cannot hold whatever the allocation is")

    def start_of(plan: PatternPlan) -> Values | None:
        return None if errata else encode(facts, plan)

    grids, loss = _grids(frame, cutoff)
    plan_at = partial(decode, facts, given=allocation, as_it_is=bool(errata))
    no_goods = NoGoods("ilp", problem, plan_at, start_of)
    return BuiltModel(
        frame.model,
        no_goods.decode,
        start_of,
        grids=grids,
        grid_loss=loss,
        size={"layers": facts.layers, "gpus": facts.gpus},
        notes=(PRINTED_NOTE,) if errata else (),
        exclude=None if errata or facts.memory is None else no_goods.exclude,
    )


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


def decode(facts: Facts, values: Values, *, given: tuple[int, ...] | None, as_it_is: bool) -> PatternPlan:
    """The plan of a solution's allocation (unless it is given), orders and positions; shifts and times are new.

    `as_it_is`: the times of the model itself, so that the referee may see what a program with errata says.
    """
    problem = facts.problem
    allocation = given or _allocation(facts, values)
    period = Fraction(values["T"]) * facts.time_unit
    positions = {Activity(0, t): _time(values[f"tau[{t}]"], facts) for t in range(1, facts.tasks + 1)}
    for e in facts.edges:
        if is_activity(problem, e) and edge_is_cut(problem, allocation, e):
            positions[Activity(0, e, is_transfer=True)] = _time(values[f"tc[{e}]"], facts)
    timeless = frozenset(Activity(0, t) for t in _timeless(facts)) if not as_it_is else frozenset()

    def holds(family: str, a: Activity, b: Activity) -> bool:
        if family == "w" and b < a and not {a, b} <= timeless:
            return not holds(family, b, a)
        return values.get(f"{family}[{a.number},{b.number}]", 0.0) > 0.5

    return plan_of(draft_of(problem, allocation, period, positions, timeless, holds), tighten=not as_it_is)


def _timeless(facts: Facts) -> frozenset[int]:
    return frozenset(t for t in range(1, facts.tasks + 1) if not facts.durations[t])


def _time(value: float, facts: Facts) -> Fraction:
    return Fraction(value) * facts.time_unit


def _allocation(facts: Facts, values: Values) -> tuple[int, ...]:
    """GPUs numbered by their first layers; layers that any Z joins are together."""
    gpu_of: list[int] = []
    for j in range(1, facts.layers + 1):
        partner = next((i for i in range(1, j) if values.get(f"Z[{i},{j}]", 0.0) > 0.5), None)
        gpu_of.append(max(gpu_of, default=-1) + 1 if partner is None else gpu_of[partner - 1])
    return tuple(gpu_of)


# ---- a plan as a start -------------------------------------------------------------------------------------


def encode(facts: Facts, plan: PatternPlan) -> Values | None:
    """Values of the period, of times and of whole variables, for which solvers find the others; None for a plan of
    another shape, of a period beyond the cut-off, or with shifts that the program does not know."""
    problem = facts.problem
    if plan.batches_per_period != 1:
        return None
    folded = fold(problem, plan)
    if folded is None or float(folded.period / facts.time_unit) > facts.upper * (1 + 1e-9):
        return None
    timeless = _timeless(facts)

    def named(family: str, a: Activity, b: Activity) -> str | None:
        known = family != "w" or a < b or {a.number, b.number} <= timeless
        return f"{family}[{a.number},{b.number}]" if known else None

    edges = range(1, facts.tasks)
    values = orders_and_shifts(problem, plan.allocation, folded, 1, edges, named, "{0}{3}[{2}]".format)
    if values is None:
        return None
    values["T"] = float(folded.period / facts.time_unit)
    for activity, position in folded.positions.items():
        if not activity.is_transfer or activity.number in facts.staged:
            values[f"{'tc' if activity.is_transfer else 'tau'}[{activity.number}]"] = float(
                position / facts.time_unit
            )
    for (i, here), (j, there) in combinations(enumerate(plan.allocation, 1), 2):
        values[f"Z[{i},{j}]"] = float(here == there)
    for e, f in combinations([e for e in facts.edges if facts.transfers[e]], 2):
        if problem.duplex == "half" or e + f != facts.tasks:
            first, second = (Activity(0, edge, is_transfer=True) for edge in (e, f))
            links = {link_of(problem, plan.allocation, edge) for edge in (e, f)}
            shared = len(links) == 1 and folded.positions.keys() >= {first, second}
            values[f"wc[{e},{f}]"] = float(shared and folded.is_before(first, second, problem))
    return values
