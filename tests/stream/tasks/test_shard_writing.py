"""Laws of `shard`: shards have all lines of all inputs once, evenly mixed, always in the same
bytes.
"""

import bz2
import gzip
import json
from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.golden import check
from support.sharding import bytes_of, lines_of, mono_task, numbered, pair_task, shards_of, write

import volt
from volt.errors import ArgumentError, ConfigError, CorpusError, StreamError
from volt.stream.reading.open_source import open_source
from volt.stream.reading.source_definition import Source
from volt.stream.tasks import shard_writing
from volt.stream.tasks.manifest import ShardSettings
from volt.stream.tasks.shard_writing import (
    deal_lines,
    number_of_shards,
    order_by_keys,
    shard,
    split_by_keys,
    split_in_order,
)
from volt.stream.tasks.task import Input, InputFile, ReadInput, Task

few = st.lists(st.integers(0, 30), min_size=1, max_size=4).filter(any)


def owners(counts):
    """Return the input of each line of the concatenated inputs."""
    return np.repeat(np.arange(len(counts)), counts).tolist()


@given(few, st.integers(1, 9))
def test_line_j_belongs_to_shard_j_modulo_n(lines, n_shards):
    """`deal_lines` equals a loop that gives line j of the concatenated inputs to shard j mod S."""
    counts = np.zeros((n_shards, len(lines)), int)
    for number, owner in enumerate(owners(lines)):
        counts[number % n_shards, owner] += 1
    assert deal_lines(lines, n_shards).tolist() == counts.tolist()


@given(few, st.integers(1, 9))
def test_lines_in_order_are_split_into_equal_parts(lines, n_parts):
    """Parts of `split_in_order` follow each other, and differ by one line at most."""
    counts = split_in_order(lines, n_parts)
    assert list(chain.from_iterable(map(owners, counts))) == owners(lines)
    assert np.ptp(counts.sum(axis=1)) <= 1


def mixed(counts, n_chunks):
    """Return the input, and the number in its input, of each line of a shard."""
    result = []
    first = np.zeros_like(counts)
    for n_lines in split_by_keys(counts, n_chunks):
        lines = []
        for number, n in enumerate(n_lines.tolist()):
            lines += ((number, int(first[number]) + line) for line in range(n))
        result += [lines[index] for index in order_by_keys(first, n_lines, counts)]
        first = first + n_lines
    return result


@given(few, st.integers(1, 9))
def test_lines_of_a_shard_are_evenly_mixed(lines, n_chunks):
    """`order_by_keys` gives the same order for any number of chunks.

    Each input has its share of the first p lines of a shard, for all p, in the input's order."""
    order = mixed(np.array(lines), 1)
    assert mixed(np.array(lines), n_chunks) == order
    inputs = np.array([owner for owner, _ in order])
    for number, n in enumerate(lines):
        assert [line for owner, line in order if owner == number] == list(range(n))
        due = n * np.arange(1, len(order) + 1) / len(order)
        assert (np.abs(np.cumsum(inputs == number) - due) <= (len(lines) + 1) / 2).all()


@given(st.integers(0, 10**9), st.none() | st.integers(1, 50), st.integers(1, 10**6))
def test_there_are_as_many_shards_as_requested_or_needed(n_lines, requested, lines):
    """`number_of_shards` is as requested, or as `lines` needs, but never more than the lines."""
    n_shards = number_of_shards(n_lines, requested=requested, lines=lines)
    if requested:
        assert n_shards == min(n_lines, requested)
    else:
        assert lines * (n_shards - 1) < n_lines <= lines * n_shards or not n_lines


def read_input(n_lines, n_bytes):
    return ReadInput("i", ((InputFile("mono", "a", 1, 2, "d", n_lines, n_bytes),),))


@pytest.mark.parametrize(
    ("n_lines", "n_bytes", "n_shards", "expected"),
    [
        (100, 1000, None, (2, 838860)),
        (101, 1000, None, (3, 847249)),
        (5, 9, 7, (5, 1 << 20)),
        (10, 8 << 20, 3, (3, 10)),
        (10, 800 << 20, 3, (3, 1)),
        (1, 1, None, (1, 1 << 20)),
    ],
)
def test_chunks_have_limited_sizes(n_lines, n_bytes, n_shards, expected):
    """A chunk has 8 MiB of text, but at least one line, and at most 2²⁰ lines."""
    for split, order in (("train", "mixed"), ("valid", "kept")):
        task = Task("t", "mono", (), split=split, n_shards=n_shards)
        plan = shard_writing._plan(task, (read_input(n_lines, n_bytes),), 50, "gz")
        assert (plan.layout.n_shards, plan.chunk_lines, plan.n_lines) == (*expected, n_lines)
        assert plan.layout == ShardSettings(expected[0], "gz", order)


@pytest.mark.parametrize("split", ["train", "valid"])
@pytest.mark.parametrize("chunk", [1, 40, 1 << 20])
def test_shards_equal_golden_values(tmp_path, monkeypatch, split, chunk):
    """The bytes, words, digests and counts of shards equal the stored ones, for any size of
    chunks.
    """
    monkeypatch.setattr(shard_writing, "CHUNK_BYTES", chunk)
    texts = {"a": b"a0\na1\na2\na3\na4", "b": b"b0 x\r\nb1 x\n", "c": b"\xef\xbb\xbfc0\t\xff\n"}
    task = mono_task(tmp_path, texts, name="t", split=split, n_shards=3)
    [manifest] = shard([task], tmp_path / "s", compress="none", workers=1)
    record = json.loads((tmp_path / "s/t/manifest.json").read_text())["record"]
    for source in record["inputs"]:
        for file in source["sides"][0]:
            file.update(path=Path(file["path"]).name, modified=0)
    paths = (*manifest.paths, *manifest.word_paths.values())
    written = [Path(path).read_text(errors="replace") for path in paths]
    values = {key: str(value) for key, value in record.items()}
    check(f"stream shards {split}", {**values, "texts": written})
    assert (Path(manifest.first_bad).name, Path(manifest.first_tab).name) == ("c:1", "c:1")
    assert manifest.counts == ((3, 3, 2) if split == "train" else (2, 3, 3))


def lines_by_shard(manifest):
    """Return the lines of all shards of a task with one side."""
    return [line for (lines,) in shards_of(manifest) for line in lines]


def test_pairs_stay_aligned(tmp_path):
    """Line i of a shard's source side belongs to line i of its target side.

    Each shard has its part of each input."""
    sizes = {"big": 1000, "small": 25, "one": 1}
    [manifest] = shard([pair_task(tmp_path, sizes, n_shards=10)], tmp_path / "shards")
    assert (manifest.names, manifest.n_lines, len(manifest.paths)) == (("src", "tgt"), 1026, 20)
    assert {*manifest.counts} == {102, 103}
    lines = []
    for source, target in shards_of(manifest):
        assert [line.replace(" src ", " tgt ") for line in source] == target
        counts = Counter(line.split()[0] for line in source)
        assert (counts["big"], counts["small"]) in ((100, 2), (100, 3))
        lines += source
    texts = b"".join(numbered(f"{name} src", n) for name, n in sizes.items())
    assert sorted(lines) == sorted(texts.decode().splitlines())


STARTS = {"zstd": b"\x28\xb5\x2f\xfd", "gz": b"\x1f\x8b", "none": b"big"}


@pytest.mark.parametrize("compress", STARTS)
def test_bytes_do_not_depend_on_threads(tmp_path, compress, monkeypatch):
    """`shard` writes the same bytes with one, two and five threads."""
    monkeypatch.setattr(shard_writing, "CHUNK_BYTES", 500)
    task = pair_task(tmp_path, {"big": 300, "small": 20}, n_shards=3)
    for n in (1, 2, 5):
        [manifest] = shard([task], tmp_path / str(n), compress=compress, workers=n)
        assert bytes_of(tmp_path / "1") == bytes_of(tmp_path / str(n))
    assert Path(manifest.paths[0]).read_bytes().startswith(STARTS[compress])
    assert manifest.counts == (107, 107, 106)


letters = st.text(st.sampled_from("ab \t\r\ufeff\u2028é"), max_size=5)
texts = st.lists(letters, min_size=1, max_size=9).map("\n".join)
texts = texts.filter(lambda text: text not in ("", "\ufeff"))  # which have no line


@settings(
    deadline=None,
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(texts, texts, st.integers(1, 4), st.booleans())
def test_shards_have_the_lines_that_a_stream_reads(tmp_path, first, second, n_shards, ends):
    """Tabs, returns, byte order marks and last lines without an end are read as a stream reads
    them.
    """
    pair = {"a": first.encode() + b"\n" * ends, "b.gz": second.encode()}
    task = mono_task(tmp_path, pair, n_shards=n_shards)
    expected = [line for source in task.inputs for line in lines_of(source.paths[0])]
    [manifest] = shard([task], tmp_path / "shards", compress="none", workers=1)
    assert sorted(lines_by_shard(manifest)) == sorted(expected)


def test_a_byte_order_mark_alone_is_not_a_line(tmp_path):
    """A file of a byte order mark adds no line; an input of only such files raises an error."""
    mark = write(tmp_path / "0", b"\xef\xbb\xbf")
    text = write(tmp_path / "1", b"low\n")
    files = tuple(("mono", path) for path in (mark, text, mark))
    [manifest] = shard([Task("auto", "mono", (Input("i", files),))], tmp_path / "s")
    assert lines_by_shard(manifest) == ["low"]
    with pytest.raises(StreamError, match="no line in"):
        shard([Task("auto", "mono", (Input("i", files[:1]),))], tmp_path / "t")


def test_words_are_those_of_the_inputs(tmp_path):
    """The table of words equals `count_words` of the inputs, without lines that are not UTF-8.

    The shards contain these lines unchanged."""
    texts = {
        "a.gz": b"low lower\r\nlow\tnew\n",
        "b": "new é\u2028x\n\n".encode(),
        "c": b"bad \xff low\nlow\n",
    }
    task = mono_task(tmp_path, texts, n_shards=2)
    [manifest] = shard([task], tmp_path / "shards", compress="none")
    counts = volt.count_words([tmp_path / name for name in texts], errors="skip")
    read = volt.count_words(manifest.word_paths["mono"], word_counts=True)
    assert read.table.rows() == counts.table.rows()
    assert manifest.n_bad_lines == counts.n_bad_lines == 1
    assert (manifest.first_bad, manifest.first_tab) == (f"{tmp_path}/c:1", f"{tmp_path}/a.gz:2")
    assert b"bad \xff low" in b"".join(Path(path).read_bytes() for path in manifest.paths)


def test_files_of_an_input_are_concatenated(tmp_path):
    """An input may have several files for each side, also as globs, with any compression."""
    for name, n in (("a", 3), ("b", 2)):
        write(tmp_path / f"{name}.de.gz", numbered(name, n))
        (tmp_path / f"{name}.en").write_bytes(bz2.compress(numbered(name, n)))
    files = (("src", f"{tmp_path}/*.de.gz"), ("tgt", f"{tmp_path}/?.en"))
    [manifest] = shard([Task("x", "para", (Input("i", files),))], tmp_path / "shards")
    [(source, target)] = shards_of(manifest)
    assert source == target == (numbered("a", 3) + numbered("b", 2)).decode().splitlines()


def test_lines_of_a_validation_task_keep_their_order(tmp_path):
    """The shards of a "valid" task, one after the other, have the lines of the inputs in order."""
    inputs = {"a": numbered("a", 5), "b": numbered("b", 6)}
    task = mono_task(tmp_path, inputs, split="valid", n_shards=3)
    [manifest] = shard([task], tmp_path / "shards")
    assert lines_by_shard(manifest) == b"".join(inputs.values()).decode().splitlines()
    assert (manifest.counts, manifest.layout.order) == ((3, 4, 4), "kept")


def test_a_stream_reads_shards(tmp_path):
    """A `Source` with a manifest's paths and names reads the lines of the shards."""
    [manifest] = shard([pair_task(tmp_path, {"a": 7})], tmp_path / "shards", lines=100)
    source = Source("de_en", manifest.paths, names=manifest.names)
    opened = open_source(source, seed=1, cache=tmp_path / "cache")
    assert (opened.n_lines, manifest.counts) == (7, (7,))


def test_progress_counts_each_chunk(tmp_path, monkeypatch):
    """`progress` counts lines after each chunk; the total is known after all inputs were read.

    A task whose shards are up to date counts at once."""
    monkeypatch.setattr(shard_writing, "CHUNK_BYTES", 20)
    first = mono_task(tmp_path, {"a": numbered("a", 4)}, name="x")
    second = mono_task(tmp_path, {"b": b"b\n"}, name="y")
    steps = []
    shard([first], tmp_path / "s", workers=1)
    shard([first, second], tmp_path / "s", workers=1, progress=lambda *step: steps.append(step))
    assert steps == [("count lines", 1, None), ("shard", 4, 5), ("shard", 5, 5)]


FILES = (Input("i", (("mono", "a"),)),)
ONE = Task("one", "mono", FILES)
TWO = Task("two", "mono", FILES)
SHARING = Task("sharing", "mono", (), shares="two")
EMPTY = Task("empty", "mono", ())


@pytest.mark.parametrize(
    ("tasks", "names", "expected"),
    [
        ([ONE, SHARING, TWO], [], ["one", "two"]),
        ([ONE, SHARING, TWO], ["sharing"], ["two"]),
        ([ONE, EMPTY, TWO], ["two", "one"], ["one", "two"]),
    ],
)
def test_tasks_are_selected_by_name(tasks, names, expected):
    """`_select_tasks` keeps the order of the tasks; one that shares inputs selects the one that has
    them.
    """
    assert [task.name for task in shard_writing._select_tasks(tasks, names)] == expected


WRONG = [
    ([], {}, ConfigError, r"tasks \[\]: give one or more, with distinct names"),
    ([ONE, ONE], {}, ConfigError, "with distinct names"),
    ([ONE, EMPTY], {}, ConfigError, "task 'empty': no inputs; give some"),
    ([ONE, TWO], {"names": ["tow"]}, ConfigError, "no task 'tow'; there are one, two"),
    (["one"], {}, ArgumentError, "a task is 'one'"),
    ("tasks.yaml", {}, ArgumentError, "load_config"),
    ([Task("x", "para", FILES)], {}, ConfigError, "has mono; .* needs src and"),
    ([replace(ONE, name="../x")], {}, ConfigError, "of a folder"),
    ([ONE], {"compress": "xz"}, ConfigError, "unknown compress 'xz'"),
    ([ONE], {"lines": 0}, ConfigError, "lines is 0; give 1 or more"),
    ([ONE], {"workers": 0}, ConfigError, "workers is 0; give 1 or more"),
    (
        [Task("x", "mono", (Input("i", (("mono", "/nowhere/a"),)),))],
        {},
        StreamError,
        "task 'x': /nowhere/a: cannot be read: no such file",
    ),
]


@pytest.mark.parametrize(("tasks", "options", "kind", "message"), WRONG)
def test_wrong_arguments_are_refused(tmp_path, tasks, options, kind, message):
    """`shard` names the wrong task or option in the error, and leaves no folder."""
    with pytest.raises(kind, match=message):
        shard(tasks, tmp_path / "s", **options)
    assert not (tmp_path / "s").exists()


BAD_TEXTS = [
    (
        {"a": b"x\n", "b": b""},
        StreamError,
        "task 'auto_en', input 'b': no line in .*b; remove the input",
    ),
    ({"a": b"PK\x03\x04"}, CorpusError, "task 'auto_en': .*a: not UTF-8 text but a zip archive"),
    (
        {"a": gzip.compress(b"low\n" * 99)[:-9]},
        CorpusError,
        "task 'auto_en': .*a: truncated after line",
    ),
    (
        {"a": b"x" * 100 + b"\n"},
        CorpusError,
        "^task 'auto_en': .*a:1: the line has more than 50 bytes.* raise max_line((?!raise).)*$",
    ),
]


@pytest.mark.parametrize(("texts", "kind", "message"), BAD_TEXTS)
def test_bad_inputs_are_named(tmp_path, texts, kind, message):
    """An empty, foreign, truncated or long input raises an error before `shard` writes anything."""
    with pytest.raises(kind, match=message):
        shard([mono_task(tmp_path, texts)], tmp_path / "shards", max_line=50)
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize("n", [4, 6])
def test_sides_of_different_lengths_are_refused(tmp_path, n):
    """Sides that differ by one line raise an error before `shard` writes any task."""
    good = mono_task(tmp_path, {"good": b"x\n"})
    task = pair_task(tmp_path, {"a": 5})
    write(tmp_path / "a.tgt", numbered("a tgt", n))
    counts = rf"input 'a': .*a\.src has 5 lines, .*a\.tgt has {n} lines"
    with pytest.raises(StreamError, match=f"task 'de_en', {counts}; source and target need"):
        shard([good, task], tmp_path / "shards")
    assert not (tmp_path / "shards").exists()


def test_an_input_that_changes_during_the_run_is_refused(tmp_path, monkeypatch):
    """If an input changes while `shard` runs, it raises an error, and writes no manifest."""
    task = mono_task(tmp_path, {"a": numbered("a", 9)})
    plan = shard_writing._plan

    def changed(*inputs):
        with open(tmp_path / "a", "ab") as file:
            file.write(b"more\n")
        return plan(*inputs)

    monkeypatch.setattr(shard_writing, "_plan", changed)
    message = r"a: changed while it was read; wait until it is complete, and start again"
    with pytest.raises(StreamError, match=message):
        shard([task], tmp_path / "s")
    assert not (tmp_path / "s" / "auto_en" / "manifest.json").exists()
