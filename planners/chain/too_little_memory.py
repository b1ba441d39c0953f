"""A chain without a pattern, explained: the smallest memory with one, what fills it, and what would need less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...instances.base.quantities import in_thousands
from ...instances.chain.allocation import given_allocation
from ...instances.chain.problem import ChainProblem
from ...instances.least_memory import option
from ..options import SolveOptions
from .smallest_memory import ChainMemory, memory_of, smallest_memory

TERMS: Mapping[str, str] = {
    "weights": "weights",
    "kept": "kept activations",
    "current": "tensors of the running task",
    "direct": "tensors between two tasks",
    "buffers": "slots for transfers",
}
# Each search for a smallest memory, of the chain itself and of each remedy, may take the time limit divided by this.
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
            f"patterns exist from {amount(found.memory_bytes)} of memory per GPU on, so {amount(memory)} is enough, "
            "but this method cannot make any; --planner exact-beaumont finds them",
        )
    return tuple(_sentences(problem, found, limits, proven or found.lower_bytes > memory))


def _sentences(problem: ChainProblem, found: ChainMemory, limits: SolveOptions, proven: bool) -> Iterator[str]:
    assert problem.memory_bytes is not None
    fits = "no pattern fits" if proven else "perhaps no pattern fits"
    yield (
        f"{fits} {amount(problem.memory_bytes)} of memory per GPU: one batch at a time on the best allocation "
        f"needs {said(found)} in memory mode {problem.memory_mode}, and 1F1B never needs less"
    )
    yield binding(found)
    helping = list(_remedies(problem, found, limits))
    yield f"what would help: {'; '.join(helping)}. Recomputation, which trades time for memory, is not modelled"


def said(found: ChainMemory) -> str:
    """The value, with what is known about smaller ones."""
    if found.proven:
        return f"{amount(found.memory_bytes)} (proven to be the least)"
    return f"{amount(found.memory_bytes)} (the least lies between {amount(found.lower_bytes)} and that)"


def binding(found: ChainMemory) -> str:
    """Says which GPU needs the memory, and for what."""
    terms = found.terms.to_json()
    layers = ", ".join(str(i + 1) for i, gpu in enumerate(found.plan.allocation) if gpu == found.gpu)
    parts = ", ".join(f"{TERMS[name]} {amount(size)}" for name, size in terms.items() if size) or "nothing"
    return (
        f"gpu{found.gpu} with layers {layers} needs it during {found.task}: {parts}; "
        f"the largest part is {TERMS[max(terms, key=lambda name: terms[name])]}"
    )


def _remedies(problem: ChainProblem, found: ChainMemory, limits: SolveOptions) -> Iterator[str]:
    """What would help, each remedy with the memory that it needs."""
    yield option(found.memory_bytes)
    yield from _more_gpus(problem, limits)
    if problem.weight_copies > 1 and any(problem.weights):
        once = smallest_memory(problem.replace(weight_copies=1), limits)
        yield (
            f"fewer copies of the weights: with weight_copies 1 in place of {problem.weight_copies:g}, "
            f"{amount(once.memory_bytes)} is enough"
        )
    if problem.memory_mode == "reserved" and not problem.exclusive_buffers:
        inputs = smallest_memory(problem.replace(memory_mode="inputs"), limits)
        if inputs.memory_bytes < found.memory_bytes:
            yield (
                "memory mode inputs, if slots and the tensors of running tasks have memory of their own: "
                f"{amount(inputs.memory_bytes)} is enough"
            )


def _more_gpus(problem: ChainProblem, limits: SolveOptions) -> Iterator[str]:
    """The first doubling of the number of GPUs that is enough; else what one GPU per layer needs."""
    assert problem.memory_bytes is not None
    gpus = problem.gpus
    if gpus >= problem.layers:
        yield "not more GPUs: each layer could have one already"
        return
    while gpus < problem.layers:
        gpus = min(2 * gpus, problem.layers)
        needed = smallest_memory(problem.replace(gpus=gpus), limits).memory_bytes
        if needed <= problem.memory_bytes:
            yield f"--devices {gpus}, with which {amount(needed)} is enough"
            return
    yield f"not more GPUs alone: even {gpus}, one per layer, would need {amount(needed)}"


def _of_allocation(problem: ChainProblem, allocation: tuple[int, ...]) -> Iterator[str]:
    """Sentences for a given allocation, which only more memory helps; none where its least memory fits."""
    found = memory_of(problem, allocation)
    assert problem.memory_bytes is not None
    if found.memory_bytes > problem.memory_bytes:
        yield (
            f"no pattern of this allocation fits {amount(problem.memory_bytes)} of memory per GPU: "
            f"one batch at a time needs {said(found)} in memory mode {problem.memory_mode}"
        )
        yield binding(found)


def amount(count: float) -> str:
    """An amount of memory in binary multiples of a byte, or in multiples of a thousand where it was written so."""
    base, units = (1000, "kB MB GB") if in_thousands(count) else (1024, "KiB MiB GiB")
    for power, unit in reversed(list(enumerate(units.split(), 1))):
        if count >= base**power:
            return f"{count / base**power:.4g} {unit}"
    return f"{count:g} B"
