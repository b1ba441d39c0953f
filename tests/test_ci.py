"""The tools of `.ci`: a wrong exit code in a plain install is seen, and lowest versions are those of pyproject.toml."""

from __future__ import annotations

import importlib.util
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
from typing import Any

import pytest
from test_architecture import ROOMS, ROOT, everything

from pipeplan.instances.base.errors import UsageError
from pipeplan.planners.backends.process import Worker


def tool(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"ci_{name}", ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["run", "matrix"])
def test_the_scripts_are_bash(name: str) -> None:
    subprocess.run(["bash", "-n", ROOT / ".ci" / name], check=True)


def test_every_lower_bound_becomes_a_constraint(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text(
        "[project]\ndependencies = ['one>=1.2', \"two>=3,<4; python_version < '3.13'\", 'any']\n"
        "[project.optional-dependencies]\nmore = ['one>=1.2', 'three[x]>=2024.1']\n",
        encoding="utf-8",
    )
    assert tool("lowest").constraints(project) == ["one==1.2", "two==3; python_version < '3.13'", "three==2024.1"]


def test_everything_that_is_installed_with_pipeplan_has_a_lower_bound() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    names = {line.partition(">=")[0] for line in wanted}
    assert names <= {line.partition("==")[0] for line in tool("lowest").constraints()}


def rows_of(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, bool]]:
    """What comes out for a page: commands, codes, and whether they are complained about."""
    plain = tool("plain")
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    monkeypatch.setitem(plain.PAGES, "page", tmp_path / "page.md")
    return [(row.command, row.code, bool(row.complaint)) for row in plain.page("page", tmp_path)]


def test_every_command_of_a_page_has_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of("```sh\nplan --version\nplan --none || echo 'that was wrong'\n```\n", tmp_path, monkeypatch)
    assert rows == [("plan --version", 0, False), ("plan --none", 2, False), ("(all blocks of page)", 0, False)]


def test_a_page_that_stops_is_complained_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of("```sh\nplan --none\nplan --version\n```\n", tmp_path, monkeypatch)
    assert rows == [("plan --none", 2, False), ("(all blocks of page)", 1, True)]


def test_commands_that_nothing_runs_are_named() -> None:
    plain = tool("plain")
    rows = [plain.Row(f"plan {command}", 0) for command in plain.LISTED]
    assert plain.not_typed(rows) == [f"import {word}" for word in plain.GROUPS["import"][1]]


# ---- Where published workloads exist, a test that needs them may not be skipped; elsewhere it is, with the reason.


TESTS = """
import pytest

@pytest.mark.workloads
def test_runs(workloads): assert workloads.is_dir()

@pytest.mark.workloads
def test_gives_up(workloads): pytest.skip("not today")

@pytest.mark.slow
def test_slow(): pass

@pytest.mark.slow("b*")
@pytest.mark.parametrize("case", ["a", "b1"])
def test_cases(case): pass
"""


@pytest.mark.parametrize(("folder", "options", "summary"), [
    ("here", (), "1 failed, 2 passed, 2 deselected"),
    ("here", ("--slow",), "1 failed, 4 passed"),
    ("nowhere", (), "1 passed, 2 skipped, 2 deselected"),
])  # fmt: skip
def test_workloads_are_not_skipped_and_markers_may_name_cases(
    tmp_path: Path, folder: str, options: tuple[str, ...], summary: str
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  slow:\n  workloads:\n")
    environment = {
        **os.environ,
        "PIPEPLAN_WORKLOADS": str(tmp_path / folder),
        "PYTHONPATH": str(Path(__file__).parent),
        "PYTEST_ADDOPTS": "",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", *options, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert summary in done.stdout.splitlines()[-1], done.stdout


# ---- Installs: a wheel is complete on every platform or is not built, also where git makes no symbolic links.


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
    with pytest.raises(UsageError, match=r"use WSL \(docs/start\.md\)"):
        Worker("highs", lambda worker: None)
