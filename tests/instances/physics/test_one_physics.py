"""No physical constant is stated twice, and a model takes the same seconds and bytes by every command."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from pipeplan import ProfileOptions, load_profile, simulate
from pipeplan.instances.base.cluster import Cluster
from pipeplan.instances.physics.hardware import GPUS, devices_given
from pipeplan.instances.training.build import problem_of
from pipeplan.instances.training.iteration import timing_of
from pipeplan.instances.training.plan import NOTHING, Configuration, Degrees
from pipeplan.instances.training.referee import memory_of_ranks, stash_bytes
from pipeplan.models.export.training import plan_of_layout

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("instances", "formulations", "planners", "pipeplan")
# Random and teaching problems have round figures of no real device.
INVENTED = "generators.py"


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents):
                yield path


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def number(node: ast.expr) -> float | None:
    """The value of an expression of literals; None: it is something else."""
    parts = (ast.Expression, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    if not all(isinstance(part, parts) for part in ast.walk(node)):
        return None
    value = eval(compile(ast.Expression(node), "", "eval"), {})
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def constants(path: Path) -> Iterator[tuple[str, float]]:
    """Names that a module assigns numbers to, pairs in tuples included."""
    for node in tree(path).body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=True))
                for name, value in pairs:
                    if isinstance(name, ast.Name) and (found := number(value)) is not None:
                        yield name.id, found


def is_physics(path: Path) -> bool:
    return path.parent == ROOT / "instances" / "physics"


def test_no_constant_of_physics_is_assigned_again() -> None:
    stated = {pair for path in modules() if is_physics(path) for pair in constants(path)}
    assert {("ATTENTION_BACKWARD", 2.5), ("SAFETY", 1e-9), ("GATHERED_UNITS", 3)} <= stated, (
        "this test reads nothing"
    )
    again = {
        (path.relative_to(ROOT).as_posix(), *pair)
        for path in modules()
        if not is_physics(path)
        for pair in constants(path)
        if pair in stated
    }
    assert again == set()


def test_no_figure_of_a_gpu_is_written_outside_the_table() -> None:
    """Peaks and memory rates: an H100 of 989.4 TFLOP/s stands in one place."""
    figures = {rate for gpu in GPUS.values() for rate in (*gpu.flops.values(), gpu.single_flops, gpu.memory_rate)}
    written = {
        (path.relative_to(ROOT).as_posix(), node.value)
        for path in modules()
        if not is_physics(path) and path.name != INVENTED
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value in figures
    }
    assert written == set()


# ---- the same seconds and bytes --------------------------------------------------------------------------

STAGES, MICRO_BATCHES, SEQUENCE = 4, 8, 8_192


@pytest.mark.parametrize("gpu", ["a100-80gb", "h100-80gb", "b200-180gb", "mi300x"])
@pytest.mark.parametrize("model", ["llama-3-8b", "mixtral-8x7b"])
def test_the_same_configuration_takes_the_same_seconds_and_bytes_by_every_command(model: str, gpu: str) -> None:
    """Four equal stages by 1F1B: as `plan solve` and `plan simulate` see them, and as `plan configure --judge` does.

    What a pass holds for a moment, the reserve and the optimizer's update are of configurations alone.
    """
    devices = f"{STAGES}x{gpu}"
    problem = problem_of(model, devices, batch=MICRO_BATCHES, sequence=SEQUENCE)
    ends = (9, 8, 8, 9)  # the embedding and the head besides eight layers each
    configured = Configuration(Degrees(pipeline=STAGES), 1, 0, "1f1b", ends, (NOTHING,) * STAGES)
    passes, memory = timing_of(problem, configured).chunks, memory_of_ranks(problem, configured)

    options = ProfileOptions(kind="staging", optimizer="adam-mixed", sequence=SEQUENCE)
    cluster = Cluster(**devices_given(devices), memory_bytes=float("inf"), profile=options)
    lowered, plan = plan_of_layout("8,8,8,8", load_profile(model), cluster)
    simulated = simulate(lowered.problem, plan, micro_batches=MICRO_BATCHES).stages

    units = iter(range(sum(ends)))
    for stage, chunk, rank, count in zip(simulated, passes, memory, ends, strict=True):
        assert stage.busy == pytest.approx(MICRO_BATCHES * (chunk.forward + chunk.backward), rel=1e-9)
        standing = sum(rank.parts[name] for name in ("weights", "gradients", "optimizer"))
        assert stage.fixed_bytes == pytest.approx(standing, rel=1e-9)
        kept = sum(stash_bytes(problem, configured, unit, NOTHING) for unit in islice(units, count))
        assert stage.micro_batch_bytes == pytest.approx(kept, rel=1e-9)
        in_flight = STAGES - rank.rank
        assert stage.memory_bytes == pytest.approx(standing + in_flight * kept, rel=1e-9)
