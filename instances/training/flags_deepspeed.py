"""DeepSpeed's options: its JSON file, and the flags of programs that it starts, such as Megatron-DeepSpeed."""

from __future__ import annotations

from .flag_effects import DEEPSPEED_EFFECTS, DEEPSPEED_HARMLESS
from .flag_words import Given, Said, compare
from .flags_megatron import compare_model, compare_problem, read_recomputation
from .frameworks import fault_of_word, hidden_shares
from .plan import FULL, NONE, read_recompute
from .problem import TrainingProblem
from .words import as_even_as_can_be

# DeepSpeed's option for each of our keys, for messages.
NAMES = {
    "tensor": "tensor-parallel.autotp-size",
    "pipeline": "pipeline.stages",
    "expert": "expert-parallel.autoep-size",
    "micro-batch": "train-micro-batch-size-per-gpu",
    "zero": "zero-optimization.stage",
    "layout": "pipeline.partition",
    "recompute": "pipeline.activation-checkpoint-interval",
}
# Options that say the same, the one that counts first.
TENSOR = (NAMES["tensor"], "tensor-model-parallel-size", "model-parallel-size", "tensor-parallel-size")
PIPELINE = (NAMES["pipeline"], "pipeline-model-parallel-size", "pipe-parallel-size", "pipeline-parallel-size")
EXPERT = (NAMES["expert"], "moe-expert-parallel-size", "ep-size", "expert-model-parallel-size")
CONTEXT = ("sequence-parallel-size", "ds-sequence-parallel-size", "context-parallel-size")
MICRO_BATCH = (NAMES["micro-batch"], "micro-batch-size")
STEPS = ("gradient-accumulation-steps", "gas")
ZERO = (NAMES["zero"], "zero-stage")
EVEN = "uniform"
OVERLAP = "zero-optimization.overlap-comm"


def read_deepspeed(problem: TrainingProblem, given: Given) -> Said:
    """The configuration in DeepSpeed's options; what is absent is as DeepSpeed takes it: no ZeRO, one stage."""
    said = Said(NAMES, DEEPSPEED_EFFECTS, DEEPSPEED_HARMLESS)
    tensor = max(_first(given, TENSOR, 1, least=0), 1)
    pipeline = 1 if given.flag("no-pipeline-parallel") else _first(given, PIPELINE, 1)
    context = _first(given, CONTEXT, 1)
    expert = _first(given, EXPERT, 1) if problem.model.experts is not None else 1
    data = max(problem.devices // (tensor * pipeline * context), 1)
    zero = _zero(said, given)
    _hidden(said, given, problem, zero, pipeline)
    said.words = {
        "tensor": str(tensor),
        "pipeline": str(pipeline),
        "context": str(context),
        "expert": str(expert),
        "expert-tensor": str(given.whole("expert-parallel.expert-tensor-parallel-size", 1)),
        "micro-batch": str(_micro_batch(said, given, problem, data)),
        "zero": str(zero),
        "recompute": _recomputation(said, given, problem),
    }
    method = given.text(NAMES["layout"]) or given.text("partition-method")
    if pipeline > 1:
        said.words["layout"] = "/".join(map(str, _layout(said, method, problem, pipeline)))
    _compare(said, given, problem, tensor)
    return said


def _hidden(said: Said, given: Given, problem: TrainingProblem, zero: int, pipeline: int) -> None:
    """Whether DeepSpeed is told to hide what it can (`frameworks`): from ZeRO 1 on, and outside of pipelines."""
    overlapped = given.flag(OVERLAP) if OVERLAP in given.options else zero == 3
    if not overlapped and any(hidden_shares(problem, zero, pipeline)):
        said.hides(0, f"Without {given.shown(OVERLAP)} DeepSpeed hides no sums of gradients")


def _first(given: Given, names: tuple[str, ...], usual: int, least: int = 1) -> int:
    number = _maybe(given, names, least)
    return usual if number is None else number


def _maybe(given: Given, names: tuple[str, ...], least: int = 1) -> int | None:
    """The number of the first of these options that has one; "auto" is none, since a program fills it in later."""
    texts = {name: given.text(name) for name in names if name in given.options}
    return next((given.amount(name, least) for name, text in texts.items() if text != "auto"), None)


def _zero(said: Said, given: Given) -> int:
    in_file, flag = (None if own not in given.options else given.amount(own, 0) for own in ZERO)
    if in_file is not None and flag is not None and in_file != flag:
        said.tell(f"The file asks for ZeRO stage {in_file}, and --zero-stage for {flag}; the file counts.")
    stage = in_file if in_file is not None else flag
    if stage is None:
        said.tell("Without zero_optimization every rank holds all weights, gradients and states (zero=0).")
        return 0
    if stage > 3:
        raise given.wrong(NAMES["zero"], f"is {stage}", "give a stage from 0 to 3")
    return stage


def _micro_batch(said: Said, given: Given, problem: TrainingProblem, data: int) -> int:
    """The micro-batch, from its own option or from batch and steps; a batch that is not the problem's is told."""
    batch, size, steps = _maybe(given, ("train-batch-size",)), _maybe(given, MICRO_BATCH), _maybe(given, STEPS)
    if size is None:
        size = max((batch or problem.batch) // (data * (steps or 1)), 1)
    if batch is None and steps is not None:
        batch = size * steps * data
    if batch is not None and batch != problem.batch:
        said.tell(f"The flags make batches of {batch} sequences, and the batch of the problem is {problem.batch}.")
    elif steps is not None and size * steps * data != problem.batch:
        said.tell(
            f"{size} sequences on each of {data} ranks and {steps} steps make {size * steps * data}, and the batch is "
            f"{problem.batch}."
        )
    return size


def _layout(said: Said, method: str | None, problem: TrainingProblem, pipeline: int) -> tuple[int, ...]:
    if method != EVEN:
        said.tell(
            f"Layers are divided by {method or 'their parameters'}, and here evenly (partition uniform), embedding "
            "and head included."
        )
    return as_even_as_can_be(len(problem.model.units), pipeline)


def _recomputation(said: Said, given: Given, problem: TrainingProblem) -> str:
    every = _maybe(given, (NAMES["recompute"],), least=0)
    whole = given.flag("checkpoint-activations") | given.flag("deepspeed-activation-checkpointing")
    whole |= given.flag("gradient-checkpointing")
    layers = given.amount("checkpoint-num-layers")
    for count in (every, layers):
        if count is not None and count > 1:
            said.tell(
                f"One input is kept for {count} layers; here each layer keeps its own, so that memory is judged too "
                "large."
            )
    if every or whole:
        return FULL
    word = read_recompute("recompute", read_recomputation(said, given, problem))
    if fault_of_word(problem, "1f1b", word) is None:
        return word.word
    said.tell(
        f"{word.word} is computed again by the program, for which DeepSpeed has no word; nothing is taken to be, so "
        "that memory is judged too large."
    )
    return NONE


def _compare(said: Said, given: Given, problem: TrainingProblem, tensor: int) -> None:
    compare_problem(said, given, problem, tensor if given.options.get("tensor-model-parallel-size") else 1)
    compare_model(said, given, problem, tensor)
    formats = [name for name in ("bf16", "fp16") if given.flag(f"{name}.enabled")]
    if not formats and not (given.flag("bf16") or given.flag("fp16")):
        said.tell(f"Without bf16 and fp16 DeepSpeed trains in fp32, and the problem is one in {problem.precision}.")
    if formats and formats[0] != problem.precision:
        said.tell(f"The file asks for {formats[0]}, and the precision of the problem is {problem.precision}.")
    nodes, gpus = given.amount("num-nodes"), given.amount("num-gpus")
    if gpus is not None and gpus * (nodes or 1) != problem.devices:
        said.tell(
            f"The launcher starts {gpus * (nodes or 1)} processes, and the problem has {problem.devices} GPUs."
        )
    attention = problem.model.attention
    heads = None if attention is None else attention.key_value_heads
    compare(said, given, "num-key-value-heads", heads, "the number of key-value heads")
    compare(said, given, "max-seq-len", problem.sequence, "the sequence")
