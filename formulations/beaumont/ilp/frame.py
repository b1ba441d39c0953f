"""The variables of the program, and the expressions in them that the paper gives names of their own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from typing import Any

from ...contract import FLOAT_ROOM
from ..instants import timeless_pairs
from .errata import CORRECTED, LOCAL_TRANSFERS, SIGN, TIES, TRANSITIVITY
from .facts import Facts


class Frame:
    """A Pyomo model with the variables of section 6 of the paper, on which the groups of constraints are built."""

    def __init__(self, facts: Facts, errata: frozenset[str] = CORRECTED) -> None:
        from ...quick_pyomo import pyo

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
        pairs = combinations(self.tasks, 2) if TIES not in self.errata else self.ordered_pairs(self.tasks)
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

    @staticmethod
    def ordered_pairs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
        for t, u in combinations(numbers, 2):
            yield t, u
            yield u, t
