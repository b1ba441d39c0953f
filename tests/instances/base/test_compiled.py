"""Machine code of modules and of packages: what calls what, what is kept, and what a change makes anew."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pipeplan.instances.base.compiled import compiled

NAME = "loops_for_a_test"

STEPS = "FACTOR = {factor}\n\ndef step(x):\n    return FACTOR * x\n"
WALK = """
from .steps import step

def walk(n):
    total = 0
    for i in range(n):
        total += step(i)
    return total
"""
DOOR = "from .steps import step\nfrom .walk import walk\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two modules, one of which calls the other, and a door that names the functions of both."""
    folder = tmp_path / NAME
    folder.mkdir()
    (folder / "__init__.py").write_text(DOOR)
    (folder / "walk.py").write_text(WALK)
    (folder / "steps.py").write_text(STEPS.format(factor=2))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    yield folder
    _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == NAME]:
        del sys.modules[name]


def _as_in_a_new_process() -> ModuleType:
    _forget()
    importlib.invalidate_caches()
    return importlib.import_module(NAME)


def test_modules_of_a_package_call_each_other_and_stay_plain(package: Path) -> None:
    loops = _as_in_a_new_process()
    walk = compiled(loops, "walk")
    assert walk(5) == loops.walk(5) == 20
    assert walk.signatures, "it was compiled"  # type: ignore[attr-defined]
    assert not hasattr(loops.walk, "signatures")


def test_a_module_by_itself_is_a_unit(package: Path) -> None:
    loops = _as_in_a_new_process()
    step = compiled(loops.steps, "step")
    assert step(4) == 8


def test_machine_code_is_found_again(package: Path) -> None:
    assert compiled(_as_in_a_new_process(), "walk")(5) == 20
    again = compiled(_as_in_a_new_process(), "walk")
    assert again(5) == 20
    assert again.stats.cache_hits  # type: ignore[attr-defined]


def test_a_change_of_what_is_called_makes_the_caller_anew(package: Path) -> None:
    """The caller's own file is what it was, but its machine code holds the factor."""
    assert compiled(_as_in_a_new_process(), "walk")(5) == 20
    (package / "steps.py").write_text(STEPS.format(factor=1000))
    changed = compiled(_as_in_a_new_process(), "walk")
    assert changed(5) == 10_000
    assert not changed.stats.cache_hits  # type: ignore[attr-defined]


def test_what_others_call_can_be_called_from_outside_too(package: Path) -> None:
    """Within it is compiled without the wrapper that a call from Python needs."""
    loops = _as_in_a_new_process()
    assert compiled(loops, "walk")(5) == 20
    assert compiled(loops, "step")(4) == 8
    assert compiled(_as_in_a_new_process(), "step")(4) == 8


def test_threads_load_numba_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that met the other's half of an import has left a lock of llvmlite closed for good."""
    import threading
    import time

    from pipeplan.instances.base import compiled as module

    inside: list[int] = []

    def load(unit: ModuleType, entry: str) -> None:
        inside.append(len(threads_inside))
        threads_inside.append(entry)
        time.sleep(0.05)
        threads_inside.remove(entry)

    threads_inside: list[str] = []
    monkeypatch.setattr(module, "_compiled", load)
    threads = [threading.Thread(target=compiled, args=(module, str(i))) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert inside == [0, 0, 0]
