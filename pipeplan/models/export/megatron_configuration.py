"""A training configuration as Megatron's flags, one a line."""

from __future__ import annotations

from itertools import groupby

from ...instances.base.errors import UsageError
from ...instances.physics.optimizers import OPTIMIZERS, USUAL_OPTIMIZER
from ...instances.training.plan import Configuration
from ...instances.training.problem import TrainingProblem
from .configurations import checked, is_even, is_whole, ranks_in_words, word_of_all
from .contract import Exported, ExportOptions
from .megatron import FILE

TARGET = "megatron"
# Letters of units in Megatron's layout; every other unit is a layer, whose letter is t.
LETTERS = {"embedding": "E", "prediction": "m", "head": "L"}


def export(problem: TrainingProblem, plan: Configuration, options: ExportOptions) -> Exported:
    """All flags of the configuration and those that its memory was judged with; the model's own are the user's."""
    problem = checked(TARGET, problem, plan, options)
    words = [
        *_degrees(problem, plan),
        *_layout(problem, plan),
        *_batch(problem, plan),
        *_recomputation(problem, plan),
        *_as_judged(problem, plan),
        *_optimizer(problem),
    ]
    notes = [
        ranks_in_words(problem, plan),
        "flags of the model's shapes, of data and of the optimizer come beside them",
    ]
    return Exported({FILE: "\n".join(words) + "\n"}, tuple(notes))


def _optimizer(problem: TrainingProblem) -> list[str]:
    """Megatron's options of an optimizer that is not its default."""
    words = OPTIMIZERS[problem.optimizer].megatron
    if words is None:
        raise UsageError(
            f"Megatron has no {problem.optimizer}; choose another optimizer, or write flags of your own."
        )
    return [words] if problem.optimizer != USUAL_OPTIMIZER else []


def _degrees(problem: TrainingProblem, plan: Configuration) -> list[str]:
    d = plan.degrees
    words = [
        f"--tensor-model-parallel-size {d.tensor}",
        f"--context-parallel-size {d.context}",
        f"--pipeline-model-parallel-size {d.pipeline}",
    ]
    if problem.model.experts is not None:
        words += [
            f"--expert-model-parallel-size {d.expert}",
            f"--expert-tensor-parallel-size {d.expert_tensor}",
        ]
    words += ["--sequence-parallel"] * (problem.sequence_parallel and d.tensor > 1)
    return words + ["--use-distributed-optimizer"] * (plan.zero == 1)


# ---- layouts -------------------------------------------------------------------------------------------


def _layout(problem: TrainingProblem, plan: Configuration) -> list[str]:
    """Flags of the layers and of what each chunk holds; where it is Megatron's even layout, it needs no text."""
    words = [f"--num-layers {problem.model.layers}"]
    if problem.model.prediction_layers:
        words.append(f"--mtp-num-layers {problem.model.prediction_layers}")
    if not is_even(problem, plan):
        return [*words, f'--pipeline-model-parallel-layout "{layout_text(problem, plan)}"']
    if plan.degrees.virtual > 1:
        words.append(f"--num-virtual-stages-per-pipeline-rank {plan.degrees.virtual}")
    return words


def layout_text(problem: TrainingProblem, plan: Configuration) -> str:
    """Letters of every chunk, with commas before those that follow layers."""
    row = [LETTERS.get(unit, "t") for unit in problem.model.units]
    return "|".join(_chunk("".join(row[interval.start : interval.stop])) for interval in plan.intervals)


def _chunk(letters: str) -> str:
    parts = [(letter, len(list(same))) for letter, same in groupby(letters)]
    texts = [letter if count == 1 else f"{letter}*{count}" for letter, count in parts]
    front = "".join(text for text in texts if text[0] in "Et")
    return ",".join(([front] if front else []) + [text for text in texts if text[0] in "mL"])


# ---- batch, recomputation ------------------------------------------------------------------------------


def _batch(problem: TrainingProblem, plan: Configuration) -> list[str]:
    words = [
        f"--micro-batch-size {plan.micro_batch}",
        f"--global-batch-size {problem.batch}",
        f"--seq-length {problem.sequence}",
    ]
    if problem.precision == "fp16":
        return [*words, "--fp16"]
    return [*words, "--bf16", *["--fp8-format hybrid"] * (problem.precision == "fp8")]


def _recomputation(problem: TrainingProblem, plan: Configuration) -> list[str]:
    word = word_of_all(plan)
    if not word.modules:
        return []
    if is_whole(word):
        method = "uniform" if word.layers is None else "block"
        return [
            "--recompute-granularity full",
            f"--recompute-method {method}",
            f"--recompute-num-layers {word.layers or 1}",
        ]
    words = ["--recompute-granularity selective", f"--recompute-modules {' '.join(word.modules)}"]
    if "moe_act" in word.modules:
        words.append("--moe-grouped-gemm")  # Megatron refuses moe_act without it
    if problem.precision == "fp8" and {"moe_act", "layernorm"} & set(word.modules):
        words.append("--fp8-recipe tensorwise")  # and these two with delayed scaling, its default
    return words


def _as_judged(problem: TrainingProblem, plan: Configuration) -> list[str]:
    """What memory and time were judged with, where Megatron's default is another: it hides no communication."""
    words = ["--attention-backend unfused"] * (not problem.flash_attention)
    words += ["--cross-entropy-loss-fusion"] * problem.fused_loss
    if not problem.dropout:
        words += ["--attention-dropout 0.0", "--hidden-dropout 0.0"]
    if problem.efficiencies.data_hidden:
        words += ["--overlap-grad-reduce", *["--overlap-param-gather"] * (plan.zero > 0)]
    if problem.efficiencies.tensor_hidden and problem.sequence_parallel and plan.degrees.tensor > 1:
        words.append("--tp-comm-overlap")
    if plan.degrees.expert > 1:
        words.append("--moe-token-dispatcher-type alltoall")
    return words
