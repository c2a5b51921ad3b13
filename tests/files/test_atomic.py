"""Laws of writing a file: whole or not at all."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from named_pipes import pipe

from volt.errors import OutputError
from volt.files.atomic import append, check_writable, make_folder, write_atomic, write_together
from volt.files.temporary import N_NAMES, sweep_beside


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


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


def test_what_is_replaced_keeps_its_owner(tmp_path, monkeypatch):
    """Owner and group stay; a process that may not give them takes from the new group what others have not, too."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    path.chmod(0o664)
    own = path.stat()
    asked = list[tuple[int, int]]()

    def refuse(handle: int, owner: int, group: int) -> None:
        asked.append((owner, group))
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(os, "fchown", refuse)
    put(path, b"new")
    assert asked == [(own.st_uid, own.st_gid)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o664
    monkeypatch.undo()
    try:
        os.chown(path, 1, 1)
    except PermissionError:
        pytest.skip("this process may not give files away")
    put(path, b"newer")
    assert (path.stat().st_uid, path.stat().st_gid) == (1, 1)
    monkeypatch.setattr(os, "fchown", refuse)
    put(path, b"newest")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


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
        with pytest.raises(
            OutputError, match=f"{place}: cannot be created: .*; choose another place"
        ):
            make_folder(place, parents=parents)


def put(path: Path | str, data: bytes) -> None:
    with write_atomic(path) as file:
        file.write(data)


# What is no regular file, and links


def test_a_pipe_is_written_to_and_stays(tmp_path):
    """The reader gets the bytes; the pipe is there afterwards, and nothing beside it."""
    path = tmp_path / "pipe"
    with pipe(path) as reader:
        check_writable(path)
        put(path, b"new")
        assert os.read(reader, 9) == b"new"
        assert stat.S_ISFIFO(path.stat().st_mode)
        assert names(tmp_path) == ["pipe"]


def test_a_pipe_that_nobody_reads_any_more_is_no_fault_of_the_place():
    """A reader that goes away is reported as Python tells it, so that a command can end in silence."""
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        put(f"/dev/fd/{writer}", b"x")
    os.close(writer)


def test_a_device_is_written_to_and_stays(tmp_path):
    """A terminal, reached through a link, shows what is written; the link and the terminal stay."""
    ours, theirs = os.openpty()
    link = tmp_path / "terminal"
    link.symlink_to(os.ttyname(theirs))
    put(link, b"new")
    assert os.read(ours, 9) == b"new"
    assert stat.S_ISCHR(link.stat().st_mode)
    assert names(tmp_path) == ["terminal"]
    os.close(ours)
    os.close(theirs)


def test_a_device_that_is_full_is_reported(tmp_path):
    """An error of what is written straight through is reported, at the latest when it is closed."""
    full = tmp_path / "full"
    try:
        os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        full.open("wb").close()
    except OSError:
        pytest.skip("devices cannot be made here")
    with pytest.raises(OutputError, match=r"full: cannot be written: no space left on device$"):
        put(full, b"x")
    assert stat.S_ISCHR(full.stat().st_mode)


def test_a_descriptor_is_shared(tmp_path):
    """/dev/fd/N is written on where its owner stands, also if a file is behind it, which others then write on."""
    with (tmp_path / "log").open("ab", buffering=0) as log:
        log.write(b"one ")
        (tmp_path / "link").symlink_to(f"/dev/fd/{log.fileno()}")
        put(f"/dev/fd/{log.fileno()}", b"two ")
        put(tmp_path / "link", b"three ")
        log.write(b"four")
    assert (tmp_path / "log").read_bytes() == b"one two three four"
    assert names(tmp_path) == ["link", "log"]


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    """Through links of links, and through a folder's link; a target that is missing is made; parts lie beside it."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    (tmp_path / "b/target").write_bytes(b"old")
    (tmp_path / "a/second").symlink_to("../b/target")
    (tmp_path / "a/first").symlink_to(tmp_path / "a/second")
    (tmp_path / "a/new").symlink_to("../b/missing")
    (tmp_path / "folder").symlink_to("b")
    with write_atomic(tmp_path / "a/first") as file:
        file.write(b"new")
        assert names(tmp_path / "b") == [".target.00000000.part", "target"]
        assert (tmp_path / "b/target").read_bytes() == b"old"
    put(tmp_path / "a/new", b"made")
    put(tmp_path / "folder/../b/through", b"through")
    assert {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()} == {
        "target": b"new",
        "missing": b"made",
        "through": b"through",
    }
    assert all(path.is_symlink() for path in (tmp_path / "a").iterdir())


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("loop", "too many levels"),
        ("folder", "is a folder"),
        ("to-folder", "is a folder"),
        ("", "is a folder"),
        ("none/a", "no such file"),
        ("file/a", "not a directory"),
        ("x" * 256, "file name too long"),
        ("a\0b", "null byte"),
        ("\ud800", "surrogates not allowed"),
    ],
    ids=ascii,
)
def test_what_cannot_be_written_is_reported_alike_before_and_after(tmp_path, name, why):
    """check_writable and write_atomic refuse the same places in the same one line."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    (tmp_path / "to-folder").symlink_to("folder")
    (tmp_path / "file").write_bytes(b"old")
    before = names(tmp_path)
    for write in (check_writable, lambda path: put(path, b"new")):
        with pytest.raises(OutputError, match=why) as caught:
            write(f"{tmp_path}/{name}")
        assert "\n" not in str(caught.value)
    assert names(tmp_path) == before


def test_a_descriptor_that_is_only_read_cannot_be_written(tmp_path):
    """So it is reported, before and after; a number that is no open descriptor, too."""
    with Path(__file__).open() as file:
        for place in (f"/dev/fd/{file.fileno()}", "/dev/fd/987654"):
            for write in (check_writable, lambda path: put(path, b"new")):
                with pytest.raises(OutputError, match="cannot be written"):
                    write(place)


# Writers side by side, and writers that are killed


def test_the_part_of_a_killed_writer_is_swept_by_the_next(tmp_path):
    """SIGKILL leaves a part; the next write to that place removes it, also one that another left, and no other file."""
    code = (
        "from volt.files.atomic import *\nwith write_atomic('a') as file: os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert names(tmp_path) == [".a.00000000.part"]
    (tmp_path / f".a.{N_NAMES - 1:08x}.part").write_bytes(b"of one of many")
    for other in (".a.part", ".b.00000000.part", ".a.00000000.parts"):
        (tmp_path / other).write_bytes(b"kept")
    put(tmp_path / "a", b"whole")
    assert names(tmp_path) == [".a.00000000.parts", ".a.part", ".b.00000000.part", "a"]


def test_parts_beside_places_are_swept_at_once(tmp_path):
    """Temporary files of dead writers are removed; those of living writers, and files near other outputs, stay."""
    for name in (
        ".a.00000000.part",
        f".a.{N_NAMES - 1:08x}.part",
        ".b.00000003.part",
        ".c.00000000.part",
    ):
        (tmp_path / name).write_bytes(b"left")
    with write_atomic(tmp_path / "d"):
        found = sweep_beside([*(tmp_path / name for name in "abd"), tmp_path / "nowhere" / "a"])
        assert found == [tmp_path / ".d.00000000.part"]
        assert names(tmp_path) == [".c.00000000.part", ".d.00000000.part"]


def test_a_living_writer_keeps_its_part(tmp_path):
    """However many write to a place at a time, each ends well, the last one's content stays, and nothing else."""
    place = tmp_path / "a"
    with ExitStack() as writers:
        files = [writers.enter_context(write_atomic(place)) for _ in range(N_NAMES + 2)]
        assert len(names(tmp_path)) == len(files)
        for number, file in enumerate(files):
            file.write(b"%d" % number)
    assert place.read_bytes() == b"0"
    assert names(tmp_path) == ["a"]


def test_writers_that_race_leave_the_whole_of_one(tmp_path):
    """Threads that write to one place again and again: each time it holds what one of them wrote."""
    place, found = tmp_path / "a", set[bytes]()

    def write(number: int) -> None:
        for _ in range(60):
            put(place, b"%d" % number * 5_000)
            found.add(place.read_bytes())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    assert found <= {b"%d" % number * 5_000 for number in range(4)}
    assert names(tmp_path) == ["a"]


def test_the_longest_name_can_be_written(tmp_path):
    """A name as long as names may be has room for a part, which is swept like others."""
    place = tmp_path / ("ö" * 127)
    with write_atomic(place) as file:
        [part] = names(tmp_path)
        file.write(b"x")
    (tmp_path / part).write_bytes(b"left")
    put(place, b"y")
    assert names(tmp_path) == [place.name]


@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod"])
def test_a_disk_that_fails_at_the_end_leaves_the_old_file(tmp_path, monkeypatch, call):
    """Whichever step fails, the error is reported, the old file is as it was, and no part is left."""
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OutputError, match="input/output error"):
        put(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_errors_say_whether_something_was_changed() -> None:
    """After a failed append some bytes may be written; a failed replacement leaves everything unchanged."""
    with pytest.raises(
        OutputError, match=r"^/nowhere/a: cannot be written: no such file or directory$"
    ):
        append("/nowhere/a", b"low")
    with pytest.raises(
        OutputError,
        match=r"^/nowhere/a: cannot be written: .*; it was not changed\. Choose another",
    ):
        write_together({Path("/nowhere/a"): b"low"})
    with pytest.raises(
        OutputError,
        match=r"^/dev/null/plots: cannot be created: not a directory; choose another place",
    ):
        make_folder("/dev/null/plots")


def test_relative_paths(tmp_path, monkeypatch):
    """A bare name is a file in the current folder."""
    monkeypatch.chdir(tmp_path)
    with write_atomic("a") as file:
        file.write(b"x")
    assert names(tmp_path) == ["a"]
