"""Laws of `write_atomic`: a file is written completely or not at all."""

import errno
import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from support.named_pipes import pipe

from volt.errors import OutputError
from volt.files.atomic import append, check_writable, make_folder, write_atomic, write_together
from volt.files.temporary import N_NAMES, sweep_beside


def names(folder):
    return sorted(os.listdir(folder))


def put(path, data=b"new"):
    with write_atomic(path) as file:
        file.write(data)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def path(tmp_path):
    """An existing file, alone in its folder."""
    path = tmp_path / "a"
    path.write_bytes(b"old")
    return path


def is_unchanged(path):
    return path.read_bytes() == b"old" and names(path.parent) == [path.name]


def test_the_file_is_replaced_when_the_block_ends(path, monkeypatch):
    """Until the block of `write_atomic` ends, the file has its old content.

    A bare name is a file in the current folder.
    """
    monkeypatch.chdir(path.parent)
    with write_atomic("a") as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert names(path.parent) == ["a"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, OSError])
def test_a_failing_block_changes_nothing(path, error):
    """If the block of `write_atomic` raises an error, an old file is unchanged, and no new or
    temporary file exists."""

    def fail(place):
        with write_atomic(place) as file:
            file.write(b"new")
            raise error("stopped")

    for place in (path, path.with_name("b")):
        with pytest.raises(OutputError if error is OSError else error):
            fail(place)
    assert is_unchanged(path)


@pytest.mark.parametrize("call", ["fsync", "replace", "fchmod"])
def test_a_disk_that_fails_at_the_end_leaves_the_old_file(path, monkeypatch, call):
    """If syncing, renaming or changing the mode fails, the error is reported, the old file is
    unchanged, and no temporary file exists."""

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OutputError, match=f"{path}: cannot be written: input/output error"):
        put(path)
    assert is_unchanged(path)


def test_a_replaced_file_keeps_its_mode(path):
    """`write_atomic` keeps the mode of an existing file, and gives a new file the mode that open()
    would give."""
    plain = path.with_name("plain")
    plain.touch()
    path.chmod(0o640)
    put(path)
    put(path.with_name("new"))
    assert mode_of(path) == 0o640
    assert mode_of(path.with_name("new")) == mode_of(plain)


def test_a_replaced_file_keeps_its_owner(path, monkeypatch):
    """`write_atomic` keeps the owner of a file, if permitted.

    Otherwise, the new group gets only rights that all users had.
    """
    path.chmod(0o664)
    own = path.stat()
    asked = []

    def refuse(handle, owner, group):
        asked.append((owner, group))
        raise PermissionError(1, "not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fchown", refuse)
        put(path)
    assert asked == [(own.st_uid, own.st_gid)]
    assert mode_of(path) == 0o664
    try:
        os.chown(path, 1, 1)
    except PermissionError:
        pytest.skip("this process cannot give files away")
    put(path)
    assert (path.stat().st_uid, path.stat().st_gid) == (1, 1)
    monkeypatch.setattr(os, "fchown", refuse)
    put(path)
    assert mode_of(path) == 0o644


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_a_new_file_obeys_the_umask(tmp_path, monkeypatch, mask):
    """`write_atomic` gives a new file the mode of the umask without reading or changing the umask,
    which all threads share."""
    before = os.umask(mask)
    try:
        with monkeypatch.context() as patch:
            patch.delattr(os, "umask")
            put(tmp_path / "a")
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "a") == 0o666 & ~mask


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o000])
def test_the_temporary_file_of_a_private_file_is_private(path, mode):
    """While `write_atomic` writes, the temporary file has no permission that the old file lacks."""
    path.chmod(mode)
    with write_atomic(path):
        [part] = set(path.parent.iterdir()) - {path}
        assert mode_of(part) & ~mode == 0
    assert mode_of(path) == mode


def test_a_folder_is_created_with_its_parents(path):
    """`make_folder` creates a folder with its parents, keeps the files of an existing folder, and
    names a path that cannot be a folder."""
    folder = path.parent / "b" / "c"
    make_folder(folder)
    (folder / "file").touch()
    make_folder(folder)
    assert names(folder) == ["file"]
    for place, parents in ((path, True), (path.parent / "none" / "b", False)):
        with pytest.raises(OutputError, match=f"{place}: cannot be created: .*; choose another"):
            make_folder(place, parents=parents)


# Pipes, devices and links


def test_a_pipe_is_written_directly(tmp_path):
    """`write_atomic` writes the bytes to a pipe, and creates no file next to it."""
    path = tmp_path / "pipe"
    with pipe(path) as reader:
        check_writable(path)
        put(path)
        assert os.read(reader, 9) == b"new"
        assert stat.S_ISFIFO(path.stat().st_mode)
        assert names(tmp_path) == ["pipe"]


def test_a_closed_pipe_is_a_broken_pipe():
    """If the reader of a pipe has closed it, `write_atomic` raises BrokenPipeError, so that a
    command can end silently."""
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        put(f"/dev/fd/{writer}")
    os.close(writer)


def test_a_device_is_written_directly(tmp_path):
    """`write_atomic` writes the bytes to a terminal, also through a link, and leaves the link
    unchanged."""
    ours, theirs = os.openpty()
    link = tmp_path / "terminal"
    link.symlink_to(os.ttyname(theirs))
    put(link)
    assert os.read(ours, 9) == b"new"
    assert stat.S_ISCHR(link.stat().st_mode)
    assert names(tmp_path) == ["terminal"]
    os.close(ours)
    os.close(theirs)


def test_a_full_device_is_reported(tmp_path):
    """`write_atomic` raises an OutputError if a device is full, and leaves the device unchanged."""
    full = tmp_path / "full"
    try:
        os.mknod(full, stat.S_IFCHR | 0o666, os.makedev(1, 7))
        full.open("wb").close()
    except OSError:
        pytest.skip("devices cannot be created here")
    with pytest.raises(OutputError, match=r"full: cannot be written: no space left on device$"):
        put(full)
    assert stat.S_ISCHR(full.stat().st_mode)


def test_a_descriptor_is_shared(tmp_path):
    """`write_atomic` writes to /dev/fd/N at the position of the descriptor, also through a link.

    Others continue after these bytes.
    """
    with (tmp_path / "log").open("ab", buffering=0) as log:
        log.write(b"one ")
        place = f"/dev/fd/{log.fileno()}"
        (tmp_path / "link").symlink_to(place)
        put(place, b"two ")
        put(tmp_path / "link", b"three ")
        log.write(b"four")
    assert (tmp_path / "log").read_bytes() == b"one two three four"


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    """`write_atomic` follows links of links and links to folders, replaces or creates their target,
    and puts temporary files next to the target."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    (tmp_path / "b/target").write_bytes(b"old")
    links = {"a/second": "../b/target", "a/first": "second", "a/new": "../b/missing", "folder": "b"}
    for link, target in links.items():
        (tmp_path / link).symlink_to(target)
    with write_atomic(tmp_path / "a/first") as file:
        file.write(b"new")
        assert names(tmp_path / "b") == [".target.00000000.part", "target"]
        assert (tmp_path / "b/target").read_bytes() == b"old"
    put(tmp_path / "a/new", b"created")
    put(tmp_path / "folder/../b/through", b"through")
    contents = {path.name: path.read_bytes() for path in (tmp_path / "b").iterdir()}
    assert contents == {"target": b"new", "missing": b"created", "through": b"through"}
    assert all((tmp_path / link).is_symlink() for link in links)


UNWRITABLE = {
    "loop": "too many levels",
    "folder": "is a folder",
    "to-folder": "is a folder",
    "": "is a folder",
    "none/a": "no such file",
    "file/a": "not a directory",
    "x" * 256: "file name too long",
    "a\0b": "null byte",
    "\ud800": "surrogates not allowed",
}


@pytest.mark.parametrize("name", UNWRITABLE, ids=ascii)
@pytest.mark.parametrize("write", [check_writable, put])
def test_an_unwritable_place_is_refused(tmp_path, name, write):
    """`check_writable` and `write_atomic` refuse a path that cannot be written with an error of one
    line, and create nothing."""
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "folder").mkdir()
    (tmp_path / "to-folder").symlink_to("folder")
    (tmp_path / "file").touch()
    before = names(tmp_path)
    with pytest.raises(OutputError, match=UNWRITABLE[name]) as caught:
        write(f"{tmp_path}/{name}")
    assert "\n" not in str(caught.value)
    assert names(tmp_path) == before


@pytest.mark.parametrize("write", [check_writable, put])
def test_a_descriptor_open_for_reading_is_refused(write):
    """`check_writable` and `write_atomic` refuse /dev/fd/N if descriptor N is not open, or open
    only for reading."""
    with Path(__file__).open() as file:
        for place in (f"/dev/fd/{file.fileno()}", "/dev/fd/987654"):
            with pytest.raises(OutputError, match="cannot be written"):
                write(place)


# Concurrent and killed writers


def test_the_next_writer_removes_temporary_files_of_killed_writers(tmp_path):
    """`write_atomic` removes the temporary files that killed writers of the same file left, and no
    other file."""
    code = (
        "from volt.files.atomic import *\nwith write_atomic('a') as file: os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, timeout=60)
    assert done.returncode == -signal.SIGKILL
    assert names(tmp_path) == [".a.00000000.part"]
    others = [".a.00000000.parts", ".a.part", ".b.00000000.part"]
    for name in (f".a.{N_NAMES - 1:08x}.part", *others):
        (tmp_path / name).touch()
    put(tmp_path / "a")
    assert names(tmp_path) == [*others, "a"]


def test_sweep_beside_removes_temporary_files_of_ended_writers(tmp_path):
    """`sweep_beside` removes the temporary files of these outputs whose writers have ended, and
    returns those of running writers."""
    for name in ("a.00000000", f"a.{N_NAMES - 1:08x}", "b.00000003", "c.00000000"):
        (tmp_path / f".{name}.part").touch()
    with write_atomic(tmp_path / "d"):
        places = [tmp_path / name for name in ("a", "b", "d", "nowhere/a")]
        assert sweep_beside(places) == [tmp_path / ".d.00000000.part"]
        assert names(tmp_path) == [".c.00000000.part", ".d.00000000.part"]


def test_each_of_many_writers_has_its_temporary_file(tmp_path):
    """Any number of writers can write a file at a time.

    The file then has the content of the writer that ended last.
    """
    place = tmp_path / "a"
    with ExitStack() as writers:
        files = [writers.enter_context(write_atomic(place)) for _ in range(N_NAMES + 2)]
        assert len(names(tmp_path)) == len(files)
        for number, file in enumerate(files):
            file.write(b"%d" % number)
    assert place.read_bytes() == b"0"
    assert names(tmp_path) == ["a"]


def test_racing_writers_leave_one_whole_content(tmp_path):
    """While threads write a file at once, it always has the whole content of one of them."""
    place = tmp_path / "a"
    contents = [b"%d" % number * 5_000 for number in range(4)]
    seen = set()

    def write(content):
        for _ in range(60):
            put(place, content)
            seen.add(place.read_bytes())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, contents))
    assert seen <= set(contents)
    assert names(tmp_path) == ["a"]


def test_the_longest_name_can_be_written(tmp_path):
    """A file whose name has 254 bytes can be written, and the temporary file of a killed writer is
    removed."""
    place = tmp_path / ("ö" * 127)
    with suppress(ValueError), write_atomic(place):
        [part] = names(tmp_path)
        raise ValueError
    (tmp_path / part).touch()
    put(place)
    assert names(tmp_path) == [place.name]


def test_errors_say_whether_something_was_changed():
    """The error of `write_together` says that the file was not changed; the error of `append` does
    not, as some bytes may have been written."""
    missing = r"^/nowhere/a: cannot be written: no such file or directory"
    with pytest.raises(OutputError, match=f"{missing}$"):
        append("/nowhere/a", b"low")
    with pytest.raises(OutputError, match=rf"{missing}; it was not changed\. Choose another"):
        write_together({Path("/nowhere/a"): b"low"})
