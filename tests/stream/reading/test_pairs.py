"""Files side by side: line i of a pair is line i of each, and what would shift fields is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from drawn import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shard_lines import PACKERS, column_lines
from streams import write_lines

from volt.errors import ConfigError, StreamError
from volt.stream.reading.error_policy import ErrorPolicy
from volt.stream.reading.open_shard import PairShard, open_pair
from volt.stream.reading.open_source import open_source
from volt.stream.reading.shard import shifting_lines
from volt.stream.reading.source_definition import Source
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.running.chunk_computation import Address, compute_chunk

texts = st.text(st.characters(codec="utf-8", exclude_characters="\t\n\r"), max_size=5)


@settings(
    deadline=None,
    max_examples=examples(30),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.tuples(texts, texts), max_size=15),
    st.lists(texts, max_size=1),
    st.integers(1, 7),
    st.sampled_from(list(PACKERS)),
    st.booleans(),
)
def test_a_pair_is_its_files_side_by_side(
    tmp_path: Path,
    both: list[tuple[str, str]],
    more: list[str],
    segment: int,
    packer: str,
    ends: bool,
) -> None:
    """Line i of a pair is line i of each file, however they are packed; files of other lengths are refused by both."""
    some, others = [a for a, _ in both], [b for _, b in both] + more
    paths = {"src": tmp_path / "a.de", "tgt": tmp_path / "a.en"}
    paths["src"].write_bytes("".join(line + "\n" for line in some).encode())
    whole = "".join(line + "\r\n" for line in others).encode()
    paths["tgt"].write_bytes(
        PACKERS[packer](whole if ends or others[-1:] == [""] else whole.removesuffix(b"\r\n"))
    )
    pair = {name: str(path) for name, path in paths.items()}
    if len(some) != len(others):
        message = rf"a\.de has {len(some)} lines?, .*a\.en has {len(others)} lines?; files of a pair must have the same"
        with pytest.raises(StreamError, match=message):
            open_pair(pair, split_lines=segment, cache=tmp_path / "cache")
        return
    shard = open_pair(pair, split_lines=segment, cache=tmp_path / "cache")
    rows = [
        row
        for number in range(len(shard.counts))
        for row in zip(*map(column_lines, shard.read(number)), strict=True)
    ]
    assert [(a.decode(), b.decode()) for a, b in rows] == list(zip(some, others, strict=True))
    assert (
        shard.facts.digest
        == open_pair(pair, split_lines=None, cache=tmp_path / "cache").facts.digest
    )
    assert (shard.names, shard.n_lines) == (("src", "tgt"), len(some))


NAMES = ("de", "en", "fr")


@pytest.mark.parametrize("changed", NAMES)
def test_a_pair_is_all_its_files(tmp_path: Path, changed: str) -> None:
    """The digest depends on names, order and all lines; a change, a tab or a missing line in any file is noticed."""
    lines = [str(i) for i in range(9)]
    pair = {name: write_lines(tmp_path / f"a.{name}", lines) for name in NAMES}
    shard, turned = (
        open_pair(pair, split_lines=4),
        open_pair(dict(reversed(pair.items())), split_lines=4),
    )
    renamed = open_pair(dict(zip("xyz", pair.values(), strict=True)), split_lines=4)
    write_lines(tmp_path / f"a.{changed}", [*lines[:6], "6\t6", *lines[7:]])
    edited = open_pair(pair, split_lines=2)
    assert len({one.facts.digest for one in (shard, turned, renamed, edited)}) == 4
    assert (shard.paths, shard.is_clean, edited.is_clean) == (tuple(pair.values()), True, False)
    place = 1 + NAMES.index(changed)
    found = [shifting_lines(edited.read(segment)) for segment in range(5)]
    assert found == [{}, {}, {}, {0: f"fields: field {place} contains a tab"}, {}]
    for look in (PairShard.check_unchanged, lambda shard: shard.read(0)):
        with pytest.raises(
            StreamError, match=rf"a\.{changed}: changed while the stream was running"
        ):
            look(shard)
    write_lines(tmp_path / f"a.{changed}", lines[:8])
    message = (
        r"a\.de has 8 lines, .*a\.en has 9"
        if place == 1
        else rf"a\.de has 9 lines, .*a\.{changed} has 8 lines"
    )
    with pytest.raises(StreamError, match=message):
        open_pair(pair, split_lines=2)


def test_one_file_is_not_a_pair(tmp_path: Path) -> None:
    """A pair needs two files."""
    with pytest.raises(ConfigError, match="pair: 1 file; name two or more"):
        open_pair({"src": write_lines(tmp_path / "a", ["x"])}, split_lines=2)


def test_a_stream_leaves_out_lines_that_would_shift(tmp_path: Path) -> None:
    """The policy decides about a tab in a pair or a line feed in a table, as about any unfit line."""
    pair = tuple(
        write_lines(tmp_path / f"a.{name}", [f"{name} {i}" for i in range(5)])
        for name in ("de", "en")
    )
    write_lines(tmp_path / "a.en", ["en 0", "en\t1", "en 2", "en 3", "en 4"])
    table = write_lines(
        tmp_path / "a.jsonl",
        [json.dumps({"a": f"x{i}" + "\n" * (i == 3), "b": "y"}) for i in range(5)],
    )
    names = ("src", "tgt")
    sources = {
        "a.de:2 fields: field 2 contains a tab": Source("a", pair, names=names, shuffle="none"),
        "a.jsonl:4 fields: field 1 contains a line feed": Source(
            "a", (table,), names=names, keys=("a", "b"), shuffle="none"
        ),
    }
    for message, declared in sources.items():
        source = open_source(declared, seed=1, cache=tmp_path / "cache")
        block = compute_chunk(source, Address(LineBlock(0, 0, 5), 0), ErrorPolicy("skip"))
        assert [
            f"{Path(fault.path).name}:{fault.line} {fault.reason}" for fault in block.faults
        ] == [message]
        assert (block.n_lines, bytes(block.data).count(b"\t"), bytes(block.data).count(b"\n")) == (
            4,
            4,
            4,
        )
