"""How long an iteration takes: the makespan of its simulated schedule, and what each rank spends on what.

A chunk's passes take what its units take (`unit_costs`, and `cases` for what ZeRO sends in them). They run in the
order that the schedule's name says, in the simulator that all kinds share. Between stages that lie on different ranks
there are delays, for sending 2 h S1 bytes (measured layers: what the last one sends; with an encoder, whose output is
2 h' S' bytes or that / t, all messages are as large as the largest) from the first GPU of one stage to
the first of the other, on the lowest level that has both: (bytes / bandwidth + alpha) (1 - pipeline_hidden).
Backward passes have recomputation before them; where they come in two parts it belongs to the first.

After its last pass a rank adds up gradients with the others that have its weights, and updates its part of them, as
`cases` says. The head's weights count once where they are those of the embedding and both lie on the rank. A share of
that is hidden, but no more than there is to hide it behind: for gradients the backward pass of one micro-batch through
the rank's first chunk, which comes last, recomputation included; for gathers of weights its forward pass, where the
rank has one chunk. With several, each chunk's are gathered behind passes of others, and the share is hidden whole.

    seconds = max over ranks (end of its last pass + what is left of communication + update) + step_seconds

**Where anything takes longer, no iteration is shorter.** The end of a rank's last pass is the longest sum along a path:
passes and messages that wait for each other, from the first one on. What is left of x behind y is max((1 - hidden) x,
x - y), and every path has the pass y. For a rank waits for a message last before the backward pass of its first chunk,
and all that it does from there on is on the path. With one chunk on a rank, a path that does not begin there comes from
the rank before, by a forward pass. So `seconds` is a maximum of sums of what passes, messages and communication take,
none of them subtracted. As these are maxima of what is linear in any one efficiency (of a rate, in its reciprocal),
`seconds` is also convex in each. `tests/instances/training/test_monotone.py` tries both.

The model's operations, by which the MFU is counted: three times those of all products and of attention forward (half
of its matrix where a token sees all before it), for all tokens; recomputation is not counted. MFU = operations /
(seconds x GPUs x peak of the problem's number format).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ..physics.efficiencies import Efficiencies
from ..physics.schedules import SCHEDULES
from ..physics.tolerances import STEADY
from ..timeline.engine import run
from ..timeline.model import Dependency, Pipeline, Simulation, Stage, check_tasks
from ..timeline.model import Pass as StagePass
from .cases import AT_THE_END, NONE, CaseMaker, ParallelismChoice, words_of_chunk
from .plan import Configuration, Degrees
from .problem import Gpu, TrainingProblem
from .unit_costs import PARTS, Keys, SecondsOfUnits, exposed

# What the seconds of passes are for, as `Case.parts` has them.
PARTS_OF_PASSES = (*PARTS, "data", "measured")


@dataclass(frozen=True, slots=True)
class RankTime:
    """What one rank of each pipeline stage spends, in seconds of one iteration; together they are the iteration."""

    products: float = 0.0
    attention: float = 0.0
    memory: float = 0.0
    """Norms, activations and other traffic."""
    tensor: float = 0.0
    context: float = 0.0
    expert: float = 0.0
    host: float = 0.0
    """Passes whose kernels the host starts more slowly than the GPU runs them."""
    pipeline: float = 0.0
    """How much sooner the iteration were done if messages between stages took no time."""
    data: float = 0.0
    optimizer: float = 0.0
    recomputation: float = 0.0
    measured: float = 0.0
    """Passes of layers with measured times."""
    idle: float = 0.0
    """Waiting for other stages that messages without delay would leave."""

    @property
    def busy(self) -> float:
        """Seconds of the passes alone, without sums of gradients, the update and waiting."""
        passes = (*PARTS, "recomputation", "measured")
        return sum(float(getattr(self, name)) for name in passes)


@dataclass(frozen=True, slots=True)
class PassTimes:
    """Seconds of one micro-batch through one chunk."""

    forward: float
    inputs: float
    """The backward pass for inputs."""
    weights: float
    again: float
    """Recomputation, before the backward pass."""

    @property
    def backward(self) -> float:
        return self.inputs + self.weights + self.again


@dataclass(frozen=True, slots=True)
class Timing:
    """Times and rates of one iteration."""

    seconds: float
    tokens_per_second_per_gpu: float
    mfu: float | None
    """Share of the GPUs' peak that is used; None: the operations of measured layers are not known."""
    ranks: tuple[RankTime, ...]
    """The load of a rank of each pipeline stage."""
    chunks: tuple[PassTimes, ...]
    """Times of one micro-batch through each chunk."""
    delays: tuple[float, ...]
    """Seconds of a message from each chunk but the last to the next."""
    tails: tuple[float, ...]
    """Seconds of each pipeline stage after its last pass."""


@dataclass(frozen=True, slots=True)
class Path:
    """What the time of an iteration consists of: passes that wait for each other, up to the end of one rank.
    `planners/training/forms.py` finds the longest one."""

    rank: int
    """The rank whose tail ends last."""
    passes: tuple[tuple[int, int], ...]
    """Numbers of forward and of backward passes on the path, for each stage of the simulator."""
    delays: tuple[int, ...]
    """How often each chunk's transfer to the next one, or back, is waited for."""


class Iteration:
    """The pieces of an iteration (passes, delays and tails) and the time that they take together."""

    def __init__(self, problem: TrainingProblem, plan: Configuration) -> None:
        self.problem, self.plan, gamma = problem, plan, ParallelismChoice.of(plan)
        words = sorted({NONE, *(own.modules for own in plan.recompute)})
        costs = [CaseMaker(pool, [gamma.key], words, problem) for pool in problem.pools]
        cases = [own.case(gamma) for own in costs]
        self.homes, self.positions = gamma.homes, costs[0].positions
        self.cases = [cases[sort] for sort in problem.sorts(plan.degrees.pipeline, plan.first_pool)]
        """The costs on each pipeline rank."""
        self.chunks = tuple(self._chunk(chunk) for chunk in range(plan.degrees.chunks))
        self.delays = tuple(cases[0].delays_of(plan.layout))
        self.tails = [self._tail(rank) for rank in range(plan.degrees.pipeline)]

    def parts(self, chunk: int) -> tuple[Any, Any]:
        """Seconds of one micro-batch through a chunk by part: of the forward pass, and of that for inputs."""
        types = [self.positions[unit] for unit in self.plan.intervals[chunk]]
        forward, inputs = (way[types].sum(axis=0) for way in self.cases[self.homes[chunk]].parts)
        return forward, inputs

    def _chunk(self, chunk: int) -> PassTimes:
        words, case = words_of_chunk(self.problem, self.plan, chunk), self.cases[self.homes[chunk]]
        again = sum(float(case.by_word[word].again[unit]) for unit, word in words if word)
        forward, inputs = (float(way.sum()) for way in self.parts(chunk))
        return PassTimes(forward, inputs, float(case.weights[list(self.plan.intervals[chunk])].sum()), again)

    def _tail(self, rank: int) -> tuple[float, float]:
        """Seconds of exposed communication and of the update, after the rank's last pass."""
        case, model = self.cases[rank], self.problem.model
        own = self.plan.chunks_of_ranks[rank]
        units = [unit for chunk in own for unit in self.plan.intervals[chunk]]
        sent, update = case.sent[units].sum(axis=0), float(case.update[units].sum())
        if model.tied and not model.own and {model.embedding_at, len(model.units) - 1} <= {*units}:
            sent, update = sent - case.sent[-1], update - float(case.sent[-1] @ case.update_rates)
        gradients, weights = (float(sent @ case.tail[:, way] + (sent > 0) @ case.tail[:, 2]) for way in (0, 1))
        reduced, gathered = case.hidden_shares
        sums, gathers = AT_THE_END[self.plan.zero]
        first, forward = self.chunks[own[0]], self.chunks[own[0]].forward if len(own) == 1 else math.inf
        left = exposed(sums * gradients, reduced, first.backward) + exposed(gathers * weights, gathered, forward)
        return float(left), update

    def pipeline(self, micro_batches: int) -> Pipeline:
        return pipeline_of(self.plan, self.chunks, self.delays, micro_batches)

    def seconds(self) -> float:
        """Seconds of an iteration, found by simulating passes; of very many those that repeat others are counted."""
        longest = max(end + sum(tail) for end, tail in zip(self._last_ends(), self.tails, strict=True))
        return longest + self.problem.step_seconds

    def without_delays(self) -> Iteration:
        """The iteration in which messages between stages take no time."""
        at_once = copy(self)
        at_once.delays = (0.0,) * len(self.delays)
        return at_once

    def _last_ends(self) -> list[float]:
        """When each rank has run its last pass."""
        ranks, micro_batches = self.plan.degrees.pipeline, self.plan.micro_batches(self.problem.batch)
        if self.plan.rule.all_first and micro_batches > LISTED * ranks:
            return ends_of_gpipe(_stages(self.chunks, divided=False), self.delays, micro_batches)
        return ends_of_ranks(self.pipeline, ranks, micro_batches)

    def along(self, path: Path) -> float:
        """Seconds of a path with the pieces of this iteration; its own path takes `seconds`, any other no longer."""
        seconds = sum(self.tails[path.rank]) + self.problem.step_seconds
        times = _stages(self.chunks, self.plan.rule.divided)
        for (forward, backward), (count, count_back) in zip(times, path.passes, strict=True):
            seconds += count * forward + count_back * backward
        return seconds + sum(count * delay for count, delay in zip(path.delays, self.delays, strict=True))


def timing_of(problem: TrainingProblem, plan: Configuration) -> Timing:
    """Times and rates of an iteration, whether or not the framework's rules allow the configuration."""
    iteration = Iteration(problem, plan)
    seconds, operations = iteration.seconds(), model_operations(problem)
    sending = max(0.0, seconds - iteration.without_delays().seconds()) if any(iteration.delays) else 0.0
    ranks = tuple(_rank(iteration, rank, seconds, sending) for rank in range(plan.degrees.pipeline))
    tokens = problem.batch * problem.sequence / (seconds * problem.devices)
    mfu = None if operations is None else operations / (seconds * problem.devices * problem.peak)
    tails = tuple(sum(tail) for tail in iteration.tails)
    return Timing(seconds, tokens, mfu, ranks, iteration.chunks, iteration.delays, tails)


def model_operations(problem: TrainingProblem) -> float | None:
    """Floating-point operations of an iteration on all GPUs; None where the model has measured layers, whose
    shapes are unknown. They are the seconds of products and attention on a GPU that does one of them a second; a
    backward pass has as many for inputs as the forward pass, and as many for weights where these are trained."""
    model = problem.model
    if model.own:
        return None
    ideal = replace(
        problem,
        precision="bf16",
        gpu=Gpu("one operation a second", None, {"bf16": 1.0}, 1e100),
        devices=problem.pools[0].devices,
        second=None,
        flash_attention=True,
        efficiencies=Efficiencies(
            products=1, grouped_products=1, attention=1, half_side=0, launch_seconds=0, expert_imbalance=1
        ),
    )
    units = SecondsOfUnits(ideal, Keys.of([(1, 1, 1, 1, 1)]), 0.0)
    passes = 3 if problem.adapter_rank is None else 2
    return problem.batch * sum(
        (1 if problem.only_forward(name) else passes) * count * float(units.unit(name).forward[:2].sum())
        for name, count in model.counted.items()
    )


# ---- iterations of many micro-batches: those in the middle are counted, not listed ---------------------
#
# An order of passes repeats itself from the warm-up to the last micro-batches. There the ends of passes follow
# from those of the last few micro-batches by sums and maxima alone: if all of them are a time t later, so are all
# later ones. Thus, where all passes of a window as long as what is waited for end t later than those `lag`
# micro-batches before, every `lag` micro-batches that are added take t. Where they differ by a share of at most
# `STEADY`, so does what is added.
#
# Under GPipe nothing but the first backward pass waits for a later rank, and ranks have paces of their own. There
# a row of passes takes its sum, and every further micro-batch the longest of them.

# Of more than LISTED micro-batches for each rank so many are listed, and the pace is that of LAG for each rank, in a
# window of WINDOW for each rank, which is as far from the last micro-batch. Every order looks back fewer.
LISTED, LAG, WINDOW = 60, 12, 8


def listed_for_memory(schedule: str, ranks: int, micro_batches: int) -> tuple[int, int]:
    """Of how many micro-batches the passes show the fullest moment, and how many more are kept at that moment."""
    listed = min(micro_batches, LISTED * ranks)
    return listed, micro_batches - listed if SCHEDULES[schedule].all_first else 0


def ends_of_ranks(pipeline_of: Callable[[int], Pipeline], ranks: int, micro_batches: int) -> list[float]:
    """When each rank has run its last pass. `pipeline_of` lists so many micro-batches: more of them, up to all, until
    those that are left out are in the steady state."""
    lag, least = LAG * ranks, LISTED * ranks
    while True:
        listed = micro_batches if least >= micro_batches else least + (micro_batches - least) % lag
        pipeline = pipeline_of(listed)
        if least > LISTED * ranks:
            check_tasks([listed] * len(pipeline.stages))
        simulation = run(pipeline)
        pace = 0.0 if listed == micro_batches else pace_of(simulation, ranks)
        if pace is not None:
            break
        least *= 4
    added = (micro_batches - listed) // lag * pace
    ends = [max(task.end for task in stage.tasks) for stage in simulation.stages]
    return [max(ends[x] for x in {x for x, _, _ in order}) + added for order in pipeline.shared]


def pace_of(simulation: Simulation, ranks: int) -> float | None:
    """Seconds of LAG micro-batches for each rank; None: the passes have not found their pace."""
    lag, window = LAG * ranks, WINDOW * ranks
    moved = []
    for stage in simulation.stages:
        for kind in ("forward", "backward"):
            ends = [task.end for task in stage.tasks if task.kind == kind]
            middle = range(len(ends) - 2 * window, len(ends) - window) if ends else ()
            moved += [ends[n] - ends[n - lag] for n in middle]
    return min(moved) if max(moved) - min(moved) <= STEADY * min(moved) else None


def ends_of_gpipe(times: list[tuple[float, float]], delays: tuple[float, ...], micro_batches: int) -> list[float]:
    """When each rank has run its last pass under GPipe; `times`: of a forward and a backward pass."""
    forward, backward = zip(*times, strict=True)
    more, ranks = micro_batches - 1, range(len(times))
    down = [sum(forward[: k + 1]) + sum(delays[:k]) + more * max(forward[: k + 1]) for k in ranks]
    return [
        max(
            down[last] + sum(backward[k : last + 1]) + sum(delays[k:last]) + more * max(backward[k : last + 1])
            for last in ranks[k:]
        )
        for k in ranks
    ]


# ---- the schedule ------------------------------------------------------------------------------------------


def pipeline_of(
    plan: Configuration, chunks: tuple[PassTimes, ...], delays: tuple[float, ...], micro_batches: int
) -> Pipeline:
    """The schedule for the simulator.

    A chunk is a stage. Where backward passes come in two parts, its own is the one for inputs. Those for weights are
    another stage, which only runs forward; each stands behind its other part in the order of the device.
    """
    shared, orders = _orders(plan.schedule, plan.degrees, plan.chunks_of_ranks, micro_batches)
    names = [f"{what}chunk {x}" for what in ("", "weights of ") for x in range(len(chunks))]
    stages = tuple(
        Stage(names[x], 1, forward, backward, (orders[x],))
        for x, (forward, backward) in enumerate(_stages(chunks, plan.rule.divided))
    )
    arcs = tuple(Dependency(x, x + 1, delay, delay) for x, delay in enumerate(delays))
    return Pipeline(stages, arcs, micro_batches, shared=shared)


def _stages(chunks: tuple[PassTimes, ...], divided: bool) -> list[tuple[float, float]]:
    """Forward and backward seconds of each chunk's stage, and then of those that have passes for weights."""
    if not divided:
        return [(own.forward, own.backward) for own in chunks]
    return [(own.forward, own.inputs + own.again) for own in chunks] + [(own.weights, 0.0) for own in chunks]


@lru_cache(maxsize=8)  # a fit runs the same orders again and again
def _orders(
    schedule: str, degrees: Degrees, chunks_of_ranks: tuple[tuple[int, ...], ...], micro_batches: int
) -> tuple[tuple[tuple[StagePass, ...], ...], dict[int, tuple[int, ...]]]:
    """The passes of every device and of every stage, in their order, as the simulator numbers them."""
    shared = []
    orders: dict[int, list[int]] = {}
    for rank, own in enumerate(chunks_of_ranks):
        order = []
        for kind, stage, batch in SCHEDULES[schedule].order(rank, degrees.pipeline, degrees.virtual, micro_batches):
            x = own[stage] + (degrees.chunks if kind == "W" else 0)
            j = batch + 1 if kind in "FW" else -batch - 1
            order.append(StagePass(x, j))
            orders.setdefault(x, []).append(j)
        shared.append(tuple(order))
    return tuple(shared), {x: tuple(passes) for x, passes in orders.items()}


def _rank(iteration: Iteration, rank: int, seconds: float, sending: float) -> RankTime:
    """The seconds that a rank of this stage spends on each thing.

    Without messages the rank would have as much to do in an iteration that is shorter by `sending`: so what is left is
    sending and idling, whatever is hidden behind what.
    """
    plan, chunks = iteration.plan, iteration.chunks
    m, own = plan.micro_batches(iteration.problem.batch), plan.chunks_of_ranks[rank]
    sent, update = iteration.tails[rank]
    parts: Any = sum(way for chunk in own for way in iteration.parts(chunk))
    spent = {name: m * float(part) for name, part in zip(PARTS_OF_PASSES, parts, strict=True)}
    shape = "measured" if iteration.problem.model.own else "products"
    spent[shape] += m * sum(chunks[chunk].weights for chunk in own)
    spent["data"] += sent
    again = m * sum(chunks[chunk].again for chunk in own)
    left = max(0.0, seconds - sum(spent.values()) - again - update)
    pipeline = min(left, sending)
    return RankTime(**spent, optimizer=update, recomputation=again, pipeline=pipeline, idle=left - pipeline)
