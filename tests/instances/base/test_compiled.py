"""Machine code of modules and of packages: what calls what, what is kept, and what a change makes anew."""

from __future__ import annotations

import errno
import importlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pipeplan.instances.base import compiled as machine_code
from pipeplan.instances.base.compiled import always_compiled, can_be_kept, compiled, is_kept, make_beside
from pipeplan.instances.base.errors import UsageError

pytestmark = pytest.mark.machine_code

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
ARRAYS = """
import numpy as np
from .steps import step

def walk(n):
    last = 1
    for i in range(n):
        last = (48271 * last + step(i)) % 2147483647
    return np.full(2, last), np.zeros(n % 2), np.zeros(2)
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
    assert walk.__wrapped__.signatures, "it was compiled"  # type: ignore[attr-defined]
    assert not hasattr(loops.walk, "signatures")


def test_a_change_of_what_is_called_makes_the_caller_anew(package: Path) -> None:
    """The caller's own file is what it was, but its machine code holds the factor."""
    assert compiled(_as_in_a_new_process(), "walk")(5) == 20
    (package / "steps.py").write_text(STEPS.format(factor=1000))
    changed = compiled(_as_in_a_new_process(), "walk")
    assert changed(5) == 10_000
    assert not changed.__wrapped__.stats.cache_hits  # type: ignore[attr-defined]


def test_what_others_call_can_be_called_from_outside_too(package: Path) -> None:
    """Within it is compiled without the wrapper that a call from Python needs."""
    loops = _as_in_a_new_process()
    assert compiled(loops, "walk")(5) == 20
    assert compiled(loops, "step")(4) == 8
    assert compiled(_as_in_a_new_process(), "step")(4) == 8


@pytest.mark.timing
def test_an_interrupt_while_machine_code_runs_is_an_interrupt(package: Path) -> None:
    """Where arrays are returned, Python sees it in the middle of their making, and would call it a `SystemError`."""
    (package / "walk.py").write_text(ARRAYS)
    walk = compiled(_as_in_a_new_process(), "walk")
    walk(1)

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    def work() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        while True:
            walk(10**7)

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.timing
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


MAKE = f"import {NAME}; from pipeplan.instances.base.compiled import make; make({NAME}, 'walk', 1)"


def _with_all_paths() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.timing
def test_another_process_makes_code_that_this_one_waits_for(package: Path) -> None:
    """It is made for arguments of given types; who calls it meanwhile waits, and finds it on disk."""
    loops = _as_in_a_new_process()
    assert not is_kept(loops, "walk")
    make_beside([sys.executable, "-c", MAKE], _with_all_paths(), [(loops, "walk")])
    assert is_kept(loops, "walk"), "it is on its way"
    walk = compiled(loops, "walk")
    assert walk(5) == 20
    assert walk.__wrapped__.stats.cache_hits  # type: ignore[attr-defined]
    assert is_kept(loops, "walk")


@pytest.mark.timing
def test_the_plain_function_will_do_until_the_code_is_there(package: Path) -> None:
    """Code is found as soon as it is on disk, while the process makes other code."""
    loops = _as_in_a_new_process()
    command = [sys.executable, "-c", f"input(); {MAKE}; input()"]
    with subprocess.Popen(command, env=_with_all_paths(), stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        machine_code._makers[loops, "walk"] = process
        assert compiled(loops, "walk", meanwhile=True) is loops.walk
        process.stdin.write(b"\n")
        process.stdin.flush()
        walk = compiled(loops, "walk")
        assert process.poll() is None
        assert walk(5) == 20
        assert walk.__wrapped__.stats.cache_hits  # type: ignore[attr-defined]


@pytest.mark.timing
def test_code_that_is_made_ahead_is_waited_for(package: Path) -> None:
    """Even where the plain function would do, and where nobody calls it."""
    loops = _as_in_a_new_process()
    with always_compiled():
        make_beside([sys.executable, "-c", MAKE], _with_all_paths(), [(loops, "walk"), (loops, "step")])
        assert compiled(loops, "walk", meanwhile=True) is not loops.walk
        process = machine_code._makers[loops, "step"]
    assert process.poll() == 0


def test_who_waits_for_a_process_that_fails_makes_the_code_itself(package: Path) -> None:
    loops = _as_in_a_new_process()
    make_beside([sys.executable, "-c", "raise SystemExit(1)"], dict(os.environ), [(loops, "walk")])
    assert compiled(loops, "walk")(5) == 20


@pytest.mark.parametrize("ending", ["nbc", "nbi"])
@pytest.mark.parametrize("left", [0, 20])
def test_a_file_that_was_cut_off_is_made_anew(package: Path, ending: str, left: int) -> None:
    """A process that was ended, or a full disk, must not stop all later ones."""
    assert compiled(_as_in_a_new_process(), "walk")(5) == 20
    for file in package.rglob(f"*.{ending}"):
        file.write_bytes(file.read_bytes()[:left])
    again = compiled(_as_in_a_new_process(), "walk")
    assert again(5) == 20
    assert not again.__wrapped__.stats.cache_hits  # type: ignore[attr-defined]
    later = compiled(_as_in_a_new_process(), "walk")
    assert later(5) == 20
    assert later.__wrapped__.stats.cache_hits, "it was mended"  # type: ignore[attr-defined]


def test_where_nothing_can_be_kept_code_is_made_all_the_same(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only installation without a home has no folder for it."""
    from numba.core.caching import CacheImpl

    monkeypatch.setattr(CacheImpl, "_locator_classes", [])
    loops = _as_in_a_new_process()
    assert not can_be_kept(loops, "walk")
    assert not is_kept(loops, "walk")
    assert compiled(loops, "walk")(5) == 20
    assert is_kept(loops, "walk"), "in this process"


def test_a_full_disk_stops_nothing(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from numba.core.caching import IndexDataCacheFile

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(IndexDataCacheFile, "save", full)
    assert compiled(_as_in_a_new_process(), "walk")(5) == 20


@pytest.mark.usefixtures("package")
def test_without_machine_code_the_plain_function_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    loops = _as_in_a_new_process()
    monkeypatch.setenv("PIPEPLAN_MACHINE_CODE", "no")
    assert compiled(loops, "walk") is loops.walk
    assert not can_be_kept(loops, "walk")
    with always_compiled():
        assert compiled(loops, "walk") is not loops.walk


@pytest.mark.usefixtures("package")
def test_another_word_for_machine_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPEPLAN_MACHINE_CODE", "off")
    with pytest.raises(UsageError, match="is 'off', which is neither yes nor no; give one of them, or unset it"):
        compiled(_as_in_a_new_process(), "walk")
