"""Laws of the cache of arrays: equal arrays are returned, and damaged files do no harm."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from volt import array_cache
from volt.array_cache import cached_arrays
from volt.text.patterns.splitter import Split, Splitter

ARRAYS = [np.arange(5, dtype=np.int32), np.zeros(0, np.uint8), np.array(7), np.ones((2, 3))]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "volt" / "arrays"


def never():
    raise AssertionError("made again")


def same(result):
    pairs = list(zip(result, ARRAYS, strict=True))
    return all(np.array_equal(one, other) and one.dtype == other.dtype for one, other in pairs)


def test_cached_arrays_computes_arrays_once(folder):
    """A second call of `cached_arrays` returns equal arrays of equal types, which can be changed,
    without computing them."""
    assert same(cached_arrays(["a", 1], lambda: ARRAYS))
    result = cached_arrays(["a", 1], never)
    assert same(result)
    result[0][0] = 9
    assert same(cached_arrays(["a", 1], never))
    with pytest.raises(AssertionError, match="made again"):
        cached_arrays(["a", 2], never)
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:10],
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: bytes(len(data)),
    ],
)
def test_a_damaged_file_is_written_anew(folder, damage):
    """`cached_arrays` ignores and replaces a file that is cut short, longer, changed by a bit, or
    empty."""
    cached_arrays(["a"], lambda: ARRAYS)
    [path] = folder.iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert same(cached_arrays(["a"], lambda: ARRAYS))
    assert path.read_bytes() == whole


def test_a_file_under_another_name_is_ignored(folder):
    """`cached_arrays` never returns the arrays of another key, even if files are renamed."""
    cached_arrays(["a"], lambda: ARRAYS)
    [path] = folder.iterdir()
    cached_arrays(["b"], lambda: ARRAYS[:1])
    [other] = {*folder.iterdir()} - {path}
    path.replace(other)
    assert len(cached_arrays(["b"], lambda: ARRAYS[:1])) == 1


def test_a_failed_write_leaves_nothing(folder, monkeypatch):
    """If the disk is full, `cached_arrays` returns the arrays, and removes the partly written file."""

    def half(path, data):
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    assert same(cached_arrays(["a"], lambda: ARRAYS))
    assert [*folder.iterdir()] == []


@pytest.mark.parametrize(
    "content",
    [
        b"no array",
        b"{}\n",
        b"3\n",
        b'[["|O", [1]]]\n' + bytes(200),
        b'[["<i8", [1000]]]\n' + bytes(200),
        b'[["nothing", [1]]]\n' + bytes(200),
    ],
)
def test_foreign_content_with_a_right_checksum_is_ignored(folder, content):
    """`cached_arrays` loads neither Python objects nor bytes outside the file, even from a file
    with a right checksum."""
    cached_arrays(["a"], lambda: ARRAYS)
    [path] = folder.iterdir()
    path.write_bytes(array_cache._checksum(path.name, [content]) + content)
    assert same(cached_arrays(["a"], lambda: ARRAYS))


def test_arrays_have_the_types_of_compiled_loops(folder):
    """Cached arrays are aligned, contiguous and writable, as the types of compiled loops require."""
    for _ in range(2):
        for array in cached_arrays(["a"], lambda: ARRAYS):
            assert array.flags.carray


def test_a_file_that_is_replaced_does_not_change_its_arrays(folder):
    """Arrays in use stay as they are when another process replaces or removes their file."""
    cached_arrays(["a"], lambda: ARRAYS)
    result = cached_arrays(["a"], never)
    [path] = folder.iterdir()
    other = path.with_name("other")
    other.write_bytes(bytes(path.stat().st_size))
    other.replace(path)
    assert same(result)
    path.unlink()
    assert same(result)


def test_a_place_that_cannot_be_written_does_no_harm(tmp_path, monkeypatch):
    """`cached_arrays` returns arrays without a cache if the cache folder is a file, a device or a
    relative path, or there is no home."""
    tmp_path.joinpath("file").touch()
    monkeypatch.chdir(tmp_path)
    for place in (str(tmp_path / "file"), os.devnull, "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", place)
        assert same(cached_arrays(["a"], lambda: ARRAYS))
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert same(cached_arrays(["a"], lambda: ARRAYS))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_files_are_read_whose_time_cannot_be_set(folder, monkeypatch):
    """A file in a folder that cannot be written to, such as that of an image, is read."""

    def refuse(path):
        raise PermissionError(path)

    cached_arrays(["key"], lambda: [np.arange(3)])
    monkeypatch.setattr("volt.array_cache.os.utime", refuse)
    [array] = cached_arrays(["key"], lambda: pytest.fail("computed again"))
    assert array.tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["arrays", "volt"])
def test_cached_arrays_uses_no_folder_that_others_can_change(folder, name):
    """`cached_arrays` neither reads nor writes a folder that other users can change, even if it
    contains valid files."""
    cached_arrays(["a"], lambda: ARRAYS)
    shared = {"arrays": folder, "volt": folder.parent}[name]
    shared.chmod(0o777)
    for key in ("a", "b"):
        with pytest.raises(AssertionError, match="made again"):
            cached_arrays([key], never)
        assert same(cached_arrays([key], lambda: ARRAYS))
    assert len(list(folder.iterdir())) == 1
    shared.chmod(0o755)
    assert same(cached_arrays(["a"], never))


def test_a_file_that_others_can_change_is_not_read(folder):
    """`cached_arrays` replaces a file that other users can change by one that only this user can
    read."""
    cached_arrays(["a"], lambda: ARRAYS)
    [path] = folder.iterdir()
    path.chmod(0o666)
    with pytest.raises(AssertionError, match="made again"):
        cached_arrays(["a"], never)
    assert same(cached_arrays(["a"], lambda: ARRAYS))
    assert path.stat().st_mode & 0o777 == 0o600
    assert same(cached_arrays(["a"], never))


def test_a_folder_in_place_of_a_file_does_no_harm(folder):
    """`cached_arrays` returns arrays even if a folder has the name of a cached file."""
    cached_arrays(["a"], lambda: ARRAYS)
    [path] = folder.iterdir()
    path.unlink()
    path.mkdir()
    (path / "inside").touch()
    assert same(cached_arrays(["a"], lambda: ARRAYS))


def test_only_the_last_used_files_stay(folder, monkeypatch):
    """`cached_arrays` retains a limited number of files, those used last; reading a file counts as
    its use."""
    monkeypatch.setattr(array_cache, "MOST_FILES", 3)
    for number in range(3):
        cached_arrays([number], lambda: ARRAYS)
    for age, path in enumerate(sorted(folder.iterdir(), key=os.path.getmtime)):
        os.utime(path, (age, age))
    cached_arrays([0], never)
    cached_arrays([3], lambda: ARRAYS)
    assert len(list(folder.iterdir())) == 3
    for number in (0, 2, 3):
        cached_arrays([number], never)


def test_other_sources_make_other_files(folder, monkeypatch):
    """Other versions of VOLT or Polars share no cached files, and a zip archive stores none."""
    cached_arrays(["a"], lambda: ARRAYS)
    state = array_cache._list_sources()
    assert any("polars-" in str(row) for row in state)
    assert any("array_cache.py" in str(row) for row in state)
    monkeypatch.setattr(
        array_cache, "_list_sources", lambda: [*state[:-1], ("polars-99.dist-info", 1, 1)]
    )
    with pytest.raises(AssertionError, match="made again"):
        cached_arrays(["a"], never)
    monkeypatch.setattr(array_cache, "_list_sources", lambda: [])
    cached_arrays(["b"], lambda: ARRAYS)
    assert len(list(folder.iterdir())) == 1


def test_processes_share_patterns(folder):
    """A pattern that another process has compiled is loaded without Polars, and splits text alike."""
    pattern = r"\p{N}{1,3}| ?\p{Lu}\p{L}*|\s+"
    code = f"""
import sys
from volt.text.patterns.splitter import Split, Splitter
splitter = Splitter.of(Split({pattern!r}), Split("[a-c]", from_end=True))
print("polars" in sys.modules, splitter.is_linear, splitter.split("In 12345 Tagen abc"))
"""
    texts = [subprocess.check_output([sys.executable, "-c", code], text=True) for _ in range(2)]
    splitter = Splitter.of(Split(pattern), Split("[a-c]", from_end=True))
    rest = f"{splitter.is_linear} {splitter.split('In 12345 Tagen abc')}\n"
    assert texts == [f"True {rest}", f"False {rest}"]
    assert len(list(folder.iterdir())) == 1
