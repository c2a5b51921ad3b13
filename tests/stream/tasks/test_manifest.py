"""Laws of `read_manifest`: it refuses shards that are unfinished, damaged or stale."""

import gzip
import os
from dataclasses import replace
from pathlib import Path

import pytest
from support.sharding import mono_task, numbered, pair_task, write

from volt.errors import ConfigError, StreamError
from volt.stream.reading.open_source import open_source
from volt.stream.reading.source_definition import Source
from volt.stream.tasks.manifest import (
    Manifest,
    ShardSettings,
    WrittenFile,
    WrittenShard,
    read_manifest,
    task_folder,
)
from volt.stream.tasks.shard_writing import shard
from volt.stream.tasks.task import Input, InputFile, ReadInput, Task

AGAIN = "make the shards again: volt shard CONFIG -o .*shards"


@pytest.fixture
def task(tmp_path):
    """Return a task whose shards are in `shards`."""
    result = pair_task(tmp_path, {"a": 9, "b": 4}, n_shards=2)
    shard([result], tmp_path / "shards")
    return result


def refused(folder, task, message):
    with pytest.raises(StreamError, match=message):
        read_manifest(folder / "shards", task)


def test_inputs_may_be_deleted_touched_or_moved(tmp_path, task):
    """`read_manifest` accepts shards whose inputs were deleted, touched or moved."""
    (tmp_path / "a.src").unlink()
    os.utime(tmp_path / "b.src", (5, 5))
    (tmp_path / "b.tgt").rename(tmp_path / "c.tgt")
    moved = Input("b", (("src", str(tmp_path / "b.src")), ("tgt", str(tmp_path / "c.tgt"))))
    sharing = Task("other", "para", (), shares="de_en")
    for current in (replace(task, inputs=(task.inputs[0], moved)), sharing):
        assert read_manifest(tmp_path / "shards", current).n_lines == 13


def test_a_recompressed_input_is_up_to_date(tmp_path):
    """`read_manifest` accepts shards of an input that was compressed again with the same text."""
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(b"low\n" * 9, mtime=1))
    task = Task("auto", "mono", (Input("a", (("mono", str(path)),)),))
    [manifest] = shard([task], tmp_path / "shards")
    path.write_bytes(gzip.compress(b"low\n" * 9, mtime=2))
    os.utime(path, (5, 5))
    assert read_manifest(tmp_path / "shards", task) == manifest


@pytest.mark.parametrize("shares", [False, True])
def test_changed_inputs_make_shards_stale(tmp_path, task, shares):
    """`read_manifest` refuses shards if the text of an input has changed, even with equal size.

    A task that shares the inputs is refused as well."""
    if shares:
        task = Task("other", "para", (), shares="de_en")
    write(tmp_path / "a.src", numbered("a SRC", 9))
    refused(tmp_path, task, rf"de_en: stale: .*a\.src now has different text; {AGAIN}")
    write(tmp_path / "a.src", numbered("a", 9))
    refused(tmp_path, task, rf"stale: .*a\.src now has 81 bytes, not 117; {AGAIN}")


CHANGES = [
    (
        lambda task: replace(task, inputs=task.inputs[:1]),
        "stale: made from the inputs a, b, not a; make",
    ),
    (
        lambda task: replace(task, inputs=(task.inputs[0], Input("b", task.inputs[1].files * 2))),
        "stale: input 'b' now has a different number of files",
    ),
    (
        lambda task: replace(task, kind="mono"),
        "stale: they have src and tgt, but task 'de_en' is of type mono",
    ),
    (lambda task: replace(task, n_shards=5), "stale: there are 2, but task 'de_en' asks for 5"),
    (
        lambda task: replace(task, name="fr_en"),
        "fr_en: no shards of task 'fr_en'; make them: volt shard CONFIG",
    ),
]


@pytest.mark.parametrize(("change", "message"), CHANGES)
def test_a_changed_task_makes_shards_stale(tmp_path, task, change, message):
    """`read_manifest` refuses shards if the task now has other inputs, another type or number of
    shards.
    """
    refused(tmp_path, change(task), message)


@pytest.mark.parametrize("n_shards", [None, 2, 3, 4])
def test_there_may_be_fewer_lines_than_requested_shards(tmp_path, n_shards):
    """A task with fewer lines than requested shards gets one shard per line. These shards are valid
    for a request of as many or more, and for a task that shares them; a request of fewer is
    refused."""
    task = mono_task(tmp_path, {"a": b"1\n2\n3\n"}, name="t", n_shards=9)
    [manifest] = shard([task], tmp_path / "shards")
    assert manifest.counts == (1, 1, 1)
    other = replace(task, n_shards=n_shards)
    if n_shards == 2:
        refused(tmp_path, other, "stale: there are 3, but task 't' asks for 2; make the shards")
    else:
        assert read_manifest(tmp_path / "shards", other) == manifest
    sharing = Task("u", "mono", (), shares="t", n_shards=2)
    assert read_manifest(tmp_path / "shards", sharing) == manifest


def test_damaged_shards_are_detected(tmp_path, task):
    """`read_manifest` refuses shards if a file is missing, or has another size."""
    path = tmp_path / "shards" / "de_en" / "00001.tgt.zst"
    path.write_bytes(b"cut")
    fault = rf"de_en: 00001\.tgt\.zst has 3 bytes, not the \d+ that were written; {AGAIN}"
    refused(tmp_path, task, fault)
    path.unlink()
    (tmp_path / "shards" / "de_en" / "words.tgt.tsv").unlink()
    refused(tmp_path, task, rf"de_en: 00001\.tgt\.zst is missing; {AGAIN}")


@pytest.mark.parametrize("damage", ["edited", "cut", "[]", "", '{"version": 9}'])
def test_damaged_manifests_are_detected(tmp_path, task, damage):
    """`read_manifest` refuses a manifest that was edited or cut; making the shards again repairs
    it.
    """
    path = tmp_path / "shards" / "de_en" / "manifest.json"
    text = path.read_text()
    if damage == "edited":
        damage = text.replace('"n_lines": 13', '"n_lines": 12')
    elif damage == "cut":
        damage = text[:99]
    path.write_text(damage)
    refused(tmp_path, task, rf"manifest\.json: damaged; {AGAIN}")
    shard([task], tmp_path / "shards")
    assert path.read_text() == text


def test_a_damaged_shard_of_the_same_size_has_a_remedy(tmp_path, task):
    """If a stream cannot read a shard, the error names the command that makes shards.

    For a file that is not a shard, it does not."""
    manifest = read_manifest(tmp_path / "shards", task)
    path = Path(manifest.paths[2])
    path.write_bytes(b"(\xb5/\xfd" + b"x" * (path.stat().st_size - 4))
    assert read_manifest(tmp_path / "shards", task) == manifest
    source = Source("de_en", manifest.paths, names=manifest.names)
    with pytest.raises(StreamError, match=rf"00001\.src\.zst: .*; {AGAIN}$"):
        open_source(source, seed=1, cache=tmp_path / "cache")
    other = path.rename(tmp_path / "a.zst")
    with pytest.raises(StreamError) as error:
        open_source(Source("a", (str(other),)), seed=1, cache=tmp_path / "cache")
    assert "volt shard" not in str(error.value)


@pytest.mark.parametrize("name", ["", ".x", "a/b", "a\\b", "a\n", "../x"])
def test_names_of_tasks_are_names_of_folders(name):
    """`task_folder` returns a visible folder with the task's name, or refuses the name.

    For a task that shares inputs, it returns the other task's folder."""
    message = "cannot be the name of a folder; use letters, digits, - and _"
    with pytest.raises(ConfigError, match=message):
        task_folder("s", Task(name, "mono", ()))
    assert task_folder("s", Task("b.c", "mono", ())) == Path("s/b.c")
    assert task_folder("s", Task("b", "mono", (), shares="ö d")) == Path("s/ö d")


def test_a_manifest_sums_up_its_shards():
    """A manifest lists files by shard, counts lines of one side and bad lines of all, and finds the
    first.
    """
    sides = ("src", "tgt")
    shards = []
    for n in (3, 2):
        files = tuple(WrittenFile(f"{n}.{side}", n, "") for side in sides)
        shards.append(WrittenShard(n, (n, 1), files))
    words = tuple(WrittenFile(f"words.{side}.tsv", 1, "") for side in sides)
    inputs = []
    for name, faults in (("a", ((0, 0), (0, 4))), ("b", ((5, 6), (7, 0)))):
        files_of_sides = [
            (InputFile(side, f"{name}.{side}", 0, 0, "", 9, 9, *fault),)
            for side, fault in zip(sides, faults, strict=True)
        ]
        inputs.append(ReadInput(name, tuple(files_of_sides)))
    settings = ShardSettings(2, "none", "kept")
    manifest = Manifest(Path("f"), "t", sides, settings, tuple(inputs), tuple(shards), words)
    assert manifest.paths == ("f/3.src", "f/3.tgt", "f/2.src", "f/2.tgt")
    names = [file.name for file in manifest.files]
    assert names == ["3.src", "3.tgt", "2.src", "2.tgt", "words.src.tsv", "words.tgt.tsv"]
    assert (manifest.counts, manifest.n_lines, manifest.n_bad_lines) == ((3, 2), 5, 7)
    assert (manifest.names, manifest.first_bad, manifest.first_tab) == (sides, "b.src:5", "a.tgt:4")
    assert manifest.word_paths == {"src": "f/words.src.tsv", "tgt": "f/words.tgt.tsv"}
