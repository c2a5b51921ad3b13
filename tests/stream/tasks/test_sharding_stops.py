"""Whenever a run is stopped, the next one keeps what was finished, and the shards are those of a run without a stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from drawn import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sharding import bytes_of, mono_task, numbered, pair_task

from volt.errors import ConfigError, OutputError, StreamError
from volt.files.atomic import write_atomic
from volt.stream.reading.index_cache import locked
from volt.stream.tasks import manifest, output_folder, shard_writing
from volt.stream.tasks.manifest import read_manifest
from volt.stream.tasks.shard_writing import shard
from volt.stream.tasks.task import Input, Task

WRITERS = (shard_writing, manifest, output_folder)  # that write files


class Made(NamedTuple):
    """A task, the folder of its inputs, and the files of its shards."""

    task: Task
    folder: Path
    shards: dict[str, bytes]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Shards that were made without a stop."""
    folder = tmp_path_factory.mktemp("stops")
    task = pair_task(folder, {"a": 60, "b": 7}, n_shards=4)
    shard([task], folder / "whole")
    return Made(task, folder, bytes_of(folder / "whole"))


class _Stop(BaseException):
    """As SIGKILL, but for what the process itself does not see."""


@settings(
    deadline=None,
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(stops=st.lists(st.integers(0, 30), min_size=1, max_size=3), is_renamed=st.booleans())
def test_a_run_goes_on_where_one_was_stopped(
    made: Made, tmp_path_factory: pytest.TempPathFactory, stops: list[int], is_renamed: bool
) -> None:
    """Stopped before or behind any file that takes its place, once or again: in the end all is as without a stop, and
    until then nobody takes it for finished."""
    task, place = made.task, tmp_path_factory.mktemp("stopped")
    for stop in stops:
        with pytest.MonkeyPatch.context() as patch:
            _stop_at(patch, stop, is_renamed=is_renamed)
            try:
                shard([task], place, workers=1)
            except _Stop:
                if not (place / "de_en" / "manifest.json").exists():
                    with pytest.raises(
                        StreamError,
                        match=r"task 'de_en'; (continue|make them): volt shard CONFIG -o ",
                    ):
                        read_manifest(place, task)
    shard([task], place)
    assert bytes_of(place) == made.shards


def _stop_at(patch: pytest.MonkeyPatch, stop: int, *, is_renamed: bool) -> None:
    """Stop in place of writing a file, or when it has been written. stop: its number"""
    left = iter(range(stop, -1, -1))

    class Stopping:
        def __init__(self, path: Path) -> None:
            self.file, self.is_last = write_atomic(path), next(left, 0) == 0

        def __enter__(self) -> Any:
            return self.file.__enter__()

        def __exit__(self, *error: Any) -> None:
            if self.is_last and not is_renamed:
                self.file.__exit__(_Stop, _Stop(), None)
            self.file.__exit__(*error)
            if self.is_last:
                raise _Stop

    for module in WRITERS:
        patch.setattr(module, "write_atomic", Stopping)


def test_what_is_finished_is_not_made_again(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards that were noted are kept, inputs are not looked at again, and one that was damaged since is made anew."""
    task = made.task
    with pytest.MonkeyPatch.context() as patch:
        _stop_at(
            patch, 13, is_renamed=True
        )  # the plan, and five files of each of two shards; then two more
        with pytest.raises(_Stop):
            shard([task], tmp_path, workers=1)
    assert sorted(path.name for path in tmp_path.glob("*/.progress/*.json")) == [
        "00000.json",
        "00001.json",
        "plan.json",
    ]
    (tmp_path / "de_en" / ".progress" / "00000.tgt.zst").write_bytes(b"damaged")
    seen = _written_shards(monkeypatch)
    monkeypatch.setattr(shard_writing, "look_at", None)
    shard([task], tmp_path)
    assert seen == [0, 2, 3]
    assert bytes_of(tmp_path) == made.shards


def test_shards_that_are_there_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as texts and options are the same, whatever the times; other options make all anew, and old files go."""
    task, seen = (
        mono_task(tmp_path, {"a": numbered("a", 9)}, n_shards=3),
        _written_shards(monkeypatch),
    )
    [first] = shard([task], tmp_path / "s")
    assert shard([task], tmp_path / "s") == (first,)
    os.utime(tmp_path / "a", (1, 1))
    [again] = shard([task], tmp_path / "s")
    assert (seen, again.shards, again.inputs == first.inputs) == ([0, 1, 2], first.shards, False)
    assert read_manifest(tmp_path / "s", task) == again
    Path(first.paths[2]).write_bytes(b"damaged")
    shard([task], tmp_path / "s")
    assert seen == [0, 1, 2] * 2
    shard([replace(task, n_shards=2)], tmp_path / "s", compress="gz")
    names = ["00000.mono.gz", "00001.mono.gz", "manifest.json", "words.mono.tsv"]
    assert sorted(path.name for path in (tmp_path / "s" / "auto_en").iterdir()) == names


def _written_shards(patch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the shards that are written from now on."""
    seen, write = list[int](), shard_writing._write_shard

    def written(work: Any, number: int, *rest: Any) -> Any:
        seen.append(number)
        return write(work, number, *rest)

    patch.setattr(shard_writing, "_write_shard", written)
    return seen


def test_two_runs_do_no_harm(tmp_path: Path) -> None:
    """The second says that there is another, and changes nothing; when that is gone, its lock holds nobody back."""
    task = mono_task(tmp_path, {"a": numbered("a", 9)})
    (tmp_path / "s" / "auto_en").mkdir(parents=True)
    lock = tmp_path / "s" / "auto_en" / ".lock"
    with (
        locked(lock),
        pytest.raises(
            StreamError, match=r"auto_en: another process is writing shards there; wait, or"
        ),
    ):
        shard([task], tmp_path / "s")
    assert [path.name for path in (tmp_path / "s").rglob("*")] == ["auto_en", ".lock"]
    shard([task], tmp_path / "s")
    assert not lock.exists()


@pytest.mark.parametrize(
    "name", ["notes.txt", "00000.mono.zst", "words.mono.tsv", ".progress", "manifest.json"]
)
def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path, name: str) -> None:
    """Also where names are like those of shards, but nothing says that they are; or where there is a link or folder."""
    task, place = mono_task(tmp_path, {"a": b"x\n"}), tmp_path / "s" / "auto_en"
    place.mkdir(parents=True)
    if name == "manifest.json":
        (place / name).symlink_to(tmp_path / "a")
    else:
        (place / name).write_text("mine")
    lost = ", or its manifest.json is missing" if name[0] in "0w" else ""
    with pytest.raises(
        OutputError,
        match=rf"auto_en: contains '{name}', which is not one of its shards{lost}; name another folder",
    ):
        shard([task], tmp_path / "s")
    assert [path.name for path in place.iterdir()] == [name]
    assert (tmp_path / "a").read_bytes() == b"x\n"


def test_inputs_are_not_written_over(tmp_path: Path) -> None:
    """An input in the folder that is written is refused, also through a link."""
    [made] = shard([mono_task(tmp_path, {"a": b"x\n"})], tmp_path / "s", compress="none")
    (tmp_path / "link").symlink_to(made.paths[0])
    for path in (made.paths[0], f"{tmp_path}/s/../s/auto_en/00000.mono", f"{tmp_path}/link"):
        task = Task("auto_en", "mono", (Input("i", (("mono", path),)),))
        with pytest.raises(
            ConfigError,
            match=r": is an input, but lies in the output folder .*auto_en; name another folder",
        ):
            shard([task], tmp_path / "s", compress="none")
    assert Path(made.paths[0]).read_bytes() == b"x\n"


def test_an_input_that_changes_meanwhile_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is finished that is not of one text."""
    task, looked = mono_task(tmp_path, {"a": numbered("a", 9)}), shard_writing._plan

    def change(*given: Any) -> Any:
        with open(tmp_path / "a", "ab") as file:
            file.write(b"more\n")
        return looked(*given)

    monkeypatch.setattr(shard_writing, "_plan", change)
    with pytest.raises(
        StreamError,
        match=r"a: changed while it was read; wait until it is complete, and start again",
    ):
        shard([task], tmp_path / "s")
    assert not (tmp_path / "s" / "auto_en" / "manifest.json").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from volt.stream.tasks import shard_writing
from volt.stream.tasks.task import Input, Task
shard_writing.CHUNK_BYTES = 200
folder = Path(sys.argv[1])
inputs = tuple(Input(n, tuple((s, str(folder / f"{n}.{s}")) for s in ("src", "tgt"))) for n in ("a", "b"))
def progress(step, done, total):
    if step == "shard" and done > 40:
        os.kill(os.getpid(), signal.SIGKILL)
shard_writing.shard([Task("de_en", "para", inputs, n_shards=4)], sys.argv[2], workers=2, progress=progress)
"""


def test_a_run_that_was_killed_goes_on(made: Made, tmp_path: Path) -> None:
    """By SIGKILL, in the middle of a shard: half a file is left under another name, and is gone in the end."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(made.folder), str(tmp_path)], timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert any(_parts(tmp_path))
    with pytest.raises(
        StreamError, match=r"unfinished shards of task 'de_en'; continue: volt shard CONFIG"
    ):
        read_manifest(tmp_path, made.task)
    [again] = shard([made.task], tmp_path)
    assert (again.counts, again.n_lines) == ((17, 17, 17, 16), 67)
    assert not any(_parts(tmp_path))


def _parts(folder: Path) -> Iterator[Path]:
    return folder.rglob(".*.part")
