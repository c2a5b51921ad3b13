"""`open_pair` aligns files line by line; `remedy_of` names `volt shard` for files that it has
written."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.shard_lines import PACKERS, column_lines
from support.streams import write_lines

from volt.errors import ConfigError, CorpusError, StreamError
from volt.stream import Source
from volt.stream.reading.error_policy import ErrorPolicy
from volt.stream.reading.open_shard import PairShard, open_pair, remedy_of
from volt.stream.reading.open_source import open_source
from volt.stream.reading.shard import shifting_lines
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
def test_pairs_have_the_lines_of_their_files(tmp_path, both, more, segment, packer, is_ended):
    """Line i of open_pair has line i of each file, for any compression and segment size; files with
    different
    numbers of lines are refused."""
    sources = [a for a, _ in both]
    targets = [b for _, b in both] + more
    paths = {"src": str(tmp_path / "a.de"), "tgt": str(tmp_path / "a.en")}
    write_lines(tmp_path / "a.de", sources)
    data = "".join(line + "\r\n" for line in targets).encode()
    if not is_ended and targets[-1:] != [""]:
        data = data.removesuffix(b"\r\n")
    (tmp_path / "a.en").write_bytes(PACKERS[packer](data))
    cache = tmp_path / "cache"
    if more:
        counts = rf"a\.de has {len(sources)} lines?, .*a\.en has {len(targets)} lines?"
        with pytest.raises(StreamError, match=f"{counts}; files of a pair must have the same"):
            open_pair(paths, split_lines=segment, cache=cache)
        return
    shard = open_pair(paths, split_lines=segment, cache=cache)
    rows = []
    for number in range(len(shard.counts)):
        rows += zip(*map(column_lines, shard.read(number)), strict=True)
    assert [(a.decode(), b.decode()) for a, b in rows] == both
    assert (shard.names, shard.n_lines) == (("src", "tgt"), len(both))
    assert shard.facts.digest == open_pair(paths, split_lines=None, cache=cache).facts.digest


NAMES = ("de", "en", "fr")


@pytest.mark.parametrize("changed", NAMES)
def test_the_digest_of_a_pair_depends_on_names_order_and_lines(tmp_path, changed):
    """open_pair has another digest for other names, another order, or another line in any file; a
    changed file is
    reported."""
    lines = [str(i) for i in range(9)]
    pair = {name: write_lines(tmp_path / f"a.{name}", lines) for name in NAMES}
    shard = open_pair(pair, split_lines=4)
    reversed_ = open_pair(dict(reversed(pair.items())), split_lines=4)
    renamed = open_pair(dict(zip("xyz", pair.values(), strict=True)), split_lines=4)
    write_lines(tmp_path / f"a.{changed}", [*lines[:6], "6\t6", *lines[7:]])
    edited = open_pair(pair, split_lines=2)
    assert len({each.facts.digest for each in (shard, reversed_, renamed, edited)}) == 4
    assert (shard.paths, shard.is_clean, edited.is_clean) == (tuple(pair.values()), True, False)
    field = 1 + NAMES.index(changed)
    shifting = [shifting_lines(edited.read(segment)) for segment in range(5)]
    assert shifting == [{}, {}, {}, {0: f"fields: field {field} contains a tab"}, {}]
    for look in (PairShard.check_unchanged, lambda shard: shard.read(0)):
        message = rf"a\.{changed}: changed while the stream was running"
        with pytest.raises(StreamError, match=message):
            look(shard)
    write_lines(tmp_path / f"a.{changed}", lines[:8])
    message = rf"a\.de has 9 lines, .*a\.{changed} has 8 lines"
    if field == 1:
        message = r"a\.de has 8 lines, .*a\.en has 9"
    with pytest.raises(StreamError, match=message):
        open_pair(pair, split_lines=2)


def test_one_file_is_not_a_pair(tmp_path):
    """open_pair refuses a single file, and asks for two or more."""
    with pytest.raises(ConfigError, match="pair: 1 file; name two or more"):
        open_pair({"src": write_lines(tmp_path / "a", ["x"])}, split_lines=2)


def test_lines_whose_fields_shift_are_faults(tmp_path):
    """compute_chunk records a fault for a line of a pair with a tab, and of a table with a line
    feed."""
    german = write_lines(tmp_path / "a.de", [f"de {i}" for i in range(5)])
    english = write_lines(tmp_path / "a.en", ["en 0", "en\t1", "en 2", "en 3", "en 4"])
    rows = [json.dumps({"a": f"x{i}" + "\n" * (i == 3), "b": "y"}) for i in range(5)]
    table = write_lines(tmp_path / "a.jsonl", rows)
    options = {"names": ("src", "tgt"), "shuffle": "none"}
    sources = {
        "a.de:2 fields: field 2 contains a tab": Source("a", (german, english), **options),
        "a.jsonl:4 fields: field 1 contains a line feed": Source(
            "a", (table,), keys=("a", "b"), **options
        ),
    }
    for message, declared in sources.items():
        source = open_source(declared, seed=1, cache=tmp_path / "cache")
        chunk = compute_chunk(source, Address(LineBlock(0, 0, 5), 0), ErrorPolicy("skip"))
        [fault] = chunk.faults
        assert f"{Path(fault.path).name}:{fault.line} {fault.reason}" == message
        data = bytes(chunk.data)
        assert (chunk.n_lines, data.count(b"\t"), data.count(b"\n")) == (4, 4, 4)


def test_only_damaged_shards_of_volt_have_volt_shard_as_their_remedy(tmp_path):
    """remedy_of returns `volt shard` only for damaged files with names that `volt shard` writes,
    beside a manifest."""
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "manifest.json").write_text("{}")
    damaged = StreamError("x")
    other = StreamError("y")
    damaged.__cause__ = CorpusError("z")
    for name, error, has_remedy in (
        ("00001.src.zst", damaged, True),
        ("123456.mono", damaged, True),
        ("00001.tgt.gz", damaged, True),
        ("00001.src.zst", other, False),
        ("0001.src.zst", damaged, False),
        ("00001.src.xz", damaged, False),
    ):
        remedy = f"; make the shards again: volt shard CONFIG -o {tmp_path}"
        assert remedy_of(str(tmp_path / "t" / name), error) == (remedy if has_remedy else "")
    assert remedy_of(str(tmp_path / "00001.src.zst"), damaged) == ""
