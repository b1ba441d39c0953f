"""A configuration from a framework's own flags or files: Megatron's, torchtitan's or DeepSpeed's.

Everything here is data: sizes are checked, and nothing that is read is run. Each framework has a reader that says the
configuration in our words; Megatron's, some of whose parts DeepSpeed's uses, is `flags_megatron`. What the words are
checked for stands in `words`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..base.errors import InputError
from ..base.json_file import parse_json, read_text
from ..physics.schedules import ROW
from ..physics.schedules import SCHEDULES as RULES
from .build import MODELS
from .flag_options import WHERE, Flags, flattened, is_harmless, is_path, without_variables, words_of_options
from .flags_megatron import compare_model, compare_problem, read_megatron, read_recomputation
from .frameworks import TORCHTITAN as FRAMEWORK
from .frameworks import fault_of_word, hidden_shares
from .model import Model
from .plan import FULL, NONE, Configuration, read_recompute
from .problem import TrainingProblem
from .words import as_even_as_can_be, configuration_from_words

# ---- torchtitan ---------------------------------------------------------------------------------------
#
# torchtitan's options by the names of its job configuration, as flags or in a TOML file.


# torchtitan's option for each of our keys, for messages.
TORCHTITAN_NAMES = {
    "tensor": "parallelism.tensor-parallel-degree",
    "context": "parallelism.context-parallel-degree",
    "pipeline": "parallelism.pipeline-parallel-degree",
    "expert": "parallelism.expert-parallel-degree",
    "expert-tensor": "parallelism.expert-tensor-parallel-degree",
    "data": "parallelism.data-parallel-shard-degree",
    "schedule": "parallelism.pipeline-parallel-schedule",
    "layout": "parallelism.module-fqns-per-model-part",
    "micro-batch": "training.local-batch-size",
    "recompute": "activation-checkpoint.mode",
    "zero": "parallelism.fsdp-reshard-after-forward",
}
REPLICAS = "parallelism.data-parallel-replicate-degree"
PIPELINE_MICRO_BATCH = "parallelism.pipeline-parallel-microbatch-size"
LAYERS_OF_CHUNK = "parallelism.pipeline-parallel-layers-per-stage"
FIRST_LESS = "parallelism.pipeline-parallel-first-stage-less-layers"
LAST_LESS = "parallelism.pipeline-parallel-last-stage-less-layers"
# Our names of schedules, by torchtitan's in small letters.
SCHEDULES = {theirs.lower(): ours for ours, theirs in FRAMEWORK.schedules.items()}
# torchtitan's names of packaged models, and of their sizes (torchtitan/models/*/__init__.py, 0.2).
TORCHTITAN_MODELS = {
    "llama-3-8b": ("llama3", "8B"),
    "llama-3-70b": ("llama3", "70B"),
    "llama-3-405b": ("llama3", "405B"),
    "qwen3-30b-a3b": ("qwen3", "30B-A3B"),
    "qwen3-235b-a22b": ("qwen3", "235B-A22B"),
    "deepseek-v3": ("deepseek_v3", "671B"),
    "gpt-oss-120b": ("gpt_oss", "120b"),
}
EMBEDDING, HEADS = "tok_embeddings", ("output", "lm_head")


def read_torchtitan(flags: Flags) -> None:
    """Degrees, layout and recomputation of torchtitan's flags; what is absent is as torchtitan takes it."""
    flags.names = TORCHTITAN_NAMES
    flags.decide_prediction(0, "which torchtitan's models do not have")
    problem = flags.problem
    degrees = {name: flags.whole(name, 1) for name in ("tensor", "context", "pipeline", "expert")}
    data = _data(problem, flags, degrees["tensor"] * degrees["context"] * degrees["pipeline"])
    schedule = _torchtitan_schedule(flags)
    layout, virtual = read_torchtitan_layout(problem, flags, degrees["pipeline"], schedule)
    if degrees["pipeline"] == 1:
        schedule = "1f1b"
    flags.keys = {
        **{name: str(value) for name, value in degrees.items()},
        "expert-tensor": str(_expert_tensor(problem, flags, degrees)),
        "virtual": str(virtual),
        "data": str(data),
        "micro-batch": str(_torchtitan_micro_batch(flags, problem, degrees["pipeline"], data)),
        "zero": str(_torchtitan_zero(flags, problem, degrees)),
        "schedule": schedule,
        "recompute": _torchtitan_recomputation(flags),
    }
    if problem.model.experts is None:
        flags.keys["expert"] = "1"
    if layout is not None:
        flags.keys["layout"] = "/".join(map(str, layout))
    _compare_with_torchtitan(flags, problem, degrees["tensor"])


def _data(problem: TrainingProblem, flags: Flags, apart: int) -> int:
    """Data-parallel degree: replicas times shards, where shards of -1 are all that is left of the devices."""
    replicas, shards = flags.whole(REPLICAS, 1), flags.whole("data", -1, least=-1)
    if shards < 1:
        shards = max(problem.devices // (apart * replicas), 1)
    return replicas * shards


def _expert_tensor(problem: TrainingProblem, flags: Flags, degrees: dict[str, int]) -> int:
    """Tensor-parallel degree of the experts; without expert parallelism they are divided as all else is."""
    degree = flags.whole("expert-tensor", 1)
    if problem.model.experts is None:
        return 1
    return degree if degrees["expert"] > 1 else degrees["tensor"]


def _torchtitan_schedule(flags: Flags) -> str:
    """The schedule that the flags name, by our name for it."""
    word = flags.text("schedule") or "1F1B"
    name = SCHEDULES.get(word.lower())
    if name is None:
        raise flags.wrong("schedule", f"is {word}, which is not known here", "give " + " or ".join(SCHEDULES))
    return name


def _torchtitan_micro_batch(flags: Flags, problem: TrainingProblem, pipeline: int, data: int) -> int:
    """Sequences of a micro-batch: of a pipeline, the size that divides its local batch; without one, the local
    batch itself."""
    local = flags.whole("micro-batch", 8)
    batch = flags.whole("training.global-batch-size", -1, least=-1)
    batch = local * data if batch < 1 else batch
    if batch != problem.batch:
        flags.tell(f"The flags make batches of {batch} sequences, and the batch of the problem is {problem.batch}.")
    size = flags.whole(PIPELINE_MICRO_BATCH, 1)
    if pipeline == 1:
        return local
    if local % size:
        raise flags.wrong(PIPELINE_MICRO_BATCH, f"is {size} of a local batch of {local}", "give a divisor of it")
    if batch > local * data:
        flags.tell(
            f"The pipeline is emptied {batch // (local * data)} times in an iteration; here it is once, so that time "
            "is judged too short and memory perhaps too large."
        )
    return size


def _torchtitan_zero(flags: Flags, problem: TrainingProblem, degrees: dict[str, int]) -> int:
    """ZeRO stage: 3 where weights are fully sharded, 2 where they stay gathered between passes of a pipeline, 0
    where there are replicas alone."""
    policy = flags.choice("zero", ("default", "always", "never"), "default")
    replicas, shards = flags.whole(REPLICAS, 1), flags.whole("data", -1, least=-1)
    alone = shards == 1 and degrees["context"] == 1
    if alone and policy == "default":
        return 0
    if replicas > 1 and not alone:
        flags.tell(
            f"Weights are divided within each of {replicas} groups of replicas, and here among all ranks, so that "
            "memory is judged too small."
        )
    if policy == "default":
        return 3 if degrees["pipeline"] == 1 else 2
    return 3 if policy == "always" else 2


def read_torchtitan_layout(
    problem: TrainingProblem, flags: Flags, pipeline: int, schedule: str
) -> tuple[list[int] | None, int]:
    """Units of each chunk in the order of the pipeline (None: the flags leave the layout open), and number of
    chunks on a rank."""
    parts = flags.words("layout")
    weights = flags.whole(FIRST_LESS, 1, least=0), flags.whole(LAST_LESS, 1, least=0)
    each = flags.amount(LAYERS_OF_CHUNK)
    if pipeline == 1:
        return None, 1
    if parts:
        return _of_names(problem, flags, parts, pipeline)
    virtual = 1 if RULES[schedule].shape == ROW else 2
    layers = problem.model.layers
    if each is not None:
        chunks = -(-(layers + sum(weights)) // each)
        if chunks % pipeline:
            raise flags.wrong(LAYERS_OF_CHUNK, f"makes {chunks} chunks for {pipeline} ranks", "give another number")
        virtual = chunks // pipeline
    if problem.model.own:
        return None, virtual
    counts = _by_weights(flags, layers, pipeline * virtual, weights)
    counts[0] += problem.model.embedding_at  # an encoder is in the first chunk, here and below
    return counts, virtual


def _by_weights(flags: Flags, layers: int, chunks: int, weights: tuple[int, int]) -> list[int]:
    """Units of each chunk where embedding and head count as so many layers; the first chunks have one more
    where it does not divide."""
    share, more = divmod(layers + sum(weights), chunks)
    counts = [share + (number < more) for number in range(chunks)]
    if share < max(*weights, 1):
        raise flags.wrong("pipeline", f"makes {chunks} chunks of {layers} layers", "give fewer ranks")
    counts[0] += 1 - weights[0]
    counts[-1] += 1 - weights[1]
    return counts


def _of_names(
    problem: TrainingProblem, flags: Flags, parts: tuple[str, ...], pipeline: int
) -> tuple[list[int], int]:
    """Units of each chunk and chunks of a rank by the named modules of the chunks; the norm belongs to the head."""
    if len(parts) % pipeline:
        raise flags.wrong("layout", f"has {len(parts)} parts for {pipeline} ranks", "give each rank as many")
    counts, row = [], []
    for part in parts:
        names = [name.strip(" []'\"") for name in part.split(",")]
        units = [name for name in names if name and name != "norm"]
        counts.append(len(units))
        row += units
    wanted = [EMBEDDING, *(f"layers.{i}" for i in range(problem.model.layers))]
    if row[:-1] != wanted or row[-1] not in HEADS:
        raise flags.wrong(
            "layout",
            f"does not name the {len(wanted) + 1} units of the model in their order",
            f"give {EMBEDDING}, layers.0 to layers.{problem.model.layers - 1}, norm and output",
        )
    counts[0] += problem.model.embedding_at
    return counts, len(parts) // pipeline


def _torchtitan_recomputation(flags: Flags) -> str:
    """The word for what is computed again, by torchtitan's mode; what has no word here is told to the user."""
    mode = flags.choice("recompute", ("selective", "full", "none", "memory_budget"), "selective")
    every = flags.text("activation-checkpoint.selective-ac-option") or "2"
    budget = flags.text("activation-checkpoint.memory-budget")
    if mode == FULL or (mode == "selective" and every == "1"):
        return FULL
    if mode == "selective":
        what = "some operations" if every == "op" else f"every layer whose number {every} divides"
        flags.tell(
            f"activation_checkpoint.mode selective computes {what} again, for which there is no word here; nothing "
            "is taken to be, so that memory is judged too large."
        )
    elif mode == "memory_budget":
        flags.tell(f"A memory budget of {budget or '0.5'} has no word here; nothing is taken to be computed again.")
    return NONE


def model_by_name(flags: Flags) -> Model | None:
    """The packaged model that torchtitan's name and flavor mean."""
    named = flags.text_or_none("model.name"), flags.text_or_none("model.flavor")
    return next((MODELS[own].model for own, theirs in TORCHTITAN_MODELS.items() if theirs == named), None)


def _compare_with_torchtitan(flags: Flags, problem: TrainingProblem, tensor: int) -> None:
    """Tell the user where the flags and the problem differ: model, sequence, devices, precision, division of tokens."""
    known, own = model_by_name(flags), problem.model
    if known is not None and not own.own and (known.hidden, known.layers) != (own.hidden, own.layers):
        flags.contradicted.append(f"The model is {known.name}, and that of the problem is {own.name}.")
    flags.compare("the sequence", problem.sequence, "training.seq-len")
    flags.compare_devices(problem, "nnodes", "nproc-per-node")
    converters = flags.words("model.converters") or ()
    given_fp8 = any("float8" in name or "mx" in name for word in converters for name in word.split(","))
    for name in [option for option in flags.options if option.startswith(("quantize.", "float8.", "mx."))]:
        flags.words(name)
    flags.decide_precision("fp8" if given_fp8 else "bf16", "model.converters")
    name = "parallelism.enable-sequence-parallel"
    on = flags.flag(name) or name not in flags.options
    if tensor > 1:
        flags.decide("sequence_parallel", on, f"{'' if on else 'no '}sequence parallelism, as torchtitan is told")


# ---- DeepSpeed ----------------------------------------------------------------------------------------
#
# DeepSpeed's options: its JSON file, and the flags of programs that it starts, such as Megatron-DeepSpeed.


# DeepSpeed's option for each of our keys, for messages.
DEEPSPEED_NAMES = {
    "tensor": "tensor-parallel.autotp-size",
    "pipeline": "pipeline.stages",
    "expert": "expert-parallel.autoep-size",
    "micro-batch": "train-micro-batch-size-per-gpu",
    "zero": "zero-optimization.stage",
    "layout": "pipeline.partition",
    "recompute": "pipeline.activation-checkpoint-interval",
}
# Options that say the same, the one that counts first.
TENSOR = (DEEPSPEED_NAMES["tensor"], "tensor-model-parallel-size", "model-parallel-size", "tensor-parallel-size")
PIPELINE = (
    DEEPSPEED_NAMES["pipeline"],
    "pipeline-model-parallel-size",
    "pipe-parallel-size",
    "pipeline-parallel-size",
)
EXPERT = (DEEPSPEED_NAMES["expert"], "moe-expert-parallel-size", "ep-size", "expert-model-parallel-size")
CONTEXT = ("sequence-parallel-size", "ds-sequence-parallel-size", "context-parallel-size")
MICRO_BATCH = (DEEPSPEED_NAMES["micro-batch"], "micro-batch-size")
STEPS = ("gradient-accumulation-steps", "gas")
ZERO = (DEEPSPEED_NAMES["zero"], "zero-stage")
EVEN = "uniform"
OVERLAP = "zero-optimization.overlap-comm"


def read_deepspeed(flags: Flags) -> None:
    """The configuration in DeepSpeed's options; what is absent is as DeepSpeed takes it: no ZeRO, one stage."""
    flags.names, problem = DEEPSPEED_NAMES, flags.problem
    tensor = max(_first(flags, TENSOR, 1, least=0), 1)
    pipeline = 1 if flags.flag("no-pipeline-parallel") else _first(flags, PIPELINE, 1)
    context = _first(flags, CONTEXT, 1)
    expert = _first(flags, EXPERT, 1) if problem.model.experts is not None else 1
    data = max(problem.devices // (tensor * pipeline * context), 1)
    zero = _deepspeed_zero(flags)
    _hidden_by_deepspeed(flags, problem, zero, pipeline)
    flags.keys = {
        "tensor": str(tensor),
        "pipeline": str(pipeline),
        "context": str(context),
        "expert": str(expert),
        "expert-tensor": str(flags.whole("expert-parallel.expert-tensor-parallel-size", 1)),
        "micro-batch": str(_deepspeed_micro_batch(flags, problem, data)),
        "zero": str(zero),
        "recompute": _deepspeed_recomputation(flags, problem),
    }
    method = flags.text("layout") or flags.text("partition-method")
    if pipeline > 1:
        flags.keys["layout"] = "/".join(map(str, _deepspeed_layout(flags, method, problem, pipeline)))
    _compare_with_deepspeed(flags, problem, tensor)


def _hidden_by_deepspeed(flags: Flags, problem: TrainingProblem, zero: int, pipeline: int) -> None:
    """Whether DeepSpeed is told to hide what it can (`frameworks`): from ZeRO 1 on, and outside of pipelines."""
    overlapped = flags.flag(OVERLAP) if OVERLAP in flags.options else zero == 3
    if not overlapped and any(hidden_shares(problem, zero, pipeline)):
        flags.hides(0, f"Without {flags.shown(OVERLAP)} DeepSpeed hides no sums of gradients")


def _first(flags: Flags, names: tuple[str, ...], usual: int, least: int = 1) -> int:
    number = _maybe(flags, names, least)
    return usual if number is None else number


def _maybe(flags: Flags, names: tuple[str, ...], least: int = 1) -> int | None:
    """The number of the first of these options that has one; "auto" is none, since a program fills it in later."""
    texts = {name: flags.text(name) for name in names if name in flags.options}
    return next((flags.amount(name, least) for name, text in texts.items() if text != "auto"), None)


def _deepspeed_zero(flags: Flags) -> int:
    in_file, flag = (None if own not in flags.options else flags.amount(own, 0) for own in ZERO)
    if in_file is not None and flag is not None and in_file != flag:
        flags.tell(f"The file asks for ZeRO stage {in_file}, and --zero-stage for {flag}; the file counts.")
    stage = in_file if in_file is not None else flag
    if stage is None:
        flags.tell("Without zero_optimization every rank holds all weights, gradients and states (zero=0).")
        return 0
    if stage > 3:
        raise flags.wrong("zero", f"is {stage}", "give a stage from 0 to 3")
    return stage


def _deepspeed_micro_batch(flags: Flags, problem: TrainingProblem, data: int) -> int:
    """The micro-batch, from its own option or from batch and steps; a batch that is not the problem's is told."""
    batch, size, steps = _maybe(flags, ("train-batch-size",)), _maybe(flags, MICRO_BATCH), _maybe(flags, STEPS)
    if size is None:
        size = max((batch or problem.batch) // (data * (steps or 1)), 1)
    if batch is None and steps is not None:
        batch = size * steps * data
    if batch is not None and batch != problem.batch:
        flags.tell(f"The flags make batches of {batch} sequences, and the batch of the problem is {problem.batch}.")
    elif steps is not None and size * steps * data != problem.batch:
        flags.tell(
            f"{size} sequences on each of {data} ranks and {steps} steps make {size * steps * data}, and the batch is "
            f"{problem.batch}."
        )
    return size


def _deepspeed_layout(flags: Flags, method: str | None, problem: TrainingProblem, pipeline: int) -> tuple[int, ...]:
    if method != EVEN:
        flags.tell(
            f"Layers are divided by {method or 'their parameters'}, and here evenly (partition uniform), embedding "
            "and head included."
        )
    return as_even_as_can_be(len(problem.model.units), pipeline)


def _deepspeed_recomputation(flags: Flags, problem: TrainingProblem) -> str:
    every = _maybe(flags, (DEEPSPEED_NAMES["recompute"],), least=0)
    whole = flags.flag("checkpoint-activations") | flags.flag("deepspeed-activation-checkpointing")
    whole |= flags.flag("gradient-checkpointing")
    layers = flags.amount("checkpoint-num-layers")
    for count in (every, layers):
        if count is not None and count > 1:
            flags.tell(
                f"One input is kept for {count} layers; here each layer keeps its own, so that memory is judged too "
                "large."
            )
    if every or whole:
        return FULL
    word = read_recompute("recompute", read_recomputation(flags, problem))
    if fault_of_word(problem, "1f1b", word) is None:
        return word.word
    flags.tell(
        f"{word.word} is computed again by the program, for which DeepSpeed has no word; nothing is taken to be, so "
        "that memory is judged too large."
    )
    return NONE


def _compare_with_deepspeed(flags: Flags, problem: TrainingProblem, tensor: int) -> None:
    compare_problem(flags, problem, tensor if flags.options.get("tensor-model-parallel-size") else 1)
    compare_model(flags, problem, tensor)
    formats = [name for name in ("bf16", "fp16") if flags.flag(f"{name}.enabled")]
    if not formats and not (flags.flag("bf16") or flags.flag("fp16")):
        flags.tell(
            f"Without bf16 and fp16 DeepSpeed trains in fp32, and the problem is one in {problem.precision}."
        )
    if formats:
        flags.decide_precision(formats[0], f"{formats[0]}.enabled")
    flags.compare_devices(problem, "num-nodes", "num-gpus")
    attention = problem.model.attention
    heads = None if attention is None else attention.key_value_heads
    flags.compare("the number of key-value heads", heads, "num-key-value-heads")
    flags.compare("the sequence", problem.sequence, "max-seq-len")


# ---- command lines and files --------------------------------------------------------------------------


READERS: Mapping[str, Callable[[Flags], None]] = {
    "megatron": read_megatron,
    "torchtitan": read_torchtitan,
    "deepspeed": read_deepspeed,
}
# Beginnings and names of options by which a command line is known as torchtitan's or DeepSpeed's.
SECTIONS = ("parallelism.", "training.", "activation-checkpoint.", "job.", "model.", "metrics.", "compile.")
OF_DEEPSPEED = (
    "deepspeed",
    "deepspeed-config",
    "zero-stage",
    "train-micro-batch-size-per-gpu",
    "zero-optimization",
)
# Options that name a file with more of them.
FILES = {"job.config-file": "torchtitan", "deepspeed-config": "deepspeed"}
REMEDY = 'give a framework\'s flags, as in "--tensor-model-parallel-size 4", or the path of a file with them'
_COMMENT = re.compile(r"(?:^|\s)#.*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Read:
    """What a command line says."""

    configuration: Configuration
    problem: TrainingProblem
    """What is judged: with the framework to which the flags belong, and with what they say or leave out."""
    understood: Mapping[str, str]
    """Options that decide something, with their words."""
    aside: tuple[str, ...]
    """Names of options that change neither memory nor time: data, logs, learning rates."""
    unknown: tuple[str, ...]
    """Names of options that were not understood."""
    meant: Mapping[str, str]
    """By names of these, the options that somebody may have meant."""
    contradicted: tuple[str, ...] = ()
    """Whole sentences, the first of `told`: what the options say of model, GPUs, batch and sequence otherwise."""
    told: tuple[str, ...] = ()
    """Whole sentences: what contradicts the problem, what was assumed, what is not modelled."""
    hidden_share: float = 1.0
    """Share that the options hide of the data-parallel communication that is usually hidden."""
    why_not_hidden: str | None = None
    """What keeps the rest from being hidden: a sentence without its end."""

    @property
    def notes(self) -> tuple[str, ...]:
        """All that the user should know, in sentences."""
        names = [name + (f" (perhaps {self.meant[name]})" if name in self.meant else "") for name in self.unknown]
        missed = f"Not understood: {', '.join(names)}."
        return (*self.told, missed) if self.unknown else self.told


def configuration_from_flags(problem: TrainingProblem, text: str) -> Read:
    """The configuration of a command line or of a file.

    Parameters
    ----------
    problem : TrainingProblem
        What is trained on what; what the flags say of it is compared with it.
    text : str
        Flags, the path of a file with flags, of a torchtitan TOML or a DeepSpeed JSON file, or a DeepSpeed file's text.

    Raises
    ------
    InputError
        A flag has a value that it cannot have, or the degrees do not go together: the message names the flag.
    """
    framework, options, prefix = options_of(text)
    return read_options(problem, framework, options, prefix)


def read_options(
    problem: TrainingProblem, framework: str, options: Mapping[str, tuple[str, ...]], prefix: str
) -> Read:
    """The configuration of a framework's options by their names with dashes; `prefix` is what messages put before."""
    flags = Flags(problem.replace(framework=framework), options, prefix)
    if framework != problem.framework:
        flags.tell(
            f"These are flags of {framework}, whose rules count for them; the problem is one of {problem.framework}."
        )
    READERS[framework](flags)
    flags.tell_differences()
    flags.tell_effects(framework)
    try:
        plan = configuration_from_words(
            flags.problem, " ".join(f"{key}={value}" for key, value in flags.keys.items())
        )
    except InputError as error:
        names = {f"configuration: {key}": flags.shown(name) for key, name in flags.names.items()}
        why = "".join(f" ({sentence.rstrip('.')})" for sentence in flags.contradicted[:1])
        raise InputError(names.get(error.field, error.field), error.problem + why, error.remedy) from None
    left = flags.left()
    aside = tuple(name for name in left if is_harmless(framework, name))
    unknown = [name for name in left if name not in aside]
    return Read(
        plan,
        flags.problem,
        flags.asked,
        aside,
        tuple(map(flags.shown, unknown)),
        flags.meant(unknown),
        tuple(flags.contradicted),
        (*flags.contradicted, *flags.told),
        flags.hidden_share,
        flags.why_not_hidden,
    )


def options_of(text: str) -> tuple[str, dict[str, tuple[str, ...]], str]:
    """The framework and the options of a command line or file, and what messages put before their names."""
    text = text.strip()
    if text.startswith("{"):
        return "deepspeed", _json(text, WHERE), ""
    return _of_file(text) if is_path(text) else (*_of_line(text, None), "--")


def _of_line(text: str, file: str | None) -> tuple[str, dict[str, tuple[str, ...]]]:
    """The options of a command line; a file that it names adds its options, and the line's own go before them."""
    options = words_of_options(text)
    if not options:
        raise InputError(WHERE, "holds no flag", REMEDY, file)
    for name, framework in FILES.items():
        paths = options.get(name)
        if paths:
            more = {key: words for key, words in options.items() if key != name}
            return framework, _of_file(paths[0])[1] | more
    if any(name.startswith(SECTIONS) for name in options):
        return "torchtitan", options
    if any(name in OF_DEEPSPEED for name in options):
        return "deepspeed", options
    return "megatron", options


def _of_file(path: str) -> tuple[str, dict[str, tuple[str, ...]], str]:
    """The options of a JSON or TOML file, known by its ending or first character, or of a file with flags."""
    text, ending = read_text(path), os.path.splitext(path)[1].lower()
    first = _COMMENT.sub("", text).lstrip()[:1]
    if ending == ".json" or (ending != ".toml" and first == "{"):
        return "deepspeed", _json(text, path), ""
    if ending != ".toml" and first != "[":
        return *_of_line(without_variables(slurm_values(text) + _COMMENT.sub("", text)), path), "--"
    try:
        return "torchtitan", flattened(tomllib.loads(text)), ""
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError("content", f"is no TOML ({error})", "give a torchtitan file", path) from None


# What Slurm tells a script of the nodes that a comment of it asks for, by the end of the option.
_SBATCH = re.compile(
    r"^#SBATCH\s+(?:--(nodes|gpus-per-node|ntasks-per-node)[= ]|(-N) ?|--(gres)=gpu:(?:\w+:)?)(?:\w+:)?(\d{1,6})\b",
    re.MULTILINE,
)
_SLURM = {"nodes": "NNODES JOB_NUM_NODES", "gpus-per-node": "GPUS_PER_NODE GPUS_ON_NODE"}
_SLURM |= {"-N": _SLURM["nodes"], "gres": _SLURM["gpus-per-node"], "ntasks-per-node": "NTASKS_PER_NODE"}


def slurm_values(script: str) -> str:
    """Lines that give Slurm's variables the values that the script asks for."""
    asked = ((next(filter(None, match.groups()[:3])), match[4]) for match in _SBATCH.finditer(script))
    return "".join(f"SLURM_{name}={count}\n" for option, count in asked for name in _SLURM[option].split())


def _json(text: str, file: str) -> dict[str, tuple[str, ...]]:
    data = parse_json(text, file)
    if not isinstance(data, dict):
        raise InputError("content", "is no object", "give a DeepSpeed file", file)
    return flattened(data)
