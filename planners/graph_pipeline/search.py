"""The least achievable time per sample: a binary search over the times that stages can have, so it is exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np

from ...instances.base.compiled import repays_loading
from ...instances.base.errors import InputError
from ...instances.graph_pipeline.plan import GraphStage, StageGraphPlan
from ...instances.graph_pipeline.problem import GraphPipelineProblem
from ...instances.graph_pipeline.series_parallel import Leaf, Series, Tree, decompose, depth
from . import kernel
from .configurations import Menu
from .costs import (
    Absorption,
    Costs,
    LeafNode,
    NodeBuilder,
    ParallelNode,
    PricedNode,
    SeriesNode,
    Vector,
    all_nodes,
    all_prices,
    drop_one,
    series_children,
)
from .kernel import NEVER

# ---- tables ---------------------------------------------------------------------------------------------------
# Whole needs of a part: where several stages end right before it, what one plan of the part asks of all of them.
#
# A *combination* is a tuple of needs, one for each configuration of a stage before, with the bit set of the numbers of
# devices for which some plan of the part has these needs or less. Combinations that others make useless are dropped.
# Such junctions, where branches follow branches, are rare, and with one configuration the tables alone suffice.


# What comes after a part: the samples that a stage of each configuration right before it holds.
Entry = tuple[int, ...]

Combinations = dict[Entry, int]

Made = TypeVar("Made")


def after_child(tables: Tables, node: SeriesNode, entry: Entry, values: Any, needs: Any, i: int) -> Combinations:
    """Combinations of what comes after child i, which is divided."""
    end = len(values) - 1
    if i + 1 == end:
        return {entry: 1}
    return _of_place(tables, node, entry, values, needs, i + 1)


def of_row(tables: Tables, node: PricedNode, entry: Entry, end: int, i: int) -> Combinations:
    """Combinations of the children from i to end - 1 of a leaf or a series."""
    assert not isinstance(node, ParallelNode)
    if i == end:
        return {entry: 1}
    values, needs = tables.rows(node, entry, end)
    return _of_place(tables, node, entry, values, needs, i)


def of_branches(tables: Tables, node: ParallelNode, entry: Entry, wanted: Vector) -> Combinations:
    """Combinations of the `wanted` number of branches of each kind."""

    def compute() -> Combinations:
        if not any(wanted):
            return {(0,) * len(entry): 1}
        choices, combinations = node.choices, Combinations()
        here, blocks = choices.states.index(wanted), block_combinations(tables, node, entry)
        for _, block, rest in choices.moves[choices.moves[:, 0] == here].tolist():
            others = of_branches(tables, node, entry, choices.states[rest])
            merge(combinations, beside(tables, blocks[block], others))
        return combinations

    return tables.once(("branches", id(node.prices), entry, wanted), compute)


def block_combinations(tables: Tables, node: ParallelNode, entry: Entry) -> list[Combinations]:
    """Combinations of each block: first one branch of each kind, then groups of branches that are one stage."""

    def compute() -> list[Combinations]:
        blocks = [of_row(tables, kind, entry, len(series_children(kind)), 0) for kind in node.kinds]
        for group in tables.usable_groups(node, entry):
            combinations = Combinations()
            for own, g in np.argwhere(group).tolist():
                merge(combinations, {tables.entry(own, entry[own]): 1 << tables.menu.degrees[g]})
            blocks.append(combinations)
        return blocks

    return tables.once(("blocks", id(node.prices), entry), compute)


def _of_place(
    tables: Tables, node: LeafNode | SeriesNode, entry: Entry, values: Any, needs: Any, i: int
) -> Combinations:
    """Combinations of the children from i on, by the tables of the row."""
    if len(entry) == 1:
        return _distinct(needs[i, 0], lambda need: (need,))
    combinations = Combinations()
    for own, row in enumerate(values[i]):
        merge(combinations, _distinct(row, partial(tables.entry, own)))
    child = series_children(node)[i]
    if isinstance(node, SeriesNode) and isinstance(child, ParallelNode):
        for below, used in after_child(tables, node, entry, values, needs, i).items():
            merge(combinations, shifted(tables, of_branches(tables, child, below, child.total), used))
        for absorption in node.absorbed:
            if absorption.position == i:
                merge(combinations, _absorbed(tables, node, child, absorption, needs))
    return combinations


def _distinct(row: Any, entry_of: Callable[[int], Entry]) -> Combinations:
    """The numbers of devices in a row of a table, gathered by what a stage before would hold."""
    combinations = Combinations()
    for d, held in enumerate(row.tolist()):
        if held < NEVER:
            merge(combinations, {entry_of(held): 1 << d})
    return combinations


def _absorbed(
    tables: Tables, node: SeriesNode, parallel: ParallelNode, absorption: Absorption, needs: Any
) -> Combinations:
    """Combinations of the branches, one of which ends in a stage that goes on after them, and of what follows."""
    combinations = Combinations()
    for (cut, own, held), start in tables.absorbing_stages(absorption, needs, len(needs) - 1).items():
        below = tables.entry(own, held)
        rest = of_branches(tables, parallel, below, drop_one(parallel.total, absorption.kind))
        if cut:
            rest = beside(tables, rest, of_row(tables, parallel.kinds[absorption.kind], below, cut, 0))
        used = sum(1 << d for d in np.flatnonzero(start == 0).tolist())
        merge(combinations, shifted(tables, rest, used))
    return combinations


# ---- sums and sets of combinations -------------------------------------------------------------------------------


def merge(combinations: Combinations, more: Combinations) -> None:
    for needs, used in more.items():
        combinations[needs] = combinations.get(needs, 0) | used


def beside(tables: Tables, left: Combinations, right: Combinations) -> Combinations:
    """Two parts side by side: devices add up, the larger need counts."""
    combinations = Combinations()
    for needs, used in left.items():
        for others, more in right.items():
            total = added(tables, used, more)
            if total:
                merge(combinations, {tuple(map(max, needs, others)): total})
    return combinations


def shifted(tables: Tables, combinations: Combinations, used: int) -> Combinations:
    """The combinations, each with any of these numbers of devices added."""
    moved = {needs: added(tables, own, used) for needs, own in combinations.items()}
    return {needs: total for needs, total in moved.items() if total}


def added(tables: Tables, left: int, right: int) -> int:
    """All sums of two numbers of devices, one from each bit set, up to the number of all devices."""
    total = 0
    for d in range(right.bit_length()):
        if right >> d & 1:
            total |= left << d
    return total & ((1 << tables.size) - 1)


# ---- The tables of one question -----------------------------------------------------------------------------------
# One question of the search: can all stages keep below a target, and what must a stage before them hold in flight?
#
# The state of the dynamic program is a part of the decomposition together with what comes right after it, of which
# only this matters: how many samples a stage of each configuration right before it would hold. Its value, for each
# configuration of a stage right before the part and each number of devices, is the least number of samples that this
# stage must hold. Fewer are never worse, so this is all that has to be kept: a part is followed upwards either by one
# stage, or by branches of which several end right there. These see one and the same plan of the part, so before them
# all combinations of needs that a plan can have are told apart.


def machine_code() -> SimpleNamespace:
    """The inner loops as machine code; the module `kernel` has them as plain Python."""
    from ...instances.base.compiled import compiled

    names = ("fill_rows", "relax_rows", "put_beside", "branch_states")
    return SimpleNamespace(**{name: compiled(kernel, name) for name in names})


class Tables:
    """All states at one target, each computed when it is first asked for."""

    def __init__(
        self,
        menu: Menu,
        target: float,
        chosen: slice = slice(None),
        loops: Any = kernel,
        most_held: int | None = None,
    ) -> None:
        """`chosen`: which of the priced configurations are those of the menu; `most_held`: samples, by any stage."""
        self.menu, self.target, self.chosen, self.loops = menu, target, chosen, loops
        self.most_held = menu.mini_batch if most_held is None else most_held
        self.size = menu.devices + 1
        self.nothing: Entry = tuple(menu.alone.tolist())
        self._known: dict[Any, Any] = {}
        self.entry = cache(self._entry)

    def once(self, key: tuple[Any, ...], compute: Callable[[], Made]) -> Made:
        """What is computed when it is first asked for, and kept."""
        if key not in self._known:
            self._known[key] = compute()
        made: Made = self._known[key]
        return made

    def caps(self, owner: PricedNode | Absorption) -> Any:
        """The most samples that each stage may hold; 0 where it is too slow or does not fit."""
        within = owner.prices.within
        return self.once(
            ("caps", id(owner.prices)), lambda: np.minimum(within(self.target, self.chosen), self.most_held)
        )

    def _entry(self, configuration: int, held: int) -> Entry:
        """The samples that a stage of each configuration holds right before a stage that holds `held`."""
        return tuple(self.menu.above(configuration, held).tolist())

    def never(self) -> Any:
        """[configuration, devices]: nothing is possible."""
        return np.full((len(self.menu.configurations), self.size), NEVER)

    def table(self, node: PricedNode, entry: Entry) -> Any:
        """[configuration of a stage right before the node, devices of the node exactly] -> its samples in flight."""
        if isinstance(node, ParallelNode):
            return self.branches(node, entry, node.total)
        count = len(node.children) if isinstance(node, SeriesNode) else 1
        return self.rows(node, entry, count)[1][0]

    # ---- series ------------------------------------------------------------------------------------------

    def rows(self, node: LeafNode | SeriesNode, entry: Entry, end: int) -> tuple[Any, Any]:
        """For the children before `end`: values and needs, [first child, configuration, devices].

        values[i] is what one first stage of that configuration has to hold, where child i begins a run; needs[i] is
        what a stage of that configuration that ends right before child i has to hold. [end] stands for `entry` itself.
        """
        return self.once(("rows", id(node.prices), entry, end), lambda: self._fill_rows(node, entry, end))

    def _fill_rows(self, node: LeafNode | SeriesNode, entry: Entry, end: int) -> tuple[Any, Any]:
        values = kernel.no_state(end + 1, len(self.menu.configurations), self.size)
        needs = values.copy()
        needs[end, :, 0] = entry
        if isinstance(node, LeafNode):
            self._fill(values, needs, self.caps(node)[None, None], 0, 0)
        elif all(isinstance(child, LeafNode) for child in node.children):
            self._fill(values, needs, self.caps(node), end - 1, 0)
        else:
            self._fill_mixed(values, needs, node, entry)
        return values, needs

    def _fill(self, values: Any, needs: Any, caps: Any, begin: int, stop: int) -> None:
        menu = self.menu
        degrees, extra = menu.degree_array, menu.extra
        self.loops.fill_rows(values, needs, caps, degrees, extra, menu.sizes, menu.mini_batch, begin, stop)

    def _fill_mixed(self, values: Any, needs: Any, node: SeriesNode, entry: Entry) -> None:
        """Fill rows where children may be divided, and branches may end in a stage that goes on after them."""
        end = len(values) - 1
        caps = self.caps(node)
        for i in range(end - 1, -1, -1):
            self._fill(values, needs, caps, i, i)
            child = node.children[i]
            if isinstance(child, LeafNode):
                continue
            for below, used in after_child(self, node, entry, values, needs, i).items():
                self._put_before(needs[i], self.start(used), self.table(child, below))
            for absorption in node.absorbed:
                if absorption.position == i:
                    self._absorb(needs[i], node, absorption, needs, end)

    def start(self, used: int) -> Any:
        """[devices]: 0 at the numbers of devices in a bit set, NEVER at all others."""
        return np.array([0 if used >> d & 1 else NEVER for d in range(self.size)])

    def _put_before(self, row: Any, start: Any, part: Any) -> None:
        """Lower `row` to the values of a part, at its devices plus any number of devices at which `start` is 0."""
        self.loops.put_beside(np.broadcast_to(start, part.shape).copy(), part, row)

    def _absorb(self, row: Any, node: SeriesNode, absorption: Absorption, needs: Any, end: int) -> None:
        """Lower `row` by plans whose first stage below the branches takes the end of one of them as well."""
        starts = self.absorbing_stages(absorption, needs, end)
        for (cut, own, held), start in starts.items():
            rest = self.beside(node, absorption, cut, self.entry(own, held))
            self._put_before(row, start, rest)

    def absorbing_stages(self, absorption: Absorption, needs: Any, end: int) -> dict[tuple[int, int, int], Any]:
        """(cut, configuration, samples held) -> 0 at each number of devices that the stage and what follows can use.

        For each number of devices, the stage holds as few samples as it can: more are never better for what is before.
        """
        last = end - absorption.position - 1
        caps = self.caps(absorption)[:, :last]
        after = needs[absorption.position + 2 : absorption.position + 2 + last]
        least = kernel.no_state(len(caps), len(self.menu.configurations), self.size)
        self.loops.relax_rows(least, caps, self.menu.degree_array, after)
        starts: dict[tuple[int, int, int], Any] = {}
        for cut, own in np.argwhere((least < NEVER).any(axis=2)).tolist():
            row = least[cut, own]
            for held in sorted(set(row[row < NEVER].tolist())):
                starts[cut, own, held] = np.where(row == held, 0, NEVER)
        return starts

    def beside(self, node: SeriesNode, absorption: Absorption, cut: int, entry: Entry) -> Any:
        """The values of the other branches together with what is left of the absorbed one."""
        parallel = node.children[absorption.position]
        assert isinstance(parallel, ParallelNode)
        others = self.branches(parallel, entry, drop_one(parallel.total, absorption.kind))
        if not cut:
            return others
        branch = parallel.kinds[absorption.kind]
        assert isinstance(branch, SeriesNode)

        def compute() -> Any:
            both = self.never()
            self.loops.put_beside(others, self.rows(branch, entry, cut)[1][0], both)
            return both

        return self.once(("beside", id(branch.prices), id(parallel.prices), entry, cut), compute)

    # ---- parallel ----------------------------------------------------------------------------------------

    def branches(self, node: ParallelNode, entry: Entry, wanted: Vector) -> Any:
        """The values of the `wanted` number of branches of each kind, as in `table`."""
        return self.branch_tables(node, entry)[1][node.choices.states.index(wanted)]

    def branch_tables(self, node: ParallelNode, entry: Entry) -> tuple[Any, Any]:
        """Values of the blocks and of the states."""

        def compute() -> tuple[Any, Any]:
            choices = node.choices
            blocks = np.stack([*(self.table(kind, entry) for kind in node.kinds), *self._groups(node, entry)])
            states = kernel.no_state(len(choices.states), *blocks.shape[1:])
            states[0, :, 0] = 0
            useful = blocks[choices.moves[:, 1]].min(axis=(1, 2)) < NEVER
            self.loops.branch_states(choices.moves[useful], blocks, states)
            return blocks, states

        return self.once(("states", id(node.prices), entry), compute)

    def _groups(self, node: ParallelNode, entry: Entry) -> Any:
        """[group, configuration of a stage right before, devices]: values of stages of several branches."""
        usable = self.usable_groups(node, entry)
        values = kernel.no_state(len(usable), *self.never().shape)
        for own in range(len(self.menu.configurations)):
            above = np.array(self.entry(own, entry[own]))[:, None]
            for g, d in enumerate(self.menu.degrees):
                if d < self.size:
                    better = np.minimum(values[:, :, d], above.T)
                    values[:, :, d] = np.where(usable[:, own, g, None], better, values[:, :, d])
        return values

    def usable_groups(self, node: ParallelNode, entry: Entry) -> Any:
        """[group, configuration, degree]: may it be a stage right before `entry`?"""
        return np.array(entry)[:, None] <= self.caps(node)


# ---- the search ------------------------------------------------------------


# Levels of a decomposition: the program follows its nesting by recursion.
MOST_LEVELS = 150


# Plans for one choice of configurations, each with fewer samples in flight than the one before.
MOST_SHALLOWER = 32


# Operators squared times devices and configurations from which on compiled loops are worth their loading.
COMPILED_FROM = 5_001


@dataclass(frozen=True, slots=True)
class Answer:
    """The best plan for a choice of configurations: the time per sample of its slowest stage is `value`."""

    plan: StageGraphPlan
    value: float
    chosen: slice
    """The configurations that it was chosen from."""

    @property
    def held(self) -> int:
        """The most samples in flight of any stage: the deeper the pipeline, the more."""
        return max(stage.in_flight for stage in self.plan.stages)


class Search:
    """All prices of one problem, ready for searches with any choice of the menu's configurations."""

    def __init__(
        self,
        problem: GraphPipelineProblem,
        menu: Menu,
        tree: Tree | None = None,
        free_joins: bool = True,
        tick: Callable[[], None] = lambda: None,
        inside: bool = False,
    ) -> None:
        """`tree`: another family of stages than that of the problem's own decomposition; `inside`: see `Costs`."""
        self.problem, self.menu, self.tick = problem, menu, tick
        self.tree = tree or decompose(len(problem.operators), problem.arcs)
        if depth(self.tree) > MOST_LEVELS:
            raise InputError("operators", f"nest more than {MOST_LEVELS} levels deep", "merge operators in series")
        steps = len(problem.operators) ** 2 * menu.devices * len(menu.configurations)
        self.loops: Any = machine_code() if repays_loading(steps, COMPILED_FROM) else kernel
        tick()
        self.costs = Costs(problem, menu, inside)
        self._known_times: dict[tuple[int | None, int | None], Any] = {}
        self.root: PricedNode = NodeBuilder(self.costs, free_joins).build(self.tree)
        tick()

    @property
    def family_size(self) -> int:
        """Sets of operators that may be a stage; branches of one kind count once."""
        return sum(int(np.prod(prices.time_per_sample.shape[:-2])) for prices in all_prices(self.root))

    @property
    def skipped_groups(self) -> bool:
        """Were there too many choices of parallel branches to list?"""
        return any(not node.complete for node in all_nodes(self.root) if isinstance(node, ParallelNode))

    def best(self, chosen: slice = slice(None), most_held: int | None = None) -> Answer | None:
        """The plan of least time per sample, exact within the family of stages; None where none fits the memory.

        `most_held`: only plans whose stages hold at most this many samples in flight count.
        """
        menu = replace(self.menu, configurations=self.menu.configurations[chosen])
        times = self._times(chosen)
        low, high, step = 0, 0, 1
        best: Tables | None = None
        while low <= high and low < len(times):
            self.tick()
            # Upwards in growing steps until the first success: large targets leave many choices and take long.
            middle = (low + high) // 2 if best is not None else min(high, len(times) - 1)
            tables = Tables(menu, float(times[middle]), chosen, self.loops, most_held)
            if self._possible(tables):
                best, high = tables, middle - 1
            else:
                low = middle + 1
                if best is None:
                    high, step = middle + step, 2 * step
        if best is None:
            return None
        return Answer(self._plan(best), best.target, chosen)

    def shallower(self, answer: Answer) -> Iterator[Answer]:
        """Plans whose stages hold fewer and fewer samples, each the fastest of these: the front of both, step by step.

        Fewer samples in flight are fewer stages in a row, so the pipeline fills and drains sooner.
        """
        for _ in range(MOST_SHALLOWER):
            below = self.best(answer.chosen, answer.held - 1)
            if below is None:
                return
            yield (answer := below)

    def _times(self, chosen: slice) -> Any:
        """Times of all stages with these configurations, ascending, each once."""
        if (chosen.start, chosen.stop) not in self._known_times:
            times = np.unique(np.concatenate([prices.times(chosen) for prices in all_prices(self.root)]))
            self._known_times[chosen.start, chosen.stop] = times
        return self._known_times[chosen.start, chosen.stop]

    def _possible(self, tables: Tables) -> bool:
        """Is there a plan at the target of these tables?"""
        return bool(tables.table(self.root, tables.nothing)[0, self.menu.devices] < NEVER)

    def _plan(self, tables: Tables) -> StageGraphPlan:
        # Nothing comes before, so a stage there could hold any number of samples.
        want = ((0, NEVER - 1),)
        decisions = Trace(tables).stages(self.root, tables.nothing, want, self.menu.devices)
        return plan_of(self.problem, tables.menu, list(decisions))


def plan_of(
    problem: GraphPipelineProblem, menu: Menu, decisions: list[Decision], in_order: bool = False
) -> StageGraphPlan:
    """Stages in the order of their first operators, with the edges that operators force.

    `in_order`: the decisions run from the last stage to the first one.
    """
    rank = {v: place for place, v in enumerate(problem.topological_order)}
    ordered = sorted(decisions, key=lambda decision: min(rank[v] for v in decision.operators))
    ordered = decisions[::-1] if in_order else ordered
    stage_of = {v: number for number, decision in enumerate(ordered) for v in decision.operators}
    edges = {(stage_of[u], stage_of[v]) for u, v in problem.arcs if stage_of[u] != stage_of[v]}
    return StageGraphPlan(
        tuple(_stage(problem, menu, rank, decision) for decision in ordered), tuple(sorted(edges))
    )


def _stage(problem: GraphPipelineProblem, menu: Menu, rank: dict[int, int], decision: Decision) -> GraphStage:
    configuration = menu.configurations[decision.configuration]
    nodes = tuple(problem.operators[v].id for v in sorted(decision.operators, key=rank.__getitem__))
    return GraphStage(nodes, decision.devices, configuration.b, configuration.k, decision.in_flight)


def chain_tree(problem: GraphPipelineProblem) -> Tree:
    """All operators in one row, in a topological order: the family of sequential pipelines."""
    order = tuple(Leaf((v,)) for v in problem.topological_order)
    return order[0] if len(order) == 1 else Series(order)


# ---- From tables to stages: for each value the decision that attains it -------------------------------------------
# From tables to stages: for each value of a table, the search for the decision that attains it.


# The stages right before a part: the configuration of each, and the samples in flight that it holds.
Want = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """One stage: its operators, number of its configuration, devices and samples in flight."""

    operators: tuple[int, ...]
    configuration: int
    devices: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class _Join:
    """A stage of a configuration that takes the end of a branch, from its child `cut` on, and goes on after it."""

    node: SeriesNode
    absorption: Absorption
    entry: Entry
    end: int
    cut: int
    own: int
    held: int
    below: Entry
    """How the stage looks from above."""

    @property
    def parallel(self) -> ParallelNode:
        child = self.node.children[self.absorption.position]
        assert isinstance(child, ParallelNode)
        return child

    @property
    def others(self) -> Vector:
        """The branches that remain."""
        return drop_one(self.parallel.total, self.absorption.kind)


def suits(needs: Entry, want: Want) -> bool:
    return all(needs[own] <= held for own, held in want)


class Trace:
    """Reads plans out of tables that hold them.

    Each method is asked only for what is possible: a part with exactly `devices` devices, before `entry`, after `want`.
    """

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.degrees = tables.menu.degrees

    def stages(self, node: PricedNode, entry: Entry, want: Want, devices: int) -> Iterator[Decision]:
        """The stages of a part."""
        if isinstance(node, ParallelNode):
            yield from self._parallel(
                node, entry, want, devices, node.total, [list(group) for group in node.members]
            )
        else:
            yield from self._row(node, entry, len(series_children(node)), 0, want, devices)

    # ---- what is possible --------------------------------------------------------------------------------

    def _can(
        self, needs: Callable[[], Any], combinations: Callable[[], Combinations], want: Want, devices: int
    ) -> bool:
        """Does a part with exactly so many devices suit `want`? Its needs by configuration say so where one stage is
        right before it, and else all its combinations."""
        if len(want) == 1:
            ((own, held),) = want
            return bool(needs()[own, devices] <= held)
        return any(used >> devices & 1 and suits(entry, want) for entry, used in combinations().items())

    def _can_row(self, node: PricedNode, entry: Entry, end: int, want: Want, devices: int) -> bool:
        assert not isinstance(node, ParallelNode)
        needs = partial(self.tables.rows, node, entry, end)
        return self._can(lambda: needs()[1][0], lambda: of_row(self.tables, node, entry, end, 0), want, devices)

    def _can_branches(self, node: ParallelNode, entry: Entry, vector: Vector, want: Want, devices: int) -> bool:
        needs = partial(self.tables.branches, node, entry, vector)
        return self._can(needs, lambda: of_branches(self.tables, node, entry, vector), want, devices)

    def _can_block(self, node: ParallelNode, entry: Entry, block: int, want: Want, devices: int) -> bool:
        needs = partial(self.tables.branch_tables, node, entry)
        return self._can(
            lambda: needs()[0][block], lambda: block_combinations(self.tables, node, entry)[block], want, devices
        )

    # ---- series ------------------------------------------------------------------------------------------

    def _row(
        self, node: LeafNode | SeriesNode, entry: Entry, end: int, i: int, want: Want, devices: int
    ) -> Iterator[Decision]:
        """The stages of children i to end - 1."""
        if i == end:
            return
        values, needs = self.tables.rows(node, entry, end)
        for own, held in enumerate(values[i, :, devices].tolist()):
            if held < NEVER and suits(self.tables.entry(own, held), want):
                last, d = self._run(node, end, i, own, devices, held, needs)
                members = tuple(v for child in series_children(node)[i : last + 1] for v in child.operators)
                yield Decision(members, own, d, held)
                yield from self._row(node, entry, end, last + 1, ((own, held),), devices - d)
                return
        assert isinstance(node, SeriesNode), "a leaf is one stage"
        yield from self._divided(node, entry, end, i, want, devices)

    def _run(
        self, node: LeafNode | SeriesNode, end: int, i: int, own: int, devices: int, held: int, needs: Any
    ) -> tuple[int, int]:
        """The last child and the devices of a first stage that holds `held` samples."""
        caps = self.tables.caps(node) if isinstance(node, SeriesNode) else self.tables.caps(node)[None, None]
        for last in range(end - 1, i - 1, -1):
            for g, d in enumerate(self.degrees):
                if d <= devices and needs[last + 1, own, devices - d] == held <= caps[i, last, own, g]:
                    return last, d
        raise AssertionError("a value comes from a run")

    def _divided(
        self, node: SeriesNode, entry: Entry, end: int, i: int, want: Want, devices: int
    ) -> Iterator[Decision]:
        """The stages where child i is divided, or one of its branches ends in a stage that goes on after them."""
        child = node.children[i]
        assert isinstance(child, ParallelNode), "a leaf begins a run"
        values, needs = self.tables.rows(node, entry, end)
        below_child = after_child(self.tables, node, entry, values, needs, i)
        for below, counts in below_child.items():
            for used in (d for d in range(devices + 1) if counts >> d & 1):
                if self._can_branches(child, below, child.total, want, devices - used):
                    yield from self.stages(child, below, want, devices - used)
                    yield from self._row(node, entry, end, i + 1, tuple(enumerate(below)), used)
                    return
        for absorption in node.absorbed:
            if absorption.position == i:
                decisions = self._absorbing(node, absorption, entry, end, want, devices)
                if decisions is not None:
                    yield from decisions
                    return
        raise AssertionError("a value comes from a decision")

    # ---- joins -------------------------------------------------------------------------------------------

    def _absorbing(
        self, node: SeriesNode, absorption: Absorption, entry: Entry, end: int, want: Want, devices: int
    ) -> Iterator[Decision] | None:
        """The stages where a branch ends in a stage that goes on after the join; None: that is not possible."""
        _, needs = self.tables.rows(node, entry, end)
        starts = self.tables.absorbing_stages(absorption, needs, end)
        for (cut, own, held), start in starts.items():
            join = _Join(node, absorption, entry, end, cut, own, held, self.tables.entry(own, held))
            for used in np.flatnonzero(start[: devices + 1] == 0).tolist():
                others = self._share(join, want, devices - used)
                if others is not None:
                    return self._absorbed(join, want, used, others, devices)
        return None

    def _share(self, join: _Join, want: Want, devices: int) -> int | None:
        """Number of devices for the other branches beside what is left of the absorbed one; None: no number suits."""
        branch = join.parallel.kinds[join.absorption.kind]
        for others in range(devices + 1) if join.cut else (devices,):
            if self._can_branches(join.parallel, join.below, join.others, want, others) and (
                not join.cut or self._can_row(branch, join.below, join.cut, want, devices - others)
            ):
                return others
        return None

    def _absorbed(self, join: _Join, want: Want, used: int, others: int, devices: int) -> Iterator[Decision]:
        """The stages, with `used` devices for the absorbing stage and what follows, and `others` for other branches."""
        pools = [list(group) for group in join.parallel.members]
        branch = pools[join.absorption.kind].pop()
        yield from self._absorbing_stage(join, used, branch)
        yield from self._parallel(join.parallel, join.below, want, others, join.others, pools)
        if join.cut:
            assert isinstance(branch, SeriesNode)
            yield from self._row(branch, join.below, join.cut, 0, want, devices - used - others)

    def _absorbing_stage(self, join: _Join, used: int, branch: PricedNode) -> Iterator[Decision]:
        node, own, held = join.node, join.own, join.held
        _, needs = self.tables.rows(node, join.entry, join.end)
        caps = self.tables.caps(join.absorption)
        first = join.absorption.position + 1
        for run in range(join.end - first):
            for g, d in enumerate(self.degrees):
                if d <= used and needs[first + run + 1, own, used - d] == held <= caps[join.cut, run, own, g]:
                    parts = (*series_children(branch)[join.cut :], *node.children[first : first + run + 1])
                    yield Decision(tuple(v for part in parts for v in part.operators), own, d, held)
                    yield from self._row(node, join.entry, join.end, first + run + 1, ((own, held),), used - d)
                    return
        raise AssertionError("a start comes from a stage")

    # ---- parallel ----------------------------------------------------------------------------------------

    def _parallel(
        self,
        node: ParallelNode,
        entry: Entry,
        want: Want,
        devices: int,
        vector: Vector,
        pools: list[list[PricedNode]],
    ) -> Iterator[Decision]:
        """The stages of `vector` branches of each kind, which are taken from the pools."""
        while any(vector):
            number, count, vector = self._first_block(node, entry, want, devices, vector)
            block = node.choices.blocks[number]
            taken = [pool.pop() for pool, n in zip(pools, block, strict=True) for _ in range(n)]
            if len(taken) == 1:
                yield from self.stages(taken[0], entry, want, count)
            else:
                own = self._group(node, entry, want, number - len(node.kinds), count)
                yield Decision(tuple(v for branch in taken for v in branch.operators), own, count, entry[own])
            devices -= count

    def _first_block(
        self, node: ParallelNode, entry: Entry, want: Want, devices: int, vector: Vector
    ) -> tuple[int, int, Vector]:
        """The number of a possible first block, its devices, and the branches that are left."""
        choices = node.choices
        here = choices.states.index(vector)
        for _, block, rest in choices.moves[choices.moves[:, 0] == here].tolist():
            left = choices.states[rest]
            for count in range(devices + 1):
                if self._can_block(node, entry, block, want, count) and self._can_branches(
                    node, entry, left, want, devices - count
                ):
                    return block, count, left
        raise AssertionError("a value comes from a block")

    def _group(self, node: ParallelNode, entry: Entry, want: Want, group: int, devices: int) -> int:
        """The configuration of a stage of several branches."""
        usable = self.tables.usable_groups(node, entry)[group, :, self.degrees.index(devices)]
        return next(
            own for own in np.flatnonzero(usable).tolist() if suits(self.tables.entry(own, entry[own]), want)
        )
