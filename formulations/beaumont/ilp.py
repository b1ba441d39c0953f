"""`ilp-beaumont`: the periodic-pattern program behind the common contract, corrected or as printed, and its plans."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

from ...instances.base.amounts import as_written
from ...instances.base.errors import InputError, UsageError
from ...instances.chain.plan import PatternPlan, given_allocation
from ...instances.chain.problem import ChainProblem
from ..contract import BuiltModel, CommonFormulation, Options, Refuted, Values, Wanted
from .bounds import FINE, check_chain, grid_below, lower_bound_of, most_periods
from .draft import Activity, Folded, NoGoods, draft_of, edge_is_cut, fold, is_activity, link_of, plan_of, shifts_at
from .ilp_program import CORRECTED, PRINTED, Facts, Frame, assemble, facts_of, fix_allocation
from .instants import timeless_pairs

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
    """Values of all variables; None for a plan of another shape or of a period beyond the cut-off."""
    problem = facts.problem
    if plan.batches_per_period != 1:
        return None
    folded = fold(problem, plan)
    if folded is None or float(folded.period / facts.time_unit) > facts.upper * (1 + 1e-9):
        return None
    writer = _Writer(facts, plan.allocation, folded)
    return writer.values if writer.write() else None


class _Writer:
    """One method per family of variables."""

    def __init__(self, facts: Facts, allocation: Sequence[int], folded: Folded) -> None:
        self.facts = facts
        self.allocation = allocation
        self.folded = folded
        self.relations = folded.relations(facts.problem, allocation)
        self.values: dict[str, float] = {}

    def write(self) -> bool:
        """False where the plan has shifts that the program does not know."""
        self._resources()
        self._tasks()
        self._transfers()
        if not self._shifts():
            return False
        if self.facts.memory is not None:
            self._memory()
        return True

    def _gpu(self, layer: int) -> int:
        return self.allocation[layer - 1]

    def _time(self, activity: Activity) -> float:
        return float(self.folded.positions[activity] / self.facts.time_unit)

    def _before(self, a: Activity, b: Activity) -> float:
        return float(self.folded.is_before(a, b, self.facts.problem))

    def _resources(self) -> None:
        layers = range(1, self.facts.layers + 1)
        for i in layers:
            self.values[f"f[{i}]"] = float(all(self._gpu(j) != self._gpu(i) for j in range(1, i)))
            for j in range(i + 1, self.facts.layers + 1):
                self.values[f"Z[{i},{j}]"] = float(self._gpu(i) == self._gpu(j))

    def _tasks(self) -> None:
        facts = self.facts
        self.values["T"] = float(self.folded.period / facts.time_unit)
        for t in range(1, facts.tasks + 1):
            self.values[f"tau[{t}]"] = self._time(Activity(0, t))
            for u in range(t + 1, facts.tasks + 1):
                together = self._gpu(facts.layer(t)) == self._gpu(facts.layer(u))
                self.values[f"w[{t},{u}]"] = self._sooner(t, u) if together else 0.0
        self._instants()

    def _sooner(self, t: int, u: int) -> float:
        pair = Activity(0, t), Activity(0, u)
        return float(pair in self.relations.order) if self.relations.concern(*pair) else self._before(*pair)

    def _instants(self) -> None:
        """Set the variables of tasks that take no time."""
        facts, relations = self.facts, self.relations
        timeless = _timeless(facts)
        for x, z in timeless_pairs([range(1, facts.tasks + 1)], timeless):
            pair = Activity(0, x), Activity(0, z)
            if x in timeless:
                self.values[f"w[{max(x, z)},{min(x, z)}]"] = self._sooner(max(x, z), min(x, z))
            else:
                self.values[f"ended[{x},{z}]"] = float(pair in relations.ended)
                self.values[f"far[{x},{z}]"] = float(pair in relations.far)

    def _transfers(self) -> None:
        facts = self.facts
        for e in facts.staged:
            cut = edge_is_cut(facts.problem, self.allocation, e)
            ended = self.values[f"tau[{e}]"] + facts.durations[e]
            self.values[f"tc[{e}]"] = self._time(Activity(0, e, is_transfer=True)) if cut else ended
        timed = [e for e in facts.edges if facts.transfers[e]]
        for n, e in enumerate(timed):
            for f in timed[n + 1 :]:
                self._pair_of_transfers(e, f)

    def _pair_of_transfers(self, e: int, f: int) -> None:
        facts = self.facts
        full = facts.problem.duplex == "full"
        if full and e + f == facts.tasks:
            return
        cut = all(edge_is_cut(facts.problem, self.allocation, edge) for edge in (e, f))
        links = {link_of(facts.problem, self.allocation, edge) for edge in (e, f)}
        shared = cut and len(links) == 1
        borders = sorted((min(e, facts.tasks - e), min(f, facts.tasks - f)))
        opposite = int(full and (e < facts.layers) != (f < facts.layers))
        first = shared and self._before(Activity(0, e, is_transfer=True), Activity(0, f, is_transfer=True))
        self.values[f"zc[{borders[0]},{borders[1]},{opposite}]"] = float(shared)
        self.values[f"wc[{e},{f}]"] = float(first)

    def _shifts(self) -> bool:
        facts = self.facts
        for e in range(1, facts.tasks):
            shifts = shifts_at(facts.problem, self.folded, 0, e)
            if shifts is None:
                return False
            pair = Activity(0, e), Activity(0, e + 1)
            local = self._gpu(facts.layer(e)) == self._gpu(facts.layer(e + 1))
            if local and self.relations.concern(*pair) and sum(shifts.values()) != self.relations.shift(*pair):
                return False
            for name, number in shifts.items():
                self.values[f"{name}[{e}]"] = float(number >= 1)
                self.values[f"{name}2[{e}]"] = float(number >= 2)
        return True

    def _memory(self) -> None:
        facts = self.facts
        laps = self.folded.laps
        for i in range(1, facts.layers + 1):
            for m in facts.kept:
                if m != i:
                    behind = laps[Activity(0, facts.backward(m))] - laps[Activity(0, m)]
                    self.values[f"sigma[{i},{m}]"] = float(behind if self._gpu(i) == self._gpu(m) else 0)
            for j in range(1, facts.layers):
                if facts.current and i not in (j, j + 1):
                    one = (self._gpu(j) == self._gpu(i)) != (self._gpu(j + 1) == self._gpu(i))
                    self.values[f"b[{i},{j}]"] = float(one)
        for e in facts.waiting:
            for t in range(1, facts.tasks + 1):
                concerned = any(self.relations.concern(Activity(0, t), Activity(0, k)) for k in (e, e + 1))
                if t not in (e, e + 1) or (t == e and concerned):
                    self.values[f"o[{t},{e}]"] = float(self._waits(e, t))

    def _waits(self, e: int, t: int) -> bool:
        layers = {self._gpu(self.facts.layer(task)) for task in (e, e + 1, t)}
        a, b, x = Activity(0, e), Activity(0, e + 1), Activity(0, t)
        if len(layers) > 1:
            return False
        relations = self.relations
        if {a, b, x} & relations.timeless:
            behind = self.folded.laps[b] - self.folded.laps[a]
            return behind + self._count(a, x, ends=True) - self._count(b, x, ends=False) > 0
        circle = ((a, x), (x, b), (b, a))
        return sum(self._before(*pair) for pair in circle) == 2

    def _count(self, a: Activity, at: Activity, *, ends: bool) -> int:
        """Starts or ends of one task up to the start of another one, less those in earlier periods."""
        relations = self.relations
        if a == at:
            return int(a in relations.timeless)
        if not relations.concern(a, at):
            return int(self._before(a, at))
        if ends and a not in relations.timeless:
            return int((a, at) in relations.ended)
        sooner = int((a, at) in relations.order)
        return (
            sooner - ((at, a) in relations.far) if a in relations.timeless else sooner + ((a, at) in relations.far)
        )
