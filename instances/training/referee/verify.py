"""Every rule that a configuration breaks: those of arithmetic, of the framework, and of memory."""

from __future__ import annotations

from collections.abc import Iterator

from ...base.amounts import fits
from ...base.errors import Violation
from ...base.quantities import GIB
from ...physics.schedules import LOOP, V_SHAPE
from ..frameworks import ends_of, even_layout, fault_of_word, uncut
from ..plan import Configuration
from ..problem import TrainingProblem
from .memory import memory_of_ranks


def verify_configuration(problem: TrainingProblem, plan: Configuration) -> tuple[Violation, ...]:
    """Every broken rule; where the numbers do not go together, nothing else can be judged."""
    shape = tuple(shape_faults(problem, plan))
    if shape:
        return shape
    return (*framework_faults(problem, plan), *_memory_faults(problem, plan))


def shape_faults(problem: TrainingProblem, plan: Configuration) -> Iterator[Violation]:
    """What does not go together in degrees, batch, layout and sharding."""
    degrees = plan.degrees
    ranks = degrees.tensor * degrees.context * degrees.pipeline * degrees.data
    if ranks != problem.devices:
        yield Violation(
            "devices",
            f"The degrees make {ranks} ranks, and there are {problem.devices} GPUs; choose degrees that multiply to "
            f"{problem.devices}.",
        )
    if degrees.stage_ranks % (degrees.expert * degrees.expert_tensor):
        yield Violation(
            "experts",
            f"Experts are divided among {degrees.expert} x {degrees.expert_tensor} ranks, which do not divide the "
            f"{degrees.stage_ranks} ranks of a stage; choose expert degrees whose product divides them.",
        )
    if problem.batch % (degrees.data * plan.micro_batch):
        yield Violation(
            "batch",
            f"{problem.batch} sequences are no whole number of micro-batches of {plan.micro_batch} on "
            f"{degrees.data} data-parallel ranks; choose degrees or a micro-batch that divide them.",
        )
    units = len(problem.model.units)
    if len(plan.layout) != degrees.chunks or sum(plan.layout) != units:
        yield Violation(
            "layout",
            f"The layout has {len(plan.layout)} chunks with {sum(plan.layout)} units, and {degrees.chunks} chunks "
            f"with {units} units are wanted.",
        )
    if len(plan.recompute) != len(plan.layout):
        yield Violation(
            "recomputation",
            f"Recomputation is said of {len(plan.recompute)} chunks, and there are {len(plan.layout)}.",
        )
    yield from _schedule_faults(plan)
    framework = problem.rules
    if plan.zero not in problem.states:  # what a parameter takes there is not known
        known = " or ".join(f"zero={zero}" for zero in problem.states)
        yield Violation("zero", f"{framework.name} has no ZeRO stage {plan.zero}; choose {known}.")


def _schedule_faults(plan: Configuration) -> Iterator[Violation]:
    virtual = plan.degrees.virtual
    if plan.rule.shape == V_SHAPE:
        if virtual != 2:
            yield Violation(
                "schedule",
                f"{plan.schedule} has two chunks on each rank, and here are {virtual}; choose virtual=2.",
            )
    elif (virtual > 1) != (plan.rule.shape == LOOP):
        wanted = "several chunks" if plan.rule.shape == LOOP else "one chunk"
        yield Violation(
            "schedule",
            f"{plan.schedule} has {wanted} on each rank, and here are {virtual}; choose another schedule or number.",
        )


def _counts(problem: TrainingProblem, plan: Configuration) -> dict[str, str]:
    """Words for what reasons and remedies name in braces."""
    framework, own = problem.rules, problem.model.attention
    words = {
        "framework": framework.name,
        "precision": problem.precision,
        "precisions": " or ".join(framework.precisions),
        "tensor": str(plan.degrees.tensor),
    }
    if own is not None:
        words |= {"heads": f"{own.heads} heads", "key_value_heads": f"{own.key_value_heads} key-value heads"}
    return words


def framework_faults(problem: TrainingProblem, plan: Configuration) -> Iterator[Violation]:
    """What the framework cannot run, each in a sentence with the remedy."""
    framework = problem.rules
    name = framework.name
    if plan.schedule not in framework.schedules:
        known = " or ".join(framework.schedules)
        yield Violation("schedule", f"{name} has no schedule {plan.schedule}; choose {known}.")
    for rule in framework.rules:
        if not rule.kept(problem, plan):
            yield Violation(rule.name, f"{rule.reason}; {rule.remedy}.".format_map(_counts(problem, plan)))
    yield from _layout_faults(problem, plan)
    if framework.alike and len(set(plan.recompute)) > 1:
        yield Violation("recomputation", f"{name} computes the same again in every chunk; choose one word for all.")
    own = problem.model.own
    if own and (plan.degrees.context > 1 or plan.degrees.expert > 1):
        yield Violation(
            "own layers",
            "Layers with measured times have neither context nor expert parallelism; choose degrees 1.",
        )
    if not all(layer.is_measured(plan.degrees.tensor, plan.micro_batch) for layer in own):
        yield Violation(
            "own layers",
            f"The layers were not measured at tensor={plan.degrees.tensor} and micro-batch={plan.micro_batch}; choose "
            "degrees that were.",
        )
    for word in dict.fromkeys(plan.recompute):
        why = fault_of_word(problem, plan.schedule, word)
        if why is not None:
            yield Violation("recomputation", why)


def _layout_faults(problem: TrainingProblem, plan: Configuration) -> Iterator[Violation]:
    """Layouts that the framework has no words for; the rule is named as that of layouts that do not go together."""
    name = problem.rules.name
    if problem.rules.layouts == "even":
        even = even_layout(problem, plan.degrees.chunks)
        if plan.layout != even:
            own, wanted = ("/".join(map(str, layout or ())) for layout in (plan.layout, even))
            yield Violation(
                "layout",
                f"{name} divides layers evenly, embedding and head included, and here they are {own}; choose "
                f"layout={wanted}.",
            )
    if {*ends_of(plan.layout)} & uncut(problem, plan.degrees):
        yield Violation(
            "layout",
            f"{name} keeps the layers of multi-token prediction together, in the last chunk of a rank after the "
            "first; move them into the chunk of the head.",
        )


def _memory_faults(problem: TrainingProblem, plan: Configuration) -> Iterator[Violation]:
    if problem.memory_bytes is None:
        return
    for rank in memory_of_ranks(problem, plan):
        if not fits(rank.parts.values(), problem.memory_bytes):
            yield Violation(
                "memory",
                f"Stage {rank.rank} holds {rank.bytes / GIB:.2f} GiB, above the {problem.memory_bytes / GIB:.2f} GiB "
                "of a GPU.",
            )
