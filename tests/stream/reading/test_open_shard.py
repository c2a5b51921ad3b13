"""Paths become shards: line-aligned files and indexed ids, with the digests of their lines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.indexed_ids import CODES, write_pair
from support.shard_lines import PACKERS, column_lines
from support.streams import deadline, write_lines

from volt.errors import ConfigError, CorpusError, StreamError
from volt.files.indexed_dataset import dtype_of
from volt.stream import Source, Stream, audit
from volt.stream.config.configuration import load_config
from volt.stream.reading.error_policy import ErrorPolicy
from volt.stream.reading.id_shard import IdShard, bins_of, open_id_shard
from volt.stream.reading.open_shard import PairShard, open_pair, open_shard, remedy_of
from volt.stream.reading.open_source import open_source
from volt.stream.reading.shard import shifting_lines
from volt.stream.reading.unread_lines import LineBlock
from volt.stream.running.chunk_computation import Address, compute_chunk
from volt.stream.tasks.task import read_input_file
from volt.stream.transforms.column import Column
from volt.stream.transforms.line_batch import Batch, LineRng
from volt.stream.transforms.subwords import StripEos
from volt.stream.transforms.transform import LineFault

LINES = [[number, *range(number % 5), 2] for number in range(40)]


SMALL = st.integers(0, 127)


def _text(lines):
    return [" ".join(map(str, line)) for line in lines]


def _ids(shard):
    return [
        ids
        for segment in range(len(shard.counts))
        for ids in shard.read(segment)[0].to_arrow().to_pylist()
    ]


@settings(
    deadline=None,
    max_examples=examples(30),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.lists(SMALL, max_size=4), max_size=9),
    st.sampled_from(sorted(CODES)),
    st.integers(1, 4),
)
def test_segments_hold_the_sentences_whatever_their_numbers(tmp_path, lines, dtype, segment):
    """Every number type gives the same ids as int32 and the same digest, for any segment size, cached or not."""
    prefix = write_pair(tmp_path / "a", lines, dtype)
    plain = write_pair(tmp_path / "b", lines, "i32", documents=[0, len(lines)])
    cache = tmp_path / "cache"
    shards = [open_id_shard(f"{prefix}.bin", split_lines=segment, cache=cache) for _ in range(2)]
    whole = open_id_shard(f"{plain}.idx", split_lines=None, cache=cache)
    for shard in (*shards, whole):
        assert _ids(shard) == lines
        assert (shard.n_lines, shard.facts.digest) == (len(lines), whole.facts.digest)
        assert all(
            shard.read(number)[0].data.dtype == np.int32 for number in range(len(shard.counts))
        )
    assert shards[0] == shards[1]
    assert shards[0].paths == (f"{prefix}.bin", f"{prefix}.idx")


def test_the_digest_depends_on_ids_and_on_where_sentences_end(tmp_path):
    """Other ids, and the same ids cut into other sentences, have other digests."""
    kinds = ([[1, 2], [3]], [[1], [2, 3]], [[1, 2], [4]], [[1, 2, 3]], [[1, 2], [3], []])
    paths = [write_pair(tmp_path / str(number), lines, "u16") for number, lines in enumerate(kinds)]
    shards = [
        open_id_shard(f"{path}.bin", split_lines=None, cache=tmp_path / "cache") for path in paths
    ]
    assert len({shard.facts.digest for shard in shards}) == len(kinds)


@pytest.mark.parametrize("name", ["a.bin", "a.idx", "a", "*.bin", "a.*"])
def test_a_source_names_the_pair_by_any_of_its_names(tmp_path, name):
    """NAME, NAME.bin, NAME.idx and a pattern that matches both files all name one dataset, read once."""
    write_pair(tmp_path / "a", LINES, "u16")
    config = tmp_path / "stream.yaml"
    message = {"path": name, "shuffle": "none", "epochs": 1, "split_lines": 7}
    config.write_text(
        json.dumps({"seed": 1, "cache": str(tmp_path / "cache"), "sources": {"s": message}})
    )
    with Stream(**load_config(config).options) as stream:
        assert stream.sources[0].place_of(9) == (str(tmp_path / "a.bin"), 10)
        assert list(stream) == _text(LINES)


def _pair(folder, *, workers=0, rank=0, world=1, text=False):
    """A pair of sides, as ids in two kinds of number or as text, shuffled, mixed with one of ids alone."""
    sides = [[[*line[:-1], 9, 2] for line in LINES], LINES]
    if text:
        paths = [
            write_lines(folder / f"t{side}.txt", _text(lines)) for side, lines in enumerate(sides)
        ]
        alone = write_lines(folder / "alone.txt", _text(LINES[:11]))
    else:
        kinds = ("i32", "u16")
        paths = [
            write_pair(folder / f"t{side}", sides[side], kinds[side]) + ".bin" for side in range(2)
        ]
        alone = write_pair(folder / "alone", LINES[:11], "i64")
    options = {"block_lines": 8, "split_lines": 3}
    sources = (
        Source("pair", tuple(paths), 2.0, names=("src", "tgt"), **options),  # type: ignore[arg-type]
        Source("alone", (alone,), **options),  # type: ignore[arg-type]
    )
    return Stream(
        sources, seed=3, n_workers=workers, rank=rank, world=world, cache=folder / "cache"
    )


def test_a_stream_of_ids_is_that_of_the_same_numbers_as_text(tmp_path):
    """A stream of indexed ids gives the same lines as a stream of the ids as text, for any number of workers."""
    with deadline(60):
        expected = [line for line, _ in zip(_pair(tmp_path, text=True), range(150), strict=False)]
        for workers in (0, 1):
            with _pair(tmp_path, workers=workers) as stream:
                assert [line for line, _ in zip(stream, range(150), strict=False)] == expected
    assert {line.count("\t") for line in expected} == {0, 1}


def test_ranks_share_ids_and_a_stream_goes_on_where_it_stopped(tmp_path):
    """Three ranks read each sentence once per epoch, and a state resumes at the next sentence."""
    found = audit(_pair(tmp_path, world=3), epochs=2, content=True)
    assert found.exact, found
    assert all(source.content for source in found.sources)
    with _pair(tmp_path, rank=1, world=2) as stream:
        taken = [line for line, _ in zip(stream, range(33), strict=False)]
        state, behind = stream.state(), [line for line, _ in zip(stream, range(40), strict=False)]
    with _pair(tmp_path, rank=1, world=2) as again:
        again.restore(json.loads(json.dumps(state)))
        assert [line for line, _ in zip(again, range(40), strict=False)] == behind
    assert taken != behind


def test_other_ids_are_another_stream(tmp_path):
    """A state is refused by a stream of other ids."""
    with _pair(tmp_path) as stream:
        state = stream.state()
    write_pair(tmp_path / "alone", LINES[1:12], "i64")
    options = {"block_lines": 8, "split_lines": 3, "cache": tmp_path / "cache"}
    paths = (str(tmp_path / "t0.bin"), str(tmp_path / "t1.bin"))
    shape = {key: value for key, value in options.items() if key != "cache"}
    sources = (
        Source("pair", paths, 2.0, names=("src", "tgt"), **shape),  # type: ignore[arg-type]
        Source("alone", (str(tmp_path / "alone"),), **shape),  # type: ignore[arg-type]
    )
    with (
        Stream(sources, seed=3, cache=tmp_path / "cache") as other,
        pytest.raises(StreamError, match="alone"),
    ):
        other.restore(state)


def test_a_side_of_ids_goes_with_one_of_text(tmp_path):
    """Ids and text can form a pair; files with different numbers of lines are refused by name."""
    text = write_lines(tmp_path / "a.txt", [f"line {number}" for number in range(40)])
    ids = write_pair(tmp_path / "a", LINES, "u16") + ".bin"
    shard = open_pair({"text": text, "ids": ids}, split_lines=None, cache=tmp_path / "cache")
    first, second = shard.read(0)
    assert (first.strings()[7], second.strings()[7], second.is_ids) == ("line 7", "7 0 1 2", True)
    assert (shard.paths, shard.is_clean) == ((text, ids, ids.replace(".bin", ".idx")), True)
    short = write_pair(tmp_path / "b", LINES[1:], "u16") + ".bin"
    with pytest.raises(
        StreamError, match=r"a\.txt has 40 lines, .*b\.bin has 39 lines; files of a pair must have"
    ):
        open_pair({"text": text, "ids": short}, split_lines=None, cache=tmp_path / "cache")


@pytest.mark.parametrize("dtype", ["i64", "u32", "u64"])
def test_ids_beyond_32_bits_are_refused(tmp_path, dtype):
    """The largest 32-bit number is accepted; the next one is reported with its line."""
    most = int(np.iinfo(np.int32).max)
    good = write_pair(tmp_path / "good", [[1], [most]], dtype)
    assert open_id_shard(f"{good}.bin", split_lines=None, cache=tmp_path / "c").read(0)[
        0
    ].strings()[1] == str(most)
    lowest = int(np.iinfo(dtype_of(dtype)).min)
    for wrong in (most + 1, *([lowest] if lowest else [])):
        bad = write_pair(tmp_path / "bad", [[1, 2], [], [5, wrong]], dtype)
        with pytest.raises(
            StreamError, match=rf"bad\.bin:3: id {wrong:,} does not fit in 32 bits; name data"
        ):
            open_id_shard(f"{bad}.bin", split_lines=None, cache=tmp_path / "c")


def _without_index(folder):
    (folder / "a.idx").unlink()


def _shorter(folder):
    (folder / "a.bin").write_bytes((folder / "a.bin").read_bytes()[:-2])


def _truncated(folder):
    (folder / "a.idx").write_bytes((folder / "a.idx").read_bytes()[:-3])


FAULTS: dict[str, tuple[Callable[[Path], object], str]] = {
    "no index": (
        _without_index,
        r"a\.bin: its index .*a\.idx is missing; restore it, or write both with",
    ),
    "shorter": (_shorter, r"a\.bin: has \d+ bytes, but .*a\.idx requires \d+; copy both"),
    "truncated": (_truncated, r"a\.idx: has \d+ bytes, but 40 sentences need 506"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_damage_is_reported_when_a_source_is_opened(tmp_path, kind):
    """A damaged pair stops a stream with its name and what is wrong, or is left out where the policy says so."""
    change, message = FAULTS[kind]
    bad, good = (
        write_pair(tmp_path / "a", LINES, "u16"),
        write_pair(tmp_path / "b", LINES[:2], "u16"),
    )
    change(tmp_path)
    with pytest.raises(StreamError, match=f"source 's': .*{message}"):
        Stream([Source("s", (f"{bad}.bin",))], seed=1, cache=tmp_path / "cache")
    sources = [Source("s", (f"{bad}.bin", f"{good}.bin"), epochs=1, shuffle="none")]
    with Stream(sources, seed=1, cache=tmp_path / "cache", policy=ErrorPolicy("skip")) as stream:
        assert list(stream) == _text(LINES[:2])


@pytest.mark.parametrize("name", ["a", "a.bin"])
def test_the_file_that_is_missing_is_named(tmp_path, name):
    """If the .bin or the .idx file is missing, the error names it."""
    write_pair(tmp_path / "a", LINES, "u16")
    write_lines(tmp_path / "b.txt", ["x"] * len(LINES))
    (tmp_path / "a.idx").unlink()
    (tmp_path / "s.yaml").write_text(f"sources: {{s: {{pair: {{src: {name}, tgt: b.txt}}}}}}\n")
    with pytest.raises(StreamError, match=r"a\.bin: its index .*a\.idx is missing; restore it"):
        Stream.from_config(tmp_path / "s.yaml", cache=tmp_path / "cache")


@pytest.mark.parametrize("ending", [".bin", ".idx"])
def test_files_that_change_while_a_stream_runs_are_reported(tmp_path, ending):
    """A change of either file is reported; if size and time are unchanged, the error names the segment's lines."""
    prefix = write_pair(tmp_path / "a", LINES, "u16")
    shard = open_id_shard(f"{prefix}.bin", split_lines=9, cache=tmp_path / "cache")
    path = Path(prefix + ending)
    content, stamp = path.read_bytes(), path.stat()
    path.write_bytes(content + b"\0")
    for look in (IdShard.check_unchanged, lambda shard: shard.read(0)):
        with pytest.raises(StreamError, match=rf"a\{ending}: changed while the stream was running"):
            look(shard)
    for segment, (first, last) in enumerate([(1, 9), (10, 18), (19, 27), (28, 36), (37, 40)]):
        place = 26 + 4 * (first - 1) if ending == ".idx" else 2 * sum(map(len, LINES[: first - 1]))
        path.write_bytes(content[:place] + b"\xff" + content[place + 1 :])
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        with pytest.raises(
            StreamError,
            match=rf"a\{ending}: lines {first} to {last} have changed since the file was indexed, but",
        ):
            shard.read(segment)


@pytest.mark.parametrize("name", ["a", "a.bin", "a.idx"])
def test_tasks_read_ids_but_their_shards_are_of_text(tmp_path, name):
    """An input of a task names a pair as a source does; what writes shards of text refuses it."""
    write_pair(tmp_path / "a", LINES, "u16")
    message = {"type": "mono", "epochs": 1, "shuffle": "none", "inputs": {"i": {"mono": name}}}
    config = {"cache": str(tmp_path / "cache"), "tasks": {"t": message}}
    (tmp_path / "stream.yaml").write_text(json.dumps(config))
    with Stream(**load_config(tmp_path / "stream.yaml").options) as stream:
        assert list(stream) == _text(LINES)
    with pytest.raises(
        StreamError, match=r"a\.bin: contains indexed ids, but shards contain text; remove `shards`"
    ):
        read_input_file(str(tmp_path / "a.bin"))


def test_strip_eos_takes_the_last_id_off_once():
    """One end-of-sentence id is removed at the end of a value; other ids, empty and missing values stay."""
    ids = Column.of_ids(np.array([2, 7, 2, 2, 2, 5], np.int32), np.array([0, 4, 5, 5, 6]))
    batch = Batch((ids, Column.missing(4)), None, np.arange(4))
    made = StripEos()(batch, LineRng(1, 2))
    assert made.columns[0].strings() == ["2 7 2", "", "", "5"]
    assert not made.columns[1].present.any()
    assert StripEos(id=5)(batch, LineRng(1, 2)).columns[0].strings() == ["2 7 2 2", "2", "", ""]
    with pytest.raises(LineFault, match="field 1 is text, but strip_eos takes ids"):
        StripEos(fields=(1,))(Batch.of(["7 2"]), LineRng(1, 2))


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
    tmp_path,
    both,
    more,
    segment,
    packer,
    ends,
):
    """Line i of a pair consists of line i of each file, in any compression; unequal lengths are refused."""
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
def test_a_pair_is_all_its_files(tmp_path, changed):
    """The digest depends on names, order and all lines; changes in any file are detected."""
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


def test_one_file_is_not_a_pair(tmp_path):
    """A pair needs two files."""
    with pytest.raises(ConfigError, match="pair: 1 file; name two or more"):
        open_pair({"src": write_lines(tmp_path / "a", ["x"])}, split_lines=2)


def test_a_stream_leaves_out_lines_that_would_shift(tmp_path):
    """The error policy applies to values with a tab or line feed, as to any unfit line."""
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


def test_limits_of_ids(tmp_path):
    """Ids must fit in 32 bits, and count four bytes each towards the line limit."""
    path = write_pair(tmp_path / "a", [[1], [], [-(1 << 31), (1 << 31) - 1], [5, 6]], "i64")
    shard = open_id_shard(f"{path}.bin", split_lines=3, cache=tmp_path, max_line=8)
    assert (shard.facts.n_bytes, shard.facts.longest, shard.facts.first_tab, shard.counts) == (
        4 * 5 + 4,
        8,
        0,
        (3, 1),
    )
    with pytest.raises(StreamError, match=r"a\.bin:3: the line has more than 7 bytes"):
        open_id_shard(f"{path}.bin", split_lines=3, cache=tmp_path, max_line=7)
    for number, wrong in enumerate((1 << 31, -(1 << 31) - 1)):
        path = write_pair(tmp_path / str(number), [[1], [2], [], [3, wrong], [wrong]], "i64")
        for split in (None, 1, 2):
            with pytest.raises(
                StreamError,
                match=rf"{number}\.bin:4: id {wrong:,} does not fit in 32 bits; name data",
            ):
                open_id_shard(f"{path}.idx", split_lines=split, cache=tmp_path)
    assert bins_of(["x.idx", "y.bin", "y.idx", "z"]) == ["x.bin", "y.bin", "z"]
    with pytest.raises(StreamError, match=r"has no columns|have no columns; remove `columns`"):
        open_shard("a.bin", split_lines=1, fields={"a": "b"})


def test_damaged_shards_name_their_remedy(tmp_path):
    """The remedy `volt shard` is named only for damaged files that `volt shard` wrote."""
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "manifest.json").write_text("{}")
    damaged, other = StreamError("x"), StreamError("y")
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
