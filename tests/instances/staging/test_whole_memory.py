"""Memory in whole numbers says what exact fractions say, or, rounded, never less than fits."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from pipeplan import Configuration, DeviceType, GraphPipelineProblem, Layer, Operator, StagingProblem, TimeCurve
from pipeplan.planners.graph_pipeline.costs import MOST, whole_graph_memory
from pipeplan.planners.staging.costs import whole_memory


def amount(rng: random.Random) -> float:
    return rng.choice(
        (rng.randint(0, 30) / 10, rng.choice((0.0, 0.1, 0.2, 0.3, 1e-9, 1e16, 1e18)),
         rng.random() * 10 ** rng.randint(-9, 12), float(rng.randint(0, 10**9))),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(150))
def test_whole_numbers_decide_what_fits_in_a_staging_as_fractions_do(seed: int) -> None:
    rng = random.Random(seed)
    count, most = rng.randint(1, 5), rng.choice((1, 4, 2048))
    layers = tuple(
        Layer(
            v,
            {
                1: tuple(
                    Configuration(str(i), 1.0, memory_per_batch=amount(rng), memory_fixed=amount(rng))
                    for i in range(rng.randint(1, 3))
                )
            },
        )
        for v in range(count)
    )
    kinds = tuple(DeviceType(str(i), 1, 1.0, rng.choice((None, amount(rng), amount(rng)))) for i in range(2))
    problem = StagingProblem(layers, (), 2, 1.0, 5, device_types=kinds)
    rounded, exact = whole_memory(problem, most), whole_memory(problem, most, 2**1000)
    assert exact.exact
    assert exact.inside() is exact
    for _ in range(30):
        in_flight = rng.choice((1, most, rng.randint(1, most)))
        chosen = [(v, rng.randrange(len(layers[v].configurations[1]))) for v in range(count) if rng.random() < 0.7]
        ways = [layers[v].configurations[1][n] for v, n in chosen]
        true = sum(
            (Fraction(repr(way.memory_per_batch)) * in_flight + Fraction(repr(way.memory_fixed)) for way in ways),
            Fraction(0),
        )

        def held(ways_of: object, in_flight: int = in_flight, chosen: list[tuple[int, int]] = chosen) -> int:
            return sum(each * in_flight + fixed for each, fixed in (ways_of[v][1][n] for v, n in chosen))  # type: ignore[index]

        assert held(rounded.ways) < 2**53
        for place, kind in enumerate(kinds):
            if kind.memory_bytes is None:
                assert rounded.limits[place] is exact.limits[place] is None
                continue
            fits = true <= Fraction(repr(kind.memory_bytes))
            assert fits == (held(exact.ways) <= limit_of(exact.limits[place]))
            says, surely = (held(rounded.ways) <= limit_of(m.limits[place]) for m in (rounded, rounded.inside()))
            assert says == fits if rounded.exact else surely <= fits <= says


def limit_of(limit: int | None) -> int:
    assert limit is not None
    return limit


@pytest.mark.parametrize("seed", range(150))
def test_whole_numbers_decide_what_fits_in_a_graph_pipeline_as_fractions_do(seed: int) -> None:
    rng = random.Random(seed)
    curve, batch, devices = TimeCurve((1.0,), (1.0,)), rng.choice((1, 7, 4096)), rng.choice((1, 3, 8))
    operators = tuple(Operator(v, curve, curve, amount(rng), amount(rng), 0.0) for v in range(rng.randint(1, 5)))
    problem = GraphPipelineProblem(
        operators, (), batch, devices, memory_bytes=rng.choice((None, amount(rng), amount(rng), amount(rng))),
        weight_copies=rng.choice((1.0, 2.2, 4.0)), workspace_bytes=rng.choice((0.0, 0.1)),
    )  # fmt: skip
    degrees = range(1, devices + 1)
    rounded, exact = whole_graph_memory(problem, degrees), whole_graph_memory(problem, degrees, 2**1000)
    assert exact.exact
    for _ in range(30):
        d, samples = rng.randint(1, devices), rng.choice((1, batch))
        inside = [v for v in range(len(operators)) if rng.random() < 0.7]
        copies = Fraction(repr(problem.weight_copies))
        true = sum((copies * Fraction(repr(operators[v].weight_bytes)) for v in inside), Fraction(0))
        true += sum((Fraction(repr(operators[v].stash_bytes)) for v in inside), Fraction(0)) * samples / d
        true += Fraction(repr(problem.workspace_bytes))
        fits = problem.memory_bytes is None or true <= Fraction(repr(problem.memory_bytes))
        says, surely, truly = (
            d * sum(m.fixed[v] for v in inside) + samples * sum(m.stashes[v] for v in inside) <= m.limits[d]
            for m in (rounded, rounded.inside(), exact)
        )
        assert d * sum(rounded.fixed) + samples * sum(rounded.stashes) < MOST
        assert truly == fits
        assert says == fits if rounded.exact else surely <= fits <= says
