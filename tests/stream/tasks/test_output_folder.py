"""Laws of `TaskFolder`: a run of `shard` that was stopped can be continued, to the same bytes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.drawn import examples
from support.sharding import bytes_of, mono_task, numbered, pair_task, write

from volt.errors import ConfigError, OutputError, StreamError
from volt.files.atomic import write_atomic
from volt.stream.reading.index_cache import locked
from volt.stream.tasks import manifest, output_folder, shard_writing
from volt.stream.tasks.manifest import ShardSettings, read_manifest
from volt.stream.tasks.output_folder import ShardInputs, TaskFolder
from volt.stream.tasks.shard_writing import shard
from volt.stream.tasks.task import Input, InputFile, ReadInput, Task, read_input_file


class Whole(NamedTuple):
    """A task, the folder of its inputs, and the files of its shards from a run without a stop."""

    task: Task
    folder: Path
    shards: dict[str, bytes]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stops")
    task = pair_task(folder, {"a": 60, "b": 7}, n_shards=4)
    shard([task], folder / "whole")
    return Whole(task, folder, bytes_of(folder / "whole"))


class _Stop(BaseException):
    """An error that nothing catches, so that a run stops as after SIGKILL."""


class Interrupted:
    """Writes files like `write_atomic`; from a number on, raises an error before or after
    renaming.
    """

    def __init__(self, n, error, *, is_renamed=False):
        self._left = n
        self._error = error
        self._is_renamed = is_renamed

    def __call__(self, path):
        self._left -= 1
        return write_atomic(path) if self._left >= 0 else self._Failing(self, path)

    class _Failing:
        def __init__(self, by, path):
            self._by = by
            self._file = write_atomic(path)

        def __enter__(self):
            return self._file.__enter__()

        def __exit__(self, *error):
            wrong = self._by._error
            if not self._by._is_renamed:
                self._file.__exit__(type(wrong), wrong, None)
            self._file.__exit__(*error)
            raise wrong


def written_shards(patch):
    """Return a list to which the numbers of shards are added as they are written."""
    numbers = []
    write_shard = shard_writing._write_shard

    def noted(work, number, *rest):
        numbers.append(number)
        return write_shard(work, number, *rest)

    patch.setattr(shard_writing, "_write_shard", noted)
    return numbers


def stop_at(patch, n, *, is_renamed):
    interrupted = Interrupted(n, _Stop(), is_renamed=is_renamed)
    for module in (shard_writing, manifest, output_folder):
        patch.setattr(module, "write_atomic", interrupted)


@settings(
    deadline=None,
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(stops=st.lists(st.integers(0, 30), min_size=1, max_size=3), is_renamed=st.booleans())
def test_a_stopped_run_continues(whole, tmp_path_factory, stops, is_renamed):
    """After stops before or after any file, `shard` continues, and writes the bytes of one whole
    run.

    `read_manifest` never takes unfinished shards for finished.
    """
    place = tmp_path_factory.mktemp("stopped")
    for stop in stops:
        with pytest.MonkeyPatch.context() as patch:
            stop_at(patch, stop, is_renamed=is_renamed)
            try:
                shard([whole.task], place, workers=1)
            except _Stop:
                if not (place / "de_en" / "manifest.json").exists():
                    message = r"task 'de_en'; (continue|make them): volt shard CONFIG -o "
                    with pytest.raises(StreamError, match=message):
                        read_manifest(place, whole.task)
    shard([whole.task], place)
    assert bytes_of(place) == whole.shards


def test_finished_shards_are_not_written_again(whole, tmp_path, monkeypatch):
    """A second run of `shard` reads no input again, and writes only unfinished and damaged
    shards.
    """
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 13, is_renamed=True)  # the plan, five files of each of two shards, two more
        with pytest.raises(_Stop):
            shard([whole.task], tmp_path, workers=1)
    progress = tmp_path / "de_en" / ".progress"
    notes = sorted(path.name for path in progress.glob("*.json"))
    assert notes == ["00000.json", "00001.json", "plan.json"]
    (progress / "00000.tgt.zst").write_bytes(b"damaged")
    numbers = written_shards(monkeypatch)
    monkeypatch.setattr(shard_writing, "read_input_file", None)
    shard([whole.task], tmp_path)
    assert numbers == [0, 2, 3]
    assert bytes_of(tmp_path) == whole.shards


def test_up_to_date_shards_are_not_rewritten(tmp_path, monkeypatch):
    """`shard` writes nothing if inputs were only touched, and all shards after damage or other
    options.
    """
    task = mono_task(tmp_path, {"a": numbered("a", 9)}, n_shards=3)
    numbers = written_shards(monkeypatch)
    [first] = shard([task], tmp_path / "s")
    assert shard([task], tmp_path / "s") == (first,)
    os.utime(tmp_path / "a", (1, 1))
    [again] = shard([task], tmp_path / "s")
    assert (numbers, again.shards) == ([0, 1, 2], first.shards)
    assert again.inputs != first.inputs
    assert read_manifest(tmp_path / "s", task) == again
    Path(first.paths[2]).write_bytes(b"damaged")
    shard([task], tmp_path / "s")
    assert numbers == [0, 1, 2] * 2
    shard([replace(task, n_shards=2)], tmp_path / "s", compress="gz")
    names = sorted(path.name for path in (tmp_path / "s" / "auto_en").iterdir())
    assert names == ["00000.mono.gz", "00001.mono.gz", "manifest.json", "words.mono.tsv"]


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


def test_a_killed_run_continues(whole, tmp_path):
    """After SIGKILL within a shard, the next run of `shard` removes its temporary file, and
    continues.
    """
    command = [sys.executable, "-c", KILLED, str(whole.folder), str(tmp_path)]
    assert subprocess.run(command, timeout=60, check=False).returncode == -signal.SIGKILL
    assert any(tmp_path.rglob(".*.part"))
    message = r"unfinished shards of task 'de_en'; continue: volt shard CONFIG"
    with pytest.raises(StreamError, match=message):
        read_manifest(tmp_path, whole.task)
    [manifest] = shard([whole.task], tmp_path)
    assert (manifest.counts, manifest.n_lines) == ((17, 17, 17, 16), 67)
    assert not any(tmp_path.rglob(".*.part"))


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def task(tmp_path):
    return pair_task(tmp_path, {"a": 30, "b": 4}, n_shards=3)


@pytest.mark.parametrize("compress", ["gz", "zstd"])
def test_a_full_disk_leaves_earlier_shards(tmp_path, task, monkeypatch, compress):
    """If the disk is full, `shard` leaves the earlier shards unchanged, and says so."""
    [first] = shard([task], tmp_path / "s")
    before = bytes_of(tmp_path / "s")
    other = replace(task, n_shards=2)
    with monkeypatch.context() as patch:
        patch.setattr(shard_writing, "write_atomic", Interrupted(3, FULL))
        message = (
            r"00001\.tgt.*no space left on device; the earlier shards are unchanged; make room, or"
        )
        with pytest.raises(OutputError, match=message) as error:
            shard([other], tmp_path / "s", workers=1, compress=compress)
    assert "it was not changed" not in str(error.value)
    assert before.items() <= bytes_of(tmp_path / "s").items()
    assert read_manifest(tmp_path / "s", task) == first
    [second] = shard([other], tmp_path / "s")
    assert len(second.shards) == 2
    assert read_manifest(tmp_path / "s", other) == second
    shard([other], tmp_path / "t")
    assert bytes_of(tmp_path / "s").keys() == bytes_of(tmp_path / "t").keys()


def test_a_run_on_a_full_disk_continues(tmp_path, task, monkeypatch):
    """After a full disk, the next run of `shard` continues after the finished shards, as the error
    says.
    """
    with monkeypatch.context() as patch:
        patch.setattr(shard_writing, "write_atomic", Interrupted(3, FULL))
        message = r"left on device; make room, or .*; a second run continues after"
        with pytest.raises(OutputError, match=message):
            shard([task], tmp_path / "s", workers=1)
    numbers = written_shards(monkeypatch)
    shard([task], tmp_path / "s")
    assert numbers == [1, 2]


@pytest.mark.parametrize("stop", range(8))
def test_a_run_that_stops_while_it_moves_files_continues(tmp_path, task, monkeypatch, stop):
    """If `shard` stops while it moves files, the shards are unfinished, and none is written
    again.
    """
    shard([replace(task, n_shards=2)], tmp_path / "s")
    move = os.replace
    left = iter(range(stop))

    def stopping(source, place):
        is_shard = Path(source).parent.name == ".progress" and Path(place).parent.name == "de_en"
        if is_shard and next(left, None) is None:
            raise KeyboardInterrupt
        move(source, place)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", stopping)
        with pytest.raises(KeyboardInterrupt):
            shard([task], tmp_path / "s")
    with pytest.raises(StreamError, match="unfinished shards of task 'de_en'; continue"):
        read_manifest(tmp_path / "s", task)
    with monkeypatch.context() as patch:
        patch.setattr(shard_writing, "_write_shard", None)
        shard([task], tmp_path / "s")
    shard([task], tmp_path / "t")
    assert bytes_of(tmp_path / "s") == bytes_of(tmp_path / "t")


def test_two_runs_exclude_each_other(tmp_path):
    """A second run of `shard` in one folder raises an error; a lock that no process holds is
    ignored.
    """
    task = mono_task(tmp_path, {"a": numbered("a", 9)})
    lock = tmp_path / "s" / "auto_en" / ".lock"
    lock.parent.mkdir(parents=True)
    message = r"auto_en: another process is writing shards there; wait, or"
    with locked(lock), pytest.raises(StreamError, match=message):
        shard([task], tmp_path / "s")
    assert [path.name for path in (tmp_path / "s").rglob("*")] == ["auto_en", ".lock"]
    shard([task], tmp_path / "s")
    assert not lock.exists()


@pytest.mark.parametrize(
    "name", ["notes.txt", "00000.mono.zst", "words.mono.tsv", ".progress", "manifest.json"]
)
def test_a_folder_with_other_files_is_refused(tmp_path, name):
    """`shard` refuses a folder with other files, links, or shards without a manifest."""
    task = mono_task(tmp_path, {"a": b"x\n"})
    place = tmp_path / "s" / "auto_en"
    place.mkdir(parents=True)
    if name == "manifest.json":
        (place / name).symlink_to(tmp_path / "a")
    else:
        (place / name).write_text("mine")
    fault = rf"auto_en: contains '{name}', which is not one of its shards"
    if name[0] in "0w":
        fault += ", or its manifest.json is missing"
    with pytest.raises(OutputError, match=f"{fault}; name another folder"):
        shard([task], tmp_path / "s")
    assert [path.name for path in place.iterdir()] == [name]
    assert (tmp_path / "a").read_bytes() == b"x\n"


def test_inputs_are_not_overwritten(tmp_path):
    """`shard` refuses an input that is in the output folder, also through a link."""
    [manifest] = shard([mono_task(tmp_path, {"a": b"x\n"})], tmp_path / "s", compress="none")
    (tmp_path / "link").symlink_to(manifest.paths[0])
    message = r": is an input, but lies in the output folder .*auto_en; name another folder"
    for path in (manifest.paths[0], f"{tmp_path}/s/../s/auto_en/00000.mono", f"{tmp_path}/link"):
        task = Task("auto_en", "mono", (Input("i", (("mono", path),)),))
        with pytest.raises(ConfigError, match=message):
            shard([task], tmp_path / "s", compress="none")
    assert Path(manifest.paths[0]).read_bytes() == b"x\n"


def test_unchanged_inputs_are_not_read_again(tmp_path):
    """`TaskFolder.files_read` returns the input files of the last run that have not changed."""
    path = write(tmp_path / "a", b"x\n\ny")
    task = Task("t", "mono", (Input("i", (("mono", path),)),))
    shard([task], tmp_path / "s")
    folder = TaskFolder(tmp_path / "s" / "t", ("mono",))
    assert folder.files_read() == {("mono", path): read_input_file(path)}
    write(tmp_path / "a", b"x\n\nz")
    assert folder.files_read() == {}


def test_shards_depend_on_texts_and_settings():
    """`ShardInputs.signature` depends on texts, sides, names and settings, but not on paths or
    times.
    """
    file = InputFile("mono", "a", 1, 2, "d", 5, 9)
    plan = ShardInputs("t", ShardSettings(2, "gz", "mixed"), (ReadInput("i", ((file,),)),))

    def of(**changes):
        return replace(plan, inputs=(ReadInput("i", ((replace(file, **changes),),)),))

    for same in (of(path="b"), of(size=9, modified=1), of(n_lines=1)):
        assert same.signature == plan.signature
    layouts = [replace(plan.layout, n_shards=3), replace(plan.layout, compress="zstd")]
    others = [plan, of(digest="e"), of(side="src"), replace(plan, task="u")]
    others += [replace(plan, layout=layout) for layout in layouts]
    assert len({other.signature for other in others}) == 6
