"""Small chains: those of the theory, and random ones with fixed seeds, in which memory often binds."""

from __future__ import annotations

import random

import known_chains as theory
from known_chains import KnownChain
from oracles.chain import least_memory

from pipeplan.instances.chain.problem import ChainProblem


def theory_chains() -> tuple[KnownChain, ...]:
    """One small chain of each construction; of Fig. 4 also one whose F_4 alone needs 8 bytes, with all terms."""
    figure = theory.figure_4()
    problem = figure.problem.replace(memory_mode="reserved", name="figure-4-reserved")
    reserved = KnownChain(problem, {"general": None, "contiguous": None}, f"{figure.source}, with all terms")
    return (
        theory.three_chain(), theory.family(2), theory.family(3), theory.lemma_2(), theory.lemma_3(),
        theory.theorem_2(), theory.theorem_3(), figure, reserved, theory.figure_5(),
    )  # fmt: skip


def random_chain(seed: int) -> ChainProblem:
    """Two or three layers, one to three GPUs; every sixth has too little memory, the others little to spare."""
    draw = random.Random(seed)
    layers = draw.choice((2, 3, 3))
    longest = 4 if layers == 2 else 2
    sizes = [draw.randint(1, 4) for _ in range(layers + 1)]
    slow = draw.random() < 0.5
    problem = ChainProblem(
        forward=tuple(draw.randint(1, longest) for _ in range(layers)),
        backward=tuple(draw.randint(1, longest) for _ in range(layers)),
        activations=tuple(sizes),
        weights=tuple(draw.randint(0, 2) for _ in range(layers)),
        gpus=draw.choice((2, 2, 2, 3)) if layers == 3 else draw.choice((1, 2)),
        transfer_times=tuple(draw.randint(0, 1) if slow else 0 for _ in range(2 * layers - 1)),
        duplex=draw.choice(("half", "half", "full")),
        memory_mode=draw.choice(("reserved", "inputs")),
        name=f"random-{seed}",
        time_unit=None,
    )
    spare = -1 if seed % 6 == 0 else draw.choice((0, 0, 1, 2))
    return problem.replace(memory_bytes=max(0, int(least_memory(problem)) + spare))
