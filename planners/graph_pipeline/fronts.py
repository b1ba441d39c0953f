"""What a stage that comes earlier has to know of a part of the pipeline that reaches to its end.

The part begins with one stage, or with several side by side: its *front*. Fronts are compared for one micro-batch
size. Before the first forward pass of a front, F passes, until one forward pass of each stage before it has run, one
after the other, with the transfers between them; after its last backward pass G passes in the same way. Let m be the
micro-batches of an iteration, and f and g forward and backward time of a stage. In between it runs all its passes, so
that an iteration T takes no less than

    F + m (f + g) + G    and    F + m (f + g) + synchronisation.

With c for the transfer to the part of the pipeline that follows, a front thus has the least F + G + `whole` and the
least F + `synced` for all its stages, and a stage before it adds to them

    whole  = max(f + 2 c + g + whole, m (f + g)),    synced = max(f + c + synced, m (f + g) + synchronisation).

Micro-batch 1 goes to the end of the pipeline and back, which takes `trip`, before the other m - 1 go back; and so does
micro-batch m after the others went forward: for m (f + g) one may read trip + (m - 1) max(f, g), where that is more.
All that holds for every kFkB and for any samples in flight.

Transfers that nothing hides (`waits`: k = 1 everywhere). `held` are the micro-batches in flight: a stage holds at
least one more than each one that follows it, or all m. Take stages u, ..., w, each of which sends to the next and holds
just one more than that: n stages, held(u) = held(w) + n - 1 < m. With 1F1B the forward pass j of w comes before its
backward pass j - held(w) + 1, and that backward pass of u before the forward pass j - held(w) + 1 + held(u) = j + n of
u. So u, ..., w run one forward and one backward pass each, one after the other with the transfers there and back, in
every n micro-batches: `rounds[n - 1]` is how long that takes once. A round starts with the forward pass j0 of u and
ends with its backward pass j0 - held(w) + 1, and (m - j0) div n + 1 rounds follow each other; before the last of them u
runs a forward and a backward pass (m - j0) mod n times more, and after it held(w) - 1 backward passes. The first round
may start at j0 = held(w), after held(w) - 1 forward passes of u; or at j0 = held(u) + 1, after the trip of micro-batch
1. The trip of micro-batch m may take longer than the last round with what follows. n = 1 is u alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from ...instances.graph_pipeline.problem import GraphPipelineProblem
from .configurations import allowed_degrees
from .memory import whole_graph_memory

# Stages that wait for transfers together.
MOST_IN_ROUND = 5

# Up to this, it is told apart how many micro-batches more a stage holds than the next one. For a stage that holds more,
# no waiting is counted, and it is kept as holding just one more than this. So what is kept is never above the truth;
# and stages before it are counted as waiting with it only where it is the truth, for these hold one more than what is
# kept.
MORE_HELD = 3

# Limit on sums of memory: Python's whole numbers are unlimited, so memory is as good as always exact.
ANY_NUMBER = 2**1000


class Placed(NamedTuple):
    """One stage: its operators as a bit set, its devices, and the fewest micro-batches in flight that it may
    hold."""

    members: int
    devices: int
    held: int


class Front(NamedTuple):
    """What a stage before has to know of the first stages of a part and of what comes after them."""

    held: int
    """Micro-batches in flight of its first stage."""
    devices: int
    """Devices of its largest stage; 0: nothing follows."""
    whole: float
    synced: float
    trip: float
    rounds: tuple[float, ...]
    """rounds[n - 1]: seconds of one round of n stages, see above; 0: there are no such stages. Where several stages are
    side by side, the rounds of those that hold most."""
    single: bool
    """Is it one stage, which reads all that is sent to this part?"""
    built: Any
    """The stages of the part, from which `iterations.stages_of` makes a plan."""


# Behind the last stage.
END = Front(0, 0, 0.0, 0.0, 0.0, (), False, None)


def is_better(one: Front, other: Front) -> bool:
    """Is the first front no worse than the other one for every stage that comes before?"""
    return (
        one.held <= other.held
        and one.devices >= other.devices
        and one.whole <= other.whole
        and one.synced <= other.synced
        and one.trip <= other.trip
        and one.single <= other.single
        and (one.held < other.held or all(a <= b for a, b in zip(one.rounds, other.rounds, strict=False)))
    )


def keep(fronts: list[Front], new: Front) -> None:
    """Add a front to those kept, unless one of them is no worse; drop those that are worse than it."""
    if not any(is_better(front, new) for front in fronts):
        fronts[:] = [front for front in fronts if not is_better(new, front)]
        fronts.append(new)


def side_by_side(one: Front, other: Front, built: Any) -> Front:
    """The front of two parts of a pipeline that run side by side, as one stage before both sees it; `built`:
    the stages of both."""
    most_held = max(one.held, other.held)
    rounds = [front.rounds for front in (one, other) if front.held == most_held]
    return Front(
        most_held,
        max(one.devices, other.devices),
        max(one.whole, other.whole),
        max(one.synced, other.synced),
        max(one.trip, other.trip),
        tuple(map(max, *rounds)) if len(rounds) > 1 else rounds[0],
        False,
        built,
    )


class Readers(NamedTuple):
    """What comes next, as bit sets: all its operators, and those of them that read from none of the others."""

    members: int
    sources: int


class _Operators(NamedTuple):
    """What a set of operators costs, whatever its devices. `least`: seconds of one device for its work in an
    iteration, each operator with its best share."""

    inside: list[int]
    least: float
    weight_bytes: float
    fixed: int
    stashes: int


class _Stage(NamedTuple):
    """Seconds of one stage per micro-batch, and of its synchronisation per iteration."""

    forward: float
    backward: float
    synchronised: float
    most: int
    """Micro-batches for which the memory suffices, all of an iteration at most."""


class Stages:
    """Prices of stages for one micro-batch size, and what they make of the fronts that follow them."""

    def __init__(self, problem: GraphPipelineProblem, size: int, degrees: str, waits: bool) -> None:
        self.problem, self.size, self.waits = problem, size, waits
        self.count = problem.mini_batch // size
        self.degrees = allowed_degrees([size], problem.devices, degrees)
        self.longest = math.inf
        """Only shorter iterations matter."""
        self._useful: dict[int, list[tuple[int, float]]] = {}
        self._memory = whole_graph_memory(problem, set(self.degrees), ANY_NUMBER)
        self._passes = {
            d: [(x.forward(size / d), x.backward(size / d)) for x in problem.operators] for d in self.degrees
        }
        self._readers = [sum(1 << v for v in row) for row in problem.successors]
        self._sets: dict[int, _Operators] = {}
        self._stages: dict[tuple[int, int], _Stage] = {}

    def least_work(self, members: int) -> float:
        """The seconds of work of these operators on one device in an iteration, each with its best share."""
        return self._set(members).least

    def limit(self, longest: float) -> None:
        """Only iterations up to this one matter from now on."""
        self.longest, self._useful = longest, {}

    def useful_degrees(self, members: int) -> list[tuple[int, float]]:
        """Numbers of devices with which a stage of these operators may be fast enough, the fewest first, each with the
        time that its devices then do nothing in the longest iteration."""
        useful = self._useful.get(members)
        if useful is None:
            work = self.least_work(members)
            useful = self._useful[members] = [
                (d, d * self.longest - work) for d in self.degrees if self._is_fast_enough(members, d)
            ]
        return useful

    def _is_fast_enough(self, members: int, devices: int) -> bool:
        """Does a stage run all its passes in the longest iteration, if nothing makes it wait?"""
        stage = self._stage(members, devices)
        return (
            stage.most >= 1 and self.count * (stage.forward + stage.backward) + stage.synchronised <= self.longest
        )

    def before(self, front: Front, members: int, devices: int, readers: Readers) -> Iterator[Front]:
        """Fronts of one stage with these members and one of their useful degrees that sends to `readers`, each short
        enough for the limit."""
        stage, count = self._stage(members, devices), self.count
        both = stage.forward + stage.backward
        busy = count * both
        sent = self._sent(members, devices, front, readers)
        trip, alone = both + 2 * sent + front.trip, (both,) + (0.0,) * (MOST_IN_ROUND - 1)
        least = max(busy, trip + (count - 1) * max(stage.forward, stage.backward))
        whole = max(both + 2 * sent + front.whole, least)
        synced = max(stage.forward + sent + front.synced, least + stage.synchronised)
        if whole > self.longest or synced > self.longest:
            return

        def made(held: int, whole: float, synced: float, rounds: tuple[float, ...]) -> Front:
            return Front(held, devices, whole, synced, trip, rounds, True, Placed(members, devices, held))

        if stage.most == count:
            yield made(count, whole, synced, alone)
        if front.held == count:
            return
        for more in range(1, MORE_HELD + 2 if self.waits else 2):
            held = front.held + more
            if held > min(stage.most, count - 1):
                return
            if not self.waits or more > MORE_HELD:
                yield made(held, whole, synced, alone)
                continue
            rounds = alone
            if more == 1 and front.rounds:
                rounds = (both, *(both + 2 * sent + once if once else 0.0 for once in front.rounds[:-1]))
            waited = max(_waited(stage, held, count, rounds, trip))
            if max(waited, waited + stage.synchronised) <= self.longest:
                yield made(held, max(whole, waited), max(synced, waited + stage.synchronised), rounds)

    def _sent(self, members: int, devices: int, front: Front, readers: Readers) -> float:
        """Seconds of one message to `readers`, over as many links as the smaller of the two stages has devices.
        A single stage reads what any operator sends to what comes next; to each of several stages goes what is
        sent to all sources."""
        if not front.devices:
            return 0.0
        amount = 0.0
        for u in self._set(members).inside:
            told, sources = self._readers[u], readers.sources
            if told & readers.members if front.single else sources and told & sources == sources:
                amount += self.problem.operators[u].output_bytes
        return self.problem.boundary_link.seconds(amount * self.size / min(devices, front.devices))

    def _set(self, members: int) -> _Operators:
        """What the operators of this set cost, whatever devices they have."""
        operators = self._sets.get(members)
        if operators is None:
            inside = [v for v in range(len(self.problem.operators)) if members >> v & 1]
            operators = self._sets[members] = _Operators(
                inside,
                self.count * math.fsum(min(d * sum(row[v]) for d, row in self._passes.items()) for v in inside),
                math.fsum(self.problem.operators[v].weight_bytes for v in inside),
                sum(self._memory.fixed[v] for v in inside),
                sum(self._memory.stashes[v] for v in inside),
            )
        return operators

    def _stage(self, members: int, devices: int) -> _Stage:
        """Seconds of a stage on this number of devices, and the micro-batches that its memory can hold."""
        stage = self._stages.get((members, devices))
        if stage is None:
            operators, passes, d = self._set(members), self._passes[devices], devices
            link = self.problem.inner_link(d)
            room, per_batch = self._memory.limits[d] - d * operators.fixed, operators.stashes * self.size
            stage = self._stages[members, devices] = _Stage(
                math.fsum(passes[v][0] for v in operators.inside),
                math.fsum(passes[v][1] for v in operators.inside),
                0.0 if d == 1 else link.seconds(2 * (d - 1) / d * operators.weight_bytes),
                0 if room < 0 else self.count if self.count * per_batch <= room else room // per_batch,
            )
        return stage


def _waited(stage: _Stage, held: int, count: int, rounds: tuple[float, ...], trip: float) -> Iterator[float]:
    """The times between F and G (see above), by the rounds of each row of stages that begins with this stage."""
    forward, backward = stage.forward, stage.backward
    for n, once in enumerate(rounds[:held], start=1):
        if n > 1 and not once:
            return
        last = held - n + 1
        for early, first in (((last - 1) * forward, last), (trip, held + 1)):
            number, rest = divmod(count - first, n)
            each = forward + backward if count - rest >= held else forward
            so_far = early + number * once + rest * each
            yield so_far + once + (last - 1) * backward
            yield so_far + trip
