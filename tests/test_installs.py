"""Installs: a wheel is complete on every platform or is not built, also where git makes no symbolic links.

A checkout of `git -c core.symlinks=false clone`, as on Windows, has a small text file in the place of each link.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from test_architecture import ROOMS, ROOT, everything

from pipeplan.instances.base.errors import UsageError
from pipeplan.planners.backends.process import Worker

DATA = (".json", ".csv", ".md", ".toml", ".css", ".js")
SOLVE = ["-m", "pipeplan", "solve", "--formulation", "ip-tarnawski", "--json"]
WHERE = ["-c", "import pipeplan.planners.registry as planners; print(planners.__file__)"]


def copy_of_the_tree(folder: Path, links: bool) -> Path:
    """The files of today as a clone has them: no left-over of an earlier build gets into a wheel."""
    skip = shutil.ignore_patterns(".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", ".*_cache")
    # In a checkout without links these are files: no copy may depend on how the one at hand was made.
    shutil.copytree(ROOT, folder, symlinks=True, ignore=skip)
    for room in ROOMS:
        link = folder / "pipeplan" / room
        link.unlink()
        if links:
            link.symlink_to(f"../{room}")
        else:
            link.write_text(f"../{room}", encoding="utf-8")
    return folder


def python(words: Sequence[str | Path], folder: Path, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """This Python in a folder that holds no pipeplan, unless one is named by `path`."""
    given = {} if path is None else {"PYTHONPATH": str(path)}
    rest = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=folder, env=rest | given)


def build(tree: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    return python(["-m", "build", "--wheel", "--outdir", folder, tree], folder)


def modules_and_data() -> set[str]:
    """What has to be in a wheel, apart from its own notes."""
    modules = {path.relative_to(ROOT).as_posix() for path in everything()}
    rooms = {path.relative_to(ROOT) for room in ROOMS for path in (ROOT / room).rglob("*")}
    data = {path.as_posix() for path in rooms if path.suffix in DATA and (ROOT / path).is_file()}
    names = {name if name.startswith("pipeplan/") else f"pipeplan/{name}" for name in modules | data}
    return names | {"pipeplan/py.typed", "pipeplan/__init__.pyi"}


def test_a_checkout_without_links_finds_its_packages(tmp_path: Path) -> None:
    tree = copy_of_the_tree(tmp_path / "tree", links=False)
    done = python(WHERE, tmp_path, tree)
    assert done.stdout.strip() == str(tree / "planners" / "registry.py"), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("links", [True, False], ids=["links", "without links"])
def test_a_wheel_is_complete_and_plans(links: bool, tmp_path: Path) -> None:
    done = build(copy_of_the_tree(tmp_path / "tree", links), tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    wheel = zipfile.ZipFile(next(tmp_path.glob("*.whl")))
    names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in names} == {"pipeplan"}
    assert {name for name in names if name.endswith(".py")} == {n for n in modules_and_data() if n.endswith(".py")}
    assert modules_and_data() <= names
    wheel.extractall(tmp_path / "plain")
    assert python(WHERE, tmp_path, tmp_path / "plain").stdout.startswith(str(tmp_path / "plain" / "pipeplan"))
    assert '"stop": "proven"' in python(SOLVE, tmp_path, tmp_path / "plain").stdout


@pytest.mark.slow
@pytest.mark.parametrize("links", [True, False], ids=["links", "without links"])
def test_an_editable_install_plans(links: bool, tmp_path: Path) -> None:
    """In an environment of its own that sees what is installed here, and this tree first."""
    tree = copy_of_the_tree(tmp_path / "tree", links)
    assert python(["-m", "venv", tmp_path / "venv"], tmp_path).returncode == 0
    own = tmp_path / "venv" / "bin" / "python"
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (packages / "zz-this-environment.pth").write_text(_what_is_installed_here(), encoding="utf-8")
    install = [own, "-m", "pip", "install", "--quiet", "--no-deps", "--editable", tree]
    done = subprocess.run(install, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    for words, answer in ((WHERE, str(tree)), (SOLVE, '"stop": "proven"')):
        assert answer in subprocess.run([own, *words], capture_output=True, text=True, cwd=tmp_path).stdout


def _what_is_installed_here() -> str:
    """The folders of installed packages, one a line; that of this checkout is none of them."""
    folders = dict.fromkeys(
        [sysconfig.get_path("purelib"), *(path for path in sys.path if "site-packages" in path)]
    )
    return "\n".join(folders) + "\n"


@pytest.mark.slow("formulations", "planners")
@pytest.mark.sweeps
@pytest.mark.parametrize("room", ROOMS)
def test_a_tree_without_one_of_its_folders_builds_no_wheel(room: str, tmp_path: Path) -> None:
    tree = copy_of_the_tree(tmp_path / "tree", links=False)
    shutil.rmtree(tree / room)
    done = build(tree, tmp_path)
    assert done.returncode != 0
    assert f"neither pipeplan/{room} nor {room} is a folder with Python files" in done.stdout + done.stderr
    assert not list(tmp_path.glob("*.whl"))


def test_a_class_installs_pinned_packages() -> None:
    """Whatever the package or its lessons depend on is pinned with a hash in the lecturer's list."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["notebooks"]]
    pinned = set(
        re.findall(r"^([\w.-]+)==\S+.*\\\n\s+--hash=", (ROOT / "notebooks/requirements.txt").read_text(), re.M)
    )
    assert {re.match(r"[\w-]+", text)[0] for text in wanted} <= pinned


def test_windows_is_told_what_to_do_without_solver_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "name", "nt")
    with pytest.raises(UsageError, match=r"use WSL \(docs/platforms\.md\)"):
        Worker("highs", lambda worker: None)
