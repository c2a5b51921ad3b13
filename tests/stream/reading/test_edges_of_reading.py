"""Files at the edge of what can be read: nothing but a byte order mark, and lines that are too long."""

from __future__ import annotations

import gzip
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from indexed_ids import write_pair

from volt.errors import ConfigError, StreamError
from volt.files.text_checks import LongLineError
from volt.stream import Source, Stream
from volt.stream.config.configuration import load_config
from volt.stream.reading.open_shard import open_pair, open_shard
from volt.stream.reading.open_source import open_source
from volt.stream.reading.shard import Shard
from volt.stream.reading.text_shard import lines_of

MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize("split_lines", [1, None])
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_byte_order_mark_alone_is_no_line(
    tmp_path: Path, split_lines: int | None, is_packed: bool
) -> None:
    """A file of a mark, plain or packed, whole or cut, has no line; with a line end behind the mark it has one."""
    for data, n_lines in (
        (MARK, 0),
        (b"", 0),
        (MARK + b"\n", 1),
        (MARK + b"a", 1),
        (MARK + b"\r", 1),
    ):
        path = tmp_path / f"{len(data)}.tsv"
        path.write_bytes(gzip.compress(data) if is_packed else data)
        shard = open_shard(str(path), split_lines=split_lines, cache=tmp_path / "cache")
        assert (
            sum(len(shard.read(segment)[0]) for segment in range(len(shard.counts)))
            == shard.n_lines
            == n_lines
        )
    assert len(lines_of(MARK, is_first=False)) == 1, "elsewhere the same bytes are text"


def test_a_stream_passes_over_a_file_without_a_line(tmp_path: Path) -> None:
    """Beside other files, one of a mark adds nothing; alone, it is an empty source; beside a line, it is no pair."""
    mark, line = tmp_path / "mark.tsv", tmp_path / "line.tsv"
    mark.write_bytes(MARK)
    line.write_bytes(MARK + b"a\n")
    with Stream([Source("s", (str(mark), str(line)), epochs=1)]) as stream:
        assert list(stream) == ["a"]
    with pytest.raises(StreamError, match=r"no line in .*mark\.tsv"):
        Stream([Source("s", (str(mark),))])
    with pytest.raises(StreamError, match="0 lines"):
        open_pair({"src": str(mark), "tgt": str(line)}, split_lines=None)


def test_a_line_that_is_too_long_names_what_a_stream_has(tmp_path: Path) -> None:
    """The remedy is the key of a source, for text and for tables; no option of other commands is named."""
    text, table = tmp_path / "a.tsv", tmp_path / "a.jsonl"
    text.write_text("long line\n")
    table.write_text('{"de": "long line"}\n')
    for path, fields in ((text, None), (table, {"src": "de"})):
        with pytest.raises(
            StreamError, match=r":1: .*cut it, or raise the source's max_line"
        ) as error:
            open_shard(str(path), split_lines=None, fields=fields, cache=tmp_path, max_line=3)
        assert "max_line=" not in str(error.value)
        assert isinstance(error.value.__cause__, LongLineError)


def test_the_limit_of_a_source_counts(tmp_path: Path) -> None:
    """A line of `max_line` bytes is read, a longer one is not, even from an earlier index, also by `each`."""
    (tmp_path / "a.txt").write_text("long line\n")
    (tmp_path / "a.jsonl").write_text('{"de": "long line"}\n')
    write_pair(tmp_path / "a", [[1, 2]], "u16")
    kinds: list[tuple[str, int, dict[str, Any], dict[str, Any]]] = [
        ("a.txt", 9, {}, {"path": "*.txt"}),
        ("a.bin", 8, {}, {"path": "*.bin"}),
        ("a.txt", 9, {"names": ("x", "y")}, {"pair": {"x": "*.txt", "y": "*.txt"}}),
        (
            "a.jsonl",
            19,
            {"names": ("x",), "keys": ("de",)},
            {"path": "*.jsonl", "columns": {"x": "de"}},
        ),
    ]
    for name, n_bytes, options, each in kinds:
        paths, config = (str(tmp_path / name),) * (1 + ("pair" in each)), tmp_path / "stream.yaml"
        config.write_text(json.dumps({"cache": "cache", "each": {**each, "max_line": n_bytes}}))
        for source in (
            Source("s", paths, max_line=n_bytes, **options),
            *load_config(config).sources,
        ):
            assert open_source(source, seed=1, cache=tmp_path / "cache").n_lines == 1
        message = f"{name}:1: the line has more than {n_bytes - 1} bytes"
        with pytest.raises(StreamError, match=message):
            open_source(
                Source("s", paths, max_line=n_bytes - 1, **options),
                seed=1,
                cache=tmp_path / "cache",
            )
        config.write_text(json.dumps({"cache": "cache", "each": {**each, "max_line": n_bytes - 1}}))
        with pytest.raises(ConfigError, match=message):
            load_config(config)


def test_only_what_can_be_read_can_be_made() -> None:
    """How a segment is read is left to each kind of file, so that none is made that cannot be read."""
    assert inspect.isabstract(Shard)
    assert Shard.__abstractmethods__ == {"read"}
