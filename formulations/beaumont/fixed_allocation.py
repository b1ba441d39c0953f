"""Is there a pattern of a given period for what is known of an allocation? A native CP-SAT model in whole numbers.

What is known may be everything (each layer in a group), or only the layers of some GPUs: the others then run as
if they had a GPU each, which relaxes the problem. Numbers in brackets are the equations of the paper's program
that the rows correspond to; with the period given, a shift is one integer instead of two booleans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

from ..native import NativeBuilt
from .instants import OrderBuilder, timeless_pairs
from .integer_chain import IntegerChain

BUILDER = f"{__name__}:build"

# Number of steps of the area rows: exact products of times and sizes would overflow the solver's integers.
AREA_STEPS = 2**40


@dataclass(frozen=True)
class Known:
    """What is known of an allocation; whatever is not said here may be anything."""

    groups: tuple[frozenset[int], ...]
    """Layers that share a GPU, one set per GPU."""
    apart: tuple[frozenset[int], ...]
    """Per group: layers that are not on its GPU, beside those of the other groups."""
    cuts: frozenset[int] = frozenset()
    """Borders between two layers of no group that are known to be cut (border b: between layers b - 1 and b)."""

    @classmethod
    def whole(cls, allocation: Sequence[int]) -> Known:
        groups: dict[int, set[int]] = {}
        for layer, gpu in enumerate(allocation):
            groups.setdefault(gpu, set()).add(layer)
        return cls(tuple(frozenset(groups[gpu]) for gpu in sorted(groups)), (frozenset(),) * len(groups))

    def group_of(self, layer: int) -> int | None:
        return next((g for g, group in enumerate(self.groups) if layer in group), None)

    def is_cut(self, border: int) -> bool:
        """Is it known that the two layers at the border are on different GPUs?"""
        left, right = self.group_of(border - 1), self.group_of(border)
        if left is not None and right is not None:
            return left != right
        if left is not None:
            return border in self.apart[left]
        if right is not None:
            return border - 1 in self.apart[right]
        return border in self.cuts

    def link(self, border: int) -> tuple[int, int] | None:
        """The two groups at the border, where both are known and differ."""
        left, right = self.group_of(border - 1), self.group_of(border)
        return None if left is None or right is None or left == right else (left, right)


@dataclass(frozen=True, slots=True)
class Activity:
    """A task or a transfer on the path from the first to the last task of the known groups."""

    task: int | None
    edge: int | None
    duration: int
    resource: tuple[str, int, int] | None
    """The GPU or link whose users exclude each other; None: it uses neither."""
    gpu: int | None = None
    """The group that a task belongs to; None for a transfer."""


@dataclass(frozen=True)
class Path:
    """Activities in the order of the chain; `delays[i]` is the least time between the starts of i and i + 1."""

    activities: tuple[Activity, ...]
    delays: tuple[int, ...]

    def resources(self) -> list[list[int]]:
        return self._grouped(lambda activity: activity.resource)

    def gpus(self) -> list[list[int]]:
        """The tasks of each group."""
        return self._grouped(lambda activity: activity.gpu)

    def _grouped(self, mark: Callable[[Activity], Hashable]) -> list[list[int]]:
        """Positions of the activities with the same mark, a list for each mark; activities with the mark None are left
        out."""
        groups: dict[Hashable, list[int]] = {}
        for i, activity in enumerate(self.activities):
            groups.setdefault(mark(activity), []).append(i)
        groups.pop(None, None)
        return list(groups.values())

    def timeless(self) -> frozenset[int]:
        """Tasks that take no time, and so need no GPU."""
        return frozenset(i for i, a in enumerate(self.activities) if a.task is not None and a.resource is None)

    def place(self) -> dict[int, int]:
        """Position on the path of each task."""
        return {activity.task: i for i, activity in enumerate(self.activities) if activity.task is not None}


def path_of(chain: IntegerChain, known: Known) -> Path:
    """Lay the chain out: known tasks and contended transfers become activities, the rest only takes its time."""
    transfers = _transfer_activities(chain, known)
    activities: list[Activity] = []
    delays: list[int] = []
    waited = 0

    def add(activity: Activity) -> None:
        nonlocal waited
        if activities:
            delays.append(waited)
        activities.append(activity)
        waited = activity.duration

    for task, duration in enumerate(chain.durations):
        group = known.group_of(chain.layer_of(task))
        if group is None:
            waited += duration
        else:
            add(Activity(task, None, duration, None if chain.timeless[task] else ("gpu", group, group), group))
        edge = task + 1
        if edge in transfers:
            add(transfers[edge])
        elif edge < chain.tasks and edge != chain.layers and known.is_cut(min(edge, chain.tasks - edge)):
            waited += chain.transfers[edge]
    return Path(tuple(activities), tuple(delays))


def _transfer_activities(chain: IntegerChain, known: Known) -> dict[int, Activity]:
    """Transfers that may meet another one on their link, or whose buffers bind them; the others are mere delays."""
    links: dict[int, tuple[str, int, int]] = {}
    for border in range(1, chain.layers):
        ends = known.link(border)
        if ends is None:
            continue
        forward, gradient = chain.twins(border)
        both = ("link", min(ends), max(ends))
        links[forward] = ("link", *ends) if chain.full_duplex else both
        links[gradient] = ("link", ends[1], ends[0]) if chain.full_duplex else both
    users = Counter(link for edge, link in links.items() if chain.transfers[edge])
    activities = {}
    for edge, link in links.items():
        duration = chain.transfers[edge]
        if chain.exclusive_buffers or (duration and users[link] > 1):
            activities[edge] = Activity(None, edge, duration, link if duration else None)
    return activities


def payload(chain: IntegerChain, known: Known, period: int, slack: int = 0) -> dict[str, Any]:
    """Plain data for `build`. `slack`: how much longer than the period an exclusive buffer may be held."""
    path = path_of(chain, known)
    activities, place, gpus, timeless = path.activities, path.place(), path.gpus(), path.timeless()
    groups = range(0 if chain.memory is None else len(known.groups))
    return {
        "period": period,
        "durations": [activity.duration for activity in activities],
        "resources": path.resources(),
        "timeless": sorted(timeless),
        "pairs": list(timeless_pairs(gpus, timeless)),
        "gpus": gpus,
        "delays": list(path.delays),
        "local": [a.task is not None and b.task == a.task + 1 and a.gpu == b.gpu for a, b in pairwise(activities)],
        "memory": [_memory_facts(chain, known, g, place) for g in groups],
        "slack": slack,
        "buffers": [i for i in range(1, len(activities) - 1) if activities[i].edge is not None]
        if chain.exclusive_buffers
        else [],
    }


def standing_memory(chain: IntegerChain, known: Known, g: int) -> int:
    """Weights (33) and reserved slots (34), (35) of a group's GPU."""
    group = known.groups[g]
    weights = sum(chain.weights[layer] for layer in group)
    if chain.inputs_only:
        return weights
    at_group = [b for b in range(1, chain.layers) if (b - 1 in group) != (b in group) and known.is_cut(b)]
    return weights + sum(chain.border_size(b) for b in at_group)


def _memory_facts(chain: IntegerChain, known: Known, g: int, place: Mapping[int, int]) -> dict[str, Any]:
    """What `build` needs for (36) on one GPU: the room beside weights and slots, and what fills it."""
    assert chain.memory is not None
    group = sorted(known.groups[g])
    tasks = [*group, *(chain.backward(layer) for layer in reversed(group))]
    edges = [t + 1 for t in tasks[:-1] if t + 1 in place and chain.layer_of(t + 1) in known.groups[g]]
    direct = [] if chain.inputs_only else [e for e in edges if chain.activations[e]]
    return {
        "room": chain.memory - standing_memory(chain, known, g),
        "tasks": [(place[t], chain.own_size(t)) for t in tasks],
        "running": [(place[t], chain.current_size(t)) for t in tasks if chain.current_size(t)],
        "kept": [(place[i], place[chain.backward(i)], chain.activations[i]) for i in group],
        "current": sum(chain.current_area(layer) for layer in group),
        "direct": [(place[e - 1], place[e], chain.activations[e]) for e in direct],
    }


# ---- inside the worker -----------------------------------------------------------------------------------


def build(data: Mapping[str, Any]) -> NativeBuilt:
    """The CP-SAT model; it has no objective, any solution will do."""
    return _Schedule(data).build()


class _Schedule(OrderBuilder[int]):
    """One method per family of constraints; activities by their positions on the path."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        super().__init__(frozenset(data["timeless"]))
        self.data = data
        self.period, self.durations = data["period"], data["durations"]
        # (17), (19): ends lie in [0, T], and the first task starts at 0.
        self.starts = [
            self.integer(f"p{i}", -d if i else 0, self.period - d if i else 0) for i, d in enumerate(self.durations)
        ]
        self.shifts: list[Any] = []

    def build(self) -> NativeBuilt:
        self.order_users()
        for x, z in self.data["pairs"]:
            self.order_with_timeless(x, z, self.starts, self.durations[x], self.period)
        for tasks in self.data["gpus"]:
            self.keep_order(tasks, frozenset(i for i in tasks if not self.durations[i]))
        self.shift()
        for facts in self.data["memory"]:
            self.memory(facts)
            self.area(facts)
        self.keep_delays()
        self.free_buffers()
        both = ((i, j) for i, j in self.before if i < j or self.concerns(i, j))
        self.variables |= {f"w{i}_{j}": self.before[i, j] for i, j in both}
        self.variables |= {f"e{x}_{z}": literal for (x, z), literal in self.ended.items()}
        self.variables |= {f"f{x}_{z}": literal for (x, z), literal in self.far.items()}
        return NativeBuilt(self.model, self.variables)

    def order_users(self) -> None:
        """(5)-(7), (14)-(16), (20), (21): literals "i is before j within the period", both directions."""
        model, starts, durations = self.model, self.starts, self.durations
        for users in self.data["resources"]:
            for i, j in combinations(users, 2):
                first = model.new_bool_var(f"w{i}_{j}")
                self.before[i, j], self.before[j, i] = first, first.negated()
                gap = starts[j] - starts[i]
                self.require(gap >= durations[i], first)
                self.require(gap <= -durations[j], first.negated())
                model.add_linear_constraint(gap, durations[i] - self.period, self.period - durations[j])
            self.order_instants([i for i in users if durations[i] == 0])
            model.add_no_overlap([model.new_fixed_size_interval_var(starts[i], durations[i], "") for i in users])

    def shift(self) -> None:
        """(23)-(30), (L): by how many batches the next activity on the path lags behind within one period."""
        period, durations, starts = self.period, self.durations, self.starts
        for i, (delay, local) in enumerate(zip(self.data["delays"], self.data["local"], strict=True)):
            if local:
                self.shifts.append(sum(self.next_shifts(i, i + 1)))
                continue
            # With ends in [0, T] the starts differ by less than T + d on either side.
            least = max(0, -((period - durations[i + 1] + durations[i] - delay) // period))
            most = max(0, -(-(delay + period - durations[i] + durations[i + 1]) // period))
            self.shifts.append(self.integer(f"s{i}", least, most))
            self.model.add(period * self.shifts[i] >= delay + starts[i] - starts[i + 1])

    def keep_delays(self) -> None:
        """Two activities of one resource lie at least their delays apart; within the period they are ordered one way or
        the other, so the batches between them are at least so many or one more. Implied, and strong in the relaxation.
        """
        period, durations = self.period, self.durations
        for (i, j), apart in _separations(self.data).items():
            if_first = max(0, -((period - durations[j] - apart) // period))
            if_later = -(-(apart + durations[j]) // period)
            self.model.add(sum(self.shifts[i:j]) >= if_later - (if_later - if_first) * self.before[i, j])

    def memory(self, facts: Mapping[str, Any]) -> None:
        """Rows (32), (22) and (36): the memory of one GPU suffices at each of its tasks."""
        for at, own in facts["tasks"]:
            terms = [own]
            for forward, backward, size in facts["kept"]:
                if not size:
                    continue
                batches = sum(self.shifts[forward:backward]) - self.done(backward, at)
                if at != forward or at in self.timeless:
                    batches += self.begun(forward, at)
                terms.append(size * batches)
            terms += [size * self.waiting(i, j, at) for i, j, size in facts["direct"]]
            if at in self.timeless:  # it may happen while another task runs
                others = [(i, size) for i, size in facts["running"] if i not in self.timeless]
                terms += [size * (self.begun(i, at) - self.done(i, at)) for i, size in others]
            self.model.add(sum(terms) <= facts["room"])

    def waiting(self, i: int, j: int, at: int) -> Any:
        """Number of batches for which what i wrote waits for j while `at` runs."""
        if self.timeless & {i, j, at}:
            batches = self.model.new_int_var(0, 2, "")
            self.model.add(batches >= self.shifts[i] + self.done(i, at) - self.begun(j, at))
            return batches
        return 0 if at in (i, j) else self.waits(i, j, at)

    def area(self, facts: Mapping[str, Any]) -> None:
        """Little's law for one GPU: what the other rows say about instants, summed over the period. It tells the
        solver's linear relaxation that waiting costs memory, and makes refutations many times faster."""
        period, starts, durations = self.period, self.starts, self.durations
        coarse = max(1, period * facts["room"] // AREA_STEPS)
        filled = []
        for first, last, size in facts["kept"]:
            life = starts[last] - starts[first] + durations[last] + period * sum(self.shifts[first:last])
            filled.append(size // coarse * life)
        for i, j, size in facts["direct"]:
            filled.append(size // coarse * (starts[j] - starts[i] - durations[i] + period * self.shifts[i]))
        self.model.add(sum(filled) <= (period * facts["room"] - facts["current"]) // coarse)

    def free_buffers(self) -> None:
        """Rows by which one slot on each side suffices for a transfer: what is sent leaves, and what was
        received is read, within a period."""
        starts, durations, shifts = self.starts, self.durations, self.shifts
        for i in self.data["buffers"]:
            at_sender = starts[i] + durations[i] + self.period * shifts[i - 1] - starts[i - 1] - durations[i - 1]
            at_receiver = starts[i + 1] + self.period * shifts[i] - starts[i]
            self.model.add(at_sender <= self.period + self.data["slack"])
            self.model.add(at_receiver <= self.period + self.data["slack"])


def _separations(data: Mapping[str, Any]) -> dict[tuple[int, int], int]:
    """The least time between the starts of two activities of one resource: at least the delays between them, and what
    it takes beyond that not to meet modulo the period, at any such pair on the way."""
    period, durations, delays = data["period"], data["durations"], data["delays"]
    sharing = {i: [k for k in users if k < i] for users in data["resources"] for i in users}
    apart: dict[tuple[int, int], int] = {}
    for i in reversed(range(len(durations))):
        reached = [0]
        for j in range(i + 1, len(durations)):
            least = reached[-1] + delays[j - 1]
            near = sharing.get(j, [])
            least = max([least, *(reached[k - i] + apart[k, j] for k in near if k > i)])
            if i in near:
                least = lifted(least, durations[i], durations[j], period)
            reached.append(least)
            apart[i, j] = least
    return {(i, j): apart[i, j] for j, near in sharing.items() for i in near}


def lifted(least: int, first: int, second: int, period: int) -> int:
    """The least distance from `least` on between the starts of two tasks of one GPU at which they do not meet modulo
    the period; `first` and `second`: their durations."""
    rest = least % period
    if rest < first:
        return least + first - rest
    return least if rest <= period - second else least + period - rest + first
