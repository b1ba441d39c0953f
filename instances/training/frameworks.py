"""What each framework can run, as data: schedules, words for recomputation, layouts, and rules
with their reasons in words.

It is the only place that says so: the search, the referee, the readers of flags and the exports ask here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Literal

from ..base.errors import InputError
from ..physics.optimizers import KEPT
from ..physics.schedules import SCHEDULES, run_by
from .model import INSIDE, MODULES, Mlp, Model
from .plan import FULL

if TYPE_CHECKING:
    from .plan import Configuration, Degrees, Recompute
    from .problem import TrainingProblem

    Check = Callable[[TrainingProblem, Configuration], bool]


@dataclass(frozen=True, slots=True)
class Rule:
    """What degrees, ZeRO stage and schedule must obey, whatever the layout. `reason` is a whole sentence, and `remedy`
    says what to change: words in braces stand for what `_counts` has of the problem and the configuration."""

    name: str
    kept: Check
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Hides:
    """Which data-parallel communication can run beside passes."""

    gradients: bool
    weights: bool


@dataclass(frozen=True, slots=True)
class Framework:
    """A training framework: the schedules that it runs, and the rules that it
    enforces."""

    name: str
    usual_zero: int
    precisions: tuple[str, ...]
    rules: tuple[Rule, ...]
    hides: Mapping[int, Hides]
    """For each ZeRO stage, what passes can hide."""
    modules: tuple[str, ...] = ()
    """What it can compute again by itself, in all layers; whole layers are known to every framework."""
    counted_layers: bool = False
    """Can it compute whole layers again in the first ones of each chunk alone?"""
    whole_prediction: bool = False
    """Must all layers of multi-token prediction be in one chunk, the last one of a rank after the first?"""
    even_by: Literal["layers", "units", "weights"] = "units"
    """How it divides a model without a layout: layers alike with embedding and head beside them, all units, or as many
    weights of products to each chunk (`by_weights`)."""
    layouts: Literal["any", "even"] = "any"
    """Can its files say that chunks have any numbers of units, or those of an even division alone?"""
    cached_gradients: bool = False
    """Does it keep a buffer for the gradient of each shape of weights beside the main gradients?"""
    pipelines_hide: bool = True
    """Can passes hide anything of that with more than one stage?"""
    words: str = ""
    """What it is, in a sentence without its end."""
    usual: Mapping[str, float] = field(default_factory=dict)
    """Efficiencies of its own kernels, where they differ from those in general."""
    kept: float = 1.0
    """Bytes that the kernels of a layer keep for their backward passes, over those of fused ones."""
    logit_bytes: float | None = None
    """Bytes of each logit while a loss of single steps runs, besides those that are kept; None: it is one kernel."""
    gathers_logits: bool = False
    """Has every tensor rank the logits of all words, and not those of its own words?"""
    norm_bytes: float = 0
    """What a norm of single steps (`norm_traffic` above 1) keeps of each hidden number besides: its input in 32 bits,
    and what it multiplies with the weights."""
    keeps_gathered: bool = False
    """Does each tensor rank keep all tokens of what it gathered before a product, and not its own?"""
    tensors_per_layer: int | None = None
    """Without ZeRO as many tensors are summed one by one; with it every rank gets all sums of gradients, in one piece,
    and each rank's part of as many tensors is copied apart before and after weights are gathered. None: sums and
    gathers come in buckets, and with ZeRO a rank gets the sums that it updates."""
    added_bytes: float = 0
    """Bytes that a kernel of its own moves to add a gradient of a product's weights to those of earlier micro-batches;
    0: the product adds it."""
    in_step: bool = False
    """Do hosts wait for each message between stages? Then none runs ahead, and at each collective of tensor ranks
    theirs wait for each other in turn, where a pipeline spans nodes."""
    attention: str | None = None
    """The kernel of attention that it runs; None: the best that there is for the GPU."""

    @property
    def schedules(self) -> Mapping[str, str]:
        """Schedules that it can run, with its own names for them; the first one is the default without interleaving."""
        return run_by(self.name)


def even_layout(problem: TrainingProblem, chunks: int) -> tuple[int, ...] | None:
    """The units of each chunk where no layout is given: equally many layers or units in each; None where the framework
    cannot divide them so."""
    units, layers = len(problem.model.units), problem.model.layers
    if problem.rules.even_by == "units" or problem.model.own:
        return spread(units, chunks) if chunks <= units else None
    if problem.rules.even_by == "weights" and problem.model.mlp is not None:
        return by_weights(problem.model, problem.model.mlp, chunks) if chunks <= units else None
    if layers % chunks:
        return None
    counts, first = [layers // chunks] * chunks, problem.model.embedding_at + 1
    counts[0] += first
    counts[-1] += units - layers - first
    return tuple(counts)


def by_weights(model: Model, mlp: Mlp, chunks: int) -> tuple[int, ...]:
    """Units of each chunk as nanotron's `build_model` has them: a chunk ends with the unit by which the weights of
    products up to there exceed its part of all. Later chunks have at least one unit each."""
    own = model.attention
    assert own is not None, "a model of shapes has attention"
    layer = 4 * own.heads * own.head_size * model.hidden + (2 + mlp.gated) * mlp.hidden * model.hidden
    weights = [{"embedding": 0, "head": model.vocabulary * model.hidden}.get(unit, layer) for unit in model.units]
    counts, total = [0], 0
    for left, weight in zip(range(len(weights), 0, -1), weights, strict=True):
        full = total * chunks > sum(weights) * len(counts)
        if counts[-1] and len(counts) < chunks and (full or left == chunks - len(counts)):
            counts.append(0)
        counts[-1] += 1
        total += weight
    return tuple(counts)


def uncut(problem: TrainingProblem, degrees: Degrees) -> frozenset[int]:
    """Positions in the row of units at which no chunk may end: inside of multi-token prediction, and right behind it
    where the chunk before the last one is on the first rank."""
    count, units = problem.model.prediction_layers, len(problem.model.units)
    if not (problem.rules.whole_prediction and count):
        return frozenset()
    return frozenset(range(units - count, units - 1 + (degrees.pipeline == 2)))


def ends_of(layout: Iterable[int]) -> tuple[int, ...]:
    """The positions at which chunks end, but for the last one."""
    return tuple(accumulate(layout))[:-1]


def check_units(where: str, layout: Sequence[int], model: Model) -> None:
    """Refuse a layout that does not give every unit to one chunk."""
    units, held = len(model.units), sum(layout)
    if held != units:
        ends = "count the embedding in the first chunk and the head in the last one"
        remedy = ends if held == model.layers else "give every unit to one chunk"
        raise InputError(
            where, f"holds {held} units, and the model has {units} (embedding and head included)", remedy
        )


def spread(units: int, chunks: int) -> tuple[int, ...]:
    """Units of each chunk, as even as can be: the first ones have one more where the number does not divide."""
    share, more = divmod(units, chunks)
    return tuple(share + (number < more) for number in range(chunks))


# ---- what is computed again ----------------------------------------------------------------------------


def effective(model: Model, word: Recompute) -> Recompute:
    """The shortest word that says the same of this model: without modules whose recomputation changes nothing, and
    without those that another one of the word holds."""
    if FULL in word.modules:
        return word
    held = {inner for name in word.modules for inner in INSIDE.get(name, ())}
    names = tuple(name for name in word.modules if name in model.modules and name not in held)
    return replace(word, modules=names)


def fault_of_word(problem: TrainingProblem, schedule: str, word: Recompute) -> str | None:
    """Why chunks cannot compute this again, with the remedy; None: they can.

    A word that says the same as a shorter one is refused, so that whoever forbids a word forbids what it says.
    """
    framework, name, modules = problem.rules, problem.rules.name, word.modules
    if not modules:
        return None
    if SCHEDULES[schedule].divided:
        return f"{schedule} divides backward passes, which recomputation does not; choose none."
    if modules == (FULL,):
        if word.layers is None or framework.counted_layers:
            return None
        return f"{name} computes all layers of a chunk again, not {word.word}; choose recompute=full or none."
    if problem.model.own:
        return "Layers with measured times have no modules; choose recompute=none or full."
    if not {*modules} <= {*framework.modules}:
        return f"{name} computes whole layers again, and here it is {word.word}; choose recompute=full or none."
    said = effective(problem.model, replace(word, layers=None))
    if word.layers is not None:
        return (
            f"{word.word} computes modules again in some layers of a chunk, and {name} does so in all; choose "
            f"{said.word}, or full:{word.layers}."
        )
    if said == word:
        return None
    left_out = " and ".join(module for module in modules if module not in said.modules)
    return f"recompute={word.word} says no more of this model without {left_out}; choose recompute={said.word}."


# ---- ZeRO stages --------------------------------------------------------------------------------------


def one_name_each(problem: TrainingProblem, degrees: Degrees, zeros: Iterable[int]) -> list[int]:
    """Of these ZeRO stages one for each that ranks can tell apart: where nothing is divided among data-parallel ranks
    several are the same, which goes by the framework's usual name, else by the least."""
    experts = degrees.stage_ranks // (degrees.expert * degrees.expert_tensor)
    if degrees.context * degrees.data > 1 or (problem.model.experts is not None and experts > 1):
        return list(zeros)
    named: dict[tuple[float, ...], int] = {}
    for zero in zeros:
        state = problem.states[zero]
        held = (*(own.on(1) for own in (state.weights, state.gradients, state.optimizer)), state.gathered)
        if held not in named or zero == problem.rules.usual_zero:
            named[held] = zero
    return sorted(named.values())


# ---- hidden communication ------------------------------------------------------------------------------

BOTH, NEITHER = Hides(gradients=True, weights=True), Hides(gradients=False, weights=False)


def hidden_shares(problem: TrainingProblem, zero: int, pipeline: int) -> tuple[float, float]:
    """The shares of sums of gradients and of gathers of weights that passes hide."""
    # A whole number, as files may hold, would be of another type for the compiled search.
    share, rules = float(problem.efficiencies.data_hidden), problem.rules
    hides = rules.hides[zero] if pipeline == 1 or rules.pipelines_hide else NEITHER
    return share * hides.gradients, share * hides.weights


# ---- rules ---------------------------------------------------------------------------------------------


def _divides(divisor: int, amount: int | None) -> bool:
    """Does it divide this amount? What a model does not have, nothing needs to divide."""
    return amount is None or amount % divisor == 0


def _heads(model: Model) -> int | None:
    return None if model.attention is None else model.attention.heads


def _pairs(model: Model) -> int | None:
    """Key-value heads, which latent attention does not have."""
    return None if model.attention is None or model.attention.latent else model.attention.key_value_heads


HEADS = Rule(
    "heads",
    lambda problem, plan: _divides(plan.degrees.tensor, _heads(problem.model)),
    "Tensor parallelism divides the attention heads",
    "choose a divisor of the {heads}",
)
KEY_VALUES = Rule(
    "key-value heads",
    lambda problem, plan: _divides(plan.degrees.tensor, _pairs(problem.model)),
    "Tensor parallelism divides the key-value heads",
    "choose a divisor of the {key_value_heads}",
)
KEY_VALUES_OR_COPIES = Rule(
    "key-value heads",
    lambda problem, plan: (
        _divides(plan.degrees.tensor, _pairs(problem.model))
        or plan.degrees.tensor % (_pairs(problem.model) or 1) == 0
    ),
    "Tensor parallelism divides the key-value heads, or is a multiple of their number and copies them",
    "choose a divisor or a multiple of the {key_value_heads}",
)
MLP = Rule(
    "mlp",
    lambda problem, plan: problem.model.mlp is None or _divides(plan.degrees.tensor, problem.model.mlp.hidden),
    "Tensor parallelism divides the hidden size of the MLP",
    "choose a divisor of it",
)
TOKENS = Rule(
    "tokens",
    lambda problem, plan: (
        not problem.sequence_parallel
        or plan.degrees.tensor == 1
        or _divides(plan.degrees.context * plan.degrees.tensor, problem.sequence)
    ),
    "Sequence parallelism divides the tokens of a sequence among context and tensor ranks",
    "choose degrees whose product divides the sequence",
)
CONTEXT = Rule(
    "context",
    lambda problem, plan: plan.degrees.context == 1 or _divides(2 * plan.degrees.context, problem.sequence),
    "Context parallelism gives each rank two pieces of a sequence, so that twice its degree divides the sequence",
    "choose a smaller context degree",
)
GROUPS = Rule(
    "groups",
    lambda problem, plan: (
        not SCHEDULES[plan.schedule].in_groups or _divides(plan.degrees.pipeline, plan.micro_batches(problem.batch))
    ),
    "Interleaved 1F1B runs as many micro-batches at a time as there are pipeline stages",
    "choose a multiple of the pipeline degree as the number of micro-batches, or virtual=1",
)
CHUNKS = Rule(
    "chunks",
    lambda problem, plan: plan.degrees.virtual == 1 or plan.degrees.pipeline > 1,
    "Several chunks on a rank need at least two pipeline stages",
    "choose virtual=1 or more stages",
)
EXPERTS = Rule(
    "experts",
    lambda problem, plan: _divides(
        plan.degrees.expert, problem.model.experts.count if problem.model.experts else 1
    ),
    "Expert parallelism divides the number of experts",
    "choose a divisor of the experts; expert=1 where there are none",
)
EXPERT_SHARDS = Rule(
    "expert shards",
    lambda problem, plan: _divides(
        plan.degrees.expert_tensor, problem.model.experts.hidden if problem.model.experts else 1
    ),
    "The tensor degree of experts divides an expert's hidden size",
    "choose a divisor of it; expert-tensor=1 where there are no experts",
)
EXPERT_TOKENS = Rule(
    "tokens of experts",
    lambda problem, plan: problem.model.experts is None or plan.degrees.tensor == 1 or problem.sequence_parallel,
    "Experts with tensor parallelism need sequence parallelism",
    "choose tensor=1, or switch sequence parallelism on",
)
PRECISION = Rule(
    "precision",
    lambda problem, plan: problem.precision in problem.rules.precisions,
    "{framework} does not train in {precision}",
    "plan with {precisions} (--precision)",
)


ENCODER = Rule(
    "encoder",
    lambda problem, plan: _encoder_runs(problem, plan.degrees),
    "A vision encoder has no context parallelism, and tensor parallelism divides its heads, its MLP and its patches",
    "choose context=1, and tensor=1 or a divisor of all three",
)


def _encoder_runs(problem: TrainingProblem, degrees: Degrees) -> bool:
    own = problem.model.encoder
    if own is None:
        return True
    patches = own.patches if problem.sequence_parallel else 0
    return degrees.context == 1 and all(size % degrees.tensor == 0 for size in (own.heads, own.ffn, patches))


def _at_most_1(*names: str) -> Check:
    return lambda problem, plan: all(getattr(plan.degrees, name) == 1 for name in names)


def _model_ranks(degrees: Degrees) -> int:
    """Ranks that share one copy of the model."""
    return degrees.tensor * degrees.context * degrees.pipeline


def _experts_in_shards(problem: TrainingProblem, plan: Configuration) -> bool:
    d = plan.degrees
    shards = d.context * d.tensor * (1 if plan.zero == 0 else d.data)
    return problem.model.experts is None or shards % (d.expert * d.expert_tensor) == 0


ONE_CHUNK = Rule(
    "virtual", _at_most_1("virtual"), "The pipelines of {framework} have one chunk a rank", "choose virtual=1"
)
NO_CONTEXT = Rule(
    "context",
    _at_most_1("context"),
    "{framework} divides no sequence among context-parallel ranks",
    "choose context=1",
)
WITHOUT_EXPERTS = Rule(
    "experts",
    lambda problem, plan: problem.model.experts is None,
    "{framework} has no layers with experts here",
    "choose another framework or a dense model",
)


MEGATRON = Framework(
    "megatron",
    usual_zero=1,
    precisions=("bf16", "fp16", "fp8"),
    modules=MODULES,
    counted_layers=True,
    whole_prediction=True,
    rules=(
        HEADS,
        KEY_VALUES_OR_COPIES,
        MLP,
        TOKENS,
        CONTEXT,
        GROUPS,
        CHUNKS,
        EXPERTS,
        EXPERT_SHARDS,
        EXPERT_TOKENS,
    ),
    even_by="layers",
    cached_gradients=True,
    hides=dict.fromkeys(KEPT["megatron"].stages, BOTH),
    words="Megatron-LM and Megatron-Bridge, with the fused kernels of Transformer Engine",
)
TORCHTITAN = Framework(
    "torchtitan",
    usual_zero=3,
    precisions=("bf16", "fp8"),
    rules=(
        PRECISION,
        Rule(
            "prediction",
            lambda problem, plan: not problem.model.prediction_layers,
            "torchtitan's models do not predict several tokens",
            "leave the model's layers for that out (--prediction-layers 0), or choose another framework",
        ),
        HEADS,
        KEY_VALUES,
        MLP,
        Rule(
            "sequence parallelism",
            lambda problem, plan: bool(problem.model.own) or plan.degrees.tensor == 1 or problem.sequence_parallel,
            "torchtitan divides tokens among tensor-parallel ranks, which all have them here",
            "choose tensor=1, or switch sequence parallelism on",
        ),
        TOKENS,
        CONTEXT,
        GROUPS,
        CHUNKS,
        EXPERTS,
        EXPERT_SHARDS,
        Rule(
            "expert tensor",
            lambda problem, plan: (
                problem.model.experts is None
                or plan.degrees.expert_tensor == plan.degrees.tensor
                or (plan.degrees.expert_tensor == 1 and plan.degrees.expert > 1)
            ),
            "torchtitan divides an expert by the tensor degree, {tensor}, and with expert parallelism also by 1",
            "choose expert-tensor={tensor}",
        ),
        Rule(
            "one stage",
            lambda problem, plan: plan.degrees.pipeline > 1 or plan.schedule == "1f1b",
            "With one stage torchtitan runs one micro-batch after the other",
            "choose schedule=1f1b",
        ),
        Rule(
            "replicas",
            lambda problem, plan: plan.zero > 0 or 1 in (plan.degrees.data, _model_ranks(plan.degrees)),
            "torchtitan combines whole replicas (zero=0) with no other parallelism",
            "choose zero=3, or data parallelism alone",
        ),
        Rule(
            "replicas",
            lambda problem, plan: plan.zero > 0 or plan.degrees.context == 1,
            "torchtitan's context-parallel ranks divide the weights",
            "choose zero=3",
        ),
        Rule(
            "experts in shards",
            _experts_in_shards,
            "torchtitan divides experts among ranks that also divide weights",
            "choose zero=3",
        ),
    ),
    hides=dict.fromkeys(KEPT["torchtitan"].stages, BOTH),
    words="torchtitan, with FSDP2 and compiled layers",
)
DEEPSPEED = Framework(
    "deepspeed",
    usual_zero=1,
    precisions=("bf16", "fp16"),
    rules=(
        PRECISION,
        HEADS,
        KEY_VALUES,
        MLP,
        EXPERTS,
        Rule("context", _at_most_1("context"), "DeepSpeed has no context parallelism", "choose context=1"),
        Rule("virtual", _at_most_1("virtual"), "DeepSpeed's pipelines have one chunk a rank", "choose virtual=1"),
        Rule(
            "zero with pipelines",
            lambda problem, plan: plan.degrees.pipeline == 1 or plan.zero <= 1,
            "DeepSpeed's pipelines add up gradients, so that these and the weights stay whole",
            "choose zero=0 or zero=1 with more than one stage",
        ),
        Rule(
            "expert shards",
            _at_most_1("expert_tensor"),
            "DeepSpeed does not divide an expert among ranks",
            "choose expert-tensor=1",
        ),
    ),
    layouts="even",
    hides={0: NEITHER, 1: Hides(gradients=True, weights=False), 2: Hides(gradients=True, weights=False), 3: BOTH},
    pipelines_hide=False,
    words="DeepSpeed's engine and pipelines",
)

# What eager PyTorch costs: the host's time for a kernel with what Python does around it, of 1,481 runs with
# Megatron-DeepSpeed (vTrain, arXiv 2312.12391); bytes of kernels that do one step each, of 263 layouts (arXiv
# 2311.05610) and of 126 runs under FSDP (llm-foundry).
EAGER = 8.2e-5
# A loss in 32 bits with a kernel for each step moves 38 bytes of a logit forward and 14 back in place of 8 and 4,
# counted by the steps of Megatron's vocab_parallel_cross_entropy.
LOSS_OF_STEPS = 4.3
MEGATRON_DEEPSPEED = Framework(
    "megatron-deepspeed",
    usual_zero=1,
    precisions=("bf16", "fp16"),
    rules=(PRECISION, HEADS, KEY_VALUES, MLP, ONE_CHUNK, NO_CONTEXT, WITHOUT_EXPERTS),
    even_by="layers",
    hides=dict.fromkeys(KEPT["megatron-deepspeed"].stages, NEITHER),
    words="Megatron with DeepSpeed's pipelines, as in 2022: eager PyTorch with a few fused kernels",
    usual={"host_seconds": EAGER, "loss_traffic": LOSS_OF_STEPS},
)
FSDP = Framework(
    "fsdp",
    usual_zero=3,
    precisions=("bf16", "fp16", "fp8"),
    rules=(
        Rule(
            "replicas alone",
            _at_most_1("tensor", "context", "pipeline", "expert", "expert_tensor"),
            "PyTorch's FSDP divides weights among data-parallel ranks and nothing else",
            "choose tensor, context, pipeline and expert 1",
        ),
        CHUNKS,
    ),
    hides=dict.fromkeys(KEPT["fsdp"].stages, BOTH),
    words="FSDP of PyTorch 1 and 2.0 with autocast, as in Composer: eager PyTorch",
    usual={"host_seconds": EAGER, "elementwise_traffic": 2.7, "norm_traffic": 2.1},
    attention="triton",
)
NANOTRON = Framework(
    "nanotron",
    usual_zero=1,
    precisions=("bf16",),
    rules=(PRECISION, HEADS, KEY_VALUES_OR_COPIES, MLP, TOKENS, ONE_CHUNK, NO_CONTEXT, WITHOUT_EXPERTS),
    even_by="weights",
    layouts="even",
    # DDP sums gradients in the last backward pass; with ZeRO the trainer sums them behind it, in one piece.
    hides={0: Hides(gradients=True, weights=False), 1: NEITHER},
    words="Hugging Face's nanotron: eager PyTorch with fused norms and FlashAttention 2",
    # Bytes of copies around the rotation, additions and the activation are counted: 75 h a token forward and 131 h
    # backward, in place of 29 h and 43 h, where the MLP is 3.5 h wide. Of five collectives of two products one is not
    # needed, since what was gathered is kept, and one runs behind a product (`tp_linear_async_communication`).
    usual={
        "host_seconds": 1.67e-4,
        "elementwise_traffic": 2.8,
        "loss_traffic": LOSS_OF_STEPS,
        "tensor_hidden": 0.4,
    },
    # In 32 bits, and without their maximum in 32.
    logit_bytes=8,
    keeps_gathered=True,
    # Four products and two norms.
    tensors_per_layer=6,
    # Reads one in 16 bits and one in 32, and writes one in 32.
    added_bytes=10,
    in_step=True,
    attention="flash-2",
)
PYTORCH = Framework(
    "pytorch",
    usual_zero=1,
    precisions=("bf16", "fp16"),
    rules=(PRECISION, HEADS, KEY_VALUES, MLP, TOKENS, CONTEXT, ONE_CHUNK, WITHOUT_EXPERTS),
    even_by="layers",
    hides=dict.fromkeys(KEPT["pytorch"].stages, BOTH),
    words="a framework of one's own with Megatron's degrees, whose kernels are those of eager PyTorch",
    usual={"host_seconds": EAGER, "elementwise_traffic": 7.7, "norm_traffic": 15},
    kept=1.3,
    attention="flash-2",
)

SCALING = replace(
    PYTORCH,
    name="scaling",
    words="Aleph Alpha's Scaling as of 2023: eager PyTorch, with the logits of all words on every tensor rank",
    usual={**PYTORCH.usual, "loss_traffic": LOSS_OF_STEPS},
    # In 16 bits, in 32, their logarithms and two gradients in 32, and one in 16.
    logit_bytes=20,
    gathers_logits=True,
    norm_bytes=8,
)

_ALL = (MEGATRON, TORCHTITAN, DEEPSPEED, MEGATRON_DEEPSPEED, FSDP, NANOTRON, PYTORCH, SCALING)
FRAMEWORKS: Mapping[str, Framework] = {entry.name: replace(entry, rules=(*entry.rules, ENCODER)) for entry in _ALL}
