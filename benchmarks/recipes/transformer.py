"""Operator graphs of transformers with dear transfers, on which throughput is planned."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from random_placements import with_backward

from pipeplan.instances.base.checks import check_amount
from pipeplan.instances.placement.problem import Node, PlacementProblem

# The work of one block, in ms.
BLOCK_MS = 10.0

# The operators of a transformer block, each as `name: output, then inputs`; the input @ is weights of its own.
_BLOCK = (
    "q.product: hidden input @; q.bias: hidden q.product; q.shape: hidden q.bias; q.turned: hidden q.shape; "
    "k.product: hidden input @; k.bias: hidden k.product; k.shape: hidden k.bias; k.turned: hidden k.shape; "
    "v.product: hidden input @; v.bias: hidden v.product; v.shape: hidden v.bias; v.turned: hidden v.shape; "
    "scores: scores q.turned k.turned; scaled: scores scores; masked: scores scaled mask; softmax: scores masked; "
    "dropped: scores softmax; context: hidden dropped v.turned; turned: hidden context; joined: hidden turned; "
    "out.product: hidden joined @; out.bias: hidden out.product; out.dropped: hidden out.bias; "
    "attended: hidden input out.dropped; norm: hidden attended @; wide.product: inner norm @; "
    "wide.bias: inner wide.product; gelu: inner wide.bias; narrow.product: hidden gelu @; "
    "narrow.bias: hidden narrow.product; narrow.dropped: hidden narrow.bias; added: hidden norm narrow.dropped; "
    "output: hidden added @"
)


@dataclass(frozen=True, slots=True)
class _Operator:
    """An operator: its work and the elements of its output, before units are chosen."""

    name: str
    work: float
    elements: int
    inputs: tuple[str, ...] = ()


def transformer(
    nodes: int, accelerators: int, transfers: float = 12.0, seed: int = 0, cpus: int = 1, *, training: bool = False
) -> PlacementProblem:
    """Equal blocks of a transformer's operators, with transfers that are dear as in published operator graphs.

    In those graphs all transfers together cost 7 to 13 times the work. Sizes of tensors, and what each operator of a
    block costs for an element, are drawn once; a mask is read by every block.
    """
    rng = random.Random(seed)
    check_amount("transfers", transfers)
    width, tokens = rng.choice((512, 768, 1024)), rng.choice((128, 256, 512))
    elements = {"hidden": tokens * width, "inner": 4 * tokens * width, "scores": width // 64 * tokens**2}
    rows = [(name, *about.split()) for name, about in (row.split(": ") for row in _BLOCK.split("; "))]
    work = {row[0]: elements[row[1]] * rng.uniform(0.5, 2.0) for row in rows}
    slowness = rng.uniform(10, 30)
    drawn = [_Operator("0 output", work["output"], elements["hidden"]), _Operator("mask", 0.0, tokens)]
    for block in range(1, nodes // len(rows) + 2):
        names = {"input": f"{block - 1} output", "mask": "mask"}
        for name, output, *inputs in rows:
            names[name] = f"{block} {name}"
            if "@" in inputs:
                names["@"] = f"{block} {name} weights"
                drawn.append(_Operator(names["@"], 0.0, width * width // 8))
            drawn.append(_Operator(names[name], work[name], elements[output], tuple(names[i] for i in inputs)))
    drawn = drawn[:nodes]
    sent = {source for operator in drawn for source in operator.inputs}
    total = math.fsum(operator.work for operator in drawn)
    unit = BLOCK_MS / math.fsum(work.values())
    moved = sum(operator.elements for operator in drawn if operator.name in sent)
    price = transfers * total * unit / max(1, moved)
    placed = tuple(
        Node(
            operator.name,
            accelerator_time=round(operator.work * unit, 3),
            cpu_time=round(operator.work * unit * slowness, 3),
            size_bytes=4.0 * operator.elements,
            transfer_time=round(operator.elements * price, 3) if operator.name in sent else 0.0,
        )
        for operator in drawn
    )
    edges = tuple((source, operator.name) for operator in drawn for source in operator.inputs)
    name = f"transformer-{nodes}-{seed}"
    problem = PlacementProblem(placed, edges, accelerators, cpus, None, name, "ms")
    return with_backward(problem, lambda node: node.transfer_time) if training else problem
