"""Heuristics of placements: their plans promise nothing about the optimum, and exact methods start from them.

The linearised dynamic program (DPL) comes first: the best cuts of one topological order into devices. It is exact for
the order, an upper bound for the problem. All interval loads come from a two-dimensional difference array: a transfer
is free for the intervals that lie between two of its pins or hold them all. `pipedream` and `partition` cut by it, too.
Each planner may be changed by itself: the referee judges all plans, and bounds come from `groups.lower_bound` alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np

from ...instances.base.errors import NotInstalledError, UsageError
from ...instances.base.graph import adjacency
from ...instances.base.result import Stop
from ...instances.physics.tolerances import BETTER
from ...instances.placement.plan import NotAnAssignmentError, PlacementPlan
from ...instances.registry import evaluation_of
from ...instances.stored_results import load_plan
from ..contract import Outcome, Request
from ..registry import ORDERS, RESTARTS
from .groups import (
    FAR,
    Groups,
    Incumbent,
    capped,
    depth_first,
    gathered_order,
    groups_of,
    is_contiguous,
    lower_bound,
    objective_of,
    random_order,
    various_orders,
)

if TYPE_CHECKING:
    import networkx as nx


# Interval loads take 8 bytes for each pair of groups.
MAX_GROUPS = 6_000

# For gpipe: number of limits on the forward load that are tried, if the tables are not too large for it.
FORWARD_LIMITS = 24

# Table entries times limits, at most, beyond which fewer limits are tried.
WORK_ON_LIMITS = 10_000_000


def plan_linear_dp(request: Request) -> Outcome:
    """Contiguous plans, which are valid also where contiguity is not asked for."""
    groups = groups_of(request, contiguous=True)
    incumbent = Incumbent(request, groups)
    if groups.count > MAX_GROUPS:
        return too_many(incumbent)
    orders = various_orders(groups, request.options.get("orders", ORDERS.default), request.limits.seed)
    cuts = (best_cuts(groups, order) for order in orders)
    return incumbent.tried(cuts, "no cut of the tried orders fits the memory")


def too_many(incumbent: Incumbent) -> Outcome:
    return incumbent.outcome(
        Stop.MEMORY, f"{incumbent.groups.count} groups are too many: this planner takes at most {MAX_GROUPS}"
    )


def best_cuts(groups: Groups, order: Sequence[int], borders: Sequence[int] | None = None) -> list[int] | None:
    """Device of each group for the best contiguous cuts of `order`, or None where nothing fits.

    `borders`: the places where it may be cut, 0 and the number of groups among them; None: anywhere.
    """
    limit = FAR * (lower_bound(groups) or 0.0)
    tame = capped(groups, limit)
    cuts = _best_cuts(tame, order, borders)
    if tame is groups or cuts is None or groups.value(cuts) <= limit:
        return cuts
    return _best_cuts(groups, order, borders)


def _best_cuts(groups: Groups, order: Sequence[int], borders: Sequence[int] | None) -> list[int] | None:
    """`best_cuts` with the costs as they are."""
    fast = [interval_loads(groups, order, part) for part in range(groups.parts)]
    slow = [interval_sums(order, groups.cpu_times[part]) for part in range(groups.parts)]
    impossible = blocked(groups, order)
    for loads in fast:
        loads[impossible] = np.inf
    if borders is not None:
        chosen = np.ix_(borders, borders)
        fast, slow = ([loads[chosen] for loads in kind] for kind in (fast, slow))
    cuts = _cut(groups, fast[0], slow[0]) if groups.parts == 1 else _cut_two_parts(groups, fast, slow)
    if cuts is None:
        return None
    places = range(groups.count + 1) if borders is None else borders
    device_of = [0] * groups.count
    for device, start, end in cuts:
        for g in order[places[start] : places[end]]:
            device_of[g] = device
    return device_of


def interval_loads(groups: Groups, order: Sequence[int], part: int) -> Any:
    """loads[i, j]: load of an accelerator with order[i:j]."""
    n = groups.count
    position = [0] * n
    for place, g in enumerate(order):
        position[g] = place
    change = np.zeros((n + 2, n + 2))

    def add(i_low: int, i_high: int, j_low: int, j_high: int, cost: float) -> None:
        """`cost` for all i_low <= i <= i_high and j_low <= j <= j_high."""
        change[i_low, j_low] += cost
        change[i_high + 1, j_low] -= cost
        change[i_low, j_high + 1] -= cost
        change[i_high + 1, j_high + 1] += cost

    everywhere = 0.0
    for pins, cost, net_part in groups.nets:
        if net_part != part:
            continue
        everywhere += cost
        places = sorted(position[g] for g in pins)
        for before, after in zip([-1, *places], [*places, n], strict=True):
            add(before + 1, after, before + 1, after, -cost)
        add(0, places[0], places[-1] + 1, n, -cost)
    cut = change.cumsum(axis=0).cumsum(axis=1)[: n + 1, : n + 1] + everywhere
    np.maximum(cut, 0.0, out=cut)  # rounding of sums that cancel
    return cut + interval_sums(order, groups.times[part])


def interval_sums(order: Sequence[int], values: Sequence[float]) -> Any:
    """sums[i, j]: the values of order[i:j] together."""
    prefix = np.concatenate([[0.0], np.cumsum([values[g] for g in order])])
    return prefix[None, :] - prefix[:, None]


def blocked(groups: Groups, order: Sequence[int]) -> Any:
    """Intervals that no accelerator can hold, and empty or reversed ones."""
    n = groups.count
    is_blocked = np.tril(np.ones((n + 1, n + 1), dtype=bool))
    is_blocked |= interval_sums(order, [float(not ok) for ok in groups.supported]) > 0.5
    return is_blocked | (interval_sums(order, groups.sizes) > groups.capacity)


# (device, first position, end position).
Cut = tuple[int, int, int]


def _cut(groups: Groups, fast: Any, slow: Any) -> list[Cut] | None:
    """The best cuts, by a table: best[f, c][j] is the smallest largest load of order[:j] on f accelerators and c CPUs.

    Once one more accelerator changes nothing, the table ends, since further ones would change nothing either.
    """
    places = len(fast)
    slow = np.where(np.tri(places, dtype=bool), np.inf, slow)
    start = np.full(places, np.inf)
    start[0] = 0.0
    best: dict[tuple[int, int], Any] = {(0, 0): start}
    came: dict[tuple[int, int], tuple[Any, Any]] = {}
    for f in range(groups.accelerators + 1):
        for c in range(groups.cpus + 1):
            if f == c == 0:
                continue
            value, origin = np.full(places, np.inf), np.zeros(places, dtype=np.int64)
            kind = np.zeros(places, dtype=np.int8)
            for number, (before, loads) in enumerate((((f - 1, c), fast), ((f, c - 1), slow)), start=1):
                if before in best:
                    _extend(best[before], loads, number, value, origin, kind)
            best[f, c], came[f, c] = value, (origin, kind)
        if f and all(np.array_equal(best[f, c], best[f - 1, c]) for c in range(groups.cpus + 1)):
            break
    return _trace(groups, best, came, f)


def _extend(previous: Any, loads: Any, number: int, value: Any, origin: Any, kind: Any) -> None:
    """Improve `value` by one more device, of the kind with this number, which takes order[i:j] or nothing."""
    reachable = np.flatnonzero(np.isfinite(previous))
    if not len(reachable):
        return
    table = np.maximum(previous[reachable, None], loads[reachable])
    choice = table.argmin(axis=0)
    columns = np.arange(len(value))
    for candidate, source in ((table[choice, columns], reachable[choice]), (previous, columns)):
        better = candidate < value
        value[better], origin[better], kind[better] = candidate[better], source[better], number


def _trace(
    groups: Groups, best: dict[tuple[int, int], Any], came: dict[tuple[int, int], tuple[Any, Any]], f: int
) -> list[Cut] | None:
    """The cuts behind the last entry for f accelerators and all CPUs."""
    c = groups.cpus
    j = len(best[f, c]) - 1
    if not math.isfinite(best[f, c][j]):
        return None
    cuts: list[Cut] = []
    while f or c:
        origin, kind = came[f, c]
        i, number = int(origin[j]), int(kind[j])
        device = f - 1 if number == 1 else groups.accelerators + c - 1
        if i < j:
            cuts.append((device, i, j))
        f, c, j = (f - 1, c, i) if number == 1 else (f, c - 1, i)
    return cuts


def _cut_two_parts(groups: Groups, fast: Sequence[Any], slow: Sequence[Any]) -> list[Cut] | None:
    """max FW + max BW: the best cuts for the backward part under each of several limits on the forward part."""
    whole = _cut(groups, fast[0] + fast[1], slow[0] + slow[1])
    if whole is None:
        return None

    def largest(cuts: Sequence[Cut], part: int) -> float:
        return max(float((fast if d < groups.accelerators else slow)[part][i, j]) for d, i, j in cuts)

    best, value = whole, largest(whole, 0) + largest(whole, 1)
    least = math.fsum(groups.times[0]) / groups.devices / 2
    limits = max(4, min(FORWARD_LIMITS, WORK_ON_LIMITS // len(fast[0]) ** 2))
    for limit in np.linspace(least, 2 * largest(whole, 0), limits):
        cuts = _cut(
            groups, np.where(fast[0] <= limit, fast[1], np.inf), np.where(slow[0] <= limit, slow[1], np.inf)
        )
        if cuts is not None and largest(cuts, 0) + largest(cuts, 1) < value:
            best, value = cuts, largest(cuts, 0) + largest(cuts, 1)
    return best


# ---- Greedy filling -----------------------------------------------------------------------------------------------
# Greedy filling: groups in topological order, device after device, each up to a target load that is bisected.


# Targets that are tried for each order of the devices, beside the first one.
BISECTIONS = 16


def fill_greedily(request: Request) -> Outcome:
    groups = groups_of(request, contiguous=True)
    incumbent = Incumbent(request, groups)
    # CPUs last, first, or between: their place matters, since what no accelerator can hold ends the turn of one.
    fast, slow = list(range(groups.accelerators)), list(range(groups.accelerators, groups.devices))
    places = [len(fast), 0, *range(1, len(fast))] if slow else [len(fast)]
    orders = ([*fast[:place], *slow, *fast[place:]] for place in places[:8])
    fillings = (_Filling(capped(groups, FAR * incumbent.value), devices) for devices in orders)
    plans = (plan for filling in fillings for plan in _bisected(filling, incumbent))
    return incumbent.tried(plans, "filling devices in order found no plan that fits the memory")


def _bisected(filling: _Filling, incumbent: Incumbent) -> Iterator[list[int] | None]:
    """Plans on the way to the least target that suffices; a larger one is not always easier, so every plan counts."""
    groups = incumbent.groups
    low = incumbent.bound or 0.0
    high = math.fsum(groups.work) + math.fsum(groups.cpu_work) + math.fsum(cost for _, cost, _ in groups.nets)
    target = high
    for _ in range(1 + BISECTIONS):
        device_of = filling.fill(target)
        yield device_of
        if device_of is not None:
            high = min(target, groups.value(device_of))
        elif target == high:
            return
        else:
            low = target
        target = (low + high) / 2


class _Filling:
    """Fills the devices in the given order along one topological order."""

    def __init__(self, groups: Groups, devices: Sequence[int]) -> None:
        self.groups = groups
        self.devices = devices
        self.order = depth_first(groups, range(groups.count))
        self.nets_of = adjacency(groups.count, ((g, e) for e, (pins, _, _) in enumerate(groups.nets) for g in pins))

    def fill(self, target: float) -> list[int] | None:
        """Every group's device, or None where the devices do not suffice."""
        device_of = [0] * self.groups.count
        start = 0
        for device in self.devices:
            end = self._end(device, start, target)
            for g in self.order[start:end]:
                device_of[g] = device
            start = end
        return device_of if start == self.groups.count else None

    def _end(self, device: int, start: int, target: float) -> int:
        """The place up to which the device is filled: transfers may fall again, so the last fitting end counts."""
        groups = self.groups
        on_cpu = device >= groups.accelerators
        memory = math.inf if on_cpu else groups.capacity
        work = cut = size = 0.0
        pins_on: dict[int, int] = {}
        end = start
        for place in range(start, groups.count):
            g = self.order[place]
            work += groups.cpu_work[g] if on_cpu else groups.work[g]
            size += groups.sizes[g]
            if work > target or size > memory or not (on_cpu or groups.supported[g]):
                break
            if not on_cpu:
                cut += self._join(g, pins_on)
            if work + cut <= target:
                end = place + 1
        return end

    def _join(self, g: int, pins_on: dict[int, int]) -> float:
        """How much more the device pays for transfers once it holds g as well; `pins_on`: its pins of each net."""
        change = 0.0
        for e in self.nets_of[g]:
            pins, cost, _ = self.groups.nets[e]
            pins_on[e] = pins_on.get(e, 0) + 1
            change += cost * ((pins_on[e] < len(pins)) - (pins_on[e] > 1))
        return change


# ---- Everything on one device: the baseline without any pipeline, and without any transfer -----------------


def plan_on_one_device(request: Request) -> Outcome:
    """The better of one accelerator and one CPU. One device alone is contiguous in every sense."""
    groups = groups_of(request, contiguous=False)
    incumbent = Incumbent(request, groups)
    for device in {0, groups.devices - 1}:
        incumbent.offer([device] * groups.count)
    return incumbent.completed("no single device has the memory and the support for everything")


# ---- An expert's split --------------------------------------------------------------------------------------------
# An expert's split, read from a file: a plan, a result, or a split as published.


@dataclass(frozen=True)
class Expert:
    name: str
    value_of: Callable[[Request, PlacementPlan], float | None]

    def plan(self, request: Request) -> Outcome:
        """The split as it stands: whether it obeys the rules is for the referee to say."""
        path = request.options.get("split")
        if path is None:
            raise UsageError(f"The planner {self.name!r} needs a split; name its file with --option split=FILE.")
        plan: PlacementPlan = load_plan(path, request.problem)
        try:
            value = self.value_of(request, plan)
        except NotAnAssignmentError:
            return Outcome(Stop.COMPLETED, plan)
        request.board.post(plan, value)
        return Outcome(Stop.COMPLETED, plan, value)


EXPERT = Expert(
    "expert", lambda request, plan: evaluation_of(request.problem, plan).objective(objective_of(request))
)


# ---- PipeDream's partitioner --------------------------------------------------------------------------------------
# PipeDream's partitioner: the graph is contracted to a path at its articulation points, the path is cut optimally.
#
# The published script ignores memory unless asked to check it. This planner always ignores it: its plans may need
# more memory than there is, and then the referee and a message say so.


def plan_pipedream(request: Request) -> Outcome:
    groups = groups_of(request, contiguous=True)
    boundless = replace(groups, capacity=math.inf)
    incumbent = Incumbent(request, boundless)
    if groups.count > MAX_GROUPS:
        return too_many(incumbent)
    busy = [fast + slow for fast, slow in zip(groups.work, groups.cpu_work, strict=True)]
    blocks = contract_to_path(groups.arcs, groups.work, busy)
    borders = [0, *accumulate(len(block) for block in blocks)]
    device_of = best_cuts(boundless, [g for block in blocks for g in block], borders)
    messages = []
    if device_of is None:
        messages.append("the path cannot be cut so that every piece has a device that supports it")
    else:
        incumbent.offer(device_of)
        if not groups.fits(device_of):
            messages.append("the plan exceeds the accelerators' memory, which PipeDream's partitioner ignores")
    return incumbent.outcome(Stop.COMPLETED, *messages)


def contract_to_path(
    arcs: Iterable[tuple[int, int]], work: Sequence[float], busy: Sequence[float]
) -> list[list[int]]:
    """Blocks of groups, one after the other: articulation points of the graph, and all that branches between two.

    Inputs and outputs that keep no device `busy` (masks, states) are no stations of the path: they go with their first
    reader or their last producer. Left in, one mask that every layer reads would make the whole network one block.
    """
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(work)))
    graph.add_edges_from(arcs)
    ends = [g for g in graph if not (graph.in_degree(g) and graph.out_degree(g))]
    idle = [g for g in ends if not busy[g]]
    core = graph.subgraph(set(graph) - set(idle))
    blocks = [block for part in nx.weakly_connected_components(core) for block in _path(work, core.subgraph(part))]
    block_of = {g: number for number, block in enumerate(blocks) for g in block}
    blocks = blocks or [[]]
    for g in idle:
        readers = [block_of[h] for h in graph.successors(g) if h in block_of]
        writers = [block_of[h] for h in graph.predecessors(g) if h in block_of]
        blocks[min(readers, default=max(writers, default=0))].append(g)
    return blocks


def _path(work: Sequence[float], graph: nx.DiGraph[int]) -> list[list[int]]:
    """The blocks of one connected part, along its heaviest path.

    Stations of the path stand at odd coordinates. A branch between two stations stretches over all coordinates between
    them; one that hangs on a single station stands where that station is. Stretches that overlap make up one block.
    """
    import networkx as nx

    stations = _stations(work, graph)
    places = {g: (2 * number + 1, 2 * number + 1) for number, g in enumerate(stations)}
    sides = graph.to_undirected(as_view=True)
    for branch in nx.connected_components(sides.subgraph(set(graph) - set(stations))):
        touched = [places[h][0] for g in branch for h in sides[g] if h not in branch]
        low, high = min(touched), max(touched)
        places.update(dict.fromkeys(branch, (low, high) if low == high else (low + 1, high - 1)))
    # An arc may still lead back, from a later station into a branch between earlier ones.
    stretches = [*places.values(), *((places[v][0], places[u][1]) for u, v in graph.edges)]
    joined = [0] * (2 * len(stations) + 3)
    for low, high in stretches:
        if low < high:
            joined[low] += 1
            joined[high] -= 1
    block_at = [0, *accumulate(int(not depth) for depth in accumulate(joined))]
    blocks: dict[int, list[int]] = {}
    for g in nx.topological_sort(graph):
        blocks.setdefault(block_at[places[g][0]], []).append(g)
    return [blocks[number] for number in sorted(blocks)]


def _stations(work: Sequence[float], graph: nx.DiGraph[int]) -> list[int]:
    """Both ends of the heaviest path, and the articulation points on it."""
    import networkx as nx

    length: dict[int, float] = {}
    came: dict[int, int | None] = {}
    for g in nx.topological_sort(graph):
        came[g] = max(graph.predecessors(g), key=lambda u: length[u], default=None)
        before = came[g]
        length[g] = work[g] + (0.0 if before is None else length[before])
    path = [max(length, key=lambda g: length[g])]
    while (before := came[path[-1]]) is not None:
        path.append(before)
    path.reverse()
    cuts = set(nx.articulation_points(graph.to_undirected(as_view=True))) | {path[0], path[-1]}
    return [g for g in path if g in cuts]


# ---- Local search -------------------------------------------------------------------------------------------------
# Local search as in the paper: random start, the best single reassignment until none gains, restarts.
#
# Of a start that breaks memory or support, the search first lessens the violation. For contiguous plans the start is
# a random order cut at random places, and every device keeps its place in the chain.


def search_locally(request: Request) -> Outcome:
    incumbent = Incumbent(request, groups_of(request))
    return incumbent.tried(_climbed(incumbent), "no start could be mended to fit the memory")


def _climbed(incumbent: Incumbent) -> Iterator[list[int]]:
    """What the search reaches from each random start."""
    request, groups = incumbent.request, incumbent.groups
    rng = random.Random(request.limits.seed)
    tables = Tables(groups)
    for _ in range(request.options.get("restarts", RESTARTS.default)):
        tame = capped(groups, FAR * incumbent.value)
        tables = tables if tame is groups else Tables(tame)
        contiguous = is_contiguous(request)
        device_of, stages = random_chain(groups, rng) if contiguous else (_random_devices(groups, rng), None)
        climb = Climb(tables, device_of, stages)
        while not request.out_of_time() and climb.step():
            pass
        yield climb.assignment


def _random_devices(groups: Groups, rng: random.Random) -> list[int]:
    """For each group, a random device that can hold it by itself."""
    first = [0 if ok else groups.accelerators for ok in groups.supported]
    return [rng.randrange(low, groups.devices) if low < groups.devices else 0 for low in first]


def random_chain(groups: Groups, rng: random.Random) -> tuple[list[int], list[int]]:
    """Cut a random topological order at random places, and give the pieces to devices in random order: the
    device of each group, and the stage of each device."""
    order = random_order(groups, rng)
    devices = rng.sample(range(groups.devices), groups.devices)
    cuts = sorted(rng.randrange(groups.count + 1) for _ in range(groups.devices - 1))
    device_of = [0] * groups.count
    for device, start, end in zip(devices, [0, *cuts], [*cuts, groups.count], strict=True):
        for g in order[start:end]:
            device_of[g] = device
    stages = [0] * groups.devices
    for stage, device in enumerate(devices):
        stages[device] = stage
    return device_of, stages


# ---- Single reassignments: what moving any group to any device would cost, for all at once -----------------


def mend(groups: Groups, device_of: Sequence[int]) -> list[int]:
    """Moves groups as long as each move lessens the violation of memory and support."""
    climb = Climb(Tables(groups), device_of, None)
    while climb.violation > BETTER and climb.step():
        pass
    return climb.assignment


class Tables:
    """The problem as arrays: pins are pairs (net, group), one row each."""

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.pin_net = np.array([e for e, (pins, _, _) in enumerate(groups.nets) for _ in pins], dtype=np.int64)
        self.pin_group = np.array([g for pins, _, _ in groups.nets for g in pins], dtype=np.int64)
        self.net_pins = np.array([len(pins) for pins, _, _ in groups.nets], dtype=np.int64)
        costs = np.zeros((groups.parts, len(groups.nets)))
        for e, (_, cost, part) in enumerate(groups.nets):
            costs[part, e] = cost
        self.pin_cost = costs[:, self.pin_net]
        self.times = np.array(groups.times)
        self.cpu_times = np.array(groups.cpu_times)
        self.sizes = np.array(groups.sizes)
        self.supported = np.array(groups.supported)
        arcs = np.array(groups.arcs, dtype=np.int64).reshape(-1, 2)
        self.tails, self.heads = arcs[:, 0], arcs[:, 1]

    def per_group(self, weights: Any) -> Any:
        """Sum of the pins' weights for each part and group."""
        return np.array([np.bincount(self.pin_group, row, self.groups.count) for row in weights])


class Climb:
    """The search from one start: each step is the best single reassignment.

    Assignments are compared by (violation, objective). With `stages`, the place of each device in the chain, a
    group may move only as far as its neighbours in the stage order allow.
    """

    def __init__(self, tables: Tables, device_of: Sequence[int], stages: Sequence[int] | None) -> None:
        self.tables = tables
        self.device = np.array(device_of, dtype=np.int64)
        self.stages = None if stages is None else np.array(stages, dtype=np.int64)
        self.held = np.zeros((len(tables.net_pins), tables.groups.devices), dtype=np.int64)
        np.add.at(self.held, (tables.pin_net, self.device[tables.pin_group]), 1)

    @property
    def violation(self) -> float:
        """Excess memory in units of an accelerator's memory, and one for each group on one that does not support it."""
        return self._violations()[1]

    @property
    def assignment(self) -> list[int]:
        return [int(d) for d in self.device]

    def step(self) -> bool:
        """Carry out the best single reassignment; False where none gains."""
        load = np.array(self.tables.groups.loads(self.assignment))
        value = load.max(axis=1).sum()
        excess, violation = self._violations()
        values = np.where(self._allowed(), self._values(load), np.inf)
        values[np.arange(len(self.device)), self.device] = np.inf
        least = excess[np.isfinite(values)].min(initial=0.0)
        if least < -BETTER * (1.0 + violation):
            values[excess > least] = np.inf
        else:
            values[(excess > 0) | (values >= value * (1 - BETTER))] = np.inf
        g, d = np.unravel_index(values.argmin(), values.shape)
        if not np.isfinite(values[g, d]):
            return False
        nets = self.tables.pin_net[self.tables.pin_group == g]
        self.held[nets, self.device[g]] -= 1
        self.held[nets, d] += 1
        self.device[g] = d
        return True

    def _allowed(self) -> Any:
        """[g, d]: does the stage order let group g go to device d?"""
        if self.stages is None:
            return True
        count, stage = len(self.device), self.stages[self.device]
        low, high = np.zeros(count, dtype=np.int64), np.full(count, len(self.stages))
        np.maximum.at(low, self.tables.heads, stage[self.tables.tails])
        np.minimum.at(high, self.tables.tails, stage[self.tables.heads])
        return (low[:, None] <= self.stages) & (self.stages <= high[:, None])

    def _values(self, load: Any) -> Any:
        """[g, d]: the objective after moving group g to device d."""
        tables = self.tables
        groups, held = tables.groups, self.held
        home = self.device
        held_at_home = held[tables.pin_net, home[tables.pin_group]]
        paid_less = (held_at_home > 1).astype(float) - (held_at_home < tables.net_pins[tables.pin_net])
        on_accelerator = home < groups.accelerators
        leave = np.where(
            on_accelerator, tables.per_group(tables.pin_cost * paid_less) - tables.times, -tables.cpu_times
        )
        left = load[:, home] + leave
        total = np.zeros((groups.count, groups.devices))
        for d in range(groups.devices):
            join = tables.cpu_times
            if d < groups.accelerators:
                there = held[tables.pin_net, d]
                paid_more = (there + 1 < tables.net_pins[tables.pin_net]).astype(float) - (there > 0)
                join = tables.times + tables.per_group(tables.pin_cost * paid_more)
            for part in range(groups.parts):
                others = _largest_without(load[part], d)[home]
                total[:, d] += np.maximum(np.maximum(left[part], load[part, d] + join[part]), others)
        return total

    def _violations(self) -> tuple[Any, float]:
        """[g, d]: change of the violation by moving group g to device d; and the violation now."""
        tables, groups, home = self.tables, self.tables.groups, self.device
        on_accelerator = np.arange(groups.devices) < groups.accelerators
        wrong = np.where(tables.supported, 0.0, 1.0)
        change = wrong[:, None] * (on_accelerator[None, :].astype(float) - on_accelerator[home][:, None])
        violation = float((wrong * on_accelerator[home]).sum())
        unit = groups.capacity if 0 < groups.capacity < np.inf else 1.0
        used = np.bincount(home, tables.sizes, groups.devices)
        free = np.where(on_accelerator, groups.capacity - used, np.inf)
        over = np.maximum(-free, 0.0)
        less = np.maximum(-(free[home] + tables.sizes), 0.0) - over[home]
        more = np.maximum(tables.sizes[:, None] - free[None, :], 0.0) - over[None, :]
        return change + (less[:, None] + more) / unit, violation + float(over.sum()) / unit


def _largest_without(load: Any, d: int) -> Any:
    """[a]: the largest load of all devices but a and d (0 where there are no others)."""
    rest = load.copy()
    rest[d] = -np.inf
    first = int(rest.argmax())
    answer = np.full(len(load), rest[first])
    rest[first] = -np.inf
    answer[first] = rest.max()
    return np.maximum(answer, 0.0)


# ---- Balanced graph partition -------------------------------------------------------------------------------------
# Balanced graph partition by METIS, through the extra `partition`: a stand-in for Scotch.
#
# METIS balances work and cuts few transfers, but knows neither CPUs that are slower nor what each device pays; so
# several imbalances and seeds are tried and the best maximum load is kept. Groups that break memory or support are
# moved afterwards. Its parts are seldom contiguous: where a chain is asked for, they only give the order that is cut.


# Imbalances that are tried: how much METIS may deviate from equal parts, in per mille.
IMBALANCES = (1, 10, 30, 100, 300, 1000)

# Seeds that are tried for each imbalance.
SEEDS = 3

# Sum of all weights, about: METIS counts in whole numbers of 32 bits.
SCALE = 10_000_000

# Pins up to which a net becomes a clique; wider nets become stars, since a clique would have too many edges.
WIDEST_CLIQUE = 24


def partition(request: Request) -> Outcome:
    try:
        import pymetis
    except ImportError:
        raise NotInstalledError(
            "The planner 'partition' needs METIS; install it with pip install 'pipeplan[partition]', or choose "
            "another planner."
        ) from None
    groups, contiguous = groups_of(request), is_contiguous(request)
    incumbent = Incumbent(request, groups)
    if contiguous and groups.count > MAX_GROUPS:
        return too_many(incumbent)
    plans = (
        best_cuts(groups, gathered_order(groups, parts)) if contiguous else mend(groups, parts)
        for parts in _partitions(pymetis, groups, request.limits.seed)
    )
    return incumbent.tried(plans, "no partition could be made to fit the memory")


def _partitions(metis: Any, groups: Groups, seed: int) -> Iterator[list[int]]:
    """Device of each group, for each imbalance and seed, without CPUs and with them."""
    starts, ends, weights = _graph(groups)
    work = _whole(groups.work)
    for imbalance, number, shares in product(IMBALANCES, range(SEEDS), _shares(groups)):
        if len(shares) == 1:
            yield [shares[0][0]] * groups.count
            continue
        options = metis.Options(ufactor=imbalance, seed=(seed * SEEDS + number) % 2**31)
        _, parts = metis.part_graph(
            len(shares),
            metis.CSRAdjacency(starts, ends),
            vweights=work,
            eweights=weights,
            tpwgts=[share for _, share in shares],
            recursive=False,
            options=options,
        )
        yield [shares[part][0] for part in parts]


def _shares(groups: Groups) -> list[list[tuple[int, float]]]:
    """The devices that take part, with their shares of the work: first accelerators alone, then CPUs as well, by their
    speed."""
    fast = [(d, 1.0) for d in range(groups.accelerators)]
    total = math.fsum(groups.cpu_work)
    speed = min(1.0, math.fsum(groups.work) / total) if total and groups.accelerators else 1.0
    slow = [(d, max(speed, 1e-3)) for d in range(groups.accelerators, groups.devices)]
    sets = [devices[: groups.count] for devices in (fast, fast + slow) if devices]
    if len(sets) == 2 and sets[0] == sets[1]:
        sets.pop()
    return [[(d, share / math.fsum(s for _, s in devices)) for d, share in devices] for devices in sets]


def _graph(groups: Groups) -> tuple[list[int], list[int], list[int]]:
    """Neighbours in compressed rows, with whole weights; each edge of a net of n pins gets 1 / (n - 1) of its cost."""
    cost: dict[tuple[int, int], float] = {}
    for pins, price, _ in groups.nets:
        clique = len(pins) <= WIDEST_CLIQUE
        pairs = list(combinations(pins, 2)) if clique else [(pins[0], g) for g in pins[1:]]
        for pair in pairs:
            cost[pair] = cost.get(pair, 0.0) + price / (len(pins) - 1)
    whole = dict(zip(cost, _whole(tuple(cost.values())), strict=True))
    rows: list[list[tuple[int, int]]] = [[] for _ in range(groups.count)]
    for (g, h), weight in whole.items():
        rows[g].append((h, weight))
        rows[h].append((g, weight))
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row))
    return starts, [h for row in rows for h, _ in row], [weight for row in rows for _, weight in row]


def _whole(values: tuple[float, ...]) -> list[int]:
    """Proportional whole numbers of at least one."""
    total = math.fsum(values)
    return [1 + round(value / total * SCALE) if total else 1 for value in values]
