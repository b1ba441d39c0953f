"""torchtitan's options by the names of its job configuration, as flags or in a TOML file."""

from __future__ import annotations

from ..physics.schedules import ROW
from ..physics.schedules import SCHEDULES as RULES
from .flag_effects import TORCHTITAN_EFFECTS, TORCHTITAN_HARMLESS
from .flag_words import Given, Said, compare, compare_devices
from .frameworks import TORCHTITAN as FRAMEWORK
from .plan import FULL, NONE
from .problem import TrainingProblem

# torchtitan's option for each of our keys, for messages.
NAMES = {
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
MICRO_BATCH = "parallelism.pipeline-parallel-microbatch-size"
LAYERS_OF_CHUNK = "parallelism.pipeline-parallel-layers-per-stage"
FIRST_LESS = "parallelism.pipeline-parallel-first-stage-less-layers"
LAST_LESS = "parallelism.pipeline-parallel-last-stage-less-layers"
# Our names of schedules, by torchtitan's in small letters.
SCHEDULES = {theirs.lower(): ours for ours, theirs in FRAMEWORK.schedules.items()}
EMBEDDING, HEADS = "tok_embeddings", ("output", "lm_head")


def read_torchtitan(problem: TrainingProblem, given: Given) -> Said:
    """Degrees, layout and recomputation of torchtitan's flags; what is absent is as torchtitan takes it."""
    said = Said(NAMES, TORCHTITAN_EFFECTS, TORCHTITAN_HARMLESS)
    degrees = {name: given.whole(NAMES[name], 1) for name in ("tensor", "context", "pipeline", "expert")}
    data = _data(problem, given, degrees["tensor"] * degrees["context"] * degrees["pipeline"])
    schedule = _schedule(given)
    layout, virtual = read_layout(problem, given, degrees["pipeline"], schedule)
    if degrees["pipeline"] == 1:
        schedule = "1f1b"
    said.words = {
        **{name: str(value) for name, value in degrees.items()},
        "expert-tensor": str(_expert_tensor(problem, given, degrees)),
        "virtual": str(virtual),
        "data": str(data),
        "micro-batch": str(_micro_batch(said, given, problem, degrees["pipeline"], data)),
        "zero": str(_zero(said, given, problem, degrees)),
        "schedule": schedule,
        "recompute": _recomputation(said, given),
    }
    if problem.model.experts is None:
        said.words["expert"] = "1"
    if layout is not None:
        said.words["layout"] = "/".join(map(str, layout))
    _compare(said, given, problem, degrees["tensor"])
    return said


def _data(problem: TrainingProblem, given: Given, apart: int) -> int:
    """Data-parallel degree: replicas times shards, where shards of -1 are all that is left of the devices."""
    replicas, shards = given.whole(REPLICAS, 1), given.whole(NAMES["data"], -1, least=-1)
    if shards < 1:
        shards = max(problem.devices // (apart * replicas), 1)
    return replicas * shards


def _expert_tensor(problem: TrainingProblem, given: Given, degrees: dict[str, int]) -> int:
    """Tensor-parallel degree of the experts; without expert parallelism they are divided as all else is."""
    degree = given.whole(NAMES["expert-tensor"], 1)
    if problem.model.experts is None:
        return 1
    return degree if degrees["expert"] > 1 else degrees["tensor"]


def _schedule(given: Given) -> str:
    """The schedule that the flags name, by our name for it."""
    word = given.text(NAMES["schedule"]) or "1F1B"
    name = SCHEDULES.get(word.lower())
    if name is None:
        raise given.wrong(
            NAMES["schedule"], f"is {word}, which is not known here", "give " + " or ".join(SCHEDULES)
        )
    return name


def _micro_batch(said: Said, given: Given, problem: TrainingProblem, pipeline: int, data: int) -> int:
    """Sequences of a micro-batch: of a pipeline, the size that divides its local batch; without one, the local
    batch itself."""
    local = given.whole(NAMES["micro-batch"], 8)
    batch = given.whole("training.global-batch-size", -1, least=-1)
    batch = local * data if batch < 1 else batch
    if batch != problem.batch:
        said.tell(f"The flags make batches of {batch} sequences, and the batch of the problem is {problem.batch}.")
    size = given.whole(MICRO_BATCH, 1)
    if pipeline == 1:
        return local
    if local % size:
        raise given.wrong(MICRO_BATCH, f"is {size} of a local batch of {local}", "give a divisor of it")
    if batch > local * data:
        said.tell(
            f"The pipeline is emptied {batch // (local * data)} times in an iteration; here it is once, so that time "
            "is judged too short and memory perhaps too large."
        )
    return size


# ---- states of the optimizer ---------------------------------------------------------------------------


def _zero(said: Said, given: Given, problem: TrainingProblem, degrees: dict[str, int]) -> int:
    """ZeRO stage: 3 where weights are fully sharded, 2 where they stay gathered between passes of a pipeline, 0
    where there are replicas alone."""
    policy = given.choice(NAMES["zero"], ("default", "always", "never"), "default")
    replicas, shards = given.whole(REPLICAS, 1), given.whole(NAMES["data"], -1, least=-1)
    alone = shards == 1 and degrees["context"] == 1
    if alone and policy == "default":
        return 0
    if replicas > 1 and not alone:
        said.tell(
            f"Weights are divided within each of {replicas} groups of replicas, and here among all ranks, so that "
            "memory is judged too small."
        )
    if policy == "default":
        return 3 if degrees["pipeline"] == 1 else 2
    return 3 if policy == "always" else 2


# ---- layouts -------------------------------------------------------------------------------------------


def read_layout(
    problem: TrainingProblem, given: Given, pipeline: int, schedule: str
) -> tuple[list[int] | None, int]:
    """Units of each chunk in the order of the pipeline (None: the flags leave the layout open), and number of
    chunks on a rank."""
    parts = given.words(NAMES["layout"])
    weights = given.whole(FIRST_LESS, 1, least=0), given.whole(LAST_LESS, 1, least=0)
    each = given.amount(LAYERS_OF_CHUNK)
    if pipeline == 1:
        return None, 1
    if parts:
        return _of_names(problem, given, parts, pipeline)
    virtual = 1 if RULES[schedule].shape == ROW else 2
    layers = problem.model.layers
    if each is not None:
        chunks = -(-(layers + sum(weights)) // each)
        if chunks % pipeline:
            raise given.wrong(LAYERS_OF_CHUNK, f"makes {chunks} chunks for {pipeline} ranks", "give another number")
        virtual = chunks // pipeline
    if problem.model.own:
        return None, virtual
    return _by_weights(given, layers, pipeline * virtual, weights), virtual


def _by_weights(given: Given, layers: int, chunks: int, weights: tuple[int, int]) -> list[int]:
    """Units of each chunk where embedding and head count as so many layers; the first chunks have one more
    where it does not divide."""
    share, more = divmod(layers + sum(weights), chunks)
    counts = [share + (number < more) for number in range(chunks)]
    if share < max(*weights, 1):
        raise given.wrong(NAMES["pipeline"], f"makes {chunks} chunks of {layers} layers", "give fewer ranks")
    counts[0] += 1 - weights[0]
    counts[-1] += 1 - weights[1]
    return counts


def _of_names(
    problem: TrainingProblem, given: Given, parts: tuple[str, ...], pipeline: int
) -> tuple[list[int], int]:
    """Units of each chunk and chunks of a rank by the named modules of the chunks; the norm belongs to the head."""
    if len(parts) % pipeline:
        raise given.wrong(NAMES["layout"], f"has {len(parts)} parts for {pipeline} ranks", "give each rank as many")
    counts, row = [], []
    for part in parts:
        names = [name.strip(" []'\"") for name in part.split(",")]
        units = [name for name in names if name and name != "norm"]
        counts.append(len(units))
        row += units
    wanted = [EMBEDDING, *(f"layers.{i}" for i in range(problem.model.layers))]
    if row[:-1] != wanted or row[-1] not in HEADS:
        raise given.wrong(
            NAMES["layout"],
            f"does not name the {len(wanted) + 1} units of the model in their order",
            f"give {EMBEDDING}, layers.0 to layers.{problem.model.layers - 1}, norm and output",
        )
    return counts, len(parts) // pipeline


# ---- recomputation, and what the flags say of the problem ------------------------------------------------


def _recomputation(said: Said, given: Given) -> str:
    """The word for what is computed again, by torchtitan's mode; what has no word here is told to the user."""
    mode = given.choice(NAMES["recompute"], ("selective", "full", "none", "memory_budget"), "selective")
    every = given.text("activation-checkpoint.selective-ac-option") or "2"
    budget = given.text("activation-checkpoint.memory-budget")
    if mode == FULL or (mode == "selective" and every == "1"):
        return FULL
    if mode == "selective":
        what = "some operations" if every == "op" else f"every layer whose number {every} divides"
        said.tell(
            f"activation_checkpoint.mode selective computes {what} again, for which there is no word here; nothing "
            "is taken to be, so that memory is judged too large."
        )
    elif mode == "memory_budget":
        said.tell(f"A memory budget of {budget or '0.5'} has no word here; nothing is taken to be computed again.")
    return NONE


def _compare(said: Said, given: Given, problem: TrainingProblem, tensor: int) -> None:
    """Tell the user where the flags and the problem differ: sequence, devices, precision, division of tokens."""
    compare(said, given, "training.seq-len", problem.sequence, "the sequence")
    compare_devices(said, given, problem, "nnodes", "nproc-per-node")
    converters = given.words("model.converters") or ()
    given_fp8 = any("float8" in name or "mx" in name for word in converters for name in word.split(","))
    for name in [option for option in given.options if option.startswith(("quantize.", "float8.", "mx."))]:
        given.words(name)
    if given_fp8 != (problem.precision == "fp8"):
        said.tell(
            f"The flags ask for {'fp8' if given_fp8 else 'bf16'}, and the problem's precision is {problem.precision}."
        )
    if tensor > 1 and not problem.sequence_parallel and "parallelism.enable-sequence-parallel" not in given.options:
        said.tell("torchtitan divides tokens among tensor-parallel ranks, and the problem does not.")
    given.words("parallelism.enable-sequence-parallel")
