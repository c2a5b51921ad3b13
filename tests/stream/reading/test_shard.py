"""Shards: only regular files can be read repeatedly, by any process."""

import inspect
import os
import pickle
import socket
from pathlib import Path

import pytest
from support.shard_lines import column_lines
from support.streams import deadline, write_lines

from volt.errors import StreamError
from volt.stream.reading.open_shard import open_pair, open_shard
from volt.stream.reading.shard import Shard, shifting_lines
from volt.stream.transforms.column import Column


@pytest.mark.parametrize("make", ["pipe", "socket", "device", "folder"])
def test_pipes_sockets_devices_and_folders_are_refused(tmp_path, make):
    """open_shard refuses a path that is not a regular file at once, with a remedy."""
    path = tmp_path / "a.tsv"
    with socket.socket(socket.AF_UNIX) as end, deadline(5):
        if make == "pipe":
            os.mkfifo(path)
        elif make == "socket":
            end.bind(str(path))
        elif make == "folder":
            path.mkdir()
        else:
            path = Path("/dev/zero")
        with pytest.raises(
            StreamError,
            match=rf"{path}: is a {make}(, which cannot .* write its text|; name the files)",
        ):
            open_shard(str(path), split_lines=5)


def test_standard_input_is_refused(tmp_path, monkeypatch):
    """open_shard refuses "-", standard input, which cannot be read twice."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        StreamError, match=r"^-: is standard input, which cannot be read repeatedly; write its"
    ):
        open_shard("-", split_lines=5)


def test_shards_can_be_pickled(tmp_path):
    """A pickled shard of each kind is equal to the original, and reads the same lines."""
    path = write_lines(tmp_path / "a.tsv", ["a"] * 7)
    table = write_lines(tmp_path / "a.jsonl", ['{"a": null}'] * 7)
    cache = tmp_path / "cache"
    shards = [
        open_shard(path, split_lines=3),
        open_pair({"src": path, "tgt": path}, split_lines=3),
        open_shard(table, fields={"src": "a"}, split_lines=3, cache=cache),
    ]
    for shard in shards:
        again = pickle.loads(pickle.dumps(shard))
        assert (again, again.names, again.facts.digest) == (shard, shard.names, shard.facts.digest)
        assert list(map(column_lines, again.read(1))) == list(map(column_lines, shard.read(1)))


def test_shifting_lines_are_reported_once():
    """shifting_lines reports each line with a tab, a line feed or a missing value before another
    once, in order."""
    columns = [
        Column.of(["a", "b\n", None, "d", "\t\n", None, ""]),
        Column.of(["a\t", None, "c", "d", "\n", None, "x"]),
        Column.of(["a\n", "b", None, None, "e", "f", None]),
    ]
    texts = {
        row: text.removeprefix("fields: field ") for row, text in shifting_lines(columns).items()
    }
    assert list(texts.items()) == [
        (0, "2 contains a tab"),
        (1, "1 contains a line feed"),
        (2, "1 is missing, field 2 is not"),
        (4, "1 contains a tab"),
        (5, "2 is missing, field 3 is not"),
    ]


def test_shards_must_define_read():
    """A subclass of Shard without `read` cannot be instantiated."""
    assert inspect.isabstract(Shard)
    assert Shard.__abstractmethods__ == {"read"}
