"""The smallest memory of a GPU for which a chain has any pattern, and what that memory is made of.

The longer the period, the less waits. If any pattern fits, then the one of the same allocation that runs one batch
after the other does: at each of its tasks it holds the least that any pattern holds there. So only the allocation is
sought, by the search for the least memory that all kinds share. While a task of layer l runs, its GPU holds its
weights and slots, the kept inputs of its layers up to l, and what the task itself reads and writes; the other GPUs hold
the kept inputs of their layers before l. That matters where tasks take no time: what they leave behind is only there if
something that does take time comes between, be it a transfer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from operator import attrgetter
from typing import Any

from ...formulations.beaumont.integer_chain import integer_chain
from ...instances.base.amounts import as_written, common_unit
from ...instances.base.clock import now
from ...instances.base.quantities import BYTES, byte_unit
from ...instances.base.result import Stop
from ...instances.chain.plan import PatternPlan, given_allocation
from ...instances.chain.problem import ChainProblem, Terms, plain, task_name
from ...instances.least_memory import SmallestMemory, enough, option
from ..backends.client import Solver
from ..memory.smallest import Answer, Floor, Questions, smallest_memory, whole
from ..options import SolveOptions
from .allocation import candidate, coarse_steps
from .schedule import longest_period

# The reason that a result gives for its value.
ONE_BY_ONE = "one batch at a time on the best allocation, which no plan undercuts"
# Layers up to which the search starts from the best runs of layers, which take quadratic work.
MOST_LAYERS = 1000


@dataclass(frozen=True, slots=True)
class ChainMemory(SmallestMemory):
    """The smallest memory of a chain, and what it is made of."""

    memory_bytes: float
    plan: PatternPlan
    """A pattern that runs one batch after the other."""
    gpu: int
    """The GPU of `plan` that holds the most."""
    task: str
    """The task that it runs when it holds the most, as F3 or B3."""
    terms: Terms
    """What it holds while it runs that task: these add up to `memory_bytes`."""

    def to_json(self) -> dict[str, Any]:
        return {
            "memory_bytes": self.memory_bytes,
            "lower_bytes": self.lower_bytes,
            "proven": self.proven,
            "stop": str(self.stop),
            "reason": self.reason,
            "allocation": list(self.plan.allocation),
            "gpu": self.gpu,
            "task": self.task,
            "terms": self.terms.to_json(),
        }


# ---- sizes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sizes:
    """What counts in the problem's memory mode, in whole units; layers from 0, border b between layers b - 1 and b."""

    unit: Fraction
    """Bytes of a unit."""
    weights: tuple[int, ...]
    """Each layer's weights, all copies together."""
    kept: tuple[int, ...]
    forward: tuple[int, ...]
    """Held only while the forward task of a layer runs."""
    backward: tuple[int, ...]
    slots: tuple[int, ...]
    """What border b, at position b - 1, reserves on both GPUs where it is cut."""
    timed: tuple[bool, ...]
    """Does this layer or one behind it take time? Then its kept input is there for some time."""
    moved: tuple[int | None, ...]
    """What both ends hold during the transfer over border b (at position b - 1), besides slots; None where that tells
    nothing new, since transfers take no time or all tasks take some."""

    @property
    def layers(self) -> range:
        return range(len(self.weights))

    def own(self, layer: int) -> int:
        """What a task of the layer holds while it runs: the larger amount of its two tasks."""
        return max(self.forward[layer], self.backward[layer])


def sizes_of(problem: ChainProblem) -> Sizes:
    """The sizes of a chain in its memory mode."""
    tasks, layers, mode = problem.tasks, range(problem.layers), problem.memory_mode
    unit = common_unit([*problem.held_weights, *problem.held_activations]) or Fraction(1)
    weights, a = (
        [int(size / unit) for size in sizes] for sizes in (problem.held_weights, problem.held_activations)
    )
    current = mode in ("reserved", "strict")

    def moved(border: int) -> int | None:
        edges = [e for e in (border, tasks - border) if problem.edge_times[e - 1]]
        if not edges or all(problem.durations):
            return None
        return max((a[e] for e in edges if mode == "strict"), default=0)

    return Sizes(
        unit=unit,
        weights=tuple(weights),
        kept=tuple(a[: problem.layers]),
        forward=tuple(a[i + 1] if current and problem.forward[i] else 0 for i in layers),
        backward=tuple(a[tasks - 1 - i] + a[tasks - i] if current and problem.backward[i] else 0 for i in layers),
        slots=tuple(a[b] + a[tasks - b] if mode == "reserved" else 0 for b in layers if b),
        timed=tuple(any(problem.forward[i:]) or any(problem.backward[i:]) for i in layers),
        moved=tuple(moved(b) for b in layers if b),
    )


# ---- the search ------------------------------------------------------------------------------------------------


def questions(problem: ChainProblem, options: Mapping[str, Any]) -> Questions:
    """The least memory of all patterns in the chain's memory mode, or of those with a given allocation."""
    sizes, gpus, chosen = sizes_of(problem), min(problem.gpus, problem.layers), given_allocation(problem, options)
    start = chosen or (_runs(sizes, gpus) if problem.layers <= MOST_LAYERS else (0,) * problem.layers)
    least = _without_search(sizes, gpus) if chosen is None else Fraction(_need(sizes, chosen).total)

    def answer(allocation: Sequence[int] | None, none: bool) -> Answer:
        return Answer(None if allocation is None else one_by_one(problem, allocation), none)

    def by_relaxation(memory_bytes: float | None, limits: SolveOptions) -> Answer:
        """At the longest period the relaxation counts what one batch at a time holds."""
        chain = integer_chain(problem.replace(memory_bytes=memory_bytes), coarse_steps(problem))
        ends = None if limits.time_limit_s is None else now() + limits.time_limit_s
        found = candidate(chain, longest_period(chain), (), Solver(ends, limits.seed, limits.memory_limit_bytes))
        return answer(found.allocation, found.exhausted)

    def with_terms(found: SmallestMemory) -> ChainMemory:
        best = memory_of(problem, found.plan.allocation if isinstance(found.plan, PatternPlan) else start)
        return best if found.proven else replace(best, lower_bytes=found.lower_bytes, proven=False, stop=found.stop)

    return Questions(
        unit=sizes.unit,
        floor=Floor(whole(least * sizes.unit, sizes.unit), ONE_BY_ONE),
        held=lambda plan: _need(sizes, plan.allocation).total * sizes.unit,
        first=lambda memory_bytes, limits: answer(start, False),
        rounds=(by_relaxation,) if chosen is None else (),
        record=with_terms,
    )


def memory_of(problem: ChainProblem, allocation: Sequence[int]) -> ChainMemory:
    """The smallest memory for which this allocation has a pattern."""
    sizes = sizes_of(problem)
    need = _need(sizes, allocation)
    parts = (need.weights, need.kept, need.current, 0, need.slots)
    least = enough(need.total * sizes.unit)
    return ChainMemory(
        memory_bytes=least,
        lower_bytes=least,
        proven=True,
        stop=Stop.PROVEN,
        reason=ONE_BY_ONE,
        plan=one_by_one(problem, allocation),
        gpu=need.gpu,
        task=task_name(problem, need.task),
        terms=Terms(*(plain(part * sizes.unit) for part in parts)),
    )


@dataclass(frozen=True, slots=True)
class _Need:
    """What the fullest GPU holds at its worst task (from 0), in units."""

    gpu: int
    task: int
    weights: int
    kept: int
    current: int
    slots: int

    @property
    def total(self) -> int:
        return self.weights + self.kept + self.current + self.slots


def _need(sizes: Sizes, allocation: Sequence[int]) -> _Need:
    """What the fullest GPU holds, and when."""
    needs = (_need_of(sizes, allocation, gpu) for gpu in sorted(set(allocation)))
    return max(needs, key=attrgetter("total"))


def _need_of(sizes: Sizes, allocation: Sequence[int], gpu: int) -> _Need:
    """What one GPU holds at its worst moment, a task of its own or a transfer, when batches run one after the other."""
    here = [at == gpu for at in allocation]
    weights = sum(sizes.weights[i] for i in sizes.layers if here[i])
    slots = sum(slot for b, slot in enumerate(sizes.slots) if here[b] != here[b + 1])
    kept, last = 0, here.index(True)
    worst = _Need(gpu, last, weights, 0, 0, slots)
    for i in sizes.layers:
        moved = sizes.moved[i - 1] if i and allocation[i - 1] != allocation[i] else None
        if moved is not None:
            at_end = moved if here[i - 1] or here[i] else 0
            worst = max(worst, _Need(gpu, last, weights, kept, 0, slots + at_end), key=attrgetter("total"))
        if here[i]:
            kept, last = kept + sizes.kept[i], i
            forward = sizes.forward[i] >= sizes.backward[i]
            if sizes.timed[i]:
                task = i if forward else 2 * len(sizes.weights) - 1 - i
                worst = max(worst, _Need(gpu, task, weights, kept, sizes.own(i), slots), key=attrgetter("total"))
    return worst


def _without_search(sizes: Sizes, gpus: int) -> Fraction:
    """A bound that needs no search: the most that a layer needs alone, or an even share of weights and kept inputs."""
    kept = [size if timed else 0 for size, timed in zip(sizes.kept, sizes.timed, strict=True)]
    shared = Fraction(sum((*sizes.weights, *kept)), gpus)
    return max(shared, Fraction(max(sizes.weights[i] + kept[i] + sizes.own(i) for i in sizes.layers)))


def _runs(sizes: Sizes, gpus: int) -> tuple[int, ...]:
    """The best allocation in which each GPU has a run of layers."""
    layers = len(sizes.weights)
    ends = [0, *sizes.slots, 0]
    best: list[dict[int, tuple[int, int]]] = [{0: (0, 0)}, *({} for _ in range(layers))]
    for first in range(layers):
        weights = kept = worst = 0
        for end in range(first + 1, layers + 1):
            weights += sizes.weights[end - 1]
            kept += sizes.kept[end - 1]
            worst = max(worst, kept + sizes.own(end - 1))
            peak = weights + worst + ends[first] + ends[end]
            for used, (before, _) in best[first].items():
                reached = max(peak, before)
                if used < gpus and (used + 1 not in best[end] or reached < best[end][used + 1][0]):
                    best[end][used + 1] = (reached, first)
    used = min(best[layers], key=lambda count: best[layers][count][0])
    allocation, end = [0] * layers, layers
    while end:
        first = best[end][used][1]
        allocation[first:end] = [used - 1] * (end - first)
        end, used = first, used - 1
    return tuple(allocation)


def one_by_one(problem: ChainProblem, allocation: Sequence[int]) -> PatternPlan:
    """The pattern of an allocation in which a batch starts when the one before has ended."""
    now = Fraction(0)
    starts: list[Fraction] = []
    transfers: dict[int, Fraction] = {}
    for task, duration in enumerate(problem.durations):
        starts.append(now)
        now += as_written(duration)
        edge = task + 1
        if edge < problem.tasks and allocation[problem.layer_of[task]] != allocation[problem.layer_of[edge]]:
            transfers[edge] = now
            now += as_written(problem.edge_times[task])
    return PatternPlan(
        period=plain(now or Fraction(1)),
        allocation=tuple(allocation),
        starts=(tuple(map(plain, starts)),),
        transfers=({edge: plain(start) for edge, start in transfers.items()},),
    )


# ---- why there is no pattern -------------------------------------------------------------------------
# A chain without a pattern, explained: the smallest memory with one, what fills it, and what would need less.


TERMS: Mapping[str, str] = {
    "weights": "weights",
    "kept": "kept activations",
    "current": "tensors of the running task",
    "direct": "tensors between two tasks",
    "buffers": "slots for transfers",
}
# Each search for a smallest memory, of the chain itself and of each remedy, may take the time limit divided by
# this.
MOST_QUESTIONS = 6


def explain(
    problem: ChainProblem, options: Mapping[str, Any], limits: SolveOptions, proven: bool
) -> tuple[str, ...]:
    """Sentences for the user; none where the chain has no memory limit. `proven`: is it known that no pattern fits?"""
    memory = problem.memory_bytes
    if memory is None:
        return ()
    if limits.time_limit_s is not None:
        limits = replace(limits, time_limit_s=limits.time_limit_s / MOST_QUESTIONS)
    allocation = given_allocation(problem, options)
    if allocation is not None:
        return tuple(_of_allocation(problem, allocation))
    found = smallest_memory(problem, limits)
    if found.memory_bytes <= memory:
        return (
            f"patterns need {amount(found.memory_bytes)} of memory per GPU, so {amount(memory)} is enough, but this "
            "method cannot find one; use --planner exact-beaumont",
        )
    return tuple(_sentences(problem, found, limits, proven or found.lower_bytes > memory))


def _sentences(problem: ChainProblem, found: ChainMemory, limits: SolveOptions, proven: bool) -> Iterator[str]:
    assert problem.memory_bytes is not None
    fits = "no plan fits" if proven else "perhaps no plan fits"
    yield (
        f"{fits} in {amount(problem.memory_bytes)} of memory per GPU: even one batch at a time on the best allocation "
        f"needs {said(found)}, and 1F1B needs at least as much (memory mode {problem.memory_mode!r})"
    )
    yield binding(found)
    yield from _remedies(problem, found, limits)
    yield "recomputation, which would save memory but take time, is not modelled"


def said(found: ChainMemory) -> str:
    """The value, with what is known about smaller ones."""
    if found.proven:
        return f"{amount(found.memory_bytes)} (proven to be the minimum)"
    return f"{amount(found.memory_bytes)} (the minimum lies between {amount(found.lower_bytes)} and that)"


def binding(found: ChainMemory) -> str:
    """Says which GPU needs the memory, and for what."""
    terms = found.terms.to_json()
    layers = ", ".join(str(i + 1) for i, gpu in enumerate(found.plan.allocation) if gpu == found.gpu)
    parts = ", ".join(f"{TERMS[name]} {amount(size)}" for name, size in terms.items() if size) or "nothing"
    return (
        f"gpu{found.gpu} with layers {layers} needs this much during {found.task}, mostly for "
        f"{TERMS[max(terms, key=lambda name: terms[name])]}: {parts}"
    )


def _remedies(problem: ChainProblem, found: ChainMemory, limits: SolveOptions) -> Iterator[str]:
    """What would help, each remedy with the memory that it needs."""
    yield f"{option(found.memory_bytes)} would be enough"
    yield from _more_gpus(problem, limits)
    if problem.weight_copies > 1 and any(problem.weights):
        once = smallest_memory(problem.replace(weight_copies=1), limits)
        yield (
            f"fewer copies of the weights would help: with weight_copies 1 instead of {problem.weight_copies:g}, "
            f"{amount(once.memory_bytes)} is enough"
        )
    if problem.memory_mode == "reserved" and not problem.exclusive_buffers:
        inputs = smallest_memory(problem.replace(memory_mode="inputs"), limits)
        if inputs.memory_bytes < found.memory_bytes:
            yield (
                "separate memory for slots and the tensors of running tasks would help: with memory mode 'inputs', "
                f"{amount(inputs.memory_bytes)} is enough"
            )


def _more_gpus(problem: ChainProblem, limits: SolveOptions) -> Iterator[str]:
    """The first doubling of the number of GPUs that is enough; else what one GPU per layer needs."""
    assert problem.memory_bytes is not None
    gpus = problem.gpus
    if gpus >= problem.layers:
        yield "more GPUs would not help: there is one for each layer already"
        return
    while gpus < problem.layers:
        gpus = min(2 * gpus, problem.layers)
        needed = smallest_memory(problem.replace(gpus=gpus), limits).memory_bytes
        if needed <= problem.memory_bytes:
            yield f"more GPUs would help: with --devices {gpus}, {amount(needed)} is enough"
            return
    yield f"more GPUs alone are not enough: even {gpus}, one per layer, would need {amount(needed)}"


def _of_allocation(problem: ChainProblem, allocation: tuple[int, ...]) -> Iterator[str]:
    """Sentences for a given allocation, which only more memory helps; none where its least memory fits."""
    found = memory_of(problem, allocation)
    assert problem.memory_bytes is not None
    if found.memory_bytes > problem.memory_bytes:
        yield (
            f"no plan with this allocation fits in {amount(problem.memory_bytes)} of memory per GPU: "
            f"even one batch at a time needs {said(found)} (memory mode {problem.memory_mode!r})"
        )
        yield binding(found)


def amount(count: float) -> str:
    """An amount of memory in binary multiples of a byte, or in multiples of a thousand where it was written so."""
    unit = byte_unit(count)
    return f"{count:g} B" if unit == "B" else f"{count / BYTES[unit]:.4g} {unit}"
