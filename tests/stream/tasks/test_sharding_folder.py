"""Shards are read if they are finished, whole and of the inputs that are there; else the command is named."""

from __future__ import annotations

import gzip
import os
from dataclasses import replace
from pathlib import Path

import pytest
from sharding import numbered, pair_task, write

from volt.errors import ConfigError, StreamError
from volt.stream.tasks.manifest import read_manifest
from volt.stream.tasks.shard_writing import shard
from volt.stream.tasks.task import Input, Task


@pytest.fixture
def task(tmp_path: Path) -> Task:
    """A task whose shards are in `shards`."""
    made = pair_task(tmp_path, {"a": 9, "b": 4}, n_shards=2)
    shard([made], tmp_path / "shards")
    return made


def test_inputs_may_be_gone_touched_or_elsewhere(tmp_path: Path, task: Task) -> None:
    """What counts is their text, where they are still there."""
    (tmp_path / "a.src").unlink()
    os.utime(tmp_path / "b.src", (5, 5))
    (tmp_path / "b.tgt").rename(tmp_path / "c.tgt")
    moved = Input("b", (("src", str(tmp_path / "b.src")), ("tgt", str(tmp_path / "c.tgt"))))
    assert (
        read_manifest(tmp_path / "shards", replace(task, inputs=(task.inputs[0], moved))).n_lines
        == 13
    )
    assert (
        read_manifest(tmp_path / "shards", Task("other", "para", (), shares="de_en")).n_lines == 13
    )


@pytest.mark.parametrize("shares", [False, True])
def test_stale_shards_are_reported(tmp_path: Path, task: Task, shares: bool) -> None:
    """An input with another text, of the same size or another; also for a task that shares it."""
    asked = Task("other", "para", (), shares="de_en") if shares else task
    write(tmp_path / "a.src", numbered("a SRC", 9))
    _refused(
        tmp_path,
        asked,
        r"de_en: stale: .*a\.src now has different text; make the shards again: volt shard CONFIG -o",
    )
    write(tmp_path / "a.src", numbered("a", 9))
    _refused(
        tmp_path,
        asked,
        r"stale: .*a\.src now has 81 bytes, not 117; make the shards again: volt shard CONFIG",
    )


def test_shards_of_another_task_are_stale(tmp_path: Path, task: Task) -> None:
    """Other inputs, more files, another type, another number of shards."""
    message = r"stale: made from the inputs a, b, not a; make"
    _refused(tmp_path, replace(task, inputs=task.inputs[:1]), message)
    more = Input("b", task.inputs[1].files * 2)
    _refused(
        tmp_path,
        replace(task, inputs=(task.inputs[0], more)),
        r"stale: input 'b' now has a different number of files",
    )
    _refused(
        tmp_path,
        replace(task, kind="mono"),
        r"stale: they have src and tgt, but task 'de_en' is of type mono",
    )
    _refused(
        tmp_path,
        replace(task, n_shards=5),
        r"stale: there are 2, but task 'de_en' asks for 5; make",
    )
    assert read_manifest(tmp_path / "shards", replace(task, n_shards=None)).counts == (7, 6)


def test_damage_is_reported(tmp_path: Path, task: Task) -> None:
    """A missing or cut file, a manifest that was edited, is none, or of another version, and one that is not there."""
    folder = tmp_path / "shards" / "de_en"
    (folder / "00001.tgt.zst").write_bytes(b"cut")
    _refused(
        tmp_path,
        task,
        r"de_en: 00001\.tgt\.zst has 3 bytes, not the \d+ that were written; make the shards again",
    )
    (folder / "words.tgt.tsv").unlink()
    (folder / "00001.tgt.zst").unlink()
    _refused(
        tmp_path,
        task,
        r"de_en: 00001\.tgt\.zst is missing; make the shards again: volt shard CONFIG",
    )
    shard([task], tmp_path / "shards")
    text = (folder / "manifest.json").read_text()
    for damaged in (
        text.replace('"n_lines": 13', '"n_lines": 12'),
        text[:99],
        "[]",
        "",
        '{"version": 9}',
    ):
        (folder / "manifest.json").write_text(damaged)
        _refused(
            tmp_path,
            task,
            r"manifest\.json: damaged; make the shards again: volt shard CONFIG -o .*shards",
        )
    shard([task], tmp_path / "shards")
    assert (folder / "manifest.json").read_text() == text
    _refused(
        tmp_path,
        replace(task, name="fr_en"),
        r"fr_en: no shards of task 'fr_en'; make them: volt shard CONFIG",
    )
    with pytest.raises(
        ConfigError, match=r"task '\.\./x': cannot be the name of a folder; use letters"
    ):
        read_manifest(tmp_path, replace(task, name="../x"))


def test_a_text_packed_otherwise_is_the_same_text(tmp_path: Path) -> None:
    """An input of the same size and another time is read: what its text is decides, not its bytes."""
    same = [gzip.compress(b"low\n" * 9, mtime=time) for time in (1, 2)]
    path = tmp_path / "a.gz"
    path.write_bytes(same[0])
    task = Task("auto", "mono", (Input("a", (("mono", str(path)),)),))
    [made] = shard([task], tmp_path / "shards")
    path.write_bytes(same[1])
    os.utime(path, (5, 5))
    assert read_manifest(tmp_path / "shards", task) == made


def _refused(folder: Path, task: Task, message: str) -> None:
    with pytest.raises(StreamError, match=message):
        read_manifest(folder / "shards", task)
