"""Records that programs build: a member of a wrong type is refused in one sentence, whatever record it is in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest
from problems.profiles import DIAMOND

from pipeplan import Block, DeviceType, InputError, PipeplanError, ScheduleProblem, load_packaged
from pipeplan.instances.training.model import Model
from pipeplan.instances.training.plan import Configuration, Degrees, Recompute
from pipeplan.instances.training.scope import Scope

TYPED = load_packaged("tiny-stages").replace(memory_bytes=None, device_types=(DeviceType("fast", 4),))
RECORDS: dict[str, Any] = {
    **{
        name: load_packaged(name)
        for name in ("tiny-chain", "three-chain", "tiny-stages", "tiny-levels", "tiny-graph")
    },
    **{name: load_packaged(name) for name in ("golden-4", "v-shape-4", "tiny-training", "tiny-experts-training")},
    **{"measured layers": load_packaged("measured-even-8x32"), "types": TYPED, "profile": DIAMOND},
    "configuration": Configuration(Degrees(), 1, 0, "1f1b", (4,), (Recompute(("full",)),)),
}
ODD: tuple[Any, ...] = (None, True, 7, 0.5, "x", [], [7], [[7]], [[7, 7]], {}, {"x": 7}, {7: [7]}, object())


def spoilt(value: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The record with an odd value in each place in turn: of a list of records in the first of them."""
    if is_dataclass(value):
        for field in fields(value):
            member = getattr(value, field.name)
            makers = [(repr(odd), lambda odd=odd: odd) for odd in ODD]
            for words, make in (*makers, *spoilt(member)):
                yield f"{field.name}: {words}", lambda n=field.name, make=make: replace(value, **{n: make()})
    elif isinstance(value, tuple) and value:
        for words, make in spoilt(value[0]):
            yield words, lambda make=make: (make(), *value[1:])
    elif isinstance(value, Mapping) and value:
        key = next(iter(value))
        for words, make in spoilt(value[key]):
            yield words, lambda make=make: {**value, key: make()}


@pytest.mark.parametrize("name", RECORDS)
def test_an_odd_member_makes_a_record_or_one_sentence(name: str) -> None:
    sentences = []
    for words, make in spoilt(RECORDS[name]):
        try:
            make()
        except PipeplanError as error:
            sentences.append((words, str(error)))
    assert [pair for pair in sentences if not pair[1].isprintable() or "; " not in pair[1]] == []
    assert len(sentences) > 20


@pytest.mark.parametrize(("make", "sentence"), [
    (lambda: Model("m", mlp=[]), "model.mlp is a list, not a mlp; give a Mlp."),  # type: ignore[arg-type]
    (lambda: replace(RECORDS["tiny-training"], gpu=[]), "gpu is a list, not a gpu; give a Gpu."),
    (lambda: replace(RECORDS["tiny-training"], levels=7), "levels is 7, not a list; give a list."),
    (lambda: replace(RECORDS["tiny-chain"], nodes=[[1]]), "nodes[0] is a list, not a node; give a Node."),
    (lambda: replace(RECORDS["tiny-chain"], edges=["ab"]), "edges[0] is 'ab', not a pair; give two node ids"),
    (lambda: ScheduleProblem((), [Block("a", "F", (), 1, memory=[])]), "blocks[0].memory is a list, not an object"),  # type: ignore[arg-type]
    (lambda: Recompute("full"), "recompute.modules is 'full', not a list"),  # type: ignore[arg-type]
    (lambda: Recompute(([],)), "recompute is a list, not a text"),  # type: ignore[arg-type]
    (lambda: Scope({"schedule": []}), "scope: schedule is a list"),  # type: ignore[dict-item]
])  # fmt: skip
def test_a_wrong_member_is_named(make: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value).startswith(sentence)


def test_lists_become_tuples_however_deep() -> None:
    problem = RECORDS["tiny-graph"]
    assert (
        replace(problem, operators=list(problem.operators), edges=[list(edge) for edge in problem.edges]) == problem
    )
