"""No physical constant is assigned twice: what `instances/physics` states, no other module does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from pipeplan.instances.physics.hardware import GPUS

ROOT = Path(__file__).resolve().parents[3]
PACKAGES = ("instances", "formulations", "planners", "pipeplan")
# Random and teaching problems have round figures of no real device.
INVENTED = ("generators.py", "random_chains.py")


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            if not any(parent.is_symlink() for parent in path.parents):
                yield path


def number(node: ast.expr) -> float | None:
    """The value of an expression of literals; None: it is something else."""
    parts = (ast.Expression, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    if not all(isinstance(part, parts) for part in ast.walk(node)):
        return None
    value = eval(compile(ast.Expression(node), "", "eval"), {})
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def constants(path: Path) -> Iterator[tuple[str, float]]:
    """Names that a module assigns numbers to, pairs in tuples included."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
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
        if not is_physics(path) and path.name not in INVENTED
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, float) and node.value in figures
    }
    assert written == set()
