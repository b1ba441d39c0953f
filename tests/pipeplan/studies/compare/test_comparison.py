"""Comparisons that are interrupted, killed or spread over a cluster end in the table of an undisturbed one."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pipeplan.instances.base.compiled import child_environment
from pipeplan.instances.base.errors import UsageError
from pipeplan.show.comparison import write_tables
from pipeplan.show.pictures import draw_profile, write_profile
from pipeplan.studies.compare.comparison import JOURNAL, Comparison, Progress, Where, compare, finished, journal_in
from pipeplan.studies.compare.run import Record, Status
from pipeplan.studies.compare.suite import Instance, Suite, competitor
from pipeplan.studies.compare.table import DETERMINISTIC, plain_rows

# One worker runs them all, so that the comparison which they share is made once.
pytestmark = pytest.mark.xdist_group("comparison")

NAMES = ("greedy", "dp", "local-search", "one-device", "ip-tarnawski@highs")
SUITE = Suite("small", (Instance("tiny", "tiny-chain"),), tuple(map(competitor, NAMES)), seeds=(0, 1))
# Two methods take two seeds each; `greedy`, `dp` and `one-device` know no chance and run once.
RUNS = 7
COMMAND = [sys.executable, "-m", "pipeplan", "compare", "tiny-chain", "--seeds", "0,1", "--jobs", "2"]


def deterministic(comparison: Comparison) -> list[dict[str, Any]]:
    return plain_rows(comparison.table()[list(DETERMINISTIC)])


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    return compare(SUITE, tmp_path_factory.mktemp("undisturbed"), where=Where(jobs=2))


@pytest.mark.slow
def test_all_runs_finish_and_the_deterministic_columns_hold_their_values(undisturbed: Comparison) -> None:
    rows = deterministic(undisturbed)
    assert len(rows) == RUNS
    assert {row["value"] for row in rows if row["method"] in ("dp", "ip-tarnawski@highs")} == {6.0}
    assert {row["stop"] for row in rows if row["method"] == "dp"} == {"proven"}


@pytest.mark.slow
def test_interrupted_and_resumed_it_repeats_nothing(tmp_path: Path, undisturbed: Comparison) -> None:
    def interrupt(progress: Progress) -> None:
        if progress.record is not None and progress.finished == 3:
            raise KeyboardInterrupt

    first = compare(SUITE, tmp_path, where=Where(jobs=1), watch=interrupt)
    assert first.interrupted
    assert len(first.records) == 3
    heard: list[Progress] = []
    second = compare(SUITE, tmp_path, where=Where(jobs=2), resume=True, watch=heard.append)
    assert second.reused == heard[0].finished == 3
    assert len(heard) == 1 + RUNS - 3
    assert deterministic(second) == deterministic(undisturbed)
    assert all(second.records[key].wall_s == record.wall_s for key, record in first.records.items())


@pytest.mark.slow
@pytest.mark.timing
def test_killed_with_all_its_processes_and_resumed_it_repeats_nothing(
    tmp_path: Path, undisturbed: Comparison
) -> None:
    folder = tmp_path / "out"
    methods = [word for name in NAMES for word in ("--method", name)]
    process = subprocess.Popen(
        [*COMMAND, *methods, "-o", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        env=child_environment(), start_new_session=True,
    )  # fmt: skip
    journal = journal_in(folder)
    while process.poll() is None and (not journal.exists() or len(finished(journal)) < 2):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    left = finished(journal)
    assert 2 <= len(left) < RUNS, "it was killed in the middle"
    resumed = subprocess.run(
        [*COMMAND, *methods, "-o", str(folder), "--resume"],
        capture_output=True,
        env=child_environment(),
        check=True,
    )
    assert f"{RUNS} runs, {len(left)} of them done before".encode() in resumed.stderr
    assert len((folder / JOURNAL).read_bytes().splitlines()) == RUNS, "each run is there once"
    labelled = [{**row, "instance": "tiny"} for row in _rows(folder)]
    assert labelled == deterministic(undisturbed)


def _rows(folder: Path) -> list[dict[str, Any]]:
    """The deterministic columns of a folder's journal, by the API."""
    suite = Suite("s", (Instance("tiny-chain", "tiny-chain"),), SUITE.methods, seeds=SUITE.seeds)
    found = compare(suite, folder, resume=True)
    return deterministic(found)


def test_a_folder_with_a_comparison_is_not_overwritten(tmp_path: Path) -> None:
    small = Suite("s", SUITE.instances, SUITE.methods[:1])
    compare(small, tmp_path)
    with pytest.raises(UsageError, match="--resume"):
        compare(small, tmp_path)


def test_failed_runs_are_run_again_only_when_that_is_asked(tmp_path: Path) -> None:
    small = Suite("s", SUITE.instances, SUITE.methods[:1])
    (done,) = compare(small, tmp_path).records.values()
    journal_in(tmp_path).append(Record(done.run, Status.CRASHED, message="killed").to_json())
    (kept,) = compare(small, tmp_path, resume=True).records.values()
    assert kept.status == Status.CRASHED
    (again,) = compare(small, tmp_path, resume=True, retry_failed=True).records.values()
    assert again.status == Status.DONE


@pytest.mark.slow
def test_the_files_of_a_comparison(tmp_path: Path, undisturbed: Comparison) -> None:
    import pandas

    paths = write_tables(undisturbed, tmp_path, parquet=True) | draw_profile(undisturbed, tmp_path)
    assert (
        len(pandas.read_csv(paths["runs"]))
        == len(pandas.read_parquet(paths["parquet"]))
        == len(undisturbed.records)
    )
    text = paths["tables"].read_text(encoding="utf-8")
    assert "6 *proven*" in text
    assert paths["profile"].read_text(encoding="utf-8").lstrip().startswith("<?xml")


@pytest.fixture
def cluster() -> Any:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local:
        yield local


@pytest.mark.slow
def test_on_a_cluster_it_gives_the_same_table_though_a_worker_is_killed(
    tmp_path: Path, undisturbed: Comparison, cluster: Any
) -> None:
    victim = next(iter(cluster.workers.values()))
    killed = threading.Event()

    def kill(progress: Progress) -> None:
        if progress.finished >= 2 and not killed.is_set():
            killed.set()
            os.kill(victim.pid, signal.SIGKILL)

    found = compare(SUITE, tmp_path, where=Where(cluster=cluster.scheduler_address), watch=kill)
    assert killed.is_set()
    assert deterministic(found) == deterministic(undisturbed)


def test_a_cluster_that_does_not_answer_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether nobody listens, somebody who says nothing, or it is no address; no client is made, which would wait."""
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr("pipeplan.studies.compare.pool.CONNECT_S", 0.5)
    monkeypatch.setattr(distributed, "Client", None)
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.create_server(("127.0.0.1", 0)) as gone:
        nobody = gone.getsockname()[1]
        gone.close()
        for number, address in enumerate(
            (f"tcp://127.0.0.1:{nobody}", f"tcp://127.0.0.1:{silent.getsockname()[1]}", "nonsense", "x://y:1", "")
        ):
            with pytest.raises(
                UsageError, match=rf"No dask scheduler answers at '{address}' \(.+\); start one with"
            ):
                compare(SUITE, tmp_path / str(number), where=Where(cluster=address))


@pytest.mark.sweeps
def test_a_dollar_in_a_label_is_a_dollar(tmp_path: Path) -> None:
    import pandas

    write_profile(pandas.DataFrame({"ratio": [1.0, 1.1], "a$b": [0.5, 1.0]}), tmp_path / "profile.svg")
    assert ">a$b<" in (tmp_path / "profile.svg").read_text("utf-8")
