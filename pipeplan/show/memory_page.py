"""The page of what each rank of a training holds, `plan explore --memory`: its words stand in `assets/memory.html`.

Its script (`assets/memory.js`) adds up formulas that are read off the code which computes the same for `plan configure`
(`formulas.py`), with tables of models, GPUs, optimizers and frameworks. Tests compare the two."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any
from xml.etree.ElementTree import fromstring

from ..instances.physics.efficiencies import HALF, WORKSPACE_BYTES
from ..instances.physics.hardware import GPUS, KnownGpu
from ..instances.physics.optimizers import GATHERED_UNITS, MIXED, USUAL_OPTIMIZER, states_of
from ..instances.physics.schedules import SCHEDULES
from ..instances.training.build import MODELS, problem_of
from ..instances.training.cases import ParallelismChoice
from ..instances.training.frameworks import FRAMEWORKS, Framework, ends_of, even_layout, spread, uncut
from ..instances.training.model import INSIDE, MODULES, Model, UnitType
from ..instances.training.plan import Degrees
from ..instances.training.problem import USUAL_RESERVE, TrainingProblem
from ..instances.training.referee import PARTS
from ..instances.training.scope import both_sides, usual_errors
from ..instances.training.unit_bytes import BytesOfUnits
from ..instances.training.unit_costs import LAYERS, Keys, table_parameters, unit_parameters
from . import page as html
from .formulas import Term, decision, plain, with_letters
from .views import MEMORY
from .views.training import PART_WORDS

# Numbers of GPUs that a reader can choose: all of them fill the nodes of every GPU.
COUNTS = sorted({2**power for power in range(15)} | {3 * 2**power for power in range(4, 12)})
# Letters of the sizes of a model, as in `docs/training-memory.md`; `assets/memory_page.js` says what they mean.
SIZES = {
    **{"hidden": "h", "vocabulary": "V", "positions": "n_p", "embedding_size": "h_w", "mlp": {"hidden": "f"}},
    "attention": {
        **{"heads": "a", "head_size": "n", "key_value_heads": "k", "value_size": "n_v", "rope_size": "n_r"},
        **{"query_rank": "r_q", "key_value_rank": "r_kv"},
    },
    "experts": {"count": "E", "per_token": "κ", "hidden": "f_e", "shared_hidden": "f_s"},
}


def memory_page() -> str:
    body = fromstring(html.asset("memory.html"))
    text = json.dumps(tables(), separators=(",", ":"), default=plain)
    data = html.tag("script", {"id": "tables", "type": "application/json"}, text)
    scripts = ["shared.js", "memory.js", "memory_page.js"]
    styles = ["explore.css", "memory.css"]
    return html.page("How much memory does my training need?", [*body, data], styles=styles, scripts=scripts)


class _Pool(dict[str, int]):
    """Values of which many are alike, by their JSON, each with its place."""

    def place(self, value: Any) -> int:
        return self.setdefault(json.dumps(value, default=plain), len(self))


def tables() -> dict[str, Any]:
    """All that the script reads: facts of models, GPUs, frameworks, optimizers and schedules, and formulas."""
    pool = _Pool()
    return {
        "derived": _derived(),
        "models": {name: _model_table(own, pool) for name, own in _models()},
        "gpus": {name: _gpu_table(own) for name, own in GPUS.items()},
        "frameworks": {name: _framework_table(own) for name, own in FRAMEWORKS.items()},
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
        "parts": {part: {"words": PART_WORDS.get(part, part), "fill": MEMORY[part]} for part in PARTS},
        "pool": list(map(json.loads, pool)),
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
    plain_keys, keys = _keys(Keys), _keys()
    pairs = plain_keys.key_value_heads(_any("k"))
    return [("S", plain_keys.tokens(problem)), ("S′", Keys.tokens_between(keys, problem)), ("k_t", pairs)]


# ---- models ----------------------------------------------------------------------------------------------


def _model_table(model: Model, pool: _Pool) -> dict[str, Any]:
    lettered, numbers = with_letters(model, SIZES)
    return {
        "units": list(model.counted.items()),
        "numbers": numbers,
        "tied": model.tied,
        "modules": model.modules,
        "table": table_parameters(lettered, Term("t")),
        "parameters": {name: pool.place(_parameters(lettered, name)) for name in model.counted},
        "by": {name: _by_framework(model, lettered, name, pool) for name in FRAMEWORKS},
    }


def _parameters(lettered: Model, name: UnitType) -> dict[str, Any]:
    own = unit_parameters(lettered, _keys(), name)
    return {"usual": own.usual, "experts": own.experts, "shapes": (*own.shapes, *own.expert_shapes)}


def _by_framework(model: Model, lettered: Model, name: str, pool: _Pool) -> dict[str, Any]:
    """What a framework keeps of each unit, which layouts it has, and when it can run a choice."""
    problem = problem_of(model, "1xh100-80gb", batch=1, sequence=1, framework=name)
    twin, _ = with_letters(problem, {"batch": "B", "sequence": "s"})
    object.__setattr__(twin, "model", lettered)
    object.__setattr__(twin, "precision", Term("precision"))
    counter = BytesOfUnits(twin, _keys(), ())
    return {
        "kept": {unit: pool.place(counter.formulas(unit)) for unit in model.counted},
        "layouts": pool.place(dict(_layouts(problem))),
        "rules": {schedule: pool.place(_rules(twin, schedule)) for schedule in problem.rules.schedules},
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


def _framework_table(own: Framework) -> dict[str, Any]:
    return {
        "states": {optimizer: states_of(own.name, optimizer) for optimizer in MIXED},
        "usualZero": own.usual_zero,
        "schedules": list(own.schedules),
        "modules": own.modules,
        "countedLayers": own.counted_layers,
        "cachedGradients": own.cached_gradients,
        "precisions": " or ".join(own.precisions),
    }


def _gpu_table(own: KnownGpu) -> dict[str, Any]:
    """Memory, the number format of weights, and errors of predicted memory by framework."""
    precision = "bf16" if "bf16" in own.flops else "fp16"
    problem = problem_of("opt-350m", f"1x{own.name}", batch=1, sequence=1, precision=precision)
    errors = {name: both_sides(usual_errors(problem.replace(framework=name)).memory) for name in FRAMEWORKS}
    return {"bytes": own.memory_bytes, "precision": precision, "errors": errors}
