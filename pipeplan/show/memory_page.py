"""The page of what each rank of a training holds, `plan explore --memory`: its words stand in `assets/memory.html`.

Its script (`assets/memory.js`) adds up formulas that are read off the code which computes the same for `plan configure`
(`formulas.py`), with tables of models, GPUs, optimizers and frameworks. Tests compare the two."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from xml.etree.ElementTree import fromstring

from ..instances.base.errors import InputError
from ..instances.physics.efficiencies import HALF, WORKSPACE_BYTES
from ..instances.physics.hardware import GPUS, KnownGpu
from ..instances.physics.optimizers import GATHERED_UNITS, MIXED, USUAL_OPTIMIZER, StateBytes, states_of
from ..instances.physics.schedules import SCHEDULES
from ..instances.training.build import MODELS, problem_of
from ..instances.training.cases import ParallelismChoice
from ..instances.training.frameworks import FRAMEWORKS, ends_of, even_layout, spread, uncut
from ..instances.training.model import INSIDE, MODULES, Model
from ..instances.training.plan import Degrees
from ..instances.training.problem import USUAL_RESERVE, TrainingProblem
from ..instances.training.referee import PARTS
from ..instances.training.scope import both_sides, usual_errors
from ..instances.training.unit_bytes import BytesOfUnits
from ..instances.training.unit_costs import LAYERS, Keys, table_parameters, unit_parameters
from . import page as html
from .formulas import Term, decision, form_of, with_letters
from .views import MEMORY, ink_on
from .views.training import PART_WORDS

# Numbers of GPUs that a reader can choose; of each GPU those that fill nodes.
COUNTS = sorted(
    factor * 2**power for factor, powers in ((1, 15), (3, 12)) for power in range(3 * (factor > 1), powers)
)
# The letters of formulas, as in `docs/training-memory.md`: what is chosen, what follows, and sizes of the model.
CHOSEN = {
    "t": "tensor degree", "c": "context degree", "p": "pipeline degree", "v": "chunks of a stage",
    "d": "data-parallel replicas", "e": "expert degree", "t_e": "tensor degree of experts",
    "d_e": "replicas of experts", "b": "sequences of a micro-batch", "s": "tokens of a sequence",
    "B": "sequences of a batch", "z": "ZeRO stage",
}  # fmt: skip
DERIVED = {
    "S": "tokens of a micro-batch on a context rank",
    "S′": "the same on one tensor rank between products",
    "k_t": "key-value heads of a tensor rank",
}
SIZES = {
    "": {
        "hidden": ("h", "hidden size"), "vocabulary": ("V", "words of the vocabulary"),
        "positions": ("n_p", "learned positions"), "embedding_size": ("h_w", "size of the table of words"),
    },
    "attention": {
        "heads": ("a", "attention heads"), "head_size": ("n", "size of a head"), "value_size": ("n_v", "its values"),
        "key_value_heads": ("k", "key-value heads"), "rope_size": ("n_r", "part of a head with positions"),
        "query_rank": ("r_q", "rank of queries"), "key_value_rank": ("r_kv", "rank of keys and values"),
    },
    "mlp": {"hidden": ("f", "inner size of the MLP")},
    "experts": {
        "count": ("E", "experts"), "per_token": ("κ", "experts for each token"),
        "hidden": ("f_e", "inner size of an expert"), "shared_hidden": ("f_s", "inner size of the shared experts"),
    },
}  # fmt: skip


def memory_page() -> str:
    body = fromstring(html.asset("memory.html"))
    text = json.dumps(tables(), separators=(",", ":"))
    data = html.tag("script", {"id": "tables", "type": "application/json"}, text)
    scripts = ["shared.js", "memory.js", "memory_page.js"]
    styles = ["explore.css", "memory.css"]
    return html.page("How much memory does my training need?", [*body, data], styles=styles, scripts=scripts)


class _Pool:
    """Values of which many are alike, each kept once."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def place(self, value: Any) -> int:
        return self.places.setdefault(json.dumps(value), len(self.places))

    @property
    def values(self) -> list[Any]:
        return [json.loads(text) for text in self.places]


def tables() -> dict[str, Any]:
    """All that the script reads: facts of models, GPUs, frameworks, optimizers and schedules, and formulas."""
    pool = _Pool()
    sizes = {letter: words for letters in SIZES.values() for letter, words in letters.values()}
    return {
        "letters": {**CHOSEN, **DERIVED, **sizes},
        "derived": _derived(),
        "models": {name: _model_table(own, pool) for name, own in _models()},
        "gpus": {name: _gpu_table(own) for name, own in GPUS.items()},
        "frameworks": {name: _framework_table(name) for name in FRAMEWORKS},
        "optimizers": MIXED,
        "usualOptimizer": USUAL_OPTIMIZER,
        "schedules": {
            name: {"shape": own.shape, "divided": own.divided, "allFirst": own.all_first}
            for name, own in SCHEDULES.items()
        },
        "counts": COUNTS,
        "modules": MODULES,
        "inside": INSIDE,
        "layers": LAYERS,
        "half": HALF,
        "workspace": WORKSPACE_BYTES,
        "reserve": USUAL_RESERVE,
        "gatheredUnits": GATHERED_UNITS,
        "parts": {
            part: {"words": PART_WORDS.get(part, part), "fill": MEMORY[part], "text": ink_on(MEMORY[part])}
            for part in PARTS
        },
        "pool": pool.values,
    }


def _models() -> Iterator[tuple[str, Model]]:
    """Packaged models by the words of a command; with multi-token prediction also without it."""
    for name, known in MODELS.items():
        yield name, known.model
        if known.model.prediction_layers:
            yield f"{name} --prediction-layers 0", replace(known.model, prediction_layers=0)


# ---- degrees and sizes as letters --------------------------------------------------------------------------


class _LetterKeys(Keys):
    """Degrees as letters; what follows from them has letters of its own."""

    def tokens(self, problem: TrainingProblem) -> Any:
        return Term("S")

    def tokens_between(self, problem: TrainingProblem) -> Any:
        return Term("S′")

    def key_value_heads(self, heads: int) -> Any:
        return Term("k_t")


def _keys(kind: type[Keys] = _LetterKeys) -> Keys:
    return kind(*map(_any, ("t", "c", "e", "t_e", "b")))


def _any(letter: str) -> Any:
    """A letter where code asks for a number."""
    return Term(letter)


def _derived() -> list[tuple[str, Any]]:
    """Formulas of the letters that follow from others, in turn."""
    problem: Any = SimpleNamespace(sequence=Term("s"), sequence_parallel=True)
    plain, lettered = _keys(Keys), _keys()
    amounts = plain.tokens(problem), Keys.tokens_between(lettered, problem), plain.key_value_heads(_any("k"))
    return [(letter, form_of(amount)) for letter, amount in zip(DERIVED, amounts, strict=True)]


def _lettered(model: Model) -> tuple[Model, dict[str, float]]:
    """The model with letters as its sizes, and these sizes."""
    numbers: dict[str, float] = {}
    for name, letters in SIZES.items():
        record = getattr(model, name) if name else model
        if record is None:
            continue
        twin, own = with_letters(record, {field: letter for field, (letter, _) in letters.items()})
        numbers |= own
        if name:
            changed, _ = with_letters(model, {})
            object.__setattr__(changed, name, twin)
            twin = changed
        model = twin
    return model, numbers


# ---- models ----------------------------------------------------------------------------------------------


def _model_table(model: Model, pool: _Pool) -> dict[str, Any]:
    lettered, numbers = _lettered(model)
    numbers.setdefault("k", numbers["a"])
    parameters = {name: unit_parameters(lettered, _keys(), name) for name in model.counted}
    return {
        "units": list(model.counted.items()),
        "numbers": numbers,
        "tied": model.tied,
        "modules": model.modules,
        "table": form_of(table_parameters(lettered, Term("t"))),
        "parameters": {
            name: pool.place(
                {
                    "usual": form_of(own.usual),
                    "experts": form_of(own.experts),
                    "shapes": [list(map(form_of, shape)) for shape in (*own.shapes, *own.expert_shapes)],
                }
            )
            for name, own in parameters.items()
        },
        "by": {name: _by_framework(problem, lettered, pool) for name, problem in _problems(model)},
    }


def _problems(model: Model) -> Iterator[tuple[str, TrainingProblem]]:
    """The problem of training this model with each framework, on any GPUs."""
    for name in FRAMEWORKS:
        yield name, problem_of(model, "1xh100-80gb", batch=1, sequence=1, framework=name)


def _by_framework(problem: TrainingProblem, lettered: Model, pool: _Pool) -> dict[str, Any]:
    """What one framework keeps of each unit, which layouts it has, and when it can run a choice."""
    twin, _ = with_letters(problem, {"batch": "B", "sequence": "s"})
    object.__setattr__(twin, "model", lettered)
    object.__setattr__(twin, "precision", Term("precision"))
    counter = BytesOfUnits(twin, _keys(), ())
    return {
        "kept": {name: pool.place(_kept(counter, name)) for name in problem.model.counted},
        "layouts": pool.place(dict(_layouts(problem))),
        "rules": {name: pool.place(_rules(twin, name)) for name in problem.rules.schedules},
    }


def _kept(counter: BytesOfUnits, name: Any) -> dict[str, Any]:
    tensors, top, attention = counter.formulas(name)
    return {
        "tensors": [
            {
                "bytes": form_of(own.bytes),
                "part": own.part,
                "droppedBy": own.dropped_by,
                "forWeights": own.for_weights,
                "layerInput": own.layer_input,
            }
            for own in tensors
            if form_of(own.bytes) != 0
        ],
        "top": form_of(top),
        "attention": None if attention is None else form_of(attention),
    }


def _layouts(problem: TrainingProblem) -> Iterator[tuple[int, str | None]]:
    """The even layout of each number of chunks where it is not the most even one of all units; None: there is none."""
    units = len(problem.model.units)
    for chunks in range(1, units + 1):
        evenly = spread(units, chunks)
        layout = even_layout(problem, chunks) or (evenly if problem.rules.layouts == "any" else None)
        if layout is not None and {*ends_of(layout)} & uncut(problem, Degrees(pipeline=2)):
            layout = None
        if layout != evenly:
            yield chunks, None if layout is None else "/".join(map(str, layout))


def _rules(twin: Any, schedule: str) -> list[tuple[Any, str]]:
    """When each rule of the framework is kept, and what it says: words in braces are the script's to fill in."""
    micro_batch, zero, *degrees = (_any(letter) for letter in ("b", "z", "t", "c", "p", "v", "d", "e", "t_e"))
    plan = ParallelismChoice(Degrees(*degrees), micro_batch, zero, schedule)
    decided = ((decision(partial(rule.kept, twin, plan)), rule) for rule in twin.rules.rules)
    return [(kept, f"{rule.reason}; {rule.remedy}.") for kept, rule in decided if kept is not True]


# ---- frameworks and GPUs -----------------------------------------------------------------------------------


def _framework_table(name: str) -> dict[str, Any]:
    own = FRAMEWORKS[name]
    states = {
        optimizer: {zero: _state(of) for zero, of in states_of(name, optimizer).items()} for optimizer in MIXED
    }
    return {
        "states": states,
        "usualZero": own.usual_zero,
        "schedules": list(own.schedules),
        "modules": own.modules,
        "countedLayers": own.counted_layers,
        "cachedGradients": own.cached_gradients,
        "precisions": " or ".join(own.precisions),
    }


def _state(own: StateBytes) -> dict[str, Any]:
    kinds: Mapping[str, Any] = {"weights": own.weights, "gradients": own.gradients, "optimizer": own.optimizer}
    return {**{name: (kind.whole, kind.shared) for name, kind in kinds.items()}, "gathered": own.gathered}


def _gpu_table(own: KnownGpu) -> dict[str, Any]:
    """Memory, the number format of weights, numbers of GPUs that fill no nodes, and errors of predicted memory."""
    precision = "bf16" if "bf16" in own.flops else "fp16"
    problem = problem_of("opt-350m", f"1x{own.name}", batch=1, sequence=1, precision=precision)
    errors = {name: both_sides(usual_errors(problem.replace(framework=name)).memory) for name in FRAMEWORKS}
    return {
        "bytes": own.memory_bytes,
        "precision": precision,
        "refused": [count for count in COUNTS if not _fills_nodes(own, count)],
        "errors": {name: (error.more, error.less) for name, error in errors.items()},
    }


def _fills_nodes(gpu: KnownGpu, count: int) -> bool:
    try:
        gpu.levels(count)
    except InputError:
        return False
    return True
