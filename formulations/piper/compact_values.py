"""From values of the compact model to staged plans, and back."""

from __future__ import annotations

import math

from ...instances.staging.plan import PlannedStage, StagedPlan
from ..contract import ExtraRow, Values
from .compact import CompactModel, Setting
from .flush import flush_values


def decode(compact: CompactModel, values: Values) -> StagedPlan:
    """The stages that are used, with the choices that are set."""
    layers = compact.problem.layers
    stage_of: dict[int, int] = {}
    names: dict[int, str] = {}
    for v, i, c, n in compact.choices:
        if values.get(f"u[{v},{i},{c},{n}]", 0.0) > 0.5:
            stage_of[v], names[v] = i, compact.way(v, c, n).id
    stages = []
    for i in compact.stages:
        members = [v for v in compact.problem.topological_order if stage_of.get(v) == i]
        setting = next((s for c, s in enumerate(compact.settings) if values.get(f"w[{i},{c}]", 0.0) > 0.5), None)
        if members and setting is not None:
            ways = {layers[v].id: names[v] for v in members}
            kind = _kinds(compact)[setting.kind]
            stages.append(PlannedStage(tuple(layers[v].id for v in members), setting.d, setting.t, ways, kind))
    return StagedPlan(tuple(stages))


def encode(compact: CompactModel, plan: StagedPlan) -> Values | None:
    """x, z, w and u; the rest follows from them. None where the model has no such settings or choices."""
    if len(plan.stages) > len(compact.stages):
        return None
    values = {f"{name}[{i}]": 0.0 for name in "zs" for i in compact.stages}
    values |= {f"x[{v},{i}]": 0.0 for v in compact.layers for i in compact.stages}
    values |= {f"w[{i},{c}]": 0.0 for i in compact.stages for c in range(len(compact.settings))}
    values |= {f"u[{v},{i},{c},{n}]": 0.0 for v, i, c, n in compact.choices}
    for i, stage in enumerate(plan.stages):
        chosen = _stage_values(compact, i, stage, _suffix(plan, i))
        if chosen is None or not chosen.keys() <= values.keys():
            return None
        values |= chosen
    copies = [stage.data_parallel for stage in plan.stages]
    return None if flush_values(compact.counts, copies, 0.0) is None else values


def exclude(compact: CompactModel, plan: StagedPlan) -> list[ExtraRow]:
    """Rows for each stage that holds too much: its choices are not all made, with as many in flight or more."""
    rows = list[ExtraRow]()
    for number, stage in enumerate(plan.stages):
        suffix, numbers = _suffix(plan, number), _numbers(compact, stage) or {}
        if stage.device_type not in _kinds(compact):
            continue
        kind = _kinds(compact).index(stage.device_type)
        enough = [
            c
            for c, s in enumerate(compact.settings)
            if s.kind == kind and _serves(s, stage, suffix)
            if not compact.problem.zero or s.d == stage.data_parallel
        ]
        if enough and all(_is_too_much(compact, numbers, c) for c in enough):
            choices = set(compact.choices)
            for i in compact.stages:
                chosen = [(v, i, c, n) for v, n in numbers.items() for c in enough if (v, i, c, n) in choices]
                names = {f"u[{v},{i},{c},{n}]": 1.0 for v, i, c, n in chosen}
                rows.append(ExtraRow(names, -math.inf, len(numbers) - 1.0))
    return rows


def _is_too_much(compact: CompactModel, numbers: dict[int, int], c: int) -> bool:
    limit = compact.limit(compact.settings[c])
    return limit is not None and sum(compact.memory(v, c, n) for v, n in numbers.items()) > limit


def _suffix(plan: StagedPlan, i: int) -> int:
    """The sum of the data-parallel degrees from a stage on."""
    return sum(later.data_parallel for later in plan.stages[i:])


def _numbers(compact: CompactModel, stage: PlannedStage) -> dict[int, int] | None:
    """The number of each layer's configuration in the stage; None where the model lacks one of them."""
    numbers = {}
    for node_id in stage.nodes:
        v = compact.problem.index.get(node_id)
        ways = () if v is None else compact.problem.layers[v].configurations.get(stage.tensor_parallel, ())
        number = next((n for n, way in enumerate(ways) if way.id == stage.configurations.get(node_id)), None)
        if v is None or number is None:
            return None
        numbers[v] = number
    return numbers


def _serves(setting: Setting, stage: PlannedStage, suffix: int) -> bool:
    """Has the setting the stage's tensor-parallel degree, and memory for at least as many micro-batches as it holds?"""
    return setting.t == stage.tensor_parallel and setting.q >= -(-suffix // stage.data_parallel)


def _stage_values(compact: CompactModel, i: int, stage: PlannedStage, suffix: int) -> dict[str, float] | None:
    kinds = _kinds(compact)
    if stage.device_type not in kinds:
        return None
    alike = [(c, s) for c, s in enumerate(compact.settings) if s.kind == kinds.index(stage.device_type)]
    c, numbers = _setting(alike, stage, suffix), _numbers(compact, stage)
    if c is None or numbers is None:
        return None
    values = {f"z[{i}]": 1.0, f"s[{i}]": float(suffix), f"w[{i},{c}]": 1.0}
    for v, number in numbers.items():
        values |= {f"x[{v},{i}]": 1.0, f"u[{v},{i},{c},{number}]": 1.0}
    return values


def _kinds(compact: CompactModel) -> list[str | None]:
    """Names of the types of devices; None where all are alike."""
    return [kind.name for kind in compact.problem.device_types] or [None]


def _setting(settings: list[tuple[int, Setting]], stage: PlannedStage, suffix: int) -> int | None:
    """The setting of a stage: of those that serve, the one with the fewest micro-batches in flight; None: none does."""
    able = [
        (setting.q, c)
        for c, setting in settings
        if setting.d == stage.data_parallel and _serves(setting, stage, suffix)
    ]
    return min(able)[1] if able else None
