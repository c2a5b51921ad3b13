"""`open_id_shard`: indexed sentences of ids are read as text is, whatever their number type."""

import json
import os
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.indexed_ids import CODES, write_pair
from support.streams import deadline, write_lines

from volt.errors import StreamError
from volt.files.indexed_dataset import dtype_of
from volt.stream import Source, Stream, audit
from volt.stream.config.configuration import load_config
from volt.stream.reading.error_policy import ErrorPolicy
from volt.stream.reading.id_shard import IdShard, bins_of, open_id_shard
from volt.stream.reading.open_shard import open_pair, open_shard
from volt.stream.tasks.task import read_input_file

LINES = [[number, *range(number % 5), 2] for number in range(40)]
TEXTS = [" ".join(map(str, line)) for line in LINES]


def read_ids(shard):
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
    st.lists(st.lists(st.integers(0, 127), max_size=4), max_size=9),
    st.sampled_from(sorted(CODES)),
    st.integers(1, 4),
)
def test_number_types_and_segment_sizes_have_no_effect(tmp_path, lines, dtype, segment):
    """open_id_shard reads the same int32 ids, with the same digest, from files of any number type,
    in segments of
    any size, with or without the cache."""
    prefix = write_pair(tmp_path / "a", lines, dtype)
    int32 = write_pair(tmp_path / "b", lines, "i32", documents=[0, len(lines)])
    cache = tmp_path / "cache"
    shards = [open_id_shard(f"{prefix}.bin", split_lines=segment, cache=cache) for _ in range(2)]
    whole = open_id_shard(f"{int32}.idx", split_lines=None, cache=cache)
    for shard in (*shards, whole):
        assert read_ids(shard) == lines
        assert (shard.n_lines, shard.facts.digest) == (len(lines), whole.facts.digest)
        for number in range(len(shard.counts)):
            assert shard.read(number)[0].data.dtype == np.int32
    assert shards[0] == shards[1]
    assert shards[0].paths == (f"{prefix}.bin", f"{prefix}.idx")


def test_digests_depend_on_ids_and_sentence_ends(tmp_path):
    """Files with other ids, or with the same ids in other sentences, have different digests."""
    contents = ([[1, 2], [3]], [[1], [2, 3]], [[1, 2], [4]], [[1, 2, 3]], [[1, 2], [3], []])
    digests = set()
    for number, lines in enumerate(contents):
        path = write_pair(tmp_path / str(number), lines, "u16")
        shard = open_id_shard(f"{path}.bin", split_lines=None, cache=tmp_path / "cache")
        digests.add(shard.facts.digest)
    assert len(digests) == len(contents)


@pytest.mark.parametrize("name", ["a.bin", "a.idx", "a", "*.bin", "a.*"])
def test_sources_and_tasks_name_ids_by_any_name(tmp_path, name):
    """NAME, NAME.bin, NAME.idx, and patterns that match both files name the same sentences, which
    are read once."""
    write_pair(tmp_path / "a", LINES, "u16")
    options = {"epochs": 1, "shuffle": "none", "split_lines": 7}
    source = {"sources": {"s": {"path": name, **options}}}
    task = {"tasks": {"t": {"type": "mono", "inputs": {"i": {"mono": name}}, **options}}}
    for values in (source, task):
        if values is task and "*" in name:
            continue  # an input of a task is one file
        config = tmp_path / "stream.yaml"
        config.write_text(json.dumps({"cache": str(tmp_path / "cache"), **values}))
        with Stream(**load_config(config).options) as stream:
            assert stream.sources[0].place_of(9) == (str(tmp_path / "a.bin"), 10)
            assert list(stream) == TEXTS


def test_each_index_without_its_ids_is_one_name():
    """bins_of replaces .idx files by .bin files, and omits .idx files whose .bin file is also
    named."""
    assert bins_of(["x.idx", "y.bin", "y.idx", "z"]) == ["x.bin", "y.bin", "z"]


def test_ids_have_no_columns_and_are_not_shards_of_text(tmp_path):
    """open_shard with fields, and an input of `volt shard`, refuse indexed ids with a remedy."""
    write_pair(tmp_path / "a", LINES, "u16")
    with pytest.raises(StreamError, match="have no columns; remove `columns`"):
        open_shard("a.bin", split_lines=1, fields={"a": "b"})
    message = r"a\.bin: contains indexed ids, but shards contain text; remove `shards`"
    with pytest.raises(StreamError, match=message):
        read_input_file(str(tmp_path / "a.bin"))


def open_stream(folder, *, as_text=False, alone=LINES[:11], **options):
    """A stream of a pair of files of ids (or their text), and of a file alone."""
    sides = [[[*line[:-1], 9, 2] for line in LINES], LINES, alone]
    paths = []
    for number, (lines, dtype) in enumerate(zip(sides, ("i32", "u16", "i64"), strict=True)):
        if as_text:
            texts = [" ".join(map(str, line)) for line in lines]
            paths.append(write_lines(folder / f"{number}.txt", texts))
        else:
            paths.append(write_pair(folder / str(number), lines, dtype) + ".bin")
    sizes = {"block_lines": 8, "split_lines": 3}
    pair = Source("pair", tuple(paths[:2]), 2.0, names=("src", "tgt"), **sizes)
    source = Source("alone", (paths[2],), **sizes)
    return Stream((pair, source), seed=3, cache=folder / "cache", **options)


def test_streams_of_ids_equal_streams_of_their_text(tmp_path):
    """A shuffled, mixed stream of ids yields the lines of a stream of the ids as text, with or
    without workers."""
    with deadline(60):
        expected = list(islice(open_stream(tmp_path, as_text=True), 150))
        for n_workers in (0, 1):
            with open_stream(tmp_path, n_workers=n_workers) as stream:
                assert list(islice(stream, 150)) == expected
    assert {line.count("\t") for line in expected} == {0, 1}


def test_ranks_share_ids_and_resume_exactly(tmp_path):
    """Three ranks read each sentence of ids once per epoch; a state continues with the next
    sentence."""
    result = audit(open_stream(tmp_path, world=3), epochs=2, content=True)
    assert result.exact, result
    assert all(source.content for source in result.sources)
    with open_stream(tmp_path, rank=1, world=2) as stream:
        stream.skip(33)
        state = json.loads(json.dumps(stream.state()))
        expected = list(islice(stream, 40))
    with open_stream(tmp_path, rank=1, world=2) as resumed:
        resumed.restore(state)
        assert list(islice(resumed, 40)) == expected
    other = open_stream(tmp_path, alone=LINES[1:12], rank=1, world=2)
    with other, pytest.raises(StreamError, match="alone"):
        other.restore(state)


def test_ids_and_text_form_a_pair(tmp_path):
    """open_pair aligns a file of text with a file of ids, and names files with different numbers of
    lines."""
    text = write_lines(tmp_path / "a.txt", [f"line {number}" for number in range(40)])
    ids = write_pair(tmp_path / "a", LINES, "u16") + ".bin"
    cache = tmp_path / "cache"
    shard = open_pair({"text": text, "ids": ids}, split_lines=None, cache=cache)
    first, second = shard.read(0)
    assert (first.strings()[7], second.strings()[7], second.is_ids) == ("line 7", "7 0 1 2", True)
    assert (shard.paths, shard.is_clean) == ((text, ids, ids.replace(".bin", ".idx")), True)
    short = write_pair(tmp_path / "b", LINES[1:], "u16") + ".bin"
    message = r"a\.txt has 40 lines, .*b\.bin has 39 lines; files of a pair must have"
    with pytest.raises(StreamError, match=message):
        open_pair({"text": text, "ids": short}, split_lines=None, cache=cache)


@pytest.mark.parametrize("dtype", ["i64", "u32", "u64"])
def test_ids_beyond_32_bits_are_refused(tmp_path, dtype):
    """open_id_shard accepts the largest and smallest int32; it reports the line of a larger or
    smaller id."""
    most = (1 << 31) - 1
    least = max(-(1 << 31), int(np.iinfo(dtype_of(dtype)).min))
    valid = write_pair(tmp_path / "valid", [[1], [most, least]], dtype)
    shard = open_id_shard(f"{valid}.bin", split_lines=None, cache=tmp_path / "c")
    assert read_ids(shard) == [[1], [most, least]]
    for wrong in (most + 1, least - 1):
        if wrong == -1:
            continue  # the type is unsigned
        path = write_pair(tmp_path / "bad", [[1], [2], [], [3, wrong], [wrong]], dtype)
        for split_lines in (None, 1, 2):
            message = rf"bad\.bin:4: id {wrong:,} does not fit in 32 bits; name data"
            with pytest.raises(StreamError, match=message):
                open_id_shard(f"{path}.idx", split_lines=split_lines, cache=tmp_path / "c")


def test_ids_count_four_bytes_each(tmp_path):
    """The size of a shard of ids is four bytes per id and one byte per sentence. The longest line and
    the limit `max_line` count only four bytes per id."""
    path = write_pair(tmp_path / "a", [[1], [], [3, 4], [5, 6]], "i64")
    shard = open_id_shard(f"{path}.bin", split_lines=3, cache=tmp_path, max_line=8)
    facts = shard.facts
    assert (facts.n_bytes, facts.longest, facts.first_tab) == (4 * 5 + 4, 8, 0)
    assert shard.counts == (3, 1)
    with pytest.raises(StreamError, match=r"a\.bin:3: the line has more than 7 bytes"):
        open_id_shard(f"{path}.bin", split_lines=3, cache=tmp_path, max_line=7)


DAMAGES = {
    "a.idx": (None, r"a\.bin: its index .*a\.idx is missing; restore it, or write both with"),
    "a.bin": (-2, r"a\.bin: has \d+ bytes, but .*a\.idx requires \d+; copy both"),
    "./a.idx": (-3, r"a\.idx: has \d+ bytes, but 40 sentences need 506"),
}


@pytest.mark.parametrize("damaged", DAMAGES)
def test_missing_and_short_files_are_reported(tmp_path, damaged):
    """Stream reports a missing index, or a file that is too short; policy "skip" leaves out the two
    files."""
    end, message = DAMAGES[damaged]
    bad = write_pair(tmp_path / "a", LINES, "u16")
    good = write_pair(tmp_path / "b", LINES[:2], "u16")
    path = tmp_path / damaged
    if end is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:end])
    with pytest.raises(StreamError, match=f"source 's': .*{message}"):
        Stream([Source("s", (bad,))], cache=tmp_path / "cache")
    sources = [Source("s", (f"{bad}.bin", f"{good}.bin"), epochs=1, shuffle="none")]
    with Stream(sources, cache=tmp_path / "cache", policy=ErrorPolicy("skip")) as stream:
        assert list(stream) == TEXTS[:2]


@pytest.mark.parametrize("ending", [".bin", ".idx"])
def test_changed_files_are_reported(tmp_path, ending):
    """IdShard reports that a file has changed; if size and time are the same, it names the
    segment's lines."""
    prefix = write_pair(tmp_path / "a", LINES, "u16")
    shard = open_id_shard(f"{prefix}.bin", split_lines=9, cache=tmp_path / "cache")
    path = Path(prefix + ending)
    content = path.read_bytes()
    stamp = path.stat()
    path.write_bytes(content + b"\0")
    for look in (IdShard.check_unchanged, lambda shard: shard.read(0)):
        with pytest.raises(StreamError, match=rf"a\{ending}: changed while the stream was running"):
            look(shard)
    for segment, (first, last) in enumerate([(1, 9), (10, 18), (19, 27), (28, 36), (37, 40)]):
        position = 26 + 4 * (first - 1)
        if ending == ".bin":
            position = 2 * sum(map(len, LINES[: first - 1]))
        path.write_bytes(content[:position] + b"\xff" + content[position + 1 :])
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        message = rf"a\{ending}: lines {first} to {last} have changed since the file was indexed"
        with pytest.raises(StreamError, match=message):
            shard.read(segment)
