"""Tables become profiles: formats, units, names, repetitions and dependencies."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from command_line import Plan
from hypothesis import given
from hypothesis import strategies as st
from problems.profiles import profiles, table_of

from pipeplan import InputError, Profile
from pipeplan.instances.networks.profile.table import read_table, table_template

HEAD = "layer,forward [ms],backward [ms],parameters [MB],activation [MB],output [MB]"
ROWS = "a,1,2,3,4,5\nb,1.5,2.5,0,.5,1e1\n"


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Profile]:
    """The profile of a table's text."""

    def read(text: str, name: str = "t.csv", **options: Any) -> Profile:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return read_table(path, **options)

    return read


def numbers(profile: Profile) -> list[tuple[Any, ...]]:
    return [(n.id, n.forward, n.backward, n.parameter_bytes, n.saved_bytes) for n in profile.nodes]


def test_a_row_is_a_layer_and_every_layer_reads_from_the_one_above(table: Callable[..., Profile]) -> None:
    profile = table(f"{HEAD}\n{ROWS}")
    assert numbers(profile) == [("a", 1.0, 2.0, 3e6, 4e6), ("b", 1.5, 2.5, 0.0, 5e5)]
    (node,) = table(f"{HEAD}\na,0.1,0.2,262.1,285.2,16.8\n").nodes  # decimals are what they are written as
    assert (node.forward, node.parameter_bytes, node.saved_bytes) == (0.1, 262_100_000.0, 285_200_000.0)
    assert [(t.producer, t.readers, t.bytes) for t in profile.tensors] == [("a", ("b",), 5e6), ("b", (), 1e7)]
    assert (profile.name, profile.time_unit, profile.micro_batch, profile.is_row) == ("t", "ms", 1, True)


@pytest.mark.parametrize(("name", "change"), [
    ("t.tsv", lambda text: text.replace(",", "\t")),
    ("t.csv", lambda text: text.replace(",", ";")),
    ("t.CSV", lambda text: "\ufeff" + text.replace("\n", "\r\n")),
    ("t.csv", lambda text: text.replace("\n", ",,\n") + ",,,\n\n,,\n"),
    ("t.csv", lambda text: text.replace("a,", '"a" ,').replace("[ms]", "(ms)").replace(" (", "(")),
], ids=["tabs", "semicolons", "mark and returns", "empty cells", "quotes and brackets"])  # fmt: skip
def test_text_is_read_as_spreadsheets_write_it(
    table: Callable[..., Profile], name: str, change: Callable[[str], str]
) -> None:
    text = f"{HEAD}\n{ROWS}"
    assert table(change(text), name).hash == table(text).hash


def test_every_column_has_its_own_unit(table: Callable[..., Profile]) -> None:
    head = "layer,forward [ms],backward [us],parameters [GiB],activation [KiB],output [B]"
    (node,) = table(f"{head}\na,1,2,3,4,5\n").nodes
    assert (node.forward, node.backward) == (1.0, 0.002)
    assert (node.parameter_bytes, node.saved_bytes) == (3.0 * 2**30, 4096.0)
    seconds = table(f"{head.replace('forward [ms]', 'forward [s]')}\na,0.1,2,3,4,5\n")
    assert (seconds.time_unit, seconds.nodes[0].forward, seconds.nodes[0].backward) == ("s", 0.1, 2e-6)
    assert table(f"{head.replace('[ms]', '[µs]')}\na,0.1,2,3,4,5\n").time_unit == "us"


def test_synonyms_are_understood(table: Callable[..., Profile]) -> None:
    head = "Name,Fwd [ms],Backward Time [ms],Params [MB],Saved for backward [MB],Output-Size [MB]"
    assert table(f"{head}\n{ROWS}").hash == table(f"{HEAD}\n{ROWS}").hash


def test_inference_needs_no_backward_pass(table: Callable[..., Profile]) -> None:
    profile = table("layer,forward [ms],parameters [MB],output [MB]\na,1,3,5\n", training=False)
    assert numbers(profile) == [("a", 1.0, 0.0, 3e6, 0.0)]
    assert not profile.training


def test_repeated_layers_are_numbered(table: Callable[..., Profile]) -> None:
    profile = table(f"{HEAD},count\nin,1,1,1,1,1,\nblock,1,1,1,1,2,3\nout,1,1,1,1,3,1\n")
    assert [node.id for node in profile.nodes] == ["in", "block[0]", "block[1]", "block[2]", "out"]
    assert profile.is_row
    assert [tensor.bytes for tensor in profile.tensors] == [1e6, 2e6, 2e6, 2e6, 3e6]


def test_dependencies_make_a_graph(table: Callable[..., Profile]) -> None:
    text = (
        f"{HEAD},depends_on,count\n"
        "join,1,1,1,1,1,block; b[0],\n"  # before what it reads, of a repeated layer the last copy
        "a,1,1,1,1,1,,\nblock,1,1,1,1,1,a,2\nb,1,1,1,1,1,a,2\nc,1,1,1,1,1,b,\n"
    )
    profile = table(text)
    readers = {tensor.producer: tensor.readers for tensor in profile.tensors}
    assert readers == {
        "join": (),
        "a": ("block[0]", "b[0]"),
        "block[0]": ("block[1]",),
        "block[1]": ("join",),
        "b[0]": ("join", "b[1]"),
        "b[1]": ("c",),
        "c": (),
    }


def test_numbers_may_be_names(table: Callable[..., Profile]) -> None:
    profile = table(f"{HEAD},depends_on\n1,1,2,3,4,5,\n2,1,2,3,4,5,1\n")
    assert [node.id for node in profile.nodes] == ["1", "2"]
    assert profile.is_row


def test_the_template_is_a_table_of_a_transformer(table: Callable[..., Profile]) -> None:
    profile = table(table_template())
    assert profile.is_row
    assert 26 <= len(profile.nodes) <= 40
    assert [profile.nodes[0].id, profile.nodes[-1].id] == ["embedding", "head"]


@given(profile=profiles(), unit=st.sampled_from(["B", "kB", "KiB"]))
def test_a_profile_survives_its_table(
    tmp_path_factory: pytest.TempPathFactory, profile: Profile, unit: str
) -> None:
    path = tmp_path_factory.mktemp("tables") / "profile.csv"
    path.write_text(table_of(profile, unit), encoding="utf-8")
    again = read_table(path)
    assert again.hash == profile.hash
    assert [node.id for node in again.nodes] == [node.id for node in profile.nodes]


@given(st.text(max_size=200))
def test_no_text_is_too_strange(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("tables") / "strange.csv"
    path.write_text(f"{HEAD}\n{text}", encoding="utf-8", errors="replace")
    with contextlib.suppress(InputError):
        assert read_table(path).nodes


# ---- malformed tables, one fault each: one sentence names row, column and remedy ------------------------


class Bad(NamedTuple):
    """A table, what its sentence says of the place and the fault, and of the remedy."""

    name: str
    content: str | bytes
    says: str
    remedy: str
    suffix: str = ".csv"
    options: tuple[str, ...] = ()


def rows(*lines: str, head: str = HEAD) -> str:
    return "\n".join([head, *lines]) + "\n"


FILE = Path(__file__).resolve().parents[3] / "problems" / "malformed_tables.toml"
TABLES = [
    *(
        Bad(**{**row, "options": tuple(row.get("options", ()))})
        for row in tomllib.loads(FILE.read_text("utf-8"))["tables"]
    ),
    Bad("too many rows", rows(*(f"l{i},1,2,3,4,5" for i in range(10_002))),
        "row 10002 is one too many: at most 10000", "join layers"),
    Bad("UTF-16", rows("a,1,2,3,4,5").encode("utf-16"), "is not UTF-8 text",
        "save the file with the encoding UTF-8"),
    Bad("Latin", rows("é,1,2,3,4,5").encode("latin-1"), "is not UTF-8 text", "encoding UTF-8"),
    Bad("too many columns", rows("a,1,2,3,4,5", "," * 2000 + "x"), "columns", "give at most 1000"),
]  # fmt: skip


@pytest.mark.parametrize("bad", TABLES, ids=[bad.name for bad in TABLES])
def test_one_sentence_says_where_and_what_to_do(plan: Plan, tmp_path: Path, bad: Bad) -> None:
    path = tmp_path / f"table{bad.suffix}"
    path.write_bytes(bad.content if isinstance(bad.content, bytes) else bad.content.encode())
    of_import = [f"--{bad.options[0]}", bad.options[1]] if bad.options else []
    of_solve = ["--option", "=".join(bad.options)] if bad.options else []
    for words in (("import", "table", path, "-o", tmp_path / "p.json", *of_import), ("solve", path, *of_solve)):
        said = plan(*words)
        assert said.code == 2, said
        assert said.out == ""
        assert [line[:6] for line in said.err.splitlines() if not line.startswith("Note: --")] == ["Error:"]
        for part in (str(path), bad.says, bad.remedy):
            assert part in said.err
    assert not (tmp_path / "p.json").exists()
