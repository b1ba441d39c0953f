"""The integer program for periodic 1F1B patterns: its numbers, its variables, and its rows, numbered as in the paper.

Each erratum of the printed program can be put back alone, to see what it does. Rows may be added to a group, or to
`add_cuts` if every pattern keeps them; names of variables are those by which `ilp.py` reads and writes plans.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, permutations
from typing import Any

from ...instances.base.amounts import Amount, as_written
from ...instances.chain.problem import ChainProblem
from ..contract import FLOAT_ROOM
from .bounds import FINE, areas, lives, lower_bound, sequential_period, unit_of
from .instants import timeless_pairs, transitive
from .integer_chain import whole_sizes

# Sharing a GPU is not transitive: (1) bounds only one of three variables.
TRANSITIVITY = "E1"
# Kept copies may be fewer than none: sigma has no sign.
SIGN = "E2"
# (18), (23)-(30) charge transfers on one GPU as well, and so ask for shifts that are not needed.
LOCAL_TRANSFERS = "E3"
# Tasks without a duration may be both before and after each other, or neither.
TIES = "E4"

# The errata that the printed program has, and those of the corrected one.
PRINTED = frozenset({TRANSITIVITY, SIGN, LOCAL_TRANSFERS, TIES})
CORRECTED: frozenset[str] = frozenset()


# Numbers in natural units are kept up to here; others are scaled to a largest value of about this size.
LARGEST = 20_000

# Memory beyond the limit where sizes were scaled so: a solver's tolerances may charge as much to a pattern that fits.
RELAXED = 1e-5


@dataclass(frozen=True)
class Facts:
    """Tasks t = 1..N, edges e = 1..N-1, layers l = 1..L; position 0 of durations and transfers is unused."""

    problem: ChainProblem
    layers: int
    tasks: int
    gpus: int
    durations: tuple[float, ...]
    transfers: tuple[float, ...]
    """dc_e; 0 at edge L."""
    sizes: tuple[float, ...]
    """a_0..a_N as the memory mode counts them."""
    weights: tuple[float, ...]
    """All copies of a layer's weights; position 0 is unused."""
    memory: float | None
    """The memory with half a unit, or a solver's tolerance, to spare, so that no pattern is lost; None: no limit."""
    upper: float
    """No longer period needs to be considered (UB)."""
    lower: float
    current: bool
    """Do inputs and outputs of the running task, waiting tensors and slots count, too?"""
    lives: tuple[float, ...]
    areas: tuple[float, ...]
    time_unit: Fraction

    @property
    def edges(self) -> list[int]:
        """Edges whose tasks may be on different GPUs (E)."""
        return [e for e in range(1, self.tasks) if e != self.layers]

    @property
    def staged(self) -> list[int]:
        """Edges with a transfer of their own between the two tasks."""
        return [e for e in self.edges if self.transfers[e] > 0 or self.problem.exclusive_buffers]

    @property
    def kept(self) -> list[int]:
        """Layers whose kept input takes memory."""
        return [] if self.memory is None else [i for i in range(1, self.layers + 1) if self.sizes[i - 1] > 0]

    @property
    def waiting(self) -> list[int]:
        """Edges whose tensor takes memory while it waits on one GPU."""
        if self.memory is None or not self.current:
            return []
        return [e for e in range(1, self.tasks) if self.sizes[e] > 0]

    def layer(self, task: int) -> int:
        return task if task <= self.layers else self.tasks + 1 - task

    def backward(self, layer: int) -> int:
        return self.tasks + 1 - layer

    def load(self, layer: int) -> float:
        return self.durations[layer] + self.durations[self.backward(layer)]

    def border_size(self, layer: int) -> float:
        """Both slots for what passes between a layer and the next."""
        return self.sizes[layer] + self.sizes[self.tasks - layer]

    def own_size(self, task: int) -> float:
        """What a running task holds beside kept activations: input and output, or only the input to be kept."""
        if self.current:
            return self.sizes[task - 1] + self.sizes[task]
        return self.sizes[task - 1] if task <= self.layers else 0.0

    def most_shifts(self, edge: int) -> int:
        """Shifts that one edge can need."""
        if edge == self.layers:
            return 1
        return 4 if edge in self.staged else 2


def facts_of(problem: ChainProblem, cutoff: float | None) -> Facts:
    """Numbers for periods of at most `cutoff`."""
    longest, unit = sequential_period(problem), unit_of(problem)
    upper = longest * (1 + as_written(FLOAT_ROOM))
    if cutoff is not None:
        upper = min(upper, as_written(cutoff))
    if unit is None:
        upper *= 1 + FINE  # integer solvers round such times up to a fine grid
    time_unit = unit if unit is not None and longest / unit <= LARGEST else longest / LARGEST
    # People forbid a transfer by giving it a time beyond all others, which no solver's tolerances are made for: what is
    # longer than any period of interest is cut to a little more than that.
    beyond = 2 * upper if unit is None else unit * (upper // unit + 1)
    amounts, memory = _sizes(problem)
    weights, sizes = amounts[: problem.layers], amounts[problem.layers :]

    def numbered(times: Iterable[Amount]) -> tuple[float, ...]:
        return (0.0, *(float(as_written(time) / time_unit) for time in times))

    return Facts(
        problem=problem,
        layers=problem.layers,
        tasks=problem.tasks,
        gpus=min(problem.gpus, problem.layers),
        durations=numbered(problem.durations),
        transfers=numbered(min(as_written(time), beyond) for time in problem.edge_times),
        sizes=tuple(map(float, sizes)),
        weights=(0.0, *map(float, weights)),
        memory=memory,
        upper=float(upper / time_unit),
        lower=float(as_written(lower_bound(problem)) / time_unit),
        current=problem.memory_mode not in ("inputs", "weights"),
        lives=numbered(lives(problem)),
        areas=numbered(areas(problem, sizes)),
        time_unit=time_unit,
    )


def _sizes(problem: ChainProblem) -> tuple[list[Fraction], float | None]:
    """Weights and activations, and the memory, in units that suit a solver.

    In few whole units half a unit more memory changes nothing; else all are scaled down.
    """
    whole = whole_sizes(problem)
    limit = whole.limits[0]
    largest = max((*whole.amounts, limit or 0))
    if whole.exact and largest <= LARGEST:
        return [Fraction(amount) for amount in whole.amounts], None if limit is None else limit + 0.5
    unit = Fraction(largest, LARGEST)
    return [amount / unit for amount in whole.amounts], None if limit is None else float(limit / unit) + RELAXED


class Frame:
    """A Pyomo model with the variables of section 6 of the paper, on which the groups of constraints are built."""

    def __init__(self, facts: Facts, errata: frozenset[str] = CORRECTED) -> None:
        from ..quick_pyomo import pyo

        self.pyo = pyo
        self.facts = facts
        self.errata = errata
        self.contradictions: list[str] = []
        """Blocks with a row that is false whatever the variables are."""
        self.model = pyo.ConcreteModel("ilp-beaumont")
        self.layers = range(1, facts.layers + 1)
        self.tasks = range(1, facts.tasks + 1)
        self.timeless = frozenset(t for t in self.tasks if not facts.durations[t] and TIES not in errata)
        """`instants` says what holds for tasks that take no time; as printed they have a place in the order."""
        self.pairs = list(timeless_pairs([list(self.tasks)], self.timeless))
        """Pairs of tasks of which at least one takes no time; that one is the second of the pair."""
        self._resource_variables()
        self._time_variables()
        self._shift_variables()
        if facts.memory is not None:
            self._memory_variables()

    # ---- variables -------------------------------------------------------------------------------------

    def _resource_variables(self) -> None:
        pyo, model = self.pyo, self.model
        holders = self.tasks if TRANSITIVITY in self.errata else self.layers
        model.Z = pyo.Var(list(combinations(holders, 2)), domain=pyo.Binary)
        model.Z.doc = "[i, j] do layers i < j share a GPU? (tasks in the printed variant)"
        model.f = pyo.Var(list(holders), bounds=(0, 1), doc="[i] is layer i the first of its GPU?")
        pairs = combinations(self.tasks, 2) if TIES not in self.errata else permutations(self.tasks, 2)
        both = [(u, t) for t, u in combinations(sorted(self.timeless), 2)]
        model.w = pyo.Var([*pairs, *both], domain=pyo.Binary)
        model.w.doc = "[t, u] do tasks t and u share a GPU, and does t come first? Task l goes forward, L + l back"
        timed = [(x, z) for x, z in self.pairs if x not in self.timeless]
        model.ended = pyo.Var(timed, domain=pyo.Binary)
        model.ended.doc = "[t, z] has task t ended when task z, which takes no time, runs?"
        model.far = pyo.Var(timed, domain=pyo.Binary)
        model.far.doc = "[t, z] is z, which takes no time, in another period of t?"

    def _time_variables(self) -> None:
        pyo, model, facts = self.pyo, self.model, self.facts
        lower = 0.0 if self.errata else facts.lower * (1 - FLOAT_ROOM)
        model.T = pyo.Var(bounds=(lower, max(facts.upper, lower)), doc="the period")
        model.tau = pyo.Var(
            list(self.tasks), bounds=lambda _, t: (-facts.durations[t], facts.upper - facts.durations[t])
        )
        model.tau.doc = "[t] start of task t in the period"
        model.tc = pyo.Var(facts.staged, bounds=lambda _, e: (-facts.transfers[e], facts.upper))
        model.tc.doc = "[e] start of the transfer of edge e, from task e to task e + 1"
        transfers = self.competing()
        model.zc = pyo.Var(sorted({self.link_key(e, f) for e, f in transfers}), bounds=(0, 1))
        model.zc.doc = "[e, f, opposite] do two transfers share a link?"
        pairs = transfers if TIES not in self.errata else [pair for e, f in transfers for pair in ((e, f), (f, e))]
        model.wc = pyo.Var(pairs, domain=pyo.Binary)
        model.wc.doc = "[e, f] do transfers e and f share a link, and does e come first?"

    def _shift_variables(self) -> None:
        pyo, model, facts = self.pyo, self.model, self.facts
        every_edge = list(range(1, facts.tasks))
        model.v = pyo.Var(facts.staged, domain=pyo.Binary, doc="[e] first shift before the transfer of edge e")
        model.v2 = pyo.Var(facts.staged, domain=pyo.Binary, doc="[e] second shift before the transfer (v-tilde)")
        model.u = pyo.Var(every_edge, domain=pyo.Binary, doc="[e] first shift by a period before task e + 1")
        model.u2 = pyo.Var(every_edge, domain=pyo.Binary, doc="[e] second shift before task e + 1 (u-tilde)")

    def _memory_variables(self) -> None:
        pyo, model, facts = self.pyo, self.model, self.facts
        pairs = [(i, layer) for i in self.layers for layer in facts.kept if i != layer]
        if SIGN in self.errata:
            model.sigma = pyo.Var(pairs, domain=pyo.Integers)
        else:
            model.sigma = pyo.Var(pairs, bounds=(0, None))
        model.sigma.doc = "[i, l] kept copies of the input of layer l, as far as it is on the GPU of layer i"
        inner = [(t, e) for e in facts.waiting for t in self.tasks if self.may_wait(t, e)]
        model.o = pyo.Var(inner, bounds=(0, 1), doc="[t, e] does what edge e carries wait while task t runs?")
        borders = [(i, j) for i in self.layers for j in self.layers[:-1] if i not in (j, j + 1)]
        model.b = pyo.Var(borders if facts.current else [], bounds=(0, 1))
        model.b.doc = "[i, j] is exactly one of layers j and j + 1 on the GPU of layer i?"

    # ---- names of the paper ----------------------------------------------------------------------------

    def z(self, i: int, j: int) -> Any:
        """Do layers i and j share a GPU?"""
        return 1 if i == j else self.model.Z[min(i, j), max(i, j)]

    def together(self, t: int, u: int) -> Any:
        """Do tasks t and u share a GPU? The paper has a variable for each pair of tasks; F_l has the number of l."""
        if TRANSITIVITY in self.errata:
            return self.z(t, u)
        return self.z(self.facts.layer(t), self.facts.layer(u))

    def w(self, t: int, u: int) -> Any:
        """Do tasks t and u share a GPU, and does t come first?"""
        if t == u:
            return 0
        if t < u or TIES in self.errata or {t, u} <= self.timeless:
            return self.model.w[t, u]
        return self.together(t, u) - self.model.w[u, t]

    def begun(self, t: int, at: int) -> Any:
        """Number of starts of task t by the start of task `at`, less the starts in earlier periods: w where
        both tasks take time."""
        if t == at:
            return int(t in self.timeless)
        if t in self.timeless and at not in self.timeless:
            return self.w(t, at) - self.model.far[at, t]
        if at in self.timeless and t not in self.timeless:
            return self.w(t, at) + self.model.far[t, at]
        return self.w(t, at)

    def done(self, t: int, at: int) -> Any:
        """Number of ends of task t by the start of task `at`, less the ends in earlier periods."""
        if at in self.timeless and t not in self.timeless:
            return self.model.ended[t, at]
        return self.begun(t, at)

    def may_wait(self, t: int, e: int) -> bool:
        """May what edge e carries wait while task t runs? While its own tasks run only if one takes no time."""
        return t not in (e, e + 1) or (t == e and bool(self.timeless & {e, e + 1}))

    def remote(self, e: int) -> Any:
        """r_e: are the two tasks of edge e on different GPUs?"""
        return 1 - self.together(e, e + 1)

    def transfer_time(self, e: int) -> Any:
        """Time of the transfer of edge e: none on one GPU. The paper's rows charge it there as well (E3)."""
        return self.facts.transfers[e] * (1 if LOCAL_TRANSFERS in self.errata else self.remote(e))

    def shifts(self, e: int) -> Any:
        """s_e: how many batches task e + 1 lags behind task e in the period."""
        model = self.model
        total = model.u[e] + model.u2[e]
        return total + model.v[e] + model.v2[e] if e in model.v else total

    def batches_behind(self, layer: int) -> Any:
        """S_l: how many batches B_l lags behind F_l in the period (Lemma 9)."""
        return sum(self.shifts(e) for e in range(layer, self.facts.tasks + 1 - layer))

    # ---- transfers that may meet on a link -------------------------------------------------------------

    def competing(self) -> list[tuple[int, int]]:
        """Pairs of transfers that take time; the twins of a border meet only where both ways share a link."""
        timed = [e for e in self.facts.edges if self.facts.transfers[e] > 0]
        full = self.facts.problem.duplex == "full"
        return [(e, f) for e, f in combinations(timed, 2) if not (full and e + f == self.facts.tasks)]

    def link_key(self, e: int, f: int) -> tuple[int, int, int]:
        """Borders of two transfers, and whether they go opposite ways, as far as that matters for their link."""
        borders = sorted((min(e, self.facts.tasks - e), min(f, self.facts.tasks - f)))
        opposite = (e < self.facts.layers) != (f < self.facts.layers)
        return borders[0], borders[1], int(opposite and self.facts.problem.duplex == "full")

    def same_link(self, e: int, f: int) -> Any:
        return self.model.zc[self.link_key(e, f)]

    def wc(self, e: int, f: int) -> Any:
        """Do transfers e and f share a link, and does e come first?"""
        if e < f or TIES in self.errata:
            return self.model.wc[e, f]
        return self.same_link(e, f) - self.model.wc[f, e]

    # ---- rows ------------------------------------------------------------------------------------------

    def rows(self, name: str, rows: Mapping[Any, Any], doc: str) -> None:
        """Add one named block of constraints, indexed as in the paper; `doc` says what it asks for."""
        table = {key: row for key, row in rows.items() if row is not True}
        if any(row is False for row in table.values()):
            self.contradictions.append(name)
            return
        constraint = self.pyo.Constraint(list(table), rule=lambda _, *key: table[key[0] if len(key) == 1 else key])
        constraint.doc = doc
        self.model.add_component(name, constraint)


def add_resources(frame: Frame) -> None:
    z, holders = frame.z, frame.tasks if TRANSITIVITY in frame.errata else frame.layers
    triples = list(combinations(holders, 3))
    # Sharing a GPU is transitive, whichever of three layers is the middle one. The paper prints the first row
    # alone, which bounds z of the two highest only (E1).
    rows = {(i, j, k, 1): z(j, k) >= z(i, j) + z(i, k) - 1 for i, j, k in triples}
    if TRANSITIVITY not in frame.errata:
        rows |= {(i, j, k, 2): z(i, k) >= z(i, j) + z(j, k) - 1 for i, j, k in triples}
        rows |= {(i, j, k, 3): z(i, j) >= z(i, k) + z(j, k) - 1 for i, j, k in triples}
    frame.rows("eq_1", rows, "sharing a GPU is transitive")
    first = frame.model.f
    firsts = {i: first[i] >= 1 - sum(z(j, i) for j in range(1, i)) for i in holders}
    frame.rows("eq_2", firsts, "a layer with no earlier one on its GPU is the first of it")
    frame.rows(
        "eq_3", {0: sum(first[i] for i in holders) <= frame.facts.gpus}, "as many first layers as GPUs at most"
    )
    if TRANSITIVITY in frame.errata:
        pairs = {i: z(i, frame.facts.backward(i)) == 1 for i in frame.layers}
        frame.rows("eq_4", pairs, "forward and backward task of a layer share a GPU")


def fix_allocation(frame: Frame, allocation: Sequence[int]) -> None:
    """Fix Z where the allocation is given, which says which layers share a GPU; presolve settles what depends on Z."""
    gpu = [allocation[frame.facts.layer(task) - 1] for task in frame.tasks]
    for (i, j), variable in frame.model.Z.items():
        together = int(gpu[i - 1] == gpu[j - 1])
        variable.setlb(together)
        variable.setub(together)


def add_order(frame: Frame) -> None:
    """(5)-(16): the order of tasks on a GPU and of transfers on a link, with rows of its own for tasks without time.

    Rows (10)-(13) of the paper keep zc from being larger than needed; nothing pushes it up, so they are left out.
    """
    facts, tau, pairs = frame.facts, frame.model.tau, frame.model.w
    # (5)-(7). With w_ut = z - w_tu one row per direction is enough; the paper has two for each w.
    after, before = {}, {}
    for t, u in pairs:
        if frame.timeless & {t, u}:
            continue
        shared, first = frame.together(t, u), pairs[t, u]
        late_u = facts.upper + facts.durations[t]
        late_t = facts.upper + facts.durations[u]
        after[t, u] = tau[t] >= tau[u] + facts.durations[u] - late_u * (1 - shared + first)
        # w <= z, so w alone may switch the row on; the paper's form switches with both.
        slack = (2 - shared - first) if TIES in frame.errata else (1 - first)
        before[t, u] = tau[u] >= tau[t] + facts.durations[t] - late_t * slack
    frame.rows("eq_5", after, "t starts after u has ended where u comes first on their GPU")
    frame.rows("eq_6", before, "u starts after t has ended where t comes first")
    only = {(t, u): pairs[t, u] <= frame.together(t, u) for t, u in pairs}
    frame.rows("eq_7", only, "only tasks that share a GPU are ordered")
    # (8), (9): transfers e and f share a link where their ends are on the same GPUs, (9) crosswise. Crosswise they go
    # opposite ways, which matters only where both ways share a link.
    same, crossed = {}, {}
    for e, f in frame.competing():
        key = frame.link_key(e, f)
        zc = frame.same_link(e, f)
        if e + f == facts.tasks:
            crossed[key] = zc >= frame.remote(e)
        elif key not in same and key not in crossed:
            along = frame.together(e, f) + frame.together(e + 1, f + 1) - frame.together(e, e + 1) - 1
            across = frame.together(e, f + 1) + frame.together(e + 1, f) - frame.together(e, e + 1) - 1
            same[key] = zc >= along
            if facts.problem.duplex == "half":
                crossed[key] = zc >= across
    frame.rows("eq_8", same, "transfers between the same two GPUs share a link")
    frame.rows("eq_9", crossed, "transfers between the same two GPUs, crosswise, share a link")
    # (14)-(16), for transfers as (5)-(7) for tasks.
    start, pairs = frame.model.tc, frame.model.wc
    after, before = {}, {}
    for e, f in pairs:
        shared, first = frame.same_link(e, f), pairs[e, f]
        late = facts.upper + facts.transfers[e] + facts.transfers[f]
        after[e, f] = start[e] >= start[f] + facts.transfers[f] - late * (1 - shared + first)
        slack = (2 - shared - first) if TIES in frame.errata else (1 - first)
        before[e, f] = start[f] >= start[e] + facts.transfers[e] - late * slack
    frame.rows("eq_14", after, "as (5), for transfers on one link")
    frame.rows("eq_15", before, "as (6), for transfers on one link")
    frame.rows("eq_16", {(e, f): pairs[e, f] <= frame.same_link(e, f) for e, f in pairs}, "as (7), for transfers")
    if frame.timeless:
        add_timeless(frame)


def add_timeless(frame: Frame) -> None:
    """Rows for what `instants` says of tasks that take no time, in place of (5)-(7), which are wrong there (E4).

    Large constants: starts of tasks that take no time lie in [0, UB], those of others in [-d, UB - d].
    """
    facts, model = frame.facts, frame.model
    tau, far = model.tau, model.far
    rows: dict[Any, Any] = {}
    for x, z in frame.pairs:
        shared, sooner, later = frame.together(x, z), frame.w(z, x), frame.w(x, z)
        rows["sooner", x, z] = tau[z] - tau[x] <= (facts.upper + facts.durations[x]) * (1 - sooner)
        rows["later", x, z] = tau[x] - tau[z] <= facts.upper * (1 - later)
        if x in frame.timeless:
            rows["one", x, z] = sooner + later >= shared
            rows["sooner shared", x, z] = sooner <= shared
            rows["later shared", x, z] = later <= shared
        else:
            rows["shared", x, z] = model.w[min(x, z), max(x, z)] <= shared
    frame.rows("timeless_order", rows, "(E4b) which of two tasks comes first, where one takes no time")
    rows = {}
    for x, z in model.ended:
        apart, ended = tau[z] - tau[x], model.ended[x, z]
        rows["ended", x, z] = apart >= facts.durations[x] - (facts.upper + facts.durations[x]) * (1 - ended)
        rows["ended later", x, z] = ended <= frame.w(x, z)
        rows["far", x, z] = apart >= model.T - 2 * facts.upper * (1 - far[x, z])
        rows["far ended", x, z] = far[x, z] <= ended
    frame.rows("timeless_ends", rows, "(E4c) a task without time is before or after the end of another one")
    rows = {}
    for a, b, c in transitive(frame.tasks, frame.timeless, frame.timeless):
        rows[a, b, c] = frame.w(a, c) >= frame.w(a, b) + frame.w(b, c) - 1
    frame.rows("timeless_transitive", rows, "(E4d) beginnings at one instant are in an order")
    rows = {}
    for z, other in permutations(sorted(frame.timeless), 2):
        for x in (task for task in frame.tasks if task not in frame.timeless):
            rows[x, z, other, 1] = far[x, other] >= far[x, z] + frame.w(z, other) - 1
            rows[x, z, other, 2] = far[x, z] + frame.w(other, x) <= 1
    frame.rows("timeless_far", rows, "(E4e) which period a task without time belongs to")


def add_period(frame: Frame) -> None:
    facts, model = frame.facts, frame.model
    period, tau, tc = model.T, model.tau, model.tc
    ends = {t: tau[t] + facts.durations[t] for t in frame.tasks}
    frame.rows("eq_17", {t: ends[t] <= period for t in frame.tasks}, "each task ends within the period")
    arrivals = {e: tc[e] + frame.transfer_time(e) for e in facts.staged}
    frame.rows("eq_18_start", {e: arrivals[e] >= 0 for e in arrivals}, "no transfer ends before the period begins")
    frame.rows("eq_18", {e: arrivals[e] <= period for e in arrivals}, "each transfer ends within the period")
    frame.rows("eq_19", {0: tau[1] == 0}, "the first task starts at 0")
    window = {}
    for t, u in permutations(frame.tasks, 2):
        apart = facts.durations[u] * (1 - frame.together(t, u))
        if t in frame.timeless and u not in frame.timeless:
            apart += facts.durations[u] * model.far[u, t]
        window[t, u] = ends[t] - tau[u] <= period + apart
    frame.rows("eq_20", window, "tasks of one GPU lie within one period of each other")
    window = {}
    for pair in frame.competing():
        for e, f in (pair, pair[::-1]):
            apart = (facts.transfers[e] + facts.transfers[f]) * (1 - frame.same_link(e, f))
            window[e, f] = tc[e] + facts.transfers[e] - tc[f] <= period + apart
    frame.rows("eq_21", window, "transfers of one link lie within one period of each other")


def add_shifts(frame: Frame) -> None:
    facts, model = frame.facts, frame.model
    ends = {t: model.tau[t] + facts.durations[t] for t in frame.tasks}
    outward = {e: ends[e] - model.tc[e] for e in facts.staged}
    inward = {}
    for e in range(1, facts.tasks):
        sent = model.tc[e] + frame.transfer_time(e) if e in outward else ends[e]
        inward[e] = sent - model.tau[e + 1]
    _shifts(frame, outward, inward)
    if LOCAL_TRANSFERS in frame.errata:
        return
    rows = {("v", e): model.v2[e] <= model.v[e] for e in outward}
    rows |= {("u", e): model.u2[e] <= model.u[e] for e in inward}
    frame.rows("second_shift", rows, "(E3a) no second shift without the first one")
    _local(frame)
    if facts.problem.exclusive_buffers:
        _exclusive(frame, outward)


def _shifts(frame: Frame, outward: dict[int, Any], inward: dict[int, Any]) -> None:
    """(23)-(30). As printed, there are rows in both directions, all with one large constant, and for local edges as for
    others (E3)."""
    facts, model, period, printed = frame.facts, frame.model, frame.model.T, LOCAL_TRANSFERS in frame.errata
    large = 2 * (facts.upper + max(facts.durations) + max(facts.transfers))
    first_out = {e: large if printed else facts.upper + facts.transfers[e] for e in outward}
    first_in = {e: large if printed else facts.upper + facts.durations[e + 1] for e in inward}
    second_out = {e: large if printed else facts.transfers[e] for e in outward}
    second_in = {e: large if printed else facts.durations[e + 1] for e in inward}
    if printed:
        rows = {e: late >= -large * (1 - model.v[e]) for e, late in outward.items()}
        frame.rows("eq_23", rows, "no shift before the transfer where none is needed")
    rows = {e: late <= first_out[e] * model.v[e] for e, late in outward.items()}
    frame.rows("eq_24", rows, "a shift before a transfer that would begin before its task has ended")
    if printed:
        rows = {e: late >= -large * (1 - model.u[e]) for e, late in inward.items()}
        frame.rows("eq_25", rows, "no shift before task e + 1 where none is needed")
    rows = {e: late <= first_in[e] * model.u[e] for e, late in inward.items()}
    frame.rows("eq_26", rows, "a shift before task e + 1 where it would begin before the transfer has ended")
    rows = {e: late <= period + second_out[e] * model.v2[e] for e, late in outward.items()}
    frame.rows("eq_27", rows, "a second shift before the transfer where one is not enough")
    if printed:
        rows = {e: late >= period - large * (1 - model.v2[e]) for e, late in outward.items()}
        frame.rows("eq_28", rows, "no second shift before the transfer where one is enough")
    rows = {e: late <= period + second_in[e] * model.u2[e] for e, late in inward.items()}
    frame.rows("eq_29", rows, "a second shift before task e + 1 where one is not enough")
    if printed:
        rows = {e: late >= period - large * (1 - model.u2[e]) for e, late in inward.items()}
        frame.rows("eq_30", rows, "no second shift before task e + 1 where one is enough")


def _local(frame: Frame) -> None:
    """On one GPU the order alone says whether there is a shift; also where activities take no time (E4)."""
    facts, model = frame.facts, frame.model
    rows: dict[Any, Any] = {}
    for e in range(1, facts.tasks):
        remote = 0 if e == facts.layers else frame.remote(e)
        if frame.timeless & {e, e + 1}:
            rows |= _local_timeless(frame, e, remote)
        else:
            later = frame.w(e + 1, e)
            if TIES not in frame.errata:
                rows["least", e] = model.u[e] >= later
                rows["most", e] = model.u[e] <= later + remote
            rows["u2", e] = model.u2[e] <= remote
        if e in facts.staged:
            rows["v", e] = model.v[e] <= remote
    frame.rows("local_edges", rows, "(E4a) on one GPU the order alone says whether there is a shift")


def _local_timeless(frame: Frame, e: int, remote: Any) -> dict[Any, Any]:
    """The rows of `_local` for an edge between two tasks of which one takes no time."""
    model = frame.model
    done = frame.w(e, e + 1) if e in frame.timeless else model.ended[e, e + 1]
    far = model.far[e + 1, e] if e in frame.timeless and e + 1 not in frame.timeless else 0
    return {
        ("least", e): model.u[e] >= 1 - remote - done,
        ("most", e): model.u[e] <= 1 - done,
        ("u2", e): model.u2[e] <= remote + far,
        ("u2 far", e): model.u2[e] >= far,
    }


def _exclusive(frame: Frame, outward: dict[int, Any]) -> None:
    """The slots at both ends of a transfer are free again after at most one period (E5).

    That is: from the end of the task to that of the transfer, and from the transfer's start to the next task, shifts
    included. With ends in [0, T] the case without a shift needs no row on the sender's side.
    """
    facts, model, period = frame.facts, frame.model, frame.model.T
    rows: dict[Any, Any] = {}
    for e, late in outward.items():
        kept = frame.transfer_time(e) - late
        read = model.tau[e + 1] - model.tc[e]
        rows["sent", e, 1] = kept <= facts.upper * (1 - model.v[e])
        rows["sent", e, 2] = kept <= -period + 2 * facts.upper * (1 - model.v2[e])
        rows["read", e, 0] = read <= period
        rows["read", e, 1] = read <= facts.upper * (1 - model.u[e])
        rows["read", e, 2] = read <= -period + 2 * facts.upper * (1 - model.u2[e])
    frame.rows("exclusive_buffers", rows, "(E5a) slots at both ends of a transfer are free again after one period")


# More batches than the shifts and orders of one edge can add up to.
MOST_WAITING = 8


def add_memory(frame: Frame) -> None:
    if frame.facts.memory is None:
        return
    _copies(frame)
    _waiting(frame)
    _slots(frame)
    standing = {i: standing_memory(frame, i) for i in frame.layers}
    rows = {}
    for t in frame.tasks:
        bytes_held = (
            standing[frame.facts.layer(t)] + _activations(frame, t) + _running(frame, t) + _direct(frame, t)
        )
        rows[t] = bytes_held <= frame.facts.memory
    frame.rows("eq_36", rows, "weights, slots, copies and what task t reads and writes fit the memory while t runs")


def _copies(frame: Frame) -> None:
    """(31), (32): sigma_il is S_l where layer l is on the GPU of layer i; otherwise it may be 0."""
    facts, sigma = frame.facts, frame.model.sigma
    if SIGN in frame.errata:
        # Without a sign, sigma_il may be as low as -8L where the layers are apart: memory for nothing (E2).
        most = 8 * facts.layers
        rows = {(i, m): sigma[i, m] <= most * frame.z(i, m) for i, m in sigma}
        frame.rows("eq_31", rows, "no copies of layers on other GPUs")
        most_of = dict.fromkeys(facts.kept, most)
    else:
        most_of = {m: _most_copies(frame, m) for m in facts.kept}
    rows = {(i, m): sigma[i, m] >= frame.batches_behind(m) - most_of[m] * (1 - frame.z(i, m)) for i, m in sigma}
    frame.rows("eq_32", rows, "as many copies of layer l as its backward task lags behind")


def _most_copies(frame: Frame, layer: int) -> int:
    """S_l at most: by the stages between F_l and B_l, and by the memory of the GPU that keeps the copies."""
    facts = frame.facts
    assert facts.memory is not None
    by_stages = sum(facts.most_shifts(e) for e in range(layer, facts.backward(layer)))
    if frame.timeless & {layer, facts.backward(layer)}:
        return by_stages  # it may be there for no time at all, so its size says nothing
    room = facts.memory - facts.weights[layer] - facts.own_size(layer)
    return int(max(1, min(by_stages, room / facts.sizes[layer - 1] + 1 + 1e-6)))


def _waiting(frame: Frame) -> None:
    """(22): what task e wrote waits for task e + 1 while t runs: the three come in this order around the period.

    No row asks whether they share a GPU: otherwise at most one of the three w can be 1.
    """
    rows = {}
    for t, e in frame.model.o:
        if frame.timeless & {t, e, e + 1}:
            apart = 2 - frame.together(e, e + 1) - frame.together(e, t)
            batches = frame.shifts(e) + frame.done(e, t) - frame.begun(e + 1, t)
            rows[t, e] = frame.model.o[t, e] >= batches - MOST_WAITING * apart
            continue
        around = frame.w(e, t) + frame.w(t, e + 1) + frame.w(e + 1, e)
        rows[t, e] = frame.model.o[t, e] >= around - 1
    frame.rows("eq_22", rows, "what edge e carries waits while t runs where t comes between its two tasks")


def _slots(frame: Frame) -> None:
    """(34), (35): b_ij is 1 where exactly one of layers j and j + 1 is on the GPU of layer i."""
    b, z = frame.model.b, frame.z
    rows = {(i, j): b[i, j] >= z(i, j) - z(i, j + 1) for i, j in b}
    frame.rows("eq_34", rows, "b is 1 where j is on the GPU of i and j + 1 is not")
    rows = {(i, j): b[i, j] >= z(i, j + 1) - z(i, j) for i, j in b}
    frame.rows("eq_35", rows, "b is 1 where j + 1 is on the GPU of i and j is not")


def standing_memory(frame: Frame, i: int) -> Any:
    """(33) and BUF: weights and reserved slots on the GPU of layer i."""
    facts = frame.facts
    bytes_held: Any = sum(facts.weights[j] * frame.z(i, j) for j in frame.layers if facts.weights[j])
    if facts.current:
        for j in frame.layers[:-1]:
            if facts.border_size(j):
                bytes_held += facts.border_size(j) * _at_border(frame, i, j)
    return bytes_held


def _at_border(frame: Frame, i: int, j: int) -> Any:
    return frame.remote(j) if i in (j, j + 1) else frame.model.b[i, j]


def _activations(frame: Frame, t: int) -> Any:
    """ACT: kept inputs of all layers on the GPU (Lemma 10), and what the task itself reads and writes.

    Row (36) of the page on `ilp-beaumont`; the cuts (B4) and (B5) and `fixed_allocation` count the same.
    """
    facts = frame.facts
    bytes_held: Any = 0 if t in frame.timeless else facts.own_size(t)
    for m in facts.kept:
        i = facts.layer(t)
        copies = frame.batches_behind(m) if i == m else frame.model.sigma[i, m]
        bytes_held += facts.sizes[m - 1] * (copies + frame.begun(m, t) - frame.done(facts.backward(m), t))
    return bytes_held


def _running(frame: Frame, t: int) -> Any:
    """What other tasks hold while they run, where the task itself takes no time and may happen within them."""
    facts = frame.facts
    if t not in frame.timeless or not facts.current:
        return 0
    bytes_held: Any = 0
    for x in frame.tasks:
        size = facts.sizes[x] + (facts.sizes[x - 1] if x > facts.layers else 0.0)
        if x not in frame.timeless and size:
            bytes_held += size * (frame.begun(x, t) - frame.done(x, t))
    return bytes_held


def _direct(frame: Frame, t: int) -> Any:
    """DIR: tensors on their way between tasks of this GPU."""
    facts = frame.facts
    return sum(facts.sizes[e] * frame.model.o[t, e] for e in facts.waiting if frame.may_wait(t, e))


def add_cuts(frame: Frame) -> None:
    """Add all cuts to the model; those on memory only where memory is limited and activations are kept."""
    _loads(frame)
    _batches_behind(frame)
    if frame.facts.memory is not None and frame.facts.kept:
        _area(frame)
        if all(frame.facts.durations[1:]):
            _instant(frame)


def _loads(frame: Frame) -> None:
    facts, period = frame.facts, frame.model.T
    loads = {i: sum(facts.load(j) * frame.z(i, j) for j in frame.layers) <= period for i in frame.layers}
    frame.rows("gpu_load", loads, "(B1) implied: the work of the GPU of layer i fits the period")
    links: dict[int, Any] = {}
    for e in facts.edges:
        busy = facts.transfers[e] * frame.remote(e)
        for pair in frame.competing():
            if e in pair:
                other = pair[0] + pair[1] - e
                busy += facts.transfers[other] * frame.same_link(*pair)
        if facts.transfers[e]:
            links[e] = busy <= period
    frame.rows("link_load", links, "(B2) implied: the transfers of a link fit the period")


def _batches_behind(frame: Frame) -> None:
    """A batch needs at least the times between F_l and B_l, and all periods but one that it spans are shifts."""
    facts = frame.facts
    rows: dict[Any, Any] = {}
    for i in frame.layers:
        last = facts.backward(i)
        periods = frame.batches_behind(i) - frame.done(last, i) + 1
        hops = sum(facts.transfers[e] * frame.remote(e) for e in range(i, last) if e != facts.layers)
        rows["whole", i] = periods >= math.ceil(facts.lives[i] / facts.upper - 1e-9)
        rows["hops", i] = facts.upper * periods >= facts.lives[i] + hops
    frame.rows("least_lag", rows, "(B3) implied: a batch takes the times between both tasks of a layer")


def _area(frame: Frame) -> None:
    """Bytes times time that the layers of a GPU occupy per batch fit the room beside weights and slots."""
    facts = frame.facts
    assert facts.memory is not None
    rows = {}
    for i in frame.layers:
        area = sum(facts.areas[j] * frame.z(i, j) for j in facts.kept)
        rows[i] = area <= facts.upper * (facts.memory - standing_memory(frame, i))
    frame.rows("area", rows, "(B4) implied: bytes times time of the layers of a GPU fit its room")


def _instant(frame: Frame) -> None:
    """While F_i or B_i runs, every layer of the GPU has at least as many copies as its least life has periods."""
    facts = frame.facts
    assert facts.memory is not None
    rows: dict[Any, Any] = {}
    for i in frame.layers:
        last = facts.backward(i)
        others = standing_memory(frame, i)
        for j in facts.kept:
            if j != i:
                others += facts.sizes[j - 1] * math.floor(facts.lives[j] / facts.upper) * frame.z(i, j)
        at_start = math.ceil(facts.lives[i] / facts.upper - 1e-9)
        at_end = math.floor((facts.lives[i] - facts.durations[last]) / facts.upper) + 1
        written = facts.sizes[i] if facts.current else 0.0
        gradients = facts.sizes[last - 1] + facts.sizes[last] if facts.current else 0.0
        rows["forward", i] = others + facts.sizes[i - 1] * at_start + written <= facts.memory
        rows["backward", i] = others + facts.sizes[i - 1] * at_end + gradients <= facts.memory
    frame.rows("instant", rows, "(B5) implied: a layer has as many copies as its least life has periods")


def assemble(facts: Facts, errata: frozenset[str]) -> Frame:
    """The whole program, one block of rows per equation."""
    frame = Frame(facts, errata)
    for add in (add_resources, add_order, add_period, add_shifts, add_memory):
        add(frame)
    if not errata:
        add_cuts(frame)
    frame.model.objective = frame.pyo.Objective(expr=float(facts.time_unit) * frame.model.T)
    return frame
