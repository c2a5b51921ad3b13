"""Shards of a few lines, byte for byte; their sizes, and what of a task is taken, at each limit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden import check
from sharding import mono_task, numbered, pair_task, write

from volt.errors import ArgumentError, ConfigError, StreamError
from volt.stream.tasks import shard_writing
from volt.stream.tasks import task as reading
from volt.stream.tasks.manifest import (
    Manifest,
    ShardSettings,
    WrittenFile,
    WrittenShard,
    read_manifest,
    task_folder,
)
from volt.stream.tasks.output_folder import ShardInputs, TaskFolder
from volt.stream.tasks.shard_writing import shard
from volt.stream.tasks.task import (
    Input,
    InputFile,
    ReadInput,
    Task,
    check_input,
    expanded,
    look_at,
)


@pytest.mark.parametrize("split", ["train", "valid"])
@pytest.mark.parametrize("chunk", [1, 40, 1 << 20])
def test_shards_of_a_few_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, split: Any, chunk: int
) -> None:
    """Mixed or in order, in chunks of any size the same bytes; words, digests and counts in the manifest."""
    monkeypatch.setattr(shard_writing, "CHUNK_BYTES", chunk)
    texts = {"a": b"a0\na1\na2\na3\na4", "b": b"b0 x\r\nb1 x\n", "c": b"\xef\xbb\xbfc0\t\xff\n"}
    asked = mono_task(tmp_path, texts, name="t", split=split, n_shards=3)
    [made] = shard([asked], tmp_path / "s", compress="none", workers=1)
    record = json.loads((tmp_path / "s/t/manifest.json").read_text())["record"]
    for source in record["inputs"]:
        for file in source["sides"][0]:
            file.update(path=Path(file["path"]).name, modified=0)
    texts_ = [
        Path(path).read_text(errors="replace") for path in (*made.paths, *made.word_paths.values())
    ]
    rest = {key: str(value) for key, value in record.items()}
    check(f"stream shards {split}", {**rest, "texts": texts_})
    assert (Path(made.first_bad).name, Path(made.first_tab).name) == ("c:1", "c:1")
    assert (made.n_bad_lines, made.names, made.counts, len(made.files)) == (
        1,
        (),
        (3, 3, 2) if split == "train" else (2, 3, 3),
        4,
    )


def test_progress_counts_each_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The total of all tasks is known once lines are counted; finished tasks count at once."""
    monkeypatch.setattr(shard_writing, "CHUNK_BYTES", 20)
    first, second = (
        mono_task(tmp_path, {"a": numbered("a", 4)}, name="x"),
        mono_task(tmp_path, {"b": b"b\n"}, name="y"),
    )
    steps = list[tuple[str, int, int | None]]()
    shard([first], tmp_path / "s", workers=1)
    shard([first, second], tmp_path / "s", workers=1, progress=lambda *step: steps.append(step))
    assert steps == [("count lines", 1, None), ("shard", 4, 5), ("shard", 5, 5)]


def files_of(n_lines: int, n_bytes: int) -> tuple[ReadInput, ...]:
    """An input of one file."""
    return (ReadInput("i", ((InputFile("mono", "a", 1, 2, "d", n_lines, n_bytes),),)),)


@pytest.mark.parametrize(
    ("n_lines", "n_bytes", "n_shards", "lines", "expected"),
    [
        (100, 1000, None, 50, (2, 838860)),
        (101, 1000, None, 50, (3, 847249)),
        (5, 9, 7, 50, (5, 1 << 20)),
        (10, 8 << 20, 3, 1, (3, 10)),
        (10, 80 << 20, 3, 1, (3, 1)),
        (10, 800 << 20, 3, 1, (3, 1)),
        (1, 1, None, 1, (1, 1 << 20)),
    ],
)
def test_sizes_of_shards_and_chunks(
    n_lines: int, n_bytes: int, n_shards: int | None, lines: int, expected: tuple[int, int]
) -> None:
    """Shards by their number or by lines; chunks by bytes, of a line at least and 2**20 at most."""
    for split, order in (("train", "mixed"), ("valid", "kept")):
        asked = Task("t", "mono", (), split=split, n_shards=n_shards)  # type: ignore[arg-type]
        planned = shard_writing._plan(asked, files_of(n_lines, n_bytes), lines, "gz")
        assert (planned.layout.n_shards, planned.chunk_lines, planned.n_lines) == (
            *expected,
            n_lines,
        )
        assert planned.layout == ShardSettings(expected[0], "gz", order)  # type: ignore[arg-type]


def test_chunks_of_a_plan(tmp_path: Path) -> None:
    """Each has its shard, whether it is the first, its lines and their order; shards that are finished are skipped."""
    asked = pair_task(tmp_path, {"a": 7, "b": 2}, n_shards=2)
    inputs = tuple(
        ReadInput(one.name, tuple((look_at(path, side=side),) for side, path in one.files))
        for one in asked.inputs
    )
    planned = replace(shard_writing._plan(asked, inputs, 9, "none"), chunk_lines=3)
    chunks = list(shard_writing.chunks_of(planned))
    assert [(one.shard, one.is_first, one.n_lines) for one in chunks] == [
        (0, True, 2),
        (0, False, 3),
        (1, True, 1),
        (1, False, 3),
    ]
    assert chunks[0].sides == (
        (b"a src line 0\na src line 1\n", b""),
        (b"a tgt line 0\na tgt line 1\n", b""),
    )
    assert chunks[1].order is not None
    assert np.array_equal(chunks[1].order, [2, 0, 1])
    for done in ((0,), (1,), (0, 1), ()):
        for ahead in (False, True):
            rest = list(shard_writing.chunks_of(planned, without=done, ahead=ahead))
            assert [one[:4] for one in rest] == [one[:4] for one in chunks if one.shard not in done]
    alone = replace(planned, inputs=inputs[:1], counts=planned.counts[:, :1])
    assert all(one.order is None for one in shard_writing.chunks_of(alone))


def test_tasks_are_chosen_by_name() -> None:
    """With those whose inputs they share, in the order of the configuration; each mistake is named."""
    files = (Input("i", (("mono", "a"),)),)
    one, two = Task("one", "mono", files), Task("two", "mono", files)
    shares, empty = Task("shares", "mono", (), shares="two"), Task("empty", "mono", ())
    chosen = shard_writing._selected
    assert chosen([one, shares, two], []) == [one, two]
    assert chosen([one, shares, two], ["shares"]) == [two]
    assert chosen([one, empty, two], ["two", "one"]) == [one, two]
    for tasks, names, message in (
        ([], [], r"tasks \[\]: give one or more, with distinct names"),
        ([one, one], [], "with distinct names"),
        ([one, empty], [], "task 'empty': no inputs"),
        ([one, two], ["tow"], "no task 'tow'; there are one, two"),
    ):
        with pytest.raises(ConfigError, match=message):
            chosen(tasks, names)
    with pytest.raises(ArgumentError, match="a task is 'one'"):
        chosen(["one"], [])


@pytest.mark.parametrize(
    ("kind", "files", "message"),
    [
        ("para", (("src", "a"),), "has src; a task of type para needs src and tgt"),
        ("mono", (), "has no file; a task"),
        ("mono", (("mono", "a"), ("src", "b")), "has mono and src; a task of type mono needs mono"),
        (
            "para",
            (("src", "a"), ("src", "b"), ("tgt", "c")),
            "2 files of src and 1 file of tgt; give the same number",
        ),
    ],
)
def test_sides_of_an_input(kind: Any, files: tuple[tuple[str, str], ...], message: str) -> None:
    """Each side of the type, and no other, in equal numbers."""
    with pytest.raises(ConfigError, match=rf"task 't', input 'i': {message}"):
        expanded(Task("t", kind, ()), Input("i", files))
    good = Input("i", (("tgt", "c"), ("src", "a"), ("src", "b"), ("tgt", "d")))
    assert expanded(Task("t", "para", ()), good).paths == ("a", "b", "c", "d")
    assert good.paths == ("c", "a", "b", "d")


def test_sides_have_equal_numbers_of_lines() -> None:
    """File by file: a line too many in one and too few in the next is a mistake."""

    def one(side: str, *counts: int) -> tuple[InputFile, ...]:
        return tuple(InputFile(side, f"{side}{i}", 0, 0, "", n, 0) for i, n in enumerate(counts))

    pair = Task("t", "para", ())
    check_input(pair, ReadInput("i", (one("src", 2, 0), one("tgt", 2, 0))))
    for sides, message in (
        (
            (one("src", 2, 3), one("tgt", 3, 2)),
            "src0 has 2 lines, tgt0 has 3 lines; source and target need",
        ),
        ((one("src", 2, 1), one("tgt", 2, 2)), "src1 has 1 line, tgt1 has 2 lines; source"),
        (
            (one("src", 0, 0), one("tgt", 0, 0)),
            "no line in src0, src1, tgt0, tgt1; remove the input",
        ),
    ):
        with pytest.raises(StreamError, match=rf"task 't', input 'i': {message}"):
            check_input(pair, ReadInput("i", sides))


@pytest.mark.parametrize("name", ["", ".x", "a/b", "a\\b", "a\n"])
def test_names_are_names_of_folders(name: str) -> None:
    """No hidden folder, no other place; a task that shares inputs has the other's folder."""
    with pytest.raises(
        ConfigError, match="cannot be the name of a folder; use letters, digits, - and _"
    ):
        task_folder("s", Task(name, "mono", ()))
    assert task_folder("s", Task("b.c", "mono", ())) == Path("s/b.c")
    assert task_folder("s", Task("b", "mono", (), shares="ö d")) == Path("s/ö d")


def test_files_are_read_once_while_they_stay(tmp_path: Path) -> None:
    """Counts and digest of each file; a mark and a missing last line end count as for a stream."""
    path, seen = write(tmp_path / "a", b"\xef\xbb\xbfx\n\ny"), list[int]()
    file = look_at(path, progress=seen.append)
    assert (file.side, file.n_lines, file.n_bytes, file.size, sum(seen)) == ("mono", 3, 7, 7, 3)
    assert look_at(write(tmp_path / "b.gz", b"\xef\xbb\xbfx\n\ny")).digest == file.digest
    folder = TaskFolder(tmp_path / "s" / "t", ("mono",))
    asked = Task("t", "mono", (Input("i", (("mono", path),)),))
    shard([asked], tmp_path / "s")
    assert folder.files_read() == {("mono", path): file}
    write(tmp_path / "a", b"\xef\xbb\xbfx\n\nz")
    assert folder.files_read() == {}
    for look in (
        reading.check_unchanged,
        lambda path, _: look_at(path, progress=lambda _: write(tmp_path / "a", b"x")),
    ):
        with pytest.raises(StreamError, match="a: changed while it was read"):
            look(path, file.stamp)


def test_signatures_are_of_texts() -> None:
    """Other paths and times make the same shards; another name, digest, side, number or compression does not."""
    settings = ShardSettings(2, "gz", "mixed")
    plan = ShardInputs("t", settings, files_of(5, 9))
    file = plan.inputs[0].files[0]

    def of(**change: Any) -> Any:
        return replace(plan, inputs=(ReadInput("i", ((replace(file, **change),),)),)).signature

    assert of(path="b") == of(size=9, modified=1) == of(n_lines=1) == plan.signature
    others = [of(digest="e"), of(side="src"), replace(plan, task="u").signature]
    others += [
        replace(plan, layout=replace(settings, **one)).signature
        for one in ({"n_shards": 3}, {"compress": "zstd"})
    ]
    assert len({plan.signature, *others}) == 6


def test_values_of_a_manifest() -> None:
    """Files and paths shard by shard, lines of one side, lines that are not UTF-8 of all, the first faulty lines."""
    shards = tuple(
        WrittenShard(n, (n, 1), tuple(WrittenFile(f"{n}.{side}", n, "") for side in ("src", "tgt")))
        for n in (3, 2)
    )
    words = tuple(WrittenFile(f"words.{side}.tsv", 1, "") for side in ("src", "tgt"))
    inputs = tuple(
        ReadInput(
            name,
            tuple(
                (InputFile(side, f"{name}.{side}", 0, 0, "", 9, 9, bad, tab),)
                for side, bad, tab in files
            ),
        )
        for name, files in (
            ("a", (("src", 0, 0), ("tgt", 0, 4))),
            ("b", (("src", 5, 6), ("tgt", 7, 0))),
        )
    )
    made = Manifest(
        Path("f"), "t", ("src", "tgt"), ShardSettings(2, "none", "kept"), inputs, shards, words
    )
    assert made.paths == ("f/3.src", "f/3.tgt", "f/2.src", "f/2.tgt")
    assert [file.name for file in made.files] == [
        "3.src",
        "3.tgt",
        "2.src",
        "2.tgt",
        "words.src.tsv",
        "words.tgt.tsv",
    ]
    assert (made.counts, made.n_lines, made.n_bad_lines, made.names) == (
        (3, 2),
        5,
        7,
        ("src", "tgt"),
    )
    assert (made.first_bad, made.first_tab) == ("b.src:5", "a.tgt:4")
    assert made.word_paths == {"src": "f/words.src.tsv", "tgt": "f/words.tgt.tsv"}


@pytest.mark.parametrize(("n_shards", "is_fresh"), [(None, True), (3, True), (4, True), (2, False)])
def test_fewer_lines_than_shards_are_not_stale(
    tmp_path: Path, n_shards: int | None, is_fresh: bool
) -> None:
    """As many shards as lines satisfy whoever asks for more."""
    asked = mono_task(tmp_path, {"a": b"1\n2\n3\n"}, name="t", n_shards=9)
    [made] = shard([asked], tmp_path / "s")
    assert made.counts == (1, 1, 1)
    again = replace(asked, n_shards=n_shards)
    if is_fresh:
        assert read_manifest(tmp_path / "s", again) == made
    else:
        with pytest.raises(
            StreamError, match="stale: there are 3, but task 't' asks for 2; make the shards again"
        ):
            read_manifest(tmp_path / "s", again)
    assert read_manifest(tmp_path / "s", Task("u", "mono", (), shares="t", n_shards=2)) == made
