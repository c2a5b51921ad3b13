"""The folder of compiled code, the notice of compiling, and parts of loops, without a process of their own."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import config, njit

from volt.kernels import jit


def choosing(place: object) -> Callable[..., Any]:
    """A stand-in for numba, which chooses a folder, or raises an error."""

    def compiler(**options: bool) -> Callable[..., Any]:
        if isinstance(place, Exception):
            raise place
        assert options == {"cache": True}
        return lambda function: SimpleNamespace(stats=SimpleNamespace(cache_path=place))

    return compiler


def test_the_folder_is_below_the_one_that_numba_chooses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A digest of the sources names it; without sources or a folder to write to, nothing can be stored."""
    find = jit.code_folder.__wrapped__
    monkeypatch.setattr(jit, "njit", choosing(tmp_path / "new" / "place"))
    sources = sorted(Path(jit.__file__).parent.glob("*.py"))
    other, folder = (
        tmp_path / "new" / "place" / f"loops-{name}" for name in ("old", jit._digest(sources))
    )
    other.mkdir(parents=True)
    os.utime(other, (0, 0))
    assert (find(), other.exists()) == (str(folder), False)
    (folder / "index").mkdir()
    (damaged := folder / "index" / "a.nbi").write_bytes(b"")
    os.utime(folder, (0, 0))
    assert (find(), damaged.exists(), folder.stat().st_mtime > 0) == (str(folder), False, True)
    monkeypatch.setattr(jit, "njit", choosing(tmp_path / "another" / "place"))
    assert find() == str(tmp_path / "another" / "place" / folder.name)
    (tmp_path / "file").write_text("")
    for place, result in (
        (tmp_path / "file", None),
        (RuntimeError(), None),
        (AttributeError(), None),
    ):
        monkeypatch.setattr(jit, "njit", choosing(place))
        assert find() == result
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    assert find() == ""
    monkeypatch.setattr(config, "DISABLE_JIT", 0)
    monkeypatch.setattr(jit, "njit", choosing(tmp_path))
    monkeypatch.setattr(jit, "__file__", str(tmp_path / "nothing" / "jit.py"))
    assert find() is None
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert find() == ""
    tmp_path.chmod(0o777)
    with pytest.warns(jit.CompilingWarning, match="NUMBA_CACHE_DIR"):
        assert find() is None


def test_a_folder_that_others_can_change_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through a link, or with a parent that others can change; one warning names the folder that is at fault."""
    find = jit.code_folder.__wrapped__
    shared = tmp_path / "shared"
    (shared / "place").mkdir(parents=True)
    shared.chmod(0o777)
    (tmp_path / "link").symlink_to(shared / "place")
    for place in (shared / "place", tmp_path / "link"):
        monkeypatch.setattr(jit, "njit", choosing(place))
        with pytest.warns(jit.CompilingWarning) as warned:
            assert find() is None
        assert [str(one.message).partition(":")[0] for one in warned] == [str(shared.resolve())]
    shared.chmod(0o755)
    folder = find()
    assert Path(folder).parent == shared.resolve() / "place"
    assert Path(folder).stat().st_mode & 0o777 == 0o700
    Path(folder).chmod(0o777)
    with pytest.warns(jit.CompilingWarning, match=Path(folder).name):
        assert find() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to other users")
def test_files_of_other_users_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file or folder that was there before the folder became safe may be planted."""
    names = ("mine/own.nbi", "mine/theirs.nbi", "theirs/own.nbi")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"\x80.")
    for name in ("mine/theirs.nbi", "theirs"):
        os.chown(tmp_path / name, 65534, 65534)
    jit._remove_unsafe(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.nbi")] == ["mine/own.nbi"]
    for mode in (0o700, 0o755):  # others reach the file only in the second case
        (tmp_path / "mine/own.nbi").chmod(0o666)
        tmp_path.chmod(mode)
        jit._remove_unsafe(tmp_path)
        assert (tmp_path / "mine/own.nbi").exists() == (mode == 0o700)


def test_the_digest_depends_on_names_and_contents(tmp_path: Path) -> None:
    """Bytes that move from one source to the next, and a new name, change the digest."""
    (tmp_path / "a").write_text("xy")
    paths = [tmp_path / "a", tmp_path / "b"]
    digests = []
    for first, second in (("x", "yz"), ("xy", "z"), ("xy", "w")):
        paths[0].write_text(first)
        paths[1].write_text(second)
        digests.append(jit._digest(paths))
    digests.append(jit._digest([paths[1].rename(tmp_path / "c"), paths[0]]))
    assert [len(digest) for digest in digests] == [16] * 4
    assert len(set(digests)) == 4


def test_short_files_and_unused_folders_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pickle starts with 0x80 and ends with a full stop; other versions stay for a day after they were used last."""
    (index := tmp_path / "loops-mine" / "index").mkdir(parents=True)
    contents = {
        "a.nbi": b"\x80.",
        "b.nbc": b"\x80x.",
        "c.nbi": b"",
        "d.nbi": b"\x80",
        "e.nbc": b"\x80x",
        "f.nbi": b"x.",
    }
    for name, content in {**contents, "g.py": b""}.items():
        (index / name).write_bytes(content)
    jit._remove_unsafe(index.parent)
    assert sorted(path.name for path in index.iterdir()) == ["a.nbi", "b.nbc", "g.py"]
    monkeypatch.setattr(jit, "time", lambda: 1e9)
    for name, age in (
        ("loops-old", 86_401),
        ("loops-day", 86_400),
        ("other", 1e6),
        ("loops-mine", 1e6),
    ):
        (tmp_path / name / "inner").mkdir(parents=True)
        os.utime(tmp_path / name, (1e9 - age,) * 2)
    jit._remove_unused(tmp_path / "loops-mine")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["loops-day", "loops-mine", "other"]


def test_numbas_setting_is_changed_for_a_while_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing can be stored, or numba chooses, the user's own folder stays in force."""
    monkeypatch.setattr(config, "CACHE_DIR", "mine")
    for folder, inside in (("ours", (True, "ours")), ("", (True, "mine")), (None, (False, "mine"))):
        monkeypatch.setattr(jit, "code_folder", lambda folder=folder: folder)
        with jit.in_code_folder() as can_store:
            assert (can_store, config.CACHE_DIR) == inside
        assert config.CACHE_DIR == "mine"
    kernel = SimpleNamespace(stats=SimpleNamespace(cache_path=str(tmp_path)), py_func=choosing)
    found = [jit.is_on_disk(kernel)]
    for name in (
        "test_jit_folder.choosing2-1.nbi",
        "test_jit_folder.choosing-1.nbc",
        "test_jit_folder.choosing-1.nbi",
    ):
        (tmp_path / name).write_text("")
        found.append(jit.is_on_disk(kernel))
    kernel.stats.cache_path = None
    assert [*found, jit.is_on_disk(kernel)] == [False, False, False, True, False]


def test_a_long_compilation_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The seconds of all loops count: a warning follows the loop that takes the sum beyond two seconds."""
    seconds, timers = (
        iter([10.0, 11.0, 20.0, 21.0, 30.0, 30.5, 40.0, 49.0]),
        list[SimpleNamespace](),
    )

    def timer(delay: float, act: Callable[[], None]) -> SimpleNamespace:
        nothing: list[str] = []
        made = SimpleNamespace(delay=delay, act=act, daemon=False, calls=nothing)
        made.start, made.cancel = (
            lambda name=name: made.calls.append(name) for name in ("start", "cancel")
        )
        timers.append(made)
        return made

    monkeypatch.setattr(jit, "monotonic", lambda: next(seconds))
    monkeypatch.setattr(jit, "Timer", timer)
    notice, numbers = jit._Notice(), list[int]()
    for _ in range(4):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            notice.begin()
            notice.end()
        numbers += [len(caught)]
        assert all(
            one.category is jit.CompilingWarning and "volt warmup" in str(one.message)
            for one in caught
        )
    assert numbers == [0, 0, 1, 0]
    assert len(timers) == 1  # stderr is not a terminal
    seconds = iter([10.0, 10.5, 20.0, 23.0, 30.0, 30.0])
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    notice = jit._Notice()
    for call in range(3):
        notice.begin()
        for _ in range(2 * (call == 1)):
            timers[-1].act()
        notice.end()
    assert [(one.delay, one.daemon) for one in timers[2:]] == [(2.0, True), (1.5, True)]
    assert [one.calls for one in timers[2:]] == [["start", "cancel"], ["start", "cancel", "cancel"]]
    assert capsys.readouterr().err == f"{jit.MESSAGE}\n"
    for is_due in (True, False):
        jit._notice.is_due, before = is_due, jit._notice.is_due
        with jit.announced():
            assert not jit._notice.is_due
        assert jit._notice.is_due == is_due
        jit._notice.is_due = before


def more(number: int) -> int:
    return number + 1


@pytest.mark.parametrize("differs", [True, False])
def test_parts_are_compiled_for_all_whole_numbers(
    monkeypatch: pytest.MonkeyPatch, differs: bool
) -> None:
    """A part is compiled once for all whole numbers, and plain Python for Python; without numba's names, by numba."""
    monkeypatch.setattr(config, "DISABLE_JIT", 0)
    monkeypatch.setattr(jit, "PARTS_DIFFER", differs)
    part = jit._part(_nrt=False)(more)
    loop = njit(lambda number: 2 * part(number))
    assert [loop(5), loop(np.int32(5)), part(2), isinstance(part, jit._Part)] == [
        12,
        12,
        3,
        differs,
    ]
    if differs:
        assert (len(part.overloads), part.signatures) == (1, [(jit.types.int64,)])
    assert jit._have((jit, "njit keep"), (jit.config, "DISABLE_JIT"))
    assert not jit._have((jit, "njit nothing"))
    assert jit.LOADS_ALONE
    monkeypatch.setattr(config, "DISABLE_JIT", 1)
    assert jit._part()(more) is more
