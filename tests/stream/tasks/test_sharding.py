"""Shards hold the lines of all inputs once, side by side, evenly mixed; their bytes do not depend on who made them."""

from __future__ import annotations

import bz2
import gzip
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
from drawn import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sharding import bytes_of, lines_of, mono_task, numbered, pair_task, shards_of, write

import volt
from volt.errors import ArgumentError, ConfigError, CorpusError, StreamError, VoltError
from volt.stream.reading.open_source import open_source
from volt.stream.reading.source_definition import Source
from volt.stream.tasks import shard_writing
from volt.stream.tasks.shard_writing import shard
from volt.stream.tasks.task import Input, LineReader, Task

STARTS = {"zstd": b"\x28\xb5\x2f\xfd", "gz": b"\x1f\x8b", "none": b"big"}


def test_pairs_stay_pairs_in_every_shard(tmp_path: Path) -> None:
    """Each shard has its part of each input, line i of one side belongs to line i of the other, and none is lost."""
    sizes = {"big": 1000, "small": 25, "one": 1}
    [made] = shard([pair_task(tmp_path, sizes, n_shards=10)], tmp_path / "shards")
    assert (made.names, made.n_lines, len(made.paths)) == (("src", "tgt"), 1026, 20)
    assert {*made.counts} == {102, 103}
    seen = Counter[str]()
    for source, target in shards_of(made):
        assert [line.replace(" src ", " tgt ") for line in source] == target
        found = Counter(line.split()[0] for line in source)
        assert (found["big"], found["small"]) in ((100, 2), (100, 3))
        seen.update(source)
    texts = (numbered(f"{name} src", n).decode().split("\n")[:-1] for name, n in sizes.items())
    assert seen == Counter(chain.from_iterable(texts))


@pytest.mark.parametrize("compress", STARTS)
def test_bytes_do_not_depend_on_workers(
    tmp_path: Path, compress: shard_writing.Compression, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One, two or five threads write the same; so does a second run elsewhere. Chunks are small here, and many."""
    monkeypatch.setattr(shard_writing, "CHUNK_BYTES", 500)
    task = pair_task(tmp_path, {"big": 300, "small": 20}, n_shards=3)
    made = [shard([task], tmp_path / str(n), compress=compress, workers=n) for n in (1, 2, 5)]
    assert bytes_of(tmp_path / "1") == bytes_of(tmp_path / "2") == bytes_of(tmp_path / "5")
    assert Path(made[0][0].paths[0]).read_bytes().startswith(STARTS[compress])
    assert [len(source) for source, _ in shards_of(made[0][0])] == [107, 107, 106]


texts = st.lists(
    st.text(st.sampled_from("ab \t\r\ufeff\u2028é"), max_size=5), min_size=1, max_size=9
).map("\n".join)
texts = texts.filter(lambda text: text not in ("", "\ufeff"))  # which hold no line


@settings(
    deadline=None,
    max_examples=examples(40),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(texts, texts, st.integers(1, 4), st.booleans())
def test_lines_are_those_that_a_stream_reads(
    tmp_path: Path, first: str, second: str, n_shards: int, ends: bool
) -> None:
    r"""Tabs, "\r", marks at the start of lines, last lines without an end: the shards hold the lines of the inputs."""
    pair = {"a": first.encode() + b"\n" * ends, "b.gz": second.encode()}
    task = mono_task(tmp_path, pair, n_shards=n_shards)
    expected = [line for read in task.inputs for line in lines_of(read.paths[0])]
    [made] = shard([task], tmp_path / "shards", compress="none", workers=1)
    assert sorted(line for (lines,) in shards_of(made) for line in lines) == sorted(expected)


def test_words_are_those_of_the_inputs(tmp_path: Path) -> None:
    """Each side's table is read as a table of words, and equals the count of all its inputs, packed or not."""
    texts = {
        "a.gz": b"low lower\r\nlow\tnew\n",
        "b": "new é\u2028x\n\n".encode(),
        "c": b"bad \xff low\nlow\n",
    }
    [made] = shard([mono_task(tmp_path, texts, n_shards=2)], tmp_path / "shards")
    counted = volt.count_words([tmp_path / name for name in texts], errors="skip")
    read = volt.count_words(made.word_paths["mono"], word_counts=True)
    assert read.table.rows() == counted.table.rows()
    assert made.n_bad_lines == counted.n_bad_lines == 1
    assert (made.first_bad, made.first_tab) == (f"{tmp_path}/c:1", f"{tmp_path}/a.gz:2")
    assert b"bad \xff low" in b"".join(
        Path(path).read_bytes()
        for path in shard(
            [mono_task(tmp_path, texts, n_shards=2)], tmp_path / "plain", compress="none"
        )[0].paths
    )


def test_files_of_an_input_are_read_one_after_the_other(tmp_path: Path) -> None:
    """An input may have several files for each side, globs and folders among them, packed as they like."""
    for name, n in (("a", 3), ("b", 2)):
        write(tmp_path / f"{name}.de.gz", numbered(name, n))
        (tmp_path / f"{name}.en").write_bytes(bz2.compress(numbered(name, n)))
    files = (
        ("src", f"{tmp_path}/*.de.gz"),
        ("tgt", f"{tmp_path}/a.en"),
        ("tgt", f"{tmp_path}/b.en"),
    )
    with pytest.raises(
        ConfigError, match=r"task 'x', input 'i': 1 file of src and 2 files of tgt; give the same"
    ):
        shard([Task("x", "para", (Input("i", files),))], tmp_path / "shards")
    files = (("src", f"{tmp_path}/*.de.gz"), ("tgt", f"{tmp_path}/?.en"))
    [made] = shard([Task("x", "para", (Input("i", files),))], tmp_path / "shards")
    [(source, target)] = shards_of(made)
    assert source == target == (numbered("a", 3) + numbered("b", 2)).decode().split("\n")[:-1]


def test_tasks_that_share_inputs_share_shards(tmp_path: Path) -> None:
    """They have none of their own, and asking for one makes those of the other."""
    task, other = mono_task(tmp_path, {"a": b"low\n"}), Task("other", "mono", (), shares="auto_en")
    [made] = shard([task, other], tmp_path / "shards", names=["other"])
    assert made.task == "auto_en"
    assert [path.name for path in (tmp_path / "shards").iterdir()] == ["auto_en"]


@pytest.mark.parametrize(
    ("texts", "kind", "message"),
    [
        (
            {"a": b"x\n", "b": b""},
            StreamError,
            r"task 'auto_en', input 'b': no line in .*b; remove the input",
        ),
        (
            {"a": b"PK\x03\x04"},
            CorpusError,
            r"task 'auto_en': .*a: not UTF-8 text but a zip archive",
        ),
        (
            {"a": gzip.compress(b"low\n" * 99)[:-9]},
            CorpusError,
            r"task 'auto_en': .*a: truncated after line",
        ),
        (
            {"a": b"x" * 100 + b"\n"},
            CorpusError,
            r"task 'auto_en': .*a:1: the line has more than 50 bytes",
        ),
    ],
)
def test_bad_inputs_are_named(
    tmp_path: Path, texts: dict[str, bytes], kind: type[VoltError], message: str
) -> None:
    """An empty, foreign, cut or overlong input stops before anything is written; no folder is left."""
    with pytest.raises(kind, match=message):
        shard([mono_task(tmp_path, texts)], tmp_path / "shards", max_line=50)
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize("n", [4, 6])
def test_sides_of_different_lengths_are_reported(tmp_path: Path, n: int) -> None:
    """With both numbers and both names, be it by one line at the end; nothing is written, of no task."""
    good = mono_task(tmp_path, {"good": b"x\n"})
    task = pair_task(tmp_path, {"a": 5})
    write(tmp_path / "a.tgt", numbered("a tgt", n))
    message = rf"input 'a': .*a\.src has 5 lines, .*a\.tgt has {n} lines; source and target need the same number"
    with pytest.raises(StreamError, match=f"task 'de_en', {message}"):
        shard([good, task], tmp_path / "shards")
    assert not (tmp_path / "shards").exists()


def test_wrong_arguments_are_reported(tmp_path: Path) -> None:
    """Unknown tasks, tasks without inputs or sides, names that no folder can have, packings and numbers."""
    task = mono_task(tmp_path, {"a": b"x\n"})
    for call, kind, message in (
        (
            lambda: shard([task], tmp_path / "s", names=["b"]),
            ConfigError,
            "no task 'b'; there are auto_en",
        ),
        (lambda: shard([task, task], tmp_path / "s"), ConfigError, "with distinct names"),
        (
            lambda: shard([Task("x", "mono", ())], tmp_path / "s"),
            ConfigError,
            "task 'x': no inputs; give some",
        ),
        (
            lambda: shard([Task("x", "para", task.inputs)], tmp_path / "s"),
            ConfigError,
            "has mono; .* needs src and",
        ),
        (
            lambda: shard([mono_task(tmp_path, {"a": b"x\n"}, name="../x")], tmp_path / "s"),
            ConfigError,
            "of a folder",
        ),
        (
            lambda: shard([task], tmp_path / "s", compress="xz"),
            ConfigError,
            "unknown compress 'xz'",
        ),  # type: ignore[arg-type]
        (lambda: shard([task], tmp_path / "s", lines=0), ConfigError, "lines is 0; give 1 or more"),
        (
            lambda: shard([task], tmp_path / "s", workers=0),
            ConfigError,
            "workers is 0; give 1 or more",
        ),
        (lambda: shard("tasks.yaml", tmp_path / "s"), ArgumentError, "load_config"),
        (
            lambda: shard(
                [Task("x", "mono", (Input("i", (("mono", "/nowhere/a"),)),))], tmp_path / "s"
            ),
            StreamError,
            "task 'x': /nowhere/a: cannot be read: no such file",
        ),
    ):
        with pytest.raises(kind, match=message):
            call()
    assert not (tmp_path / "s").exists()


def test_lines_are_taken_across_blocks_and_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as are asked for, whatever the blocks; more than there are is a file that has changed."""
    monkeypatch.setattr("volt.stream.tasks.task._ALL_BLOCKS", 0)
    paths = [write(tmp_path / "a", numbered("a", 9000)), write(tmp_path / "b", b"\xef\xbb\xbfx\ny")]
    for ahead in (False, True):
        lines = LineReader(paths, ahead=ahead)
        lines.skip(1)
        assert lines.take(8998) == b"".join(numbered("a", 8999).splitlines(keepends=True)[1:])
        assert lines.take(3) == b"a line 8999\nx\ny\n"
        with pytest.raises(
            StreamError, match=r"a: changed while it was read; wait until it is complete"
        ):
            lines.take(1)


def test_a_stream_reads_shards(tmp_path: Path) -> None:
    """The files of a shard are a pair of `Source`."""
    [made] = shard([pair_task(tmp_path, {"a": 7})], tmp_path / "shards", lines=100)
    source = open_source(
        Source("de_en", made.paths, names=made.names), seed=1, cache=tmp_path / "cache"
    )
    assert (source.n_lines, made.counts) == (7, (7,))


def test_lines_of_a_validation_task_keep_their_order(tmp_path: Path) -> None:
    """Shard for shard they are the lines of the inputs, one input behind the other."""
    task = mono_task(
        tmp_path, {"a": numbered("a", 5), "b": numbered("b", 6)}, split="valid", n_shards=3
    )
    [made] = shard([task], tmp_path / "shards")
    together = (numbered("a", 5) + numbered("b", 6)).decode().split("\n")[:-1]
    assert [line for (lines,) in shards_of(made) for line in lines] == together
    assert (made.counts, made.layout.order) == ((3, 4, 4), "kept")
