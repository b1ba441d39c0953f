"""Files are read with suspicion and written whole or not at all."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pipeplan.instances.base.errors import InputError
from pipeplan.instances.base.json_file import (
    dump_json,
    parse_json,
    read_json,
    read_text,
    write_json,
    write_text_atomically,
)

# ---- reading -------------------------------------------------------------------------------------------


def test_a_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'\xef\xbb\xbf{"a": 1}')
    assert read_json(path) == {"a": 1}


def test_the_size_limit_is_an_argument(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[1, 2, 3]")
    assert read_json(path, max_bytes=9) == [1, 2, 3]
    with pytest.raises(InputError, match="has 9 bytes; give a file of at most 8 bytes"):
        read_json(path, max_bytes=8)


def test_a_pipe_has_no_size_and_is_limited_while_reading(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Opened for both ends, the pipe neither blocks nor ends: the reader must stop by itself.
    descriptor = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(descriptor, b"x" * 100)
        with pytest.raises(InputError, match="has more than 10 bytes"):
            read_text(pipe, max_bytes=10)
    finally:
        os.close(descriptor)


def test_an_unreadable_file_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "secret.json"
    path.write_text("{}")
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(InputError, match=r"file cannot be read \(Permission denied\); check the path"):
        read_json(path)


def test_a_path_with_a_null_character_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_json("a\0b")


def test_a_repeated_key_is_named_with_its_path() -> None:
    with pytest.raises(InputError) as caught:
        parse_json('{"a": [0, {"b c": {"d": 1, "e": 2, "d": 3}}]}', "x.json")
    assert str(caught.value) == "x.json: a[1].'b c'.d stands twice in one object; give every key once."


# ---- writing -------------------------------------------------------------------------------------------


def test_records_get_a_line_each() -> None:
    data = {"name": "é", "nodes": [{"id": 1}, {"id": 2}], "edges": [], "ids": [1, 2]}
    text = dump_json(data)
    assert json.loads(text) == data
    assert text.splitlines()[1:6] == [
        '  "name": "\\u00e9",',
        '  "nodes": [',
        '    {"id": 1},',
        '    {"id": 2}',
        "  ],",
    ]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for data in ({"a": [[1, 2]], "b": None}, [1, 2], {}):
        write_json(path, data)
        assert read_json(path) == data


def test_nan_is_never_written(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"a": float("nan")})
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_file_and_leaves_no_rubbish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\)"):
        write_text_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_permissions_and_links_survive_a_write(tmp_path: Path) -> None:
    path, link = tmp_path / "a.json", tmp_path / "link.json"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    write_text_atomically(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_new_file_gets_the_usual_permissions(tmp_path: Path) -> None:
    usual, ours = tmp_path / "usual", tmp_path / "ours"
    usual.write_text("")
    write_text_atomically(ours, "")
    assert ours.stat().st_mode == usual.stat().st_mode


def test_a_device_is_written_to_directly() -> None:
    write_text_atomically(os.devnull, "gone")
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize("target", ["missing/a.json", "folder", "file/a.json", "a\0b"])
def test_an_impossible_target_is_an_input_error(tmp_path: Path, target: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file cannot be written .*; name a file in an existing folder"):
        write_text_atomically(f"{tmp_path}/{target}", "text")
