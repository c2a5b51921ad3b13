"""Laws of writing a file: whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from volt.errors import OutputError
from volt.files.atomic import make_folder, write_atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class FullDisk:
    """A binary file on a disk that fills up when it is written to, or when it is closed."""

    def __init__(self, file, *, when: str) -> None:
        self.file, self.when = file, when

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()
        if self.when == "close":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def write(self, data: bytes) -> int:
        if self.when == "write":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self.file.write(data)


def test_the_file_appears_when_the_block_ends(tmp_path):
    """Until the block ends, the old content is there; then the new one, and nothing beside it."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with write_atomic(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
@pytest.mark.parametrize("existed", [True, False])
def test_a_failing_block_changes_nothing(tmp_path, error, existed):
    """Whatever ends the block early, the old file is as it was, no new one is there, and no part is left."""
    path = tmp_path / "a"
    if existed:
        path.write_bytes(b"old")

    def fail():
        with write_atomic(path) as file:
            file.write(b"new")
            raise error("stopped")

    with pytest.raises(OutputError if error is OSError else error):
        fail()
    assert names(tmp_path) == ["a"] * existed
    assert not existed or path.read_bytes() == b"old"


@pytest.mark.parametrize("when", ["write", "close"])
def test_a_full_disk_is_an_output_error(tmp_path, monkeypatch, when):
    """When the disk is full, that is said, the old file is as it was, and no part is left."""
    path, real = tmp_path / "a", os.fdopen
    path.write_bytes(b"old")
    monkeypatch.setattr("volt.files.atomic.os.fdopen", lambda *args: FullDisk(real(*args), when=when))

    def write():
        with write_atomic(path) as file:
            file.write(b"new")

    with pytest.raises(OutputError, match="no space left on device") as caught:
        write()
    assert str(path) in str(caught.value)
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_places_that_cannot_be_written_to_are_named(tmp_path):
    """A missing folder, a file in its place, and a folder in the file's place are OutputErrors with the path."""
    (tmp_path / "file").write_bytes(b"old")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "none" / "a", tmp_path / "file" / "a", tmp_path / "folder", tmp_path / ("x" * 300)):
        with pytest.raises(OutputError) as caught, write_atomic(path):
            pass
        assert str(path) in str(caught.value)
    assert names(tmp_path) == ["file", "folder"]


def test_modes(tmp_path):
    """A new file gets the mode that open() would give; a replaced one keeps its own."""
    new, plain, old = tmp_path / "new", tmp_path / "plain", tmp_path / "old"
    plain.write_bytes(b"")
    old.write_bytes(b"")
    old.chmod(0o640)
    for path in (new, old):
        with write_atomic(str(path)) as file:
            file.write(b"x")
    assert stat.S_IMODE(new.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    assert stat.S_IMODE(old.stat().st_mode) == 0o640


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_new_file_obeys_the_umask_which_nobody_touches(tmp_path, monkeypatch, mask):
    """A new file has what the umask leaves of 0o666; the umask, which all threads share, is not even looked at."""
    before = os.umask(mask)
    try:
        with monkeypatch.context() as patch:
            patch.delattr(os, "umask")
            with write_atomic(tmp_path / "a") as file:
                file.write(b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o000])
def test_what_replaces_a_private_file_is_private_while_it_is_written(tmp_path, mode):
    """The part has no permission that the file which it replaces has not, and in the end the same."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(mode)
    with write_atomic(path) as file:
        [part] = (found for found in tmp_path.iterdir() if found != path)
        assert stat.S_IMODE(part.stat().st_mode) & ~mode == 0
        file.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_a_folder_is_made_or_named(tmp_path):
    """make_folder makes what is missing, leaves what is there, and names a place where none can be."""
    make_folder(tmp_path / "a" / "b")
    (tmp_path / "a" / "b" / "file").write_bytes(b"kept")
    make_folder(tmp_path / "a" / "b")
    assert names(tmp_path / "a" / "b") == ["file"]
    for place, parents in ((tmp_path / "a" / "b" / "file", True), (tmp_path / "none" / "b", False)):
        with pytest.raises(OutputError, match=f"{place}: cannot be made: .*; choose another place"):
            make_folder(place, parents=parents)


def test_relative_paths(tmp_path, monkeypatch):
    """A bare name is a file in the current folder."""
    monkeypatch.chdir(tmp_path)
    with write_atomic("a") as file:
        file.write(b"x")
    assert names(tmp_path) == ["a"]
