"""A configuration from words such as "tensor=4 pipeline=2" or "TP4PP2"; what is absent is the framework's default."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace

from ..base.errors import InputError, nearest, show
from ..base.quantities import several, whole_number
from ..networks.megatron_layout import expanded
from .frameworks import check_units, even_layout, spread
from .plan import (
    DEGREE_KEYS,
    LARGEST,
    NONE,
    Configuration,
    Degrees,
    Recompute,
    keys_and_values,
    layout_counts,
    layout_word,
    read_recompute,
)
from .problem import TrainingProblem

KEYS = (*DEGREE_KEYS, "micro-batch", "zero", "schedule", "layout", "recompute", "first-pool")
WHERE = "configuration"


def configuration_from_words(problem: TrainingProblem, text: str) -> Configuration:
    """The configuration in these words; an `InputError` names the key that is wrong, or what does not go together."""
    given = _pairs(text)
    degrees = _degrees(problem, given)
    micro_batch = _whole(given, "micro-batch", 1)
    if problem.batch % (degrees.data * micro_batch):
        raise InputError(
            f"{WHERE}: micro-batch",
            f"is {micro_batch}, and {degrees.data} data-parallel ranks do not divide {problem.batch} sequences by it",
            "choose degrees or a batch that divide",
        )
    schedule = given.get("schedule") or usual_schedule(degrees)
    zero = _whole(given, "zero", problem.rules.usual_zero, least=0)
    layout = _layout(problem, given, degrees)
    recompute = _recompute(given.get("recompute", NONE), degrees.chunks)
    first = _whole(given, "first-pool", 1)
    if first > len(problem.pools):
        sorts = len(problem.pools)
        raise InputError(
            f"{WHERE}: first-pool", f"is {first}, and the GPUs have {several(sorts, 'sort')}", "drop it"
        )
    return Configuration(degrees, micro_batch, zero, schedule, layout, recompute, first)


def usual_schedule(degrees: Degrees) -> str:
    """1F1B, interleaved where a rank has several chunks."""
    return "1f1b" if degrees.virtual == 1 else "interleaved-1f1b"


def _pairs(text: str) -> dict[str, str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InputError(WHERE, f"cannot be read ({str(error).lower()})", "close every quote") from None
    values: dict[str, str] = {}
    for key, value in (pair for word in words for pair in keys_and_values(WHERE, word)):
        if key not in KEYS:
            close = nearest(key, KEYS)
            raise InputError(
                WHERE, f"has the key {show(key)}", f'write "{close}"' if close else "use one of " + ", ".join(KEYS)
            )
        if key in values:
            raise InputError(f"{WHERE}: {key}", "is given twice", "give it once")
        values[key] = value
    return values


def _whole(given: Mapping[str, str], key: str, usual: int, least: int = 1) -> int:
    text = given.get(key)
    if text is None:
        return usual
    number = whole_number(text)
    if number is None or not least <= number <= LARGEST:
        raise InputError(f"{WHERE}: {key}", f"is {show(text)}", f"give a whole number of at least {least}")
    return number


def _degrees(problem: TrainingProblem, given: Mapping[str, str]) -> Degrees:
    """The degrees in these words; the data-parallel degree follows from the others where it is not given."""
    read = {field: _whole(given, key, 1) for key, field in DEGREE_KEYS.items()}
    degrees = replace(Degrees(), **read)
    apart = degrees.tensor * degrees.context * degrees.pipeline
    if "data" not in given:
        if problem.devices % apart:
            raise InputError(
                WHERE,
                f"has {degrees.tensor} x {degrees.context} x {degrees.pipeline} ranks for {problem.devices} GPUs",
                "choose tensor, context and pipeline degrees whose product divides the number of GPUs",
            )
        degrees = replace(degrees, data=problem.devices // apart)
    elif apart * degrees.data != problem.devices:
        raise InputError(
            f"{WHERE}: data",
            f"is {degrees.data}, so that there are {apart * degrees.data} ranks for {problem.devices} GPUs",
            "leave it out: it follows from the other degrees",
        )
    if degrees.stage_ranks % (degrees.expert * degrees.expert_tensor):
        raise InputError(
            f"{WHERE}: expert",
            f"is {degrees.expert} x {degrees.expert_tensor} for {degrees.stage_ranks} ranks of a stage",
            "choose a divisor of tensor x context x data",
        )
    return degrees


# ---- layouts -------------------------------------------------------------------------------------------


def _layout(problem: TrainingProblem, given: Mapping[str, str], degrees: Degrees) -> tuple[int, ...]:
    """The units of each chunk, from numbers or Megatron's letters; without a layout the framework's own."""
    text = given.get("layout")
    if text is None:
        return _even(problem, degrees)
    counts = layout_counts(f"{WHERE}: layout", layout_in_numbers(problem, text))
    if len(counts) != degrees.chunks:
        raise InputError(
            f"{WHERE}: layout",
            f"has {len(counts)} chunks, and {degrees.pipeline} x {degrees.virtual} are wanted",
            "give pipeline x virtual chunks",
        )
    check_units(f"{WHERE}: layout", counts, problem.model)
    return counts


def layout_in_numbers(problem: TrainingProblem, text: str) -> str:
    """The layout in numbers, where Megatron's letters write it; numbers stay as they are. Letters say nothing of a
    vision encoder, which is in the first chunk then."""
    if text and set(text) <= set("0123456789/"):
        return text
    stages = expanded(text)
    said, row = "".join(stages), problem.model.letters
    if said != row:
        raise InputError(
            f"{WHERE}: layout",
            f"holds {len(said)} letters that are not the model's {len(row)}",
            f"give E, {row.count('t')} times t{', m' if 'm' in row else ''} and L in this order",
        )
    return layout_word([len(stage) + problem.model.embedding_at * (i == 0) for i, stage in enumerate(stages)])


def _even(problem: TrainingProblem, degrees: Degrees) -> tuple[int, ...]:
    """The framework's own layout where none is given, or one in which embedding and head count as layers, as those have
    trained whose layers do not divide; an `InputError` says why there is none."""
    units, model = len(problem.model.units), problem.model
    _check_chunks(units, degrees.chunks)
    layout = even_layout(problem, degrees.chunks)
    if layout is None and units % degrees.chunks == 0 and not model.prediction_layers:
        layout = spread(units, degrees.chunks)
    if layout is None:
        raise InputError(
            f"{WHERE}: layout",
            f"is missing, and {model.layers} layers do not divide among {degrees.pipeline} x {degrees.virtual} chunks",
            f"choose other degrees, or give a layout, as layout={layout_word(spread(units, degrees.chunks))[:80]}",
        )
    return layout


def _check_chunks(units: int, chunks: int) -> None:
    if chunks > units:
        raise InputError(
            f"{WHERE}: pipeline", f"makes {chunks} chunks of {units} units", "choose fewer stages or chunks"
        )


def as_even_as_can_be(units: int, chunks: int) -> tuple[int, ...]:
    """Units of each chunk, the first ones with one more where they do not divide; too many chunks are refused."""
    _check_chunks(units, chunks)
    return spread(units, chunks)


def _recompute(text: str, chunks: int) -> tuple[Recompute, ...]:
    words = [read_recompute(f"{WHERE}: recompute", word) for word in text.split("/")]
    if len(words) == 1:
        return tuple(words) * chunks
    if len(words) != chunks:
        raise InputError(
            f"{WHERE}: recompute",
            f"has {len(words)} words for {chunks} chunks",
            "give one word, or one for each chunk",
        )
    return tuple(words)


# ---- and back to words -----------------------------------------------------------------------------------


def words_of(plan: Configuration) -> str:
    """Every key of the configuration, as `configuration_from_words` reads them."""
    values = {
        **{key: str(getattr(plan.degrees, name)) for key, name in DEGREE_KEYS.items()},
        "micro-batch": str(plan.micro_batch),
        "zero": str(plan.zero),
        "schedule": plan.schedule,
        "layout": layout_word(plan.layout),
        "recompute": recompute_word(plan),
        **({} if plan.first_pool == 1 else {"first-pool": "2"}),
    }
    return " ".join(f"{key}={value}" for key, value in values.items())


def recompute_word(plan: Configuration) -> str:
    """The word for what chunks compute again: one where all have the same, else one for each."""
    words = [entry.word for entry in plan.recompute]
    return words[0] if len(set(words)) == 1 else "/".join(words)
